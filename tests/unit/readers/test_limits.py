"""A conversation or a file beyond a limit is refused in a sentence, unless an option allows it."""

import io
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.readers import streams, tables
from chimeralab.readers.shares import read_share, split_log
from chimeralab.readers.streams import check_expansion as check

TEXT = "Again and again. " * 4_000  # 68 kB
ROWS = 2_000
LISTS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def talk(turns: int) -> bytes:
    return json.dumps({"turns": ["Again."] * turns}).encode()


def rows(turns: int) -> bytes:
    lines = [f"long,{n},ann,Hello." for n in range(turns)] + ["short,1,bo,Hi.", "short,2,ann,Ho."]
    return "\n".join(["conversation_id,turn,speaker,text", *lines]).encode()


def test_conversation_of_a_million_turns_is_refused_before_it_is_judged(
    chimera: Callable[..., Any], tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    log.write_bytes(talk(1_000_000))
    ran = chimera("detect", log, "--no-vectors")
    assert ran.code == 2
    assert "has 1,000,000 turns, more than the 100,000" in ran.err
    assert "--max-turns" in ran.err


@pytest.mark.parametrize(("content", "name"), [(talk(51), "log.json"), (rows(51), "log.csv")])
def test_limit_of_turns_is_exact_and_may_be_raised(
    chimera: Callable[..., Any], tmp_path: Path, content: bytes, name: str
) -> None:
    log = tmp_path / name
    log.write_bytes(content)
    assert chimera("detect", log, "--no-vectors", "--max-turns", 51).code == 0
    ran = chimera("detect", log, "--no-vectors", "--max-turns", 50)
    assert ran.code == 2
    assert "has 51 turns, more than the 50" in ran.err
    assert chimera("detect", log, "--no-vectors").code == 0  # the limit of the next command
    # A refused conversation leaves the others, and one that is too short for a verdict is counted.
    assert ("1 too short" in ran.out) == (name == "log.csv")
    listed = chimera("detect", log, "--no-vectors", "--max-turns", 50, "--all").out
    assert ("short" in listed.split("\n\n")[-1]) == (name == "log.csv")


BOMBS: dict[str, Callable[[], pa.Array]] = {
    "texts": lambda: pa.array([TEXT] * ROWS),
    "texts that are kept once": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0] * ROWS, pa.int32()), pa.array([TEXT])
    ),
    "messages": lambda: pa.array([[{"role": "user", "content": TEXT}] * 2] * (ROWS // 2), LISTS),
}


@pytest.fixture(params=BOMBS)
def bomb(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of a few kilobytes that holds 136 MB of text."""
    column = BOMBS[request.param]()
    path = tmp_path / "bomb.parquet"
    turn = [str(n % 9) for n in range(len(column))]
    names = ("conversation_id", "speaker", "messages" if "mess" in request.param else "text")
    pq.write_table(pa.table(dict(zip(names, (turn, turn, column), strict=True))), path)
    assert path.stat().st_size < 50_000
    return path


def test_parquet_that_holds_far_more_than_its_size_is_refused_in_little_memory(bomb: Path) -> None:
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        with pytest.raises(LogError, match=r"over 100 times its size.*--max-expansion"):
            list(readers.read(bomb))
        assert tracemalloc.get_traced_memory()[1] < 2 * streams.FREE_EXPANSION
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < streams.FREE_EXPANSION


@pytest.mark.parametrize("changed_by", [1, 255])
def test_parquet_with_a_damaged_footer_does_not_end_the_process(changed_by: int) -> None:
    """Each byte of the footer in turn: PyArrow may abort when asked for a column of such a file."""
    stream = io.BytesIO()
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    pq.write_table(pa.Table.from_pylist([{"messages": turns}] * 3), stream)
    script = f"""
import io
from chimeralab.readers.seam import Place
from chimeralab.readers.tables import parquet_rows

whole = bytes.fromhex("{stream.getvalue().hex()}")
for at in range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole) - 8):
    damaged = bytearray(whole)
    damaged[at] = (damaged[at] + {changed_by}) % 256
    list(parquet_rows(io.BytesIO(damaged), Place("log.parquet", "log"), lambda reason, place: None))
print("all read or refused")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "all read or refused\n"), ended.stderr[-2000:]


def test_rows_that_share_a_long_text_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first rows alone would fill the memory."""
    free, sizes = 1 << 17, list[int]()
    monkeypatch.setattr(streams, "FREE_EXPANSION", free)
    monkeypatch.setattr(tables, "FREE_EXPANSION", free)

    def recorded(size: int, seen: int) -> None:
        sizes.append(seen)
        check(size, seen)

    monkeypatch.setattr(tables, "check_expansion", recorded)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"text": pa.array([TEXT] * 300)}), path)
    with pytest.raises(LogError, match="--max-expansion"):
        list(readers.read(path))
    assert len(TEXT) < sizes[-1] < 5 * free


def test_shares_of_a_bomb_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    column = BOMBS["messages"]()
    pq.write_table(pa.table({"messages": column}), path, row_group_size=600)
    bad: list[LogError] = []
    shares = split_log(str(path), 10**9)
    assert len(shares) == 1
    list(read_share(str(path), shares[0], None, bad.append))
    assert "--max-expansion" in str(bad[0])


def test_expansion_that_is_expected_may_be_allowed(
    chimera: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "FREE_EXPANSION", 1 << 10)
    path = tmp_path / "loop.parquet"
    messages = pa.array([[{"role": "a", "content": TEXT}] * 8], LISTS)
    pq.write_table(pa.table({"messages": messages}), path)
    assert "--max-expansion" in chimera("detect", path, "--no-vectors").err
    for given in (path, tmp_path):
        assert chimera("detect", given, "--no-vectors", "--max-expansion", 10**6).code == 0
