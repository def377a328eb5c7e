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


def make_study(folder: Path, url: str, limits: str = "") -> Study:
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN.format(url=url) + limits)
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
