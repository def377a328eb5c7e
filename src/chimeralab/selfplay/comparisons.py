"""Comparisons of conditions within prompts: differences, curves, order, and future designs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

import numpy as np

from chimeralab.core.records import Record
from chimeralab.selfplay.outcomes import Measure, Settings, WeightedContrast, per_run
from chimeralab.selfplay.runs import Labels, Runs
from chimeralab.stats.arrays import Floats, ratios
from chimeralab.stats.clusters import Cells, cells_of
from chimeralab.stats.contrasts import differences, rank_stability
from chimeralab.stats.effects import (
    SELF_PLAY,
    ContrastSpec,
    Effect,
    Weights,
    correct_with_holm,
    empty_effect,
    estimate_contrast,
    list_pairs,
)
from chimeralab.stats.intervals import Interval, percentile_interval
from chimeralab.stats.planning import (
    VarianceComponents,
    contrast_power,
    detectable_difference,
    variance_components,
)
from chimeralab.stats.resample import bootstrap, sign_flip_test
from chimeralab.stats.survival import logrank, logrank_permutation


@dataclass(frozen=True, slots=True)
class Comparisons(Record):
    """All comparisons of one measure; each list is Holm-corrected separately."""

    measure: Measure
    pairs: tuple[Effect, ...]
    weighted: tuple[Effect, ...]


def compare_all(
    runs: Runs,
    measure: Measure,
    order: Sequence[str],
    weighted: Sequence[WeightedContrast],
    settings: Settings,
) -> Comparisons:
    """Compare every pair of conditions in ``order``, and every weighted contrast."""
    others = [ContrastSpec(each.by_condition) for each in weighted]
    return Comparisons(
        measure,
        compare_family(runs, measure, list_pairs(order), settings),
        compare_family(runs, measure, others, settings),
    )


def compare_family(
    runs: Runs, measure: Measure, contrasts: Sequence[ContrastSpec], settings: Settings
) -> tuple[Effect, ...]:
    """Estimate comparisons whose p-values are corrected together."""
    values, reason = per_run(runs, measure, settings.tau)
    if values is None:
        return tuple(empty_effect(spec, SELF_PLAY, measure, reason or "") for spec in contrasts)
    cells = cells_of(values, runs.condition, runs.seed)
    found = correct_with_holm(
        [estimate_contrast(cells, each, SELF_PLAY, measure, settings.level) for each in contrasts]
    )
    known = [each.weights for each in found if each.p is not None]
    intervals = iter(_bootstrap(cells, known, measure, settings))
    tested = []
    for each in found:
        if each.p is not None:
            rng = settings.stream("sign flips", *each.weights)
            changes, many = differences(cells, each.weights), settings.permutations
            flips = sign_flip_test(changes, rng=rng, permutations=many)
            tested.append(replace(each, bootstrap=next(intervals), permutation_p=flips))
        else:
            tested.append(each)
    return tuple(tested)


def _bootstrap(
    cells: Cells, contrasts: Sequence[Weights], measure: Measure, settings: Settings
) -> list[Interval | None]:
    """Percentile intervals of several contrasts, from the same cluster bootstrap over prompts."""
    if not contrasts:
        return []

    def change_and_count(weights: Weights) -> Floats:
        """The contrast within each prompt and a 1; zeros for a prompt that lacks a side."""
        complete = set(cells.columns(list(weights)).clusters)
        rows = np.array([cluster in complete for cluster in cells.clusters])
        columns = np.zeros((len(rows), 2))
        columns[rows, 0] = differences(cells, weights)
        columns[rows, 1] = 1
        return columns

    sums = np.column_stack([change_and_count(weights) for weights in contrasts])
    draws = bootstrap(
        sums,
        lambda totals: ratios(totals[:, ::2], totals[:, 1::2]),
        rng=settings.stream("bootstrap", measure, *map(str, contrasts)),
        resamples=settings.resamples,
    )
    return [percentile_interval(column, settings.level) for column in draws.T]


NAIVE = "naive: treats every run as independent; read permutation_p instead"


@dataclass(frozen=True, slots=True)
class LogRankTest(Record):
    """Log-rank test between conditions; ``p`` ignores the clustering by prompt."""

    conditions: tuple[str, ...]
    chi2: float | None
    df: int
    p: float | None
    p_kind: str
    permutation_p: float | None
    permutations: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def log_rank(runs: Runs, settings: Settings) -> LogRankTest:
    """Test whether the curves of all conditions of the table differ."""
    followed = runs.durations
    found = logrank(followed, runs.condition)
    permuted, reasons = None, {}
    if found.reason:
        reasons = dict.fromkeys(("chi2", "p", "permutation_p"), found.reason)
    elif len(runs.cell_sizes) == len(np.unique(runs.seed)):
        reasons["permutation_p"] = "no seed prompt has runs under two of the conditions"
    else:
        permuted = logrank_permutation(
            followed,
            runs.condition,
            runs.seed,
            rng=settings.stream("log-rank", *runs.conditions),
            permutations=settings.permutations,
        )
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


@dataclass(frozen=True, slots=True)
class RankCounts(Record):
    """In how many units the order holds strictly, holds except for ties, or is inverted somewhere.

    ``left_out`` counts units that lack a run under some condition.
    """

    held: int
    tied: int
    inverted: int
    total: int
    left_out: int


@dataclass(frozen=True, slots=True)
class OrderStability(Record):
    """The order of the conditions by mean share, and in how many prompts and buckets it holds."""

    order: tuple[str, ...]
    by_seed: RankCounts | None
    by_bucket: RankCounts | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def rank_conditions(runs: Runs, values: Floats) -> tuple[str, ...]:
    """Order the conditions from the largest mean to the smallest."""
    means = {name: float(values[runs.condition == name].mean()) for name in runs.conditions}
    return tuple(sorted(means, key=lambda name: (-means[name], name)))


def order_stability(runs: Runs, values: Floats, order: Sequence[str]) -> OrderStability:
    """Count the prompts and buckets in which the order holds."""
    if len(order) < 2:
        reasons = dict.fromkeys(("by_seed", "by_bucket"), "one condition has no order")
        return OrderStability(tuple(order), None, None, reasons)

    def count(units: Labels) -> RankCounts:
        cells = cells_of(values, runs.condition, units)
        counts = rank_stability(cells, order)
        return RankCounts(*counts, sum(counts), len(cells.clusters) - sum(counts))

    by_seed, buckets = count(runs.seed), runs.bucket
    if buckets is None:
        reasons = {"by_bucket": "not every run has a seed_bucket"}
        return OrderStability(tuple(order), by_seed, None, reasons)
    return OrderStability(tuple(order), by_seed, count(buckets))


@dataclass(frozen=True, slots=True)
class DesignOption(Record):
    """A number of prompts and repeats, and the difference that this design can detect.

    ``power`` is the power to detect the difference asked about, if any.
    """

    prompts: int
    repeats: int
    detectable: float
    power: float | None


@dataclass(frozen=True, slots=True)
class Outlook(Record):
    """Variance components of a difference, and what designs of equal cost could detect."""

    a: str
    b: str
    measure: Measure
    between: float | None
    within: float | None
    designs: tuple[DesignOption, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


def equal_cost_designs(
    parts: VarianceComponents,
    prompts: int,
    repeats: int,
    *,
    difference: float | None = None,
    power: float = 0.8,
) -> tuple[DesignOption, ...]:
    """List the designs with the same number of runs and at most these repeats, most prompts first.

    The test is paired and two-sided, at 5 %.

    >>> designs = equal_cost_designs((0.0505, 0.0871), 36, 5)
    >>> [(d.prompts, d.repeats, round(d.detectable, 3)) for d in designs][::4]
    [(180, 1, 0.078), (36, 5, 0.125)]
    """
    runs = prompts * repeats
    fitting = [n for n in range(1, repeats + 1) if runs % n == 0 and runs // n > 1]
    return tuple(
        DesignOption(
            prompts=runs // n,
            repeats=n,
            detectable=detectable_difference(parts, runs // n, n, power=power),
            power=contrast_power(parts, difference, runs // n, n)
            if difference is not None
            else None,
        )
        for n in fitting
    )


def estimate_outlook(runs: Runs, a: str, b: str, measure: Measure, tau: float) -> Outlook:
    """Estimate what the next study of the difference ``a`` minus ``b`` would need."""

    def unknown(reason: str) -> Outlook:
        missing = dict.fromkeys(("between", "within", "designs"), reason)
        return Outlook(a, b, measure, None, None, (), missing)

    values, reason = per_run(runs, measure, tau)
    if values is None:
        return unknown(reason or "")
    cells = cells_of(values, runs.condition, runs.seed)
    parts = variance_components(cells, {a: 1, b: -1})
    if parts is None:
        return unknown("needs two seed prompts under both, and repeats of them")
    if not sum(parts) > 0:
        return unknown("the difference does not vary")
    used = cells.columns([a, b])
    repeats = median_low(used.counts.ravel().tolist())
    designs = equal_cost_designs(parts, len(used.clusters), repeats)
    return Outlook(a, b, measure, *parts, designs)
