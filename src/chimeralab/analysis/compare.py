"""Two tables of runs side by side: did a condition change, does a difference come out again?"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from chimeralab.analysis.comparisons import Comparison, family
from chimeralab.analysis.estimands import EXPLORATORY, MEASURES, Measure, Outcomes
from chimeralab.analysis.ranks import order_of
from chimeralab.analysis.runs import Run, Runs, table_of
from chimeralab.analysis.separate import Halves, separate_family
from chimeralab.analysis.settings import Settings, settings_for
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record


@dataclass(frozen=True, slots=True)
class Change(Record):
    """A difference between two conditions in each table, and how far it moved between them.

    ``same_direction`` is None where a difference is 0 or undefined.
    """

    first: str
    second: str
    in_a: Comparison
    in_b: Comparison
    moved: Comparison
    same_direction: bool | None


@dataclass(frozen=True, slots=True)
class Replication(Record):
    """Table ``a`` minus table ``b``: each condition by each measure, and each pair by its share.

    ``paired`` says that both tables have the same prompts, which are then compared one by one.
    """

    a: str
    b: str
    paired: bool
    settings: Settings
    conditions: Mapping[str, Mapping[str, Comparison]]
    pairs: tuple[Change, ...]
    order_a: tuple[str, ...]
    order_b: tuple[str, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)


class Merged(NamedTuple):
    """Both tables as one: the condition X of the first is called 'X [first name]'."""

    runs: Runs
    labels: tuple[str, str]
    paired: bool

    def name(self, condition: str, table: int) -> str:
        return f"{condition} [{self.labels[table]}]"


def compare(
    a: Runs,
    b: Runs,
    outcomes: Outcomes = EXPLORATORY,
    *,
    match: Mapping[str, str] | None = None,
    paired: bool | None = None,
) -> Replication:
    """Compare two tables. ``match`` says which condition of ``b`` stands for one of ``a``.

    Tables with the same prompts are paired by prompt, unless ``paired`` decides otherwise.
    """
    b = _renamed(b, match or {}, a)
    shared = [name for name in order_of(a, a.collapsed / a.turns) if name in b.conditions]
    if not shared:
        raise InputError(_nothing_in_common(a, b))
    merged = _merge(a.under(*shared), b.under(*shared), paired)
    settings = settings_for(merged.runs, outcomes)
    return Replication(
        a=a.source,
        b=b.source,
        paired=merged.paired,
        settings=settings,
        conditions=_conditions(merged, shared, settings),
        pairs=_pairs(merged, shared, settings),
        order_a=tuple(shared),
        order_b=tuple(name for name in order_of(b, b.collapsed / b.turns) if name in shared),
        only_in_a=tuple(name for name in a.conditions if name not in shared),
        only_in_b=tuple(name for name in b.conditions if name not in shared),
        notes=_notes(merged),
    )


def _conditions(
    merged: Merged, shared: list[str], settings: Settings
) -> dict[str, dict[str, Comparison]]:
    halves = [Halves({merged.name(name, 0): 1.0}, {merged.name(name, 1): -1.0}) for name in shared]
    by_measure = {measure: _asked(merged, measure, halves, settings) for measure in MEASURES}
    return {
        name: {measure: found[place] for measure, found in by_measure.items()}
        for place, name in enumerate(shared)
    }


def _pairs(merged: Merged, shared: list[str], settings: Settings) -> tuple[Change, ...]:
    pairs = list(combinations(shared, 2))
    in_a, in_b = (
        [{merged.name(one, table): 1.0, merged.name(two, table): -1.0} for one, two in pairs]
        for table in (0, 1)
    )
    flipped = [{name: -weight for name, weight in weights.items()} for weights in in_b]
    moved = _asked(
        merged, "share", [Halves(*both) for both in zip(in_a, flipped, strict=True)], settings
    )
    each_a, each_b = (family(merged.runs, "share", side, settings) for side in (in_a, in_b))
    return tuple(
        Change(*pair, one, two, change, _same_direction(one, two))
        for pair, one, two, change in zip(pairs, each_a, each_b, moved, strict=True)
    )


def _asked(
    merged: Merged, measure: Measure, contrasts: list[Halves], settings: Settings
) -> tuple[Comparison, ...]:
    if merged.paired:
        return family(merged.runs, measure, [each.weights for each in contrasts], settings)
    return separate_family(merged.runs, measure, contrasts, settings)


def _same_direction(one: Comparison, two: Comparison) -> bool | None:
    if not one.difference or not two.difference:
        return None
    return (one.difference > 0) == (two.difference > 0)


def _merge(a: Runs, b: Runs, paired: bool | None) -> Merged:
    same = all(set(a.under(n).seed) == set(b.under(n).seed) for n in a.conditions)
    if paired and not same:
        raise InputError(f"{a.source} and {b.source} can't be paired: their prompts differ")
    paired = same if paired is None else paired
    labels = _labels(a.source, b.source)
    rows = [
        _relabelled(row, label, paired)
        for runs, label in zip((a, b), labels, strict=True)
        for row in runs.rows
    ]
    return Merged(table_of(rows, f"{a.source} and {b.source}"), labels, paired)


def _relabelled(row: Run, label: str, paired: bool) -> Run:
    seed = row.seed_id if paired else f"{row.seed_id} [{label}]"
    return replace(row, condition=f"{row.condition} [{label}]", seed_id=seed)


def _labels(a: str, b: str) -> tuple[str, str]:
    """Short names for the tables.

    >>> _labels("runs/may.csv", "runs/june.csv"), _labels("may/runs.csv", "june/runs.csv")
    (('may', 'june'), ('may/runs.csv', 'june/runs.csv'))
    """
    short = Path(a).stem, Path(b).stem
    if short[0] != short[1]:
        return short
    return (a, b) if a != b else ("first", "second")


def _renamed(b: Runs, match: Mapping[str, str], a: Runs) -> Runs:
    """The second table with its conditions called as in the first."""
    for name, other in match.items():
        _refuse_unknown(name, a)
        _refuse_unknown(other, b)
    back = {other: name for name, other in match.items()}
    names = [back.get(name, name) for name in b.conditions]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"two conditions of {b.source} would stand for {doubled!r}")
    rows = (replace(row, condition=back.get(row.condition, row.condition)) for row in b.rows)
    return table_of(rows, b.source, b.left_out)


def _refuse_unknown(name: str, runs: Runs) -> None:
    if name not in runs.conditions:
        known = ", ".join(runs.conditions)
        raise InputError(f"unknown condition {name!r} in {runs.source}; known: {known}")


def _nothing_in_common(a: Runs, b: Runs) -> str:
    one, two = (f"{runs.source} has {', '.join(runs.conditions)}" for runs in (a, b))
    return f"no condition is in both tables: {one}; {two}; say which stand for each other (--match)"


def _notes(merged: Merged) -> tuple[str, ...]:
    if merged.paired:
        return ("both tables have the same seed ids, which are taken for the same prompts",)
    return ("the prompts differ, so the tables are compared as separate samples",)
