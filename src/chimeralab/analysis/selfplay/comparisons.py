"""Conditions compared on the same seed prompts, every p-value beside what clustering does to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from statistics import median_low

import numpy as np

from chimeralab.analysis.selfplay.outcomes import Measure, Settings, WeightedContrast, per_run
from chimeralab.analysis.selfplay.runs import Labels, Runs
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats, ratios
from chimeralab.stats.clusters import Cells, cells_of
from chimeralab.stats.contrasts import Contrast, contrast, differences, holm, rank_stability
from chimeralab.stats.design import Units
from chimeralab.stats.intervals import Interval
from chimeralab.stats.planning import (
    VarianceComponents,
    contrast_power,
    detectable_difference,
    variance_components,
)
from chimeralab.stats.resample import bootstrap_draws, sign_flip_test, summarise
from chimeralab.stats.survival import logrank, logrank_permutation

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


NAIVE = "naive: takes every run for independent; read permutation_p instead"


@dataclass(frozen=True, slots=True)
class LogRankTest(Record):
    """Do the curves of these conditions differ? ``p`` ignores that repeats share a prompt."""

    conditions: tuple[str, ...]
    chi2: float | None
    df: int
    p: float | None
    p_kind: str
    permutation_p: float | None
    permutations: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def log_rank(runs: Runs, settings: Settings) -> LogRankTest:
    """The log-rank test over every condition of the table."""
    followed = runs.durations
    found = logrank(followed, runs.condition)
    permuted, reasons = None, {}
    if found.chi2 is None:
        reasons = dict.fromkeys(("chi2", "p", "permutation_p"), found.reason or "")
    if found.chi2 is not None and not _sides_share_prompts(runs):
        reasons["permutation_p"] = "no seed prompt has runs under two of the conditions"
    elif found.chi2 is not None:
        rng = settings.stream("log-rank", *runs.conditions)
        size = settings.permutations
        test = logrank_permutation(followed, runs.condition, runs.seed, rng=rng, permutations=size)
        permuted = test.p if test else None
    return LogRankTest(
        conditions=runs.conditions,
        chi2=found.chi2,
        df=found.df,
        p=found.p,
        p_kind=NAIVE,
        permutation_p=permuted,
        permutations=settings.permutations,
        reasons=reasons,
    )


def log_rank_pairs(runs: Runs, order: Sequence[str], settings: Settings) -> tuple[LogRankTest, ...]:
    """The same for every pair of conditions."""
    return tuple(log_rank(runs.under(a, b), settings) for a, b in combinations(order, 2))


def _sides_share_prompts(runs: Runs) -> bool:
    return len(runs.cell_sizes) > len(np.unique(runs.seed))


@dataclass(frozen=True, slots=True)
class Held(Record):
    """In how many units the order holds strictly, holds but for ties, or is inverted somewhere.

    ``left_out`` counts units that lack a run under some condition.
    """

    held: int
    tied: int
    inverted: int
    total: int
    left_out: int


@dataclass(frozen=True, slots=True)
class OrderStability(Record):
    """The order of the conditions by their mean share, and how far it holds below the means."""

    order: tuple[str, ...]
    by_seed: Held | None
    by_bucket: Held | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def order_of(runs: Runs, values: Floats) -> tuple[str, ...]:
    """Conditions from the largest mean to the smallest."""
    means = {name: float(values[runs.condition == name].mean()) for name in runs.conditions}
    return tuple(sorted(means, key=lambda name: (-means[name], name)))


def order_stability(runs: Runs, values: Floats, order: Sequence[str]) -> OrderStability:
    """Count the prompts and the buckets in which the order holds."""
    if len(order) < 2:
        reasons = dict.fromkeys(("by_seed", "by_bucket"), "one condition has no order")
        return OrderStability(tuple(order), None, None, reasons)
    by_seed, buckets = _held(runs, values, order, runs.seed), runs.bucket
    if buckets is None:
        reasons = {"by_bucket": "not every run has a seed_bucket"}
        return OrderStability(tuple(order), by_seed, None, reasons)
    return OrderStability(tuple(order), by_seed, _held(runs, values, order, buckets))


def _held(runs: Runs, values: Floats, order: Sequence[str], units: Labels) -> Held:
    found = rank_stability(cells_of(values, runs.condition, units), order)
    return Held(found.held, found.tied, found.inverted, found.total, found.left_out)


@dataclass(frozen=True, slots=True)
class DesignOption(Record):
    """So many seed prompts with so many repeats each, and the difference that they can find.

    ``power`` is the chance to find the difference that was asked about; None when none was.
    """

    prompts: int
    repeats: int
    detectable: float
    power: float | None


@dataclass(frozen=True, slots=True)
class Outlook(Record):
    """Where a difference varied, and what other designs of the same cost would find next time."""

    a: str
    b: str
    measure: Measure
    between: float | None
    within: float | None
    designs: tuple[DesignOption, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


def same_cost(
    parts: VarianceComponents,
    prompts: int,
    repeats: int,
    *,
    difference: float | None = None,
    power: float = 0.8,
) -> tuple[DesignOption, ...]:
    """Every design of the same number of runs with at most these repeats, most prompts first.

    The test is a paired two-sided one at 5 %.

    >>> parts = VarianceComponents(between=0.0505, within=0.0871)
    >>> [(d.prompts, d.repeats, round(d.detectable, 3)) for d in same_cost(parts, 36, 5)][::4]
    [(180, 1, 0.078), (36, 5, 0.125)]
    """
    runs = prompts * repeats
    fitting = [n for n in range(1, repeats + 1) if runs % n == 0 and runs // n > 1]
    return tuple(
        DesignOption(
            prompts=runs // n,
            repeats=n,
            detectable=detectable_difference(parts, runs // n, n, power=power),
            power=_power(parts, difference, runs // n, n),
        )
        for n in fitting
    )


def _power(
    parts: VarianceComponents, difference: float | None, prompts: int, repeats: int
) -> float | None:
    if difference is None:
        return None
    return contrast_power(parts, difference, prompts, repeats)


def outlook(runs: Runs, a: str, b: str, measure: Measure, tau: float) -> Outlook:
    """Learn from these runs what a next study of the difference ``a`` minus ``b`` would need."""
    values, reason = per_run(runs, measure, tau)
    if values is None:
        return _unknown(a, b, measure, reason or "")
    cells = cells_of(values, runs.condition, runs.seed)
    parts = variance_components(cells, {a: 1, b: -1})
    if parts is None:
        return _unknown(a, b, measure, "needs two seed prompts under both, and repeats of them")
    if not parts.between + parts.within > 0:
        return _unknown(a, b, measure, "the difference does not vary")
    used = cells.columns([a, b])
    repeats = median_low(used.counts.ravel().tolist())
    designs = same_cost(parts, len(used.clusters), repeats)
    return Outlook(a, b, measure, parts.between, parts.within, designs)


def outlooks(runs: Runs, order: Sequence[str], measure: Measure, tau: float) -> tuple[Outlook, ...]:
    """The outlook of every pair of conditions."""
    return tuple(outlook(runs, a, b, measure, tau) for a, b in combinations(order, 2))


def advice(parts: VarianceComponents, prompts: int, repeats: int) -> str | None:
    """What to tell before a study starts; None when there is nothing to gain.

    >>> print(advice(VarianceComponents(between=0.0505, within=0.0871), 36, 5))
    180 prompts x 1 repeat find a difference of 0.078 at the cost at which 36 x 5 find 0.125
    """
    designs = same_cost(parts, prompts, repeats)
    if len(designs) < 2:
        return None
    best, planned = designs[0], designs[-1]
    return (
        f"{best.prompts} prompts x {best.repeats} repeat find a difference of "
        f"{best.detectable:.3f} at the cost at which {prompts} x {repeats} find "
        f"{planned.detectable:.3f}"
    )


def _unknown(a: str, b: str, measure: Measure, reason: str) -> Outlook:
    missing = dict.fromkeys(("between", "within"), reason)
    return Outlook(a, b, measure, None, None, (), missing | {"designs": reason})
