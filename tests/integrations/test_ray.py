"""Jobs on a Ray cluster of two workers give the verdicts of one process, even if a worker dies."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("ray", reason="`make test-integrations` brings it")

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from chimeralab import InputError, detect_all, readers, scale
from chimeralab.core.errors import LogError
from chimeralab.core.tables import arrow_table
from chimeralab.core.verdict_rows import CONVERSATION_COLUMNS, verdict_rows
from chimeralab.scale import parts

pytestmark = [pytest.mark.integrations, pytest.mark.weights]

WORDS = "river stone cloud lamp bread winter letter garden signal harbour question answer".split()
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _two_workers() -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        object_store_memory=100 << 20,
    )  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def talks(name: str, number: int) -> Rows:
    """Conversations, every third of which repeats itself."""
    rng = random.Random(name)
    return [
        {
            "id": f"{name}-{n}",
            "messages": [
                {
                    "role": "assistant" if turn % 2 else "user",
                    "content": "Let me check that again."
                    if n % 3 == 0 and turn % 2
                    else " ".join(rng.choices(WORDS, k=12)),
                }
                for turn in range(12)
            ],
        }
        for n in range(number)
    ]


def as_turns(conversations: Rows) -> Rows:
    return [
        {"conversation_id": talk["id"], "speaker": each["role"], "text": each["content"], "turn": n}
        for talk in conversations
        for n, each in enumerate(talk["messages"])
    ]


def write_lines(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_table(path: Path, rows: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def by_id(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["source"] or "", row["id"] or ""))


def one_process(*files: Path) -> Rows:
    read = readers.read_all(files, on_bad=lambda error: None)
    rows = (row for found in detect_all(read) for row in verdict_rows(found))
    return by_id(arrow_table(rows, CONVERSATION_COLUMNS).to_pylist())


def table(out: Path, name: str = "verdicts") -> Rows:
    rows = [
        row for part in (out / name).glob("*.parquet") for row in pq.read_table(part).to_pylist()
    ]
    return by_id(rows) if name == "verdicts" else sorted(rows, key=lambda row: row["source"])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    (folder / "deeper").mkdir(parents=True)
    write_lines(folder / "a.jsonl", talks("a", 6))
    write_table(folder / "deeper" / "b.parquet", talks("b", 5))
    write_table(folder / "c.parquet", as_turns(talks("c", 4)))
    return folder


def test_the_verdicts_are_those_of_one_process(logs: Path, tmp_path: Path) -> None:
    totals = scale.detect_files([str(logs)], str(tmp_path / "out"))
    files = logs / "a.jsonl", logs / "c.parquet", logs / "deeper" / "b.parquet"
    assert table(tmp_path / "out") == one_process(*files)
    assert (totals.files, totals.conversations, totals.errors) == (3, 15, 0)
    assert totals.looping == totals.collapsed == 6


def test_urls_are_read_and_written(logs: Path, tmp_path: Path) -> None:
    scale.detect_files([logs.as_uri()], (tmp_path / "out").as_uri(), scale.WorkerSettings(None))
    found = {row["id"]: row["source"] for row in table(tmp_path / "out")}
    assert len(found) == 15
    assert found["b-0"] == f"{(logs / 'deeper' / 'b.parquet').as_uri()}:1"


def test_existing_parts_are_kept(logs: Path, tmp_path: Path) -> None:
    def job(speaker: str | None = None) -> scale.JobTotals:
        judging = scale.WorkerSettings(None, speaker=speaker)
        return scale.detect_files([str(logs)], str(tmp_path / "out"), judging)

    def parts() -> dict[str, int]:
        return {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out" / "verdicts").iterdir()}

    first, before = job(), parts()
    assert (job().judged_before, parts()) == (3, before)
    (tmp_path / "out" / "verdicts" / min(before)).unlink()
    assert job().judged_before == 2
    again = parts()
    assert set(again) == set(before)
    assert {name for name in before if again[name] != before[name]} == {min(before)}
    # What has changed since is judged, and its old part is gone.
    write_lines(logs / "a.jsonl", talks("a", 9))
    changed = job()
    assert (changed.judged_before, changed.conversations) == (2, first.conversations + 3)
    assert len(parts()) == 3
    assert job("user").judged_before == 0
    assert len(parts()) == 3


@pytest.fixture
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "SHARE_BYTES", 2_000)


@pytest.mark.usefixtures("small_shares")
def test_a_large_file_is_judged_in_shares_with_the_verdicts_of_one_process(tmp_path: Path) -> None:
    unnamed = [{"messages": row["messages"]} for row in talks("a", 40)]
    lines = write_lines(tmp_path / "lines.jsonl", unnamed)
    lines.write_text(lines.read_text().replace("\n", "\n\n{bad\n", 7), encoding="utf-8")
    groups = tmp_path / "groups.parquet"
    pq.write_table(pa.Table.from_pylist(talks("b", 20)), groups, row_group_size=3)
    turns = write_lines(tmp_path / "turns.jsonl", as_turns(talks("c", 4)))
    out, files = tmp_path / "out", (lines, groups, turns)

    def job() -> scale.JobTotals:
        return scale.detect_files([*map(str, files)], str(out))

    def parts() -> dict[str, int]:
        return {each.name: each.stat().st_mtime_ns for each in (out / "verdicts").iterdir()}

    found = job()
    assert (found.files, found.conversations, found.errors) == (3, 64, 7)
    assert table(out) == one_process(*files)
    bad: list[LogError] = []
    list(readers.read(lines, on_bad=bad.append))
    assert sorted((e["line"], e["reason"]) for e in table(out, "errors")) == [
        (each.line, each.reason) for each in bad
    ]
    before = parts()
    assert len(before) > 15
    # A share that is lost is made again, and nothing else is.
    lost = sorted(name for name in before if name.count("-") == 4)[5]
    (out / "verdicts" / lost).unlink()
    assert job().judged_before == 2
    assert {name for name, at in parts().items() if at != before[name]} == {lost}
    assert table(out) == one_process(*files)


@pytest.mark.usefixtures("small_shares")
def test_file_whose_shares_depend_on_each_other_is_judged_whole(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "mixed.jsonl", [*talks("a", 9), *as_turns(talks("b", 2))])
    out = tmp_path / "out"
    for judged_before in (0, 1):
        found = scale.detect_files([str(log)], str(out))
        assert (found.conversations, found.judged_before) == (11, judged_before)
        assert len([*(out / "verdicts").iterdir()]) == 1
    assert table(out) == one_process(log)


def test_a_killed_worker_loses_nothing_and_judges_nothing_twice(tmp_path: Path) -> None:
    files = [write_lines(tmp_path / f"{name}.jsonl", talks(name, 60)) for name in "abcd"]
    out = tmp_path / "out"
    totals: list[scale.JobTotals] = []
    job = Thread(target=lambda: totals.append(scale.detect_files([*map(str, files)], str(out))))
    job.start()
    unfinished = wait_for(lambda: next((out / "verdicts").glob(".part-*"), None), job)
    part, process = unfinished.name[1:].split(".parquet.")
    os.kill(int(process.partition(".")[0]), signal.SIGKILL)
    assert not (out / "verdicts" / f"{part}.parquet").exists()
    job.join(240)
    assert totals[0].conversations == 240
    assert table(out) == one_process(*files)
    assert len([*(out / "verdicts").iterdir()]) == 4


def wait_for(look: Callable[[], Path | None], job: Thread) -> Path:
    while job.is_alive():
        if found := look():
            return found
        time.sleep(0.005)
    raise AssertionError("the job ended before anything was seen")


def test_bad_input_is_listed_in_errors_and_the_job_continues(
    logs: Path, tmp_path: Path, chimera
) -> None:
    whole = write_table(logs / "cut.parquet", talks("cut", 5)).read_bytes()
    (logs / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (logs / "empty.jsonl").touch()
    rows = as_turns(talks("gap", 2))
    del rows[3]["text"]
    write_lines(logs / "gap.jsonl", rows)
    write_table(logs / "other.parquet", [{"temperature": 3.5, "place": "here"}])
    write_table(logs / "renamed.parquet", [
        {"dialog_id": r["conversation_id"], "role": r["speaker"], "content": r["text"]}
        for r in as_turns(talks("renamed", 2))
    ])  # fmt: skip
    out = tmp_path / "out"
    ran = chimera("detect", logs, "--engine", "ray", "--out", out, "--no-vectors")
    assert ran.code == 2
    assert ran.out.startswith("19 conversations of 8 files: ")
    assert f"listed in {out}/errors" in ran.err
    assert {
        Path(e["source"]).name: (e["line"], e["reason"][:22]) for e in table(out, "errors")
    } == {
        "cut.parquet": (None, "can't be read as Parqu"),
        "empty.jsonl": (None, "empty"),
        "gap.jsonl": (4, "not a conversation in "),
        "other.parquet": (1, "not a conversation in "),
    }
    assert {row["id"].partition("-")[0] for row in table(out)} == {*"abc", "gap", "renamed"}
    # The next run tries again what gave nothing, and still says so.
    write_table(logs / "cut.parquet", talks("cut", 5))
    (logs / "empty.jsonl").unlink()
    ran = chimera("detect", logs, "--engine", "ray", "--out", out, "--no-vectors", "--skip-bad")
    assert ran.code == 0
    assert ran.out.startswith("24 conversations of 7 files (5 from an earlier run): ")
    assert "2 bad entries skipped" in ran.err


@pytest.mark.parametrize(
    "address", ["hf://datasets/nobody/nothing/x.jsonl", "ftp://host/x.jsonl", "s3://", "hf://"]
)
def test_unusable_url_is_reported_in_one_sentence(
    address: str, tmp_path: Path, chimera, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody answers at this port, wherever the tests are run.
    for name in ("AWS_ENDPOINT_URL", "HF_ENDPOINT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    ran = chimera("detect", address, "--engine", "ray", "--out", tmp_path / "out", "--no-vectors")
    assert ran.code == 2
    assert ran.err.startswith(f"chimera: {address}: ")
    assert ran.err.count("\n") == 1


def test_columns_that_the_user_names_reach_the_workers(tmp_path: Path, chimera) -> None:
    rows = [{"chat": r["conversation_id"], "said": r["text"]} for r in as_turns(talks("a", 3))]
    log = write_lines(tmp_path / "a.jsonl", rows)
    command = "detect", log, "--columns", "id=chat,text=said", "--no-vectors", "--out"
    assert chimera(*command, tmp_path / "out", "--engine", "ray").code == 0
    assert chimera(*command, tmp_path / "one.parquet").code == 0
    assert table(tmp_path / "out") == by_id(pq.read_table(tmp_path / "one.parquet").to_pylist())


def test_missing_cluster_is_an_error_and_a_local_one_is_started(logs: Path, tmp_path: Path) -> None:
    def job(*options: str) -> subprocess.CompletedProcess[str]:
        command = ["detect", str(logs), "--engine", "ray", "--no-vectors", "--out", "out", *options]
        return subprocess.run(
            [sys.executable, "-m", "chimeralab", *command],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    refused = job("--address", "127.0.0.1:1")
    assert refused.returncode == 2
    assert refused.stderr.startswith("chimera: no Ray cluster at 127.0.0.1:1 (")
    assert refused.stderr.count("\n") == 1
    ran = job("--workers", "2")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == ("15 conversations of 3 files: 6 looping.\nVerdicts: out/verdicts\n")


@pytest.mark.parametrize("rows", [talks, lambda *args: as_turns(talks(*args))])
def test_dataset_of_conversations_or_turns_becomes_one_of_verdicts(
    rows: Callable[..., Rows], tmp_path: Path
) -> None:
    one = one_process(write_lines(tmp_path / "a.jsonl", rows("a", 9)))
    expected = [{**row, "source": None, "error": None} for row in one]
    # The turns of a conversation lie in several blocks.
    mixed = ray.data.from_items(rows("a", 9), override_num_blocks=4)
    assert by_id(scale.detect(mixed).take_all()) == expected
    # As they do in row groups and in files.
    folder = tmp_path / "table"
    folder.mkdir()
    shuffled = random.Random(3).sample(rows("a", 9), k=len(rows("a", 9)))
    half = len(shuffled) // 2
    for name, some in {"one": shuffled[:half], "two": shuffled[half:]}.items():
        pq.write_table(pa.Table.from_pylist(some), folder / f"{name}.parquet", row_group_size=4)
    scale.detect(ray.data.read_parquet(str(folder))).write_parquet(str(tmp_path / "out"))
    assert by_id(pq.read_table(tmp_path / "out").to_pylist()) == expected


def test_unreadable_rows_of_a_dataset_have_a_reason() -> None:
    dataset = ray.data.from_items([*talks("a", 2), {"id": "x", "messages": None}])
    found = scale.detect(dataset, detector=None).take_all()
    assert [row["id"] for row in found if row["error"] is None] == ["a-0", "a-1"]
    assert len(found) == 3
    rows: Rows = as_turns(talks("b", 2))
    rows[3]["text"] = None  # a turn without a word, as in one process
    rows[5]["conversation_id"] = None
    found = scale.detect(ray.data.from_items(rows), detector=None).take_all()
    assert {row["id"]: row["turns"] for row in found if row["id"]} == {"b-0": 5, "b-1": 6}
    with pytest.raises(InputError, match="needs the column 'turn'"):
        scale.detect(ray.data.from_items([{"id": 1, "speaker": "a", "text": "b"}]))
