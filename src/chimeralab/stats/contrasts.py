"""Contrasts of conditions within clusters, and the stability of their order."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, finite
from chimeralab.stats.clusters import Cells, cluster_mean, mean_bootstrap
from chimeralab.stats.intervals import Estimate, Interval

Weights = Mapping[Any, float]

DIGITS = 12


def contrast(cells: Cells, weights: Weights) -> Estimate:
    """A weighted sum of condition means within each cluster, averaged over clusters.

    Its t test has (clusters - 1) degrees of freedom. The standard error is 0 where the sum is the
    same in every cluster, and None where there is only one: either leaves no interval and no p.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([5.0, 3.0, 6.0, 2.0, 9.0, 3.0], ["B", "A"] * 3, [1, 1, 2, 2, 3, 3])
    >>> result = contrast(cells, {"B": 1, "A": -1})
    >>> result.value, round(result.p, 4)
    (4.0, 0.0742)
    """
    change = differences(cells, weights)
    paired = cluster_mean(change, np.arange(len(change)))
    return Estimate(paired.mean, paired.standard_error, paired.clusters - 1)


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
    # Drop rounding noise, so that no difference does not look like a tiny constant one.
    return np.round(change, DIGITS) + 0.0


def contrast_bootstrap(
    cells: Cells,
    weights: Weights,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Interval | None:
    """Percentile interval of a contrast, whole clusters resampled.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([5.0, 3.0, 6.0, 2.0, 9.0, 3.0], ["B", "A"] * 3, [1, 1, 2, 2, 3, 3])
    >>> contrast_bootstrap(cells, {"B": 1, "A": -1}, rng=np.random.default_rng(1))
    Interval(low=2.0, high=6.0)
    """
    change = differences(cells, weights)
    index = np.arange(len(change))
    return mean_bootstrap(change, index, rng=rng, resamples=resamples, level=level)


def naive_contrast(cells: Cells, weights: Weights) -> Estimate | None:
    """The contrast with every run as independent (Welch 1947); None if no condition varies.

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
    return Estimate(float(factor @ means), float(variances.sum() ** 0.5), float(df))


def independent_sum(*parts: Estimate) -> Estimate:
    """The sum of estimates that share no clusters (Welch 1947).

    >>> round(independent_sum(Estimate(6.67, 1.2, df=2), Estimate(-2.67, 0.33, df=2)).p, 3)
    0.07
    """
    values = [part.value for part in parts if part.value is not None]
    errors = np.array([part.standard_error or 0.0 for part in parts]) ** 2
    freedom = np.array([part.df for part in parts])
    if not freedom.all() or not errors.sum() > 0:
        return Estimate(sum(values), None, 0, "needs two clusters on each side that differ")
    df = float(errors.sum() ** 2 / (errors**2 / freedom).sum())
    return Estimate(sum(values), float(errors.sum() ** 0.5), df)


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """P-values adjusted for multiple comparisons (Holm 1979); None stays None.

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


def rank_stability(cells: Cells, order: Sequence[Any]) -> tuple[int, int, int]:
    """In how many clusters the order of means is strict, has ties only, or is inverted somewhere.

    The order is largest first; clusters that lack a condition are left out. Clusters are prompts or
    buckets, as in the cells.

    >>> from chimeralab.stats.clusters import cells_of
    >>> cells = cells_of([3, 2, 1, 2, 2, 2], ["B", "A"] * 3, ["x", "x", "y", "y", "z", "z"])
    >>> rank_stability(cells, ["B", "A"])
    (1, 1, 1)
    """
    steps = np.diff(cells.columns(order).means, axis=1)
    strict, inverted = (steps < 0).all(axis=1), (steps > 0).any(axis=1)
    return int(strict.sum()), int((~strict & ~inverted).sum()), int(inverted.sum())
