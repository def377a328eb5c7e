"""Decompression bombs are rejected quickly and in little memory."""

import gzip
import json
import sys
import zipfile
from pathlib import Path

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.readers import streams
from tests import zstd

SMALL = 1 << 20
TALK = json.dumps({"turns": ["Hi", "Ho"]}).encode()


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit from 64 MB to a quarter of one, so that the bombs stay small."""
    monkeypatch.setattr(streams, "FREE_EXPANSION", SMALL // 4)


def problem_of(path: Path) -> str:
    with pytest.raises(LogError) as caught:
        list(readers.read(path))
    return str(caught.value)


PACKERS = {"gz": lambda data: gzip.compress(data, 9), "zst": zstd.compress}


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("filling", [b"[" * 8, b"[],[],[]", b"\n" * 8, b" " * 8, b'{"a":""}'])
def test_decompression_bomb_is_rejected(tmp_path: Path, ending: str, filling: bytes) -> None:
    log = tmp_path / f"bomb.json.{ending}"
    log.write_bytes(PACKERS[ending](b"[" + filling * SMALL))
    assert "times its size" in problem_of(log)


@pytest.mark.usefixtures("low_limits")
def test_archive_that_expands_too_much_is_rejected(tmp_path: Path) -> None:
    log = tmp_path / "bomb.eval"
    with zipfile.ZipFile(log, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        archive.writestr("samples/1_epoch_1.json", b"[" + b"[]," * SMALL)
    assert "times its size" in problem_of(log)


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("ending", PACKERS)
def test_large_log_with_a_normal_ratio_is_read(tmp_path: Path, ending: str) -> None:
    log = tmp_path / f"talks.jsonl.{ending}"
    lines = (json.dumps({"turns": [f"{n * 7919}", f"{n * n}"]}).encode() for n in range(20_000))
    log.write_bytes(PACKERS[ending](b"\n".join(lines)))
    assert sum(1 for _ in readers.read(log)) == 20_000


def test_small_log_may_have_any_compression_ratio(tmp_path: Path) -> None:
    log = tmp_path / "loop.jsonl.gz"
    log.write_bytes(gzip.compress((TALK + b"\n") * 50_000, 9))
    assert sum(1 for _ in readers.read(log)) == 50_000


def test_json_that_would_fill_the_memory_is_rejected_before_parsing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_MEMORY", 10_000_000)
    log = tmp_path / "lists.json"
    log.write_bytes(b"[\n" + b"[]," * 100_000 + b"[]]")
    assert "of memory" in problem_of(log)


def test_a_million_blank_lines_are_skipped_in_few_reads(tmp_path: Path) -> None:
    log = tmp_path / "gap.jsonl"
    log.write_bytes(TALK + b"\n" * 3_000_000 + b" \r\n\t\n" + TALK + b"\n" + b"{")
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    bad: list[LogError] = []
    sys.setprofile(count)
    try:
        found = list(readers.read(log, on_bad=bad.append))
    finally:
        sys.setprofile(None)
    assert len(found) == 2
    assert bad[0].line == 3_000_004
    assert calls < 100_000


@pytest.mark.parametrize("where", ["parse_value", "read_whole"])
def test_lack_of_memory_is_reported_in_a_sentence(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(streams, where, fail)
    log = tmp_path / "log.json"
    log.write_bytes(TALK if where == "parse_value" else b"[\n" + TALK + b"\n]")
    assert "more memory than is available" in problem_of(log)
