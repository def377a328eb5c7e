"""Files are written atomically, and tables escape formulas."""

import csv
import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.files import (
    atomic_file,
    parse_json,
    parse_toml,
    remove_stale_parts,
    write_text,
)
from chimeralab.core.schema import SCHEMA
from chimeralab.core.tables import open_table

COLUMNS = {"name": str, "count": int, "share": float, "parts": str}
ROWS: list[dict[str, Any]] = [
    {"name": "=1+1", "count": 1, "share": 0.5, "parts": [1, 2]},
    {"name": "half \ud83d", "count": None, "share": None, "parts": None},
]


def write(path: Path) -> None:
    with open_table(path, COLUMNS) as row:
        for values in ROWS:
            row(values)


def test_json_lines_keep_rows_unchanged(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"schema": SCHEMA, **row} for row in ROWS]


def test_csv_escapes_formulas_and_leaves_missing_cells_empty(tmp_path: Path) -> None:
    write(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert first == {"name": "'=1+1", "count": "1", "share": "0.5", "parts": "[1, 2]"}
    assert second == {"name": "half ?", "count": "", "share": "", "parts": ""}


def test_parquet_keeps_types_and_nulls(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").to_pylist()[1]["count"] is None


def test_failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("before")

    def broken_off() -> None:
        with open_table(path, COLUMNS) as row:
            row(ROWS[0])
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        broken_off()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_success_replaces_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")
    with atomic_file(path) as part:
        part.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"


def test_unknown_suffix_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"known: \.jsonl, \.csv, \.parquet"):
        write(tmp_path / "t.xlsx")


def _write_and_be_killed(path: Path) -> None:
    with atomic_file(path) as part:
        part.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def left_over(tmp_path: Path) -> Path:
    """Leave the part file of a killed writer."""
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_write_and_be_killed, args=(tmp_path / "t.csv",))
    writer.start()
    writer.join()
    (part,) = tmp_path.glob(".*.part")
    return part


@pytest.mark.kill
def test_next_writer_removes_leftovers_of_a_killed_one(left_over: Path) -> None:
    write_text(left_over.parent / "other.txt", "whole")
    assert [p.name for p in left_over.parent.iterdir()] == ["other.txt"]


def test_parts_of_other_writers_are_kept(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "t.csv") as mine:
        name = mine.name.replace(f"-{os.getpid()}.", f"-{os.getppid()}.")
        others = [name, ".t.csv.0badcafe-999999999.part", ".t.csv.999999999.part", "film.part"]
        for other in others:
            (tmp_path / other).touch()
        remove_stale_parts(tmp_path)
        assert {p.name for p in tmp_path.iterdir()} == {mine.name, *others}


def test_unwritable_disk_is_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(InputError, match=r"page.html can't be written \(Read-only file system\)"):
        write_text(tmp_path / "page.html", "text")


@pytest.mark.parametrize("parse", [parse_json, parse_toml])
def test_nesting_that_is_too_deep_is_a_value_error(parse: Callable[[str], Any]) -> None:
    deep = "[" * 100_000
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(deep if parse is parse_json else f"a = {deep}")
