"""Comparison of two tables of runs: did a condition change, does a difference replicate?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.selfplay.comparisons import compare_family, rank_conditions
from chimeralab.selfplay.outcomes import (
    EXPLORATORY,
    MEASURES,
    Measure,
    Outcomes,
    Settings,
    per_run,
    settings_for,
)
from chimeralab.selfplay.runs import Runs, table_of
from chimeralab.stats.arrays import Floats, ratios
from chimeralab.stats.clusters import Cells, cells_of
from chimeralab.stats.contrasts import contrast, differences, independent_sum, naive_contrast
from chimeralab.stats.effects import (
    SELF_PLAY,
    ContrastSpec,
    Effect,
    Weights,
    correct_with_holm,
    empty_effect,
)
from chimeralab.stats.intervals import Interval, percentile_interval
from chimeralab.stats.resample import bootstrap

SAME_PROMPTS = "both tables have the same seed ids, which are taken to be the same prompts"
OTHER_PROMPTS = "the prompts differ, so the tables are compared as separate samples"
NOTHING_TO_EXCHANGE = "the prompts differ, so there is nothing to exchange within them"


# A contrast whose positive and negative halves were run on different prompts.
Halves = tuple[Weights, Weights]


def _whole(halves: Halves) -> ContrastSpec:
    return ContrastSpec({**halves[0], **halves[1]})


def separate_family(
    runs: Runs, measure: Measure, contrasts: Sequence[Halves], settings: Settings
) -> tuple[Effect, ...]:
    """Compare means over separate prompts, with p-values corrected together."""
    values, reason = per_run(runs, measure, settings.tau)
    if values is None:
        return tuple(
            empty_effect(_whole(each), SELF_PLAY, measure, reason or "") for each in contrasts
        )
    cells = cells_of(values, runs.condition, runs.seed)
    return correct_with_holm([_separate(cells, halves, measure, settings) for halves in contrasts])


def _separate(cells: Cells, halves: Halves, measure: Measure, settings: Settings) -> Effect:
    if not all(cells.columns(list(half)).clusters for half in halves):
        reason = "no prompt has a run on all of one side"
        return empty_effect(_whole(halves), SELF_PLAY, measure, reason)
    changes = [differences(cells, half) for half in halves]
    found = independent_sum(*(contrast(cells, half) for half in halves))
    parts = [naive_contrast(cells, half) for half in halves]
    naive = independent_sum(*filter(None, parts)) if all(parts) else None
    interval, why = found.interval(settings.level), {"permutation_p": NOTHING_TO_EXCHANGE}
    if found.reason:
        untested = ("interval", "bootstrap", "p", "p_holm", "se_ratio")
        why |= dict.fromkeys(untested, "needs two prompts on each side that differ")
    if naive is None:
        why |= dict.fromkeys(("naive_p", "se_ratio"), "no variation between the runs of a side")
    return Effect(
        spec=_whole(halves),
        words=SELF_PLAY,
        measure=measure,
        estimate=found.value,
        interval=interval,
        bootstrap=_bootstrap(changes, halves, settings) if interval else None,
        p=found.p,
        naive_p=naive.p if naive else None,
        se_ratio=found.se_ratio(naive),
        units=sum(map(len, changes)),
        reasons=why,
    )


def _bootstrap(changes: Sequence[Floats], halves: Halves, settings: Settings) -> Interval | None:
    """Percentile interval, resampling the prompts of each half separately."""
    first, second = changes
    totals = np.zeros((len(first) + len(second), 4))
    totals[: len(first), :2] = np.column_stack([first, np.ones(len(first))])
    totals[len(first) :, 2:] = np.column_stack([second, np.ones(len(second))])
    half = np.repeat(np.arange(2), [len(first), len(second)])
    draws = bootstrap(
        totals,
        lambda sums: ratios(sums[:, 0], sums[:, 1]) + ratios(sums[:, 2], sums[:, 3]),
        half,
        rng=settings.stream("separate", *_whole(halves).weights),
        resamples=settings.resamples,
    )
    return percentile_interval(draws, settings.level)


@dataclass(frozen=True, slots=True)
class Change(Record):
    """A difference between two conditions in each table, and how much it changed.

    ``same_direction`` is None if a difference is 0 or undefined.
    """

    first: str
    second: str
    in_a: Effect
    in_b: Effect
    moved: Effect
    same_direction: bool | None


@dataclass(frozen=True, slots=True)
class Replication(Record):
    """Table ``a`` minus table ``b``: each condition on each measure, each pair on its share.

    ``paired`` tables have the same prompts and are compared prompt by prompt.
    """

    a: str
    b: str
    paired: bool
    settings: Settings
    conditions: Mapping[str, Mapping[str, Effect]]
    pairs: tuple[Change, ...]
    order_a: tuple[str, ...]
    order_b: tuple[str, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)


def compare(
    a: Runs,
    b: Runs,
    outcomes: Outcomes = EXPLORATORY,
    *,
    match: Mapping[str, str] | None = None,
    paired: bool | None = None,
) -> Replication:
    """Compare two tables; ``match`` maps conditions of ``a`` to those of ``b``.

    Tables with the same prompts are paired by prompt, unless ``paired`` is given.
    """
    b = _rename_conditions(b, match or {}, a)
    shared = [name for name in rank_conditions(a, a.collapsed / a.turns) if name in b.conditions]
    if not shared:
        one, two = (f"{runs.source} has {', '.join(runs.conditions)}" for runs in (a, b))
        raise InputError(f"no condition is in both tables: {one}; {two}; match them with --match")
    merged, labels, paired = _merge(a.under(*shared), b.under(*shared), paired)
    settings = settings_for(merged, outcomes)
    here, there = ({name: f"{name} [{label}]" for name in shared} for label in labels)

    def compare_halves(measure: Measure, contrasts: Sequence[Halves]) -> tuple[Effect, ...]:
        if paired:
            return compare_family(merged, measure, list(map(_whole, contrasts)), settings)
        return separate_family(merged, measure, contrasts, settings)

    halves = [({here[name]: 1.0}, {there[name]: -1.0}) for name in shared]
    by_measure = {measure: compare_halves(measure, halves) for measure in MEASURES}
    return Replication(
        a=a.source,
        b=b.source,
        paired=paired,
        settings=settings,
        conditions={
            name: {measure: found[place] for measure, found in by_measure.items()}
            for place, name in enumerate(shared)
        },
        pairs=tuple(_changes(merged, here, there, compare_halves, settings)),
        order_a=tuple(shared),
        order_b=tuple(name for name in rank_conditions(b, b.collapsed / b.turns) if name in shared),
        only_in_a=tuple(name for name in a.conditions if name not in shared),
        only_in_b=tuple(name for name in b.conditions if name not in shared),
        notes=(SAME_PROMPTS if paired else OTHER_PROMPTS,),
    )


def _changes(
    merged: Runs,
    here: Mapping[str, str],
    there: Mapping[str, str],
    compare_halves: Callable[[Measure, Sequence[Halves]], tuple[Effect, ...]],
    settings: Settings,
) -> Iterator[Change]:
    """Compare each pair of conditions in both tables."""
    pairs = list(combinations(here, 2))
    in_a, in_b = (
        [{names[one]: 1.0, names[two]: -1.0} for one, two in pairs] for names in (here, there)
    )
    flipped = [{name: -weight for name, weight in weights.items()} for weights in in_b]
    changes = compare_halves("share", list(zip(in_a, flipped, strict=True)))
    each_a, each_b = (
        compare_family(merged, "share", list(map(ContrastSpec, side)), settings)
        for side in (in_a, in_b)
    )
    for pair, one, two, change in zip(pairs, each_a, each_b, changes, strict=True):
        same = None
        if one.estimate and two.estimate:
            same = (one.estimate > 0) == (two.estimate > 0)
        yield Change(*pair, one, two, change, same)


def _merge(a: Runs, b: Runs, paired: bool | None) -> tuple[Runs, tuple[str, str], bool]:
    """Merge the tables; returns the result, their labels, and whether they are paired.

    Condition X of the first table becomes 'X [first label]'.
    """
    same = all(set(a.under(n).seed) == set(b.under(n).seed) for n in a.conditions)
    if paired and not same:
        raise InputError(f"{a.source} and {b.source} can't be paired: their prompts differ")
    paired = same if paired is None else paired
    labels = _labels(a.source, b.source)
    rows = [
        replace(
            row,
            condition=f"{row.condition} [{label}]",
            seed_id=row.seed_id if paired else f"{row.seed_id} [{label}]",
        )
        for runs, label in zip((a, b), labels, strict=True)
        for row in runs.rows
    ]
    return table_of(rows, f"{a.source} and {b.source}"), labels, paired


def _labels(a: str, b: str) -> tuple[str, str]:
    """Short names for the tables.

    >>> _labels("runs/may.csv", "runs/june.csv"), _labels("may/runs.csv", "june/runs.csv")
    (('may', 'june'), ('may/runs.csv', 'june/runs.csv'))
    """
    short = Path(a).stem, Path(b).stem
    if short[0] != short[1]:
        return short
    return (a, b) if a != b else ("first", "second")


def _rename_conditions(b: Runs, match: Mapping[str, str], a: Runs) -> Runs:
    """Rename the conditions of the second table as in the first."""
    for runs, names in ((a, list(match)), (b, list(match.values()))):
        unknown = next((name for name in names if name not in runs.conditions), None)
        if unknown is not None:
            known = ", ".join(runs.conditions)
            raise InputError(f"unknown condition {unknown!r} in {runs.source}; known: {known}")
    back = {other: name for name, other in match.items()}
    names = [back.get(name, name) for name in b.conditions]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise InputError(f"two conditions of {b.source} would be matched with {doubled!r}")
    rows = (replace(row, condition=back.get(row.condition, row.condition)) for row in b.rows)
    return table_of(rows, b.source, b.left_out)
