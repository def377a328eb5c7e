"""A run against a server with any fault ends, with everything on record and in little memory."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study import RunOptions, Study, run_study
from tests.deadlines import Deadlines
from tests.e2e.servers.fault_proxy import FAULTS

PLAN = """
[study]
name = "faulty"
[models.served]
use = "openai"
model = "served"
base_url = "{url}"
timeout = 3600
max_retries = 1
price = {{ input = 1.0, output = 1.0 }}
[conditions.solo]
speakers = ["served", "served"]
[conversation]
turns = 2
repeats = 2
on_failure = "retry 1 then pause"
[prompts]
items = [{{ id = "p1", text = "Begin." }}]
[run]
concurrency = 2
retry_wait = 0.0
"""
QUIETLY = RunOptions(watch=False)
MOST_MEMORY = 500 << 20


RETRYING = ("retry 1 then pause", "retry 200 then pause")


def make_study(
    folder: Path, url: str, limits: str = "", change: tuple[str, str] = ("", "")
) -> Study:
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN.format(url=url).replace(*change) + limits)
    return Study(folder)


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"held"}))
def test_run_ends_and_every_attempt_is_closed(
    fault: str,
    tmp_path: Path,
    fault_proxy: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadlines = Deadlines()
    monkeypatch.setattr("chimeralab.models.openai.timeout", deadlines)
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", *[fault] * 100])
    proxy.on_endless = deadlines.pass_now
    run_study(make_study(tmp_path / "study", proxy.url), QUIETLY)
    assert set(proxy.seen) == {"fine", fault}
    with Study(tmp_path / "study").archive() as archive:
        attempts = list(archive.rows("SELECT * FROM attempts"))
        turns = archive.value("SELECT count(*) FROM turns")
    assert attempts
    assert all(row["outcome"] and row["ended"] for row in attempts)
    assert turns == sum(row["outcome"] == "answered" for row in attempts)


def _peak_of_a_run(path: Path, peak: Any) -> None:
    run_study(Study(path), QUIETLY)
    # getrusage would count the memory of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak.put(int(status.split("VmHWM:")[1].split()[0]) * 1024)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
@pytest.mark.parametrize("fault", ["flood", "error_flood", "gzip_bomb", "gzip_in_gzip"])
def test_run_against_a_flood_takes_little_memory(
    fault: str, tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", *[fault] * 100])
    study = make_study(tmp_path / "study", proxy.url)
    context = multiprocessing.get_context("spawn")
    peak = context.SimpleQueue()
    process = context.Process(target=_peak_of_a_run, args=(study.path, peak))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert peak.get() < MOST_MEMORY


@pytest.mark.parametrize("fault", ["billed_null", "billed_tool_call"])
def test_limit_of_cost_counts_answers_that_cannot_be_used(
    fault: str, tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    """A server that charges a dollar for every answer, none of which is usable."""
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", *[fault] * 100])
    study = make_study(tmp_path / "study", proxy.url, "max_cost = 5.0\n", RETRYING)
    summary = run_study(study, QUIETLY)
    assert summary.stopped is not None
    assert summary.stopped.startswith("max_cost = 5 is used up")
    charged = proxy.seen.count(fault)
    assert 5 <= charged <= 5 + 2  # two requests are in flight at once
    with study.archive() as archive:
        attempts = list(archive.rows("SELECT * FROM attempts WHERE cost > 0.5"))
        assert archive.value("SELECT sum(cost) FROM attempts") == pytest.approx(charged)
    assert len(attempts) == charged
    assert {each["prompt_tokens"] for each in attempts} == {999_999}
    # The next run knows what was spent, and asks for nothing.
    again = run_study(study, QUIETLY).stopped
    assert again == f"max_cost = 5 is used up ({charged:.4f} spent)"
    assert proxy.seen.count(fault) == charged


def test_replies_cut_short_are_counted_as_well(
    tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", *["billed_cut"] * 100])
    study = make_study(tmp_path / "study", proxy.url)
    assert [arm.cost for arm in run_study(study, QUIETLY).arms] == [2.0]
    assert proxy.seen.count("billed_cut") == 2  # a full context ends a conversation


@pytest.mark.parametrize("fault", ["null", "garbage", "page", "no_choices"])
def test_limit_of_cost_estimates_answers_without_token_counts(
    fault: str, tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", *[fault] * 100])
    study = make_study(tmp_path / "study", proxy.url, "max_cost = 0.003\n", RETRYING)
    summary = run_study(study, QUIETLY)
    assert summary.stopped is not None
    assert summary.stopped.startswith("max_cost = 0.003 is used up")
    with study.archive() as archive:
        costs = [row["cost"] for row in archive.rows("SELECT cost FROM attempts")]
    # Each is taken for as long as it may be: the planned 512 tokens and the prompt.
    assert all(cost is None or cost < 0.001 for cost in costs)
    assert sum(cost or 0 for cost in costs) == pytest.approx(0.003, rel=0.5)


def test_negative_tokens_do_not_defeat_the_limit_of_cost(
    tmp_path: Path, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy("http://127.0.0.1:9/v1", ["fine", *["negative_usage"] * 100])
    study = make_study(tmp_path / "study", proxy.url, "max_cost = 1.0\n")
    summary = run_study(study, RunOptions(watch=False, concurrency=1))
    assert summary.stopped == "a reply came without token counts, so max_cost can't be enforced"
    with study.archive() as archive:
        (attempt,) = archive.rows("SELECT outcome, reason, cost FROM attempts")
        text = archive.value("SELECT text FROM turns")
    assert attempt["outcome"] == "answered"
    assert "completion_tokens -5000000 is not a count" in attempt["reason"]
    assert attempt["cost"] is None
    assert text == "Paid for."
