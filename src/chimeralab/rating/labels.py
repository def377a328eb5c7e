"""Tables of labels: one column per rater, None where there is no label."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Record
from chimeralab.core.tables import open_table, read_rows
from chimeralab.rating.ratings import Rating
from chimeralab.rating.rubric import Label
from chimeralab.stats.agreement import Table2x2
from chimeralab.stats.resample import SampleDesign

Fact = TypeVar("Fact", str, float)

REQUIRED = ("item", "rater", "label")
# Columns that belong to the item, not to a rating of it.
ITEM_COLUMNS = ("stratum", "cluster", "weight")
LABELS: dict[str, Label | None] = {"": None, "0": 0, "1": 1, "0.0": 0, "1.0": 1}


@dataclass(frozen=True, slots=True)
class LabelTable(Record):
    """The labels of each rater, with the stratum, cluster and sampling weight of each item.

    A weight is the number of items in the population that an item stands for. Items that were
    given as counts are `nameless`.
    """

    items: tuple[str, ...]
    labels: Mapping[str, tuple[Label | None, ...]]
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    strata: tuple[str, ...] | None = None
    clusters: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None
    nameless: bool = False

    @property
    def raters(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def design(self) -> SampleDesign | None:
        """The sampling design; None for independent items of equal weight.

        Strata matter only with weights, which mean that they were sampled at different rates.
        """
        if self.clusters is None and self.weights is None:
            return None
        strata = self.strata if self.weights is not None else None
        return SampleDesign(self.clusters, strata, self.weights)

    def keep(self, stratum: str) -> "LabelTable":
        rows = [n for n, name in enumerate(self.strata or ()) if name == stratum]
        return replace(
            self,
            items=tuple(self.items[n] for n in rows),
            labels={rater: tuple(column[n] for n in rows) for rater, column in self.labels.items()},
            reasons={rater: tuple(given[n] for n in rows) for rater, given in self.reasons.items()},
            strata=None,
            clusters=None if self.clusters is None else tuple(self.clusters[n] for n in rows),
            weights=None if self.weights is None else tuple(self.weights[n] for n in rows),
        )


def from_counts(table: Table2x2, raters: tuple[str, str] = ("first", "second")) -> LabelTable:
    """Expand counts into nameless items.

    >>> from_counts(Table2x2(1, 0, 1, 1)).labels["second"]
    (1, 1, 0)
    """
    if not table.n:
        raise InputError(
            "the table is empty: give the counts both, first only, second only, neither"
        )
    pairs: tuple[tuple[Label, Label], ...] = ((1, 1), (1, 0), (0, 1), (0, 0))
    counts = (int(count) for count in table.cells)
    rows = [pair for pair, count in zip(pairs, counts, strict=True) for _ in range(count)]
    return LabelTable(
        items=tuple(str(n) for n in range(1, len(rows) + 1)),
        labels={rater: tuple(row[place] for row in rows) for place, rater in enumerate(raters)},
        nameless=True,
    )


def from_ratings(
    ratings: Iterable[Rating],
    strata: Mapping[str, str] | None = None,
    clusters: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | None = None,
) -> LabelTable:
    """Tabulate ratings of any number of raters; a rater may rate each item once."""
    given: dict[str, dict[str, Rating]] = {}
    for rating in ratings:
        if given.setdefault(rating.rater, {}).setdefault(rating.item, rating) is not rating:
            raise InputError(f"'{rating.rater}' rates '{rating.item}' twice; keep one of the two")
    items = tuple(dict.fromkeys(item for rated in given.values() for item in rated))
    return LabelTable(
        items=items,
        labels={
            rater: tuple(rated[item].label if item in rated else None for item in items)
            for rater, rated in given.items()
        },
        reasons={
            rater: tuple(rated[item].reason if item in rated else "" for item in items)
            for rater, rated in given.items()
        },
        strata=_column(items, strata, "stratum"),
        clusters=_column(items, clusters, "cluster"),
        weights=_column(items, weights, "weight"),
    )


def read_labels(path: Path) -> LabelTable:
    """Read a CSV, JSON Lines or Parquet file with one row per rater and item."""
    ratings: list[Rating] = []
    places: dict[tuple[str, str], int] = {}
    facts: dict[str, dict[str, str]] = {name: {} for name in ITEM_COLUMNS}
    for line, cells in _cells(path):
        item, rater, label = (cells.get(name, "") for name in REQUIRED)
        blank = next((name for name in ("item", "rater") if not cells.get(name)), None)
        if blank:
            raise LogError(str(path), f"the {blank} is blank", line)
        if label not in LABELS:
            raise LogError(str(path), f"label {label!r}; a label is 0, 1 or blank", line)
        earlier = places.setdefault((rater, item), line)
        if earlier != line:
            repeat = f"'{rater}' rates '{item}' again, after line {earlier}"
            raise LogError(str(path), f"{repeat}; keep one of the two", line)
        ratings.append(Rating(item, rater, LABELS[label], cells.get("reason", "")))
        for name, of_items in facts.items():
            known = of_items.setdefault(item, cells[name]) if cells.get(name) else None
            if known not in (None, cells.get(name)):
                both = f"{known!r} and {cells[name]!r}"
                raise LogError(str(path), f"item '{item}' has {name} {both}", line)
    if not ratings:
        raise LogError(str(path), "has no ratings")
    try:
        weights = {item: float(weight) for item, weight in facts["weight"].items()}
    except ValueError as error:
        raise LogError(str(path), f"a weight is not a number: {error}") from None
    return from_ratings(
        ratings, facts["stratum"] or None, facts["cluster"] or None, weights or None
    )


def _cells(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows as strings; the content says what the file is, rather than its name."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            head = file.read(1_000).lstrip()
    except OSError:
        head = ""  # read_rows reports the error
    is_json = head.startswith("{")
    names = set(re.split(r'["\s,;]+', head.partition("\n")[0]))
    # `chimera rate` writes the item as `id`, like `chimera detect`.
    item = "id" if "id" in names and "item" not in names else "item"
    kind, needed = (".jsonl", (item, "rater")) if is_json else (".csv", (item, *REQUIRED[1:]))
    if head.startswith("PAR1"):
        kind = ".parquet"

    def text(value: Any) -> str:
        return "" if value is None else str(value).strip()

    for line, cells in read_rows(path, needed, kind=kind):
        yield line, {name: text(value) for name, value in {"item": cells[item], **cells}.items()}


def _column(
    items: Sequence[str], facts: Mapping[str, Fact] | None, name: str
) -> tuple[Fact, ...] | None:
    if facts is None:
        return None
    missing = next((item for item in items if item not in facts), None)
    if missing is not None:
        raise InputError(
            f"item '{missing}' has no {name}, and others have one: fill it in or drop the column"
        )
    return tuple(facts[item] for item in items)


def write_targets(path: Path, labels: Mapping[str, Label]) -> None:
    """Write a row `id,target` per transcript; the target of label 1 is true."""
    with open_table(path, {"id": str, "target": str}) as write:
        for name, label in labels.items():
            write({"id": name, "target": "true" if label else "false"})
