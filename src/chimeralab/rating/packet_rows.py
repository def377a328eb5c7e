"""The sheet that people fill in: a row for each trajectory of a packet, as CSV."""

import csv
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.tables import open_table
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import Label

COLUMNS = {"sheet": str, "check": str, "label": str, "turns": str, "reason": str}
LABELS: dict[str, Label | None] = {"": None, "0": 0, "1": 1}


class FilledRow(NamedTuple):
    """One row as it came back."""

    line: int
    sheet: str
    check: str
    label: Label | None
    turns: str
    reason: str


def check_of(sheet: str, item: Item) -> str:
    """A short hash of a sheet as shown, which the rater hands back with the label.

    A duplicate has another one, or it would give itself away. It is all letters: a spreadsheet
    takes digits for a number and rounds them.
    """
    digest = hashlib.sha256(f"{sheet} {item.sha256}".encode()).hexdigest()
    return digest[:12].translate(str.maketrans("0123456789", "ghijklmnop"))


def write_sheet(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """An empty sheet: the name of each trajectory and the hash of its text."""
    with open_table(path, COLUMNS) as write:
        for sheet, check in rows:
            write({"sheet": sheet, "check": check, "label": "", "turns": "", "reason": ""})


def read_sheet(path: Path) -> list[FilledRow]:
    """The rows of a filled sheet; refuses wrong labels and missing columns."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    mark = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(text.splitlines(keepends=True), delimiter=mark)
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise LogError(str(path), f"has no column '{missing[0]}'", 1)
    return [_row(row, reader.line_num, path) for row in reader]


def _row(row: dict[str, str | None], line: int, path: Path) -> FilledRow:
    cells = {name: (row[name] or "").strip() for name in COLUMNS}
    if cells["label"] not in LABELS:
        raise LogError(str(path), f"label {cells['label']!r}; a label is 0, 1 or blank", line)
    label = LABELS[cells["label"]]
    return FilledRow(line, cells["sheet"], cells["check"], label, cells["turns"], cells["reason"])
