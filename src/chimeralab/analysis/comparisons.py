"""Conditions compared on the same seed prompts, every p-value beside what clustering does to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from chimeralab.analysis.estimands import Measure, WeightedContrast
from chimeralab.analysis.measures import per_run
from chimeralab.analysis.runs import Runs
from chimeralab.analysis.settings import Settings
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats, ratios
from chimeralab.stats.cells import Cells, cells_of
from chimeralab.stats.contrasts import Contrast, contrast, differences, holm
from chimeralab.stats.design import Units
from chimeralab.stats.intervals import Interval
from chimeralab.stats.permutation import sign_flip_test
from chimeralab.stats.resample import bootstrap_draws, summarise

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """A difference ``a`` minus ``b``, taken within each seed prompt and then averaged.

    ``p`` comes from a t test over prompts, ``permutation_p`` from exchanging the sides within
    prompts, ``naive_p`` from taking every run for independent. ``se_ratio`` is the naive standard
    error over the clustered one. ``left_out`` counts prompts that lack a run on one side.
    """

    a: str
    b: str
    weights: Weights
    measure: Measure
    difference: float | None
    ci: Interval | None
    bootstrap_ci: Interval | None
    p: float | None
    p_holm: float | None
    naive_p: float | None
    permutation_p: float | None
    se_ratio: float | None
    seeds: int
    left_out: int
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparisons(Record):
    """Every comparison of one measure; Holm's correction covers each list by itself."""

    measure: Measure
    pairs: tuple[Comparison, ...]
    weighted: tuple[Comparison, ...]


def compare_all(
    runs: Runs,
    measure: Measure,
    order: Sequence[str],
    weighted: Sequence[WeightedContrast],
    settings: Settings,
) -> Comparisons:
    """Every pair of conditions, each before those that come later in ``order``, and all others."""
    others = [each.by_condition for each in weighted]
    return Comparisons(
        measure,
        family(runs, measure, pairs_of(order), settings),
        family(runs, measure, others, settings),
    )


def pairs_of(order: Sequence[str]) -> list[Weights]:
    """Every pair, the earlier in the order minus the later.

    >>> pairs_of(["B", "A"])
    [{'B': 1.0, 'A': -1.0}]
    """
    return [{a: 1.0, b: -1.0} for a, b in combinations(order, 2)]


def family(
    runs: Runs, measure: Measure, contrasts: Sequence[Weights], settings: Settings
) -> tuple[Comparison, ...]:
    """Comparisons that are asked together, their p-values adjusted together."""
    values, reason = per_run(runs, measure, settings.tau)
    if values is None:
        return tuple(undefined(weights, measure, reason or "") for weights in contrasts)
    return compare_cells(cells_of(values, runs.condition, runs.seed), measure, contrasts, settings)


def compare_cells(
    cells: Cells, measure: Measure, contrasts: Sequence[Weights], settings: Settings
) -> tuple[Comparison, ...]:
    """The same from runs that are sorted into cells of a prompt and a condition."""
    found = adjusted([_compared(cells, weights, measure, settings) for weights in contrasts])
    known = [each.weights for each in found if each.p is not None]
    draws = iter(_bootstrap(cells, known, measure, settings))
    return tuple(
        each if each.p is None else replace(each, bootstrap_ci=next(draws)) for each in found
    )


def adjusted(found: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons with Holm's correction over all of them."""
    corrected = holm([each.p for each in found])
    return tuple(replace(each, p_holm=p) for each, p in zip(found, corrected, strict=True))


def _compared(cells: Cells, weights: Weights, measure: Measure, settings: Settings) -> Comparison:
    absent = [name for name in weights if name not in cells.conditions]
    if absent:
        return undefined(weights, measure, f"no run under {', '.join(absent)}")
    if not cells.columns(list(weights)).clusters:
        missing = "no seed prompt has a run on every side; compare separate prompts as two tables"
        return replace(undefined(weights, measure, missing), left_out=len(cells.clusters))
    found = contrast(cells, weights, settings.level)
    a, b = sides(weights)
    return Comparison(
        a=a,
        b=b,
        weights=dict(weights),
        measure=measure,
        difference=found.estimate,
        ci=found.interval,
        bootstrap_ci=None,
        p=found.p,
        p_holm=None,
        naive_p=found.naive_p,
        permutation_p=None if found.p is None else _sign_flip_p(cells, weights, settings),
        se_ratio=found.se_ratio,
        seeds=found.clusters,
        left_out=found.left_out,
        reasons=_reasons(found),
    )


def _sign_flip_p(cells: Cells, weights: Weights, settings: Settings) -> float:
    rng = settings.stream("sign flips", *weights)
    changes = differences(cells, weights)
    return sign_flip_test(changes, rng=rng, permutations=settings.permutations).p


def _bootstrap(
    cells: Cells, contrasts: Sequence[Weights], measure: Measure, settings: Settings
) -> list[Interval | None]:
    """Percentile intervals of several contrasts from the same resamples of whole prompts."""
    if not contrasts:
        return []
    sums = np.column_stack([_change_and_count(cells, weights) for weights in contrasts])
    units = Units(sums, np.zeros(len(sums), np.intp))
    draws = bootstrap_draws(
        units,
        lambda totals: ratios(totals[:, ::2], totals[:, 1::2]),
        rng=settings.stream("bootstrap", measure, *map(str, contrasts)),
        resamples=settings.resamples,
    )
    return [summarise(column, settings.level).interval for column in draws.T]


def _change_and_count(cells: Cells, weights: Weights) -> Floats:
    """The contrast within each prompt, and 1; both are 0 for a prompt that lacks a side."""
    complete = set(cells.columns(list(weights)).clusters)
    rows = np.array([cluster in complete for cluster in cells.clusters])
    columns = np.zeros((len(rows), 2))
    columns[rows, 0] = differences(cells, weights)
    columns[rows, 1] = 1
    return columns


def _reasons(found: Contrast) -> dict[str, str]:
    why = {name: reason for name, reason in found.reasons.items() if name != "standard_error"}
    if "p" in why:
        why |= dict.fromkeys(("bootstrap_ci", "permutation_p", "p_holm"), why["p"])
    if "interval" in why:
        why["ci"] = why.pop("interval")
    return why


def sides(weights: Weights) -> tuple[str, str]:
    """What is compared with what, in words.

    >>> sides({"ROT": 1.0, "A": -1 / 3, "B": -2 / 3})
    ('ROT', '1/3 A + 2/3 B')
    >>> sides({"ROT": 1.0, "A": -0.5, "B": -0.5})
    ('ROT', 'mean of A, B')
    """
    plus = {name: weight for name, weight in weights.items() if weight > 0}
    minus = {name: -weight for name, weight in weights.items() if weight < 0}
    return _side(plus), _side(minus)


def _side(weights: Weights) -> str:
    if len(weights) == 1 and sum(weights.values()) == 1:
        return next(iter(weights))
    if len(set(weights.values())) == 1 and abs(sum(weights.values()) - 1) < 1e-9:
        return f"mean of {', '.join(weights)}"
    parts = (f"{Fraction(w).limit_denominator(1000)} {name}" for name, w in weights.items())
    return " + ".join(part.removeprefix("1 ") for part in parts)


def undefined(weights: Weights, measure: Measure, reason: str) -> Comparison:
    """A comparison that can't be made, with the reason at every number."""
    a, b = sides(weights)
    nulls = ("difference", "ci", "bootstrap_ci", "p", "p_holm", "naive_p", "permutation_p")
    return Comparison(
        a=a,
        b=b,
        weights=dict(weights),
        measure=measure,
        **dict.fromkeys((*nulls, "se_ratio"), None),
        seeds=0,
        left_out=0,
        reasons=dict.fromkeys((*nulls, "se_ratio"), reason),
    )
