"""Labels of several raters on the same items: one column per rater, None without a label."""

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

NEEDED = ("item", "rater", "label")
# What an item has on its own, whoever rates it.
OF_THE_ITEM = ("stratum", "cluster", "weight")
WRITTEN: dict[str, Label | None] = {"": None, "0": 0, "1": 1, "0.0": 0, "1.0": 1}


@dataclass(frozen=True, slots=True)
class LabelTable(Record):
    """What each rater said about each item; items without a name of their own are nameless.

    A stratum is what results are split by, a cluster is what belongs together, a weight says how
    many items of the population one stands for.
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
        """How the items came into the sample; None when each stands for itself.

        Strata matter only together with weights: then they were sampled at different rates.
        """
        if self.clusters is None and self.weights is None:
            return None
        strata = self.strata if self.weights is not None else None
        return SampleDesign(self.clusters, strata, self.weights)

    def keep(self, stratum: str) -> "LabelTable":
        """The items of one stratum."""
        rows = [n for n, name in enumerate(self.strata or ()) if name == stratum]
        return replace(
            self,
            items=tuple(self.items[n] for n in rows),
            labels={rater: tuple(column[n] for n in rows) for rater, column in self.labels.items()},
            reasons={rater: tuple(told[n] for n in rows) for rater, told in self.reasons.items()},
            strata=None,
            clusters=None if self.clusters is None else tuple(self.clusters[n] for n in rows),
            weights=None if self.weights is None else tuple(self.weights[n] for n in rows),
        )


def from_counts(table: Table2x2, raters: tuple[str, str] = ("first", "second")) -> LabelTable:
    """As many nameless items as the counts say.

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
    """Ratings of any number of raters as one table; refuses an item that a rater rates twice."""
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
    """The labels of a CSV or JSON lines file, one row for each rater and item.

    What can't be a label is refused, and so is an item that a rater rates twice.
    """
    ratings: list[Rating] = []
    places: dict[tuple[str, str], int] = {}
    facts: dict[str, dict[str, str]] = {name: {} for name in OF_THE_ITEM}
    for line, cells in _cells(path):
        item, rater, label = (cells.get(name, "") for name in NEEDED)
        blank = next((name for name in ("item", "rater") if not cells.get(name)), None)
        if blank:
            raise LogError(str(path), f"the {blank} is blank", line)
        if label not in WRITTEN:
            raise LogError(str(path), f"label {label!r}; a label is 0, 1 or blank", line)
        earlier = places.setdefault((rater, item), line)
        if earlier != line:
            place = f"'{rater}' rates '{item}' again, after line {earlier}"
            raise LogError(str(path), f"{place}; keep one of the two", line)
        ratings.append(Rating(item, rater, WRITTEN[label], cells.get("reason", "")))
        for name, of_items in facts.items():
            known = of_items.setdefault(item, cells[name]) if cells.get(name) else None
            if known not in (None, cells.get(name)):
                both = f"{known!r} and {cells[name]!r}"
                raise LogError(str(path), f"item '{item}' has {name} {both}", line)
    if not ratings:
        raise LogError(str(path), "holds no ratings")
    try:
        weights = {item: float(weight) for item, weight in facts["weight"].items()}
    except ValueError as error:
        raise LogError(str(path), f"a weight is not a number: {error}") from None
    return from_ratings(
        ratings, facts["stratum"] or None, facts["cluster"] or None, weights or None
    )


def _cells(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows as plain text; the content says whether the file is JSON lines, not its name."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            head = file.read(1_000).lstrip()
    except OSError:
        head = ""  # reading the rows says why
    is_json = head.startswith("{")
    names = set(re.split(r'["\s,;]+', head.partition("\n")[0]))
    # `rate` calls an item by its id, as the verdicts do.
    item = "id" if "id" in names and "item" not in names else "item"
    kind, needed = (".jsonl", (item, "rater")) if is_json else (".csv", (item, *NEEDED[1:]))

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
            f"item '{missing}' has no {name}, and others have one: fill it in, or drop the column"
        )
    return tuple(facts[item] for item in items)


def write_targets(path: Path, labels: Mapping[str, Label]) -> None:
    """Write a row `id,target` for each transcript; the target of a label of 1 is true."""
    with open_table(path, {"id": str, "target": str}) as write:
        for name, label in labels.items():
            write({"id": name, "target": "true" if label else "false"})
