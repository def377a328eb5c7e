"""Reading the shares of a log gives the same as reading the whole."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab import Trajectory, readers
from chimeralab.core.errors import LogError
from chimeralab.readers.shares import (
    NeedsWholeLog,
    Share,
    count_lines,
    read_share,
    split_log,
)

pa = pytest.importorskip("pyarrow", reason="shares are cut for Ray, which brings pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TALK = '{"turns": ["Hi.", "Hello."]}'
NAMED = '{"id": "mine", "turns": ["What a day, and what a long line about it: ünïcödé."]}'
MESSAGES = '{"messages": [{"role": "user", "content": "Hi."}]}'
LIST = '[{"turns": ["a"]}, {"turns": ["b"]}]'
BAD = ["{", "", "   ", "no JSON at all", '{"turns": 3}', TALK[:-1] + ",", '{"x": [']
LINES = st.lists(st.sampled_from([TALK, NAMED, MESSAGES, LIST, *BAD]), max_size=20)
ROW: dict[str, Any] = {"conversation_id": "a", "speaker": "b", "text": "c"}

Found = tuple[list[Trajectory], list[str]]


def whole(path: Path) -> Found:
    bad: list[LogError] = []
    return list(readers.read(path, on_bad=bad.append)), list(map(str, bad))


def in_shares(path: Path, size: int) -> Found:
    bad: list[LogError] = []
    found: list[Trajectory] = []
    first = 1
    shares = split_log(str(path), size)
    assert shares
    for share in shares:
        known = share if path.suffix == ".parquet" else share._replace(first=first)
        found += read_share(str(path), known, None, bad.append)
        first += count_lines(str(path), share) if path.suffix != ".parquet" else 0
    return found, list(map(str, bad))


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.integers(9, 400))
def test_shares_of_any_size_give_the_conversations_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, closed: bool, size: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    # The first line tells the format, and the second that a value is a line.
    text = end.join([TALK, TALK, *lines]) + (end if closed else "")
    path.write_bytes(text.encode())
    assert in_shares(path, size) == whole(path)


@pytest.mark.parametrize("size", [1, 500, 10**9])
def test_row_groups_give_the_conversations_of_the_table(tmp_path: Path, size: int) -> None:
    rows = [{"turns": [f"Number {n}.", "And so on."] if n % 7 else []} for n in range(100)]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=9)
    found, bad = in_shares(path, size)
    assert (found, bad) == whole(path)
    assert (len(found), len(bad)) == (85, 15)
    number = len(split_log(str(path), size))
    assert number in {1: {12}, 10**9: {1}}.get(size, range(2, 12))


@pytest.mark.parametrize(
    "content",
    {
        "rows of turns": json.dumps(ROW) + "\n" + json.dumps(ROW),
        "a value over several lines": json.dumps(json.loads(TALK), indent=1),
        "a list": f"[{TALK},\n{TALK}]",
        "text": "Ann: Hi.\nBob: Hi.\nAnn: Bye.\nBob: Bye.",
        "nothing": "",
        "no log": "{}\n{}\n",
        "packed": gzip.compress(f"{TALK}\n{TALK}".encode()),
        "another encoding": f"{TALK}\n{TALK}".encode("utf-16"),
    }.items(),
    ids=lambda item: item[0],
)
def test_log_whose_values_may_span_lines_is_not_split(
    tmp_path: Path, content: tuple[str, str | bytes]
) -> None:
    path = tmp_path / "log.jsonl"
    data = content[1]
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    assert split_log(str(path), 10) == []


def test_table_with_a_row_per_turn_is_not_split(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([ROW] * 10), tmp_path / "log.parquet", row_group_size=2)
    assert split_log(str(tmp_path / "log.parquet"), 1) == []


def test_share_with_values_across_lines_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f"{TALK}\n{TALK}\n{json.dumps(ROW)}\n", encoding="utf-8")
    with pytest.raises(NeedsWholeLog):
        list(read_share(str(path), Share(0, path.stat().st_size), None, print))


def test_text_that_begins_like_json_is_not_split(tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_text('{"title" is set}\nSome words.\nMore words.\n' * 9, encoding="utf-8")
    assert split_log(str(path), 70) == []
    assert whole(path)[1] == [f"{path}: a text in no known format (`chimera formats` lists them)"]
