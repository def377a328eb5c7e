"""Differences between conditions within clusters, and whether their order holds in each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, finite
from chimeralab.stats.clusters import Cells, ClusterMean, cluster_mean, mean_bootstrap
from chimeralab.stats.intervals import Interval, t_interval, t_p_value
from chimeralab.stats.resample import Bootstrap

Weights = Mapping[Any, float]


DIGITS = 12


@dataclass(frozen=True, slots=True)
class Contrast:
    """A weighted sum of condition means, taken within each cluster and then averaged.

    ``naive_p`` treats all runs as independent (Welch); ``se_ratio`` is the naive standard error
    over the paired one. ``left_out`` counts clusters that lack a run under some condition.
    """

    weights: Weights
    estimate: float
    standard_error: float | None
    interval: Interval | None
    p: float | None
    naive_p: float | None
    se_ratio: float | None
    clusters: int
    left_out: int
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NaiveContrast:
    """The same sum as if every run were independent: what an unclustered test would say."""

    estimate: float
    standard_error: float
    df: float

    @property
    def p(self) -> float:
        return t_p_value(self.estimate, self.standard_error, self.df)


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two means from separate clusters."""

    estimate: float
    standard_error: float | None
    interval: Interval | None
    p: float | None
    reason: str | None = None


def contrast(cells: Cells, weights: Weights, level: float = 0.95) -> Contrast:
    """Contrast of conditions paired by cluster, with a t test on (clusters - 1) df.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([5.0, 3.0, 6.0, 2.0, 9.0, 3.0], ["B", "A"] * 3, [1, 1, 2, 2, 3, 3])
    >>> result = contrast(cells, {"B": 1, "A": -1})
    >>> result.estimate, round(result.p, 4)
    (4.0, 0.0742)
    """
    change = differences(cells, weights)
    paired = cluster_mean(change, np.arange(len(change)), level)
    varies, naive = bool(np.ptp(change)), naive_contrast(cells, weights)
    error = paired.standard_error if varies or len(change) == 1 else 0.0
    return Contrast(
        weights=dict(weights),
        estimate=paired.mean,
        standard_error=error,
        interval=paired.interval if varies else None,
        p=t_p_value(paired.mean, error, paired.clusters - 1) if error else None,
        naive_p=naive.p if naive else None,
        se_ratio=naive.standard_error / error if naive and error else None,
        clusters=paired.clusters,
        left_out=len(cells.clusters) - paired.clusters,
        reasons=_reasons(paired.clusters, error, naive),
    )


def differences(cells: Cells, weights: Weights) -> Floats:
    """The contrast within each cluster that has a run under every condition of it.

    >>> from chimeralab.stats.clusters import cells_of
    >>> differences(cells_of([5.0, 3.0, 1.0], ["B", "A", "A"], [1, 1, 2]), {"B": 1, "A": -1})
    array([2.])
    """
    used = cells.columns(list(weights))
    if not used.clusters:
        names = ", ".join(map(str, weights))
        raise InputError(f"conditions {names}: no cluster has a run under all of them")
    change = used.means @ finite(list(weights.values()), "weights")
    # Without the last digits, which are noise: nothing must not look like a steady little.
    return np.round(change, DIGITS) + 0.0


def contrast_bootstrap(
    cells: Cells,
    weights: Weights,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Bootstrap:
    """Percentile interval of a contrast, whole clusters resampled.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([5.0, 3.0, 6.0, 2.0, 9.0, 3.0], ["B", "A"] * 3, [1, 1, 2, 2, 3, 3])
    >>> contrast_bootstrap(cells, {"B": 1, "A": -1}, rng=np.random.default_rng(1)).interval
    Interval(low=2.0, high=6.0)
    """
    change = differences(cells, weights)
    index = np.arange(len(change))
    return mean_bootstrap(change, index, rng=rng, resamples=resamples, level=level)


def naive_contrast(cells: Cells, weights: Weights) -> NaiveContrast | None:
    """Welch's test (1947) for a weighted sum of means; None when no condition varies.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([5.0, 3.0, 6.0, 2.0, 9.0, 3.0], ["B", "A"] * 3, [1, 1, 2, 2, 3, 3])
    >>> round(naive_contrast(cells, {"B": 1, "A": -1}).p, 4)
    0.0704
    """
    used = cells.columns(list(weights))
    factor = finite(list(weights.values()), "weights")
    n = used.counts.sum(axis=0)
    if (n < 2).any():
        return None
    means = (used.counts * used.means).sum(axis=0) / n
    squares = (used.squares + used.counts * (used.means - means) ** 2).sum(axis=0)
    variances = factor**2 * squares / (n - 1) / n
    if not variances.sum() > 0:
        return None
    df = variances.sum() ** 2 / (variances**2 / (n - 1)).sum()
    return NaiveContrast(float(factor @ means), float(variances.sum() ** 0.5), float(df))


def independent_difference(
    first: ClusterMean, second: ClusterMean, level: float = 0.95
) -> Difference:
    """Difference of two clustered means that share no clusters (Welch 1947, on clusters).

    >>> one = cluster_mean([5.0, 6.0, 9.0], ["a", "b", "c"])
    >>> two = cluster_mean([3.0, 2.0, 3.0], ["d", "e", "f"])
    >>> round(independent_difference(one, two).p, 4)
    0.0704
    """
    estimate = first.mean - second.mean
    errors = np.array([part.standard_error or 0.0 for part in (first, second)]) ** 2
    freedom = np.array([first.clusters - 1, second.clusters - 1])
    if not freedom.all() or not errors.sum() > 0:
        return Difference(estimate, None, None, None, "needs two clusters on each side that differ")
    error = float(errors.sum() ** 0.5)
    df = float(errors.sum() ** 2 / (errors**2 / freedom).sum())
    interval = t_interval(estimate, error, df, level)
    return Difference(estimate, error, interval, t_p_value(estimate, error, df))


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """P-values adjusted for having asked several questions (Holm 1979); None stays None.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    known = [place for place, p in enumerate(p_values) if p is not None]
    raw = np.array([p_values[place] for place in known], dtype=np.float64)
    order = np.argsort(raw)
    steps = raw[order] * np.arange(len(raw), 0, -1)
    adjusted: list[float | None] = [None] * len(p_values)
    for place, value in zip(order, np.minimum(np.maximum.accumulate(steps), 1.0), strict=True):
        adjusted[known[place]] = float(value)
    return tuple(adjusted)


def _reasons(clusters: int, error: float | None, naive: NaiveContrast | None) -> dict[str, str]:
    why = {}
    if clusters < 2:
        alone = "one cluster alone tells nothing about the spread between clusters"
        why = dict.fromkeys(("standard_error", "interval", "p", "se_ratio"), alone)
    elif not error:
        equal = "the difference is the same in every cluster"
        why = dict.fromkeys(("interval", "p", "se_ratio"), equal)
    if naive is None:
        why |= dict.fromkeys(("naive_p", "se_ratio"), "no run differs from another")
    return why


@dataclass(frozen=True, slots=True)
class RankStability:
    """Clusters in which the order holds strictly, holds but for ties, or is inverted somewhere."""

    order: tuple[Any, ...]
    held: int
    tied: int
    inverted: int
    left_out: int

    @property
    def total(self) -> int:
        return self.held + self.tied + self.inverted


def rank_stability(cells: Cells, order: Sequence[Any]) -> RankStability:
    """Count the clusters whose condition means fall in the stated order, largest first.

    Give cells by prompt for stability over prompts, cells by bucket for stability over buckets.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([3, 2, 1, 2, 2, 2], ["B", "A"] * 3, ["x", "x", "y", "y", "z", "z"])
    >>> rank_stability(cells, ["B", "A"])
    RankStability(order=('B', 'A'), held=1, tied=1, inverted=1, left_out=0)
    """
    used = cells.columns(order)
    steps = np.diff(used.means, axis=1)
    held, inverted = (steps < 0).all(axis=1), (steps > 0).any(axis=1)
    return RankStability(
        order=tuple(order),
        held=int(held.sum()),
        tied=int((~held & ~inverted).sum()),
        inverted=int(inverted.sum()),
        left_out=len(cells.clusters) - len(used.clusters),
    )
