"""Reading labels from a file, one row for each rater and item, as CSV or JSON lines."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError, LogError
from chimeralab.rating.label_table import LabelTable
from chimeralab.rating.rubric import Label

NEEDED = ("item", "rater", "label")
# What an item has on its own, whoever rates it.
OF_THE_ITEM = ("stratum", "cluster", "weight")


class Row(NamedTuple):
    """One line of the file."""

    line: int
    item: str
    rater: str
    label: Label | None
    reason: str
    facts: Mapping[str, str]


def read_labels(path: Path) -> LabelTable:
    """The labels of a file; refuses what can't be a label, and one item rated twice by a rater."""
    rows = [_row(values, line, path) for line, values in _lines(path)]
    if not rows:
        raise LogError(str(path), "holds no ratings")
    _refuse_second_ratings(rows, path)
    items = tuple(dict.fromkeys(row.item for row in rows))
    raters = tuple(dict.fromkeys(row.rater for row in rows))
    by_place = {(row.rater, row.item): row for row in rows}
    facts = {name: _facts(rows, name, path) for name in OF_THE_ITEM}
    return LabelTable(
        items=items,
        labels={rater: _column(by_place, rater, items, _label) for rater in raters},
        reasons={rater: _column(by_place, rater, items, _reason) for rater in raters},
        strata=_fact_column(facts["stratum"], items),
        clusters=_fact_column(facts["cluster"], items),
        weights=_weights(_fact_column(facts["weight"], items), path),
    )


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8") from None
    return _json_lines(text, path) if text.lstrip().startswith("{") else _csv_lines(text, path)


def _csv_lines(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    header = text.partition("\n")[0]
    # Spreadsheets of many countries write semicolons.
    mark = max(",;\t", key=header.count)
    reader = csv.DictReader(text.splitlines(keepends=True), delimiter=mark)
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise LogError(str(path), f"has no column '{missing[0]}'; needed: {', '.join(NEEDED)}", 1)
    for values in reader:
        if None in values:
            raise LogError(str(path), "has more cells than the header", reader.line_num)
        yield reader.line_num, values


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, part in enumerate(text.splitlines(), 1):
        if not part.strip():
            continue
        try:
            values = json.loads(part)
        except ValueError:
            raise LogError(str(path), "is not a JSON object", line) from None
        if not isinstance(values, dict) or not {"item", "rater"} <= values.keys():
            raise LogError(str(path), "needs an object with item, rater and label", line)
        yield line, values


def _row(values: Mapping[str, Any], line: int, path: Path) -> Row:
    cells = {name: _text(value) for name, value in values.items()}
    for name in ("item", "rater"):
        if not cells.get(name):
            raise LogError(str(path), f"the {name} is blank", line)
    return Row(
        line=line,
        item=cells["item"],
        rater=cells["rater"],
        label=_as_label(cells.get("label", ""), line, path),
        reason=cells.get("reason", ""),
        facts={name: cells[name] for name in OF_THE_ITEM if cells.get(name)},
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _as_label(text: str, line: int, path: Path) -> Label | None:
    known: dict[str, Label | None] = {"": None, "0": 0, "1": 1, "0.0": 0, "1.0": 1}
    if text not in known:
        raise LogError(str(path), f"label {text!r}; a label is 0, 1 or blank", line)
    return known[text]


def _refuse_second_ratings(rows: list[Row], path: Path) -> None:
    first: dict[tuple[str, str], int] = {}
    for row in rows:
        earlier = first.setdefault((row.rater, row.item), row.line)
        if earlier != row.line:
            place = f"'{row.rater}' rates '{row.item}' again, after line {earlier}"
            raise LogError(str(path), f"{place}; keep one of the two", row.line)


def _facts(rows: list[Row], name: str, path: Path) -> dict[str, str]:
    """A fact about each item; refuses rows that differ about it."""
    facts: dict[str, str] = {}
    for row in rows:
        if name in row.facts and facts.setdefault(row.item, row.facts[name]) != row.facts[name]:
            both = f"{facts[row.item]!r} and {row.facts[name]!r}"
            raise LogError(str(path), f"item '{row.item}' has {name} {both}", row.line)
    return facts


def _fact_column(facts: dict[str, str], items: tuple[str, ...]) -> tuple[str, ...] | None:
    if not facts:
        return None
    without = next((item for item in items if item not in facts), None)
    if without is not None:
        raise InputError(
            f"item '{without}' lacks what other items have: fill the column, or drop it"
        )
    return tuple(facts[item] for item in items)


def _weights(column: tuple[str, ...] | None, path: Path) -> tuple[float, ...] | None:
    try:
        return None if column is None else tuple(float(weight) for weight in column)
    except ValueError as error:
        raise LogError(str(path), f"a weight is not a number: {error}") from None


def _column(
    rows: Mapping[tuple[str, str], Row],
    rater: str,
    items: tuple[str, ...],
    value: Callable[[Row | None], Any],
) -> tuple[Any, ...]:
    return tuple(value(rows.get((rater, item))) for item in items)


def _label(row: Row | None) -> Label | None:
    return None if row is None else row.label


def _reason(row: Row | None) -> str:
    return "" if row is None else row.reason
