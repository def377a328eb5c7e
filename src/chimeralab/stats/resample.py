"""Intervals for any statistic of sums, by resampling whole units (rows, or clusters of rows).

A statistic maps rows of sums to numbers, NaN where undefined. Since resampling only changes the
sums, ten thousand resamples are one matrix product. The design of the sample gives the cluster, the
stratum and the weight of each row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, optional, same_length
from chimeralab.stats.intervals import Estimate

Column = Sequence[Any] | NDArray[Any]
Statistic = Callable[[Floats], Floats]

# Numbers drawn at a time, to keep memory small.
PORTION = 2_000_000


@dataclass(frozen=True, slots=True)
class SampleDesign:
    """The sampling design, one entry per row.

    Clusters are resampled whole. Strata are resampled separately, unless a cluster spans several:
    then only clusters count, which is conservative. A weight is the number of rows of the
    population that a row represents.
    """

    clusters: Column | None = None
    strata: Column | None = None
    weights: Sequence[float] | Floats | None = None

    def keep(self, rows: NDArray[np.bool_]) -> "SampleDesign":
        """The design of the selected rows."""
        same_length(rows=rows, clusters=self.clusters, strata=self.strata, weights=self.weights)
        return SampleDesign(
            *(
                None if column is None else np.asarray(column)[rows]
                for column in (self.clusters, self.strata, self.weights)
            )
        )


def units(rows: Floats, design: SampleDesign | None = None) -> tuple[Floats, Integers]:
    """Resampling units: the weighted sums of each cluster, or row, and its stratum.

    >>> units(np.array([[1.0], [2.0], [4.0]]), SampleDesign(clusters=["a", "a", "b"]))[0]
    array([[3.],
           [4.]])
    """
    design = design or SampleDesign()
    n = same_length(
        rows=rows, clusters=design.clusters, strata=design.strata, weights=design.weights
    )
    cluster = np.arange(n) if design.clusters is None else encode(design.clusters)[1]
    stratum = np.zeros(n, np.intp) if design.strata is None else encode(design.strata)[1]
    totals = cluster_totals(rows * row_weights(design, n)[:, None], cluster)
    if not n:
        return totals, stratum
    pairs = np.unique(np.column_stack([cluster, stratum]), axis=0)
    spans_strata = len(pairs) > len(totals)
    return totals, np.zeros(len(totals), np.intp) if spans_strata else pairs[:, 1]


def effective_units(sums: Floats) -> float:
    """The number of equally weighted units with the same precision (Kish 1965).

    >>> effective_units(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    return float(sums.sum() ** 2 / (sums**2).sum())


def cluster_totals(rows: Floats, cluster: Integers) -> Floats:
    """The sums of the rows by cluster, numbered from 0.

    >>> cluster_totals(np.array([[1.0], [2.0], [4.0]]), np.array([0, 0, 1]))
    array([[3.],
           [4.]])
    """
    return np.column_stack([np.bincount(cluster, weights=column) for column in rows.T])


def row_weights(design: SampleDesign, n: int) -> Floats:
    """The weights scaled to a mean of 1, so that weighted counts still add up to ``n``.

    >>> row_weights(SampleDesign(weights=[1, 3]), 2)
    array([0.5, 1.5])
    """
    if design.weights is None:
        return np.ones(n)
    weights = finite(design.weights, "weights")
    if (weights <= 0).any():
        place = int(np.argmax(weights <= 0))
        raise InputError(f"weights: value {place + 1} is {weights[place]:g}; all must be positive")
    return weights * (n / weights.sum()) if n else weights


def bootstrap(
    totals: Floats,
    statistic: Statistic,
    strata: Integers | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
) -> Floats:
    """The statistic in each resample of units within strata (Efron 1979).

    >>> sums, rng = np.array([[1.0], [1.0]]), np.random.default_rng(1)
    >>> bootstrap(sums, lambda totals: totals[:, 0], rng=rng, resamples=3)
    array([2., 2., 2.])
    """
    if not len(totals):
        return np.full(resamples, np.nan)
    portions = _resample_totals(totals, strata, resamples, rng)
    return np.concatenate([statistic(part) for part in portions])


def jackknife(totals: Floats, statistic: Statistic, strata: Integers | None = None) -> Estimate:
    """Jackknife standard error within strata (Tukey 1958, Rust 1985).

    It is None if leaving out a unit makes the statistic undefined.

    >>> sums = np.array([[1.0, 2.0], [2.0, 2.0], [0.0, 2.0]])
    >>> round(jackknife(sums, lambda totals: totals[:, 0] / totals[:, 1]).standard_error, 4)
    0.2887
    """
    strata = np.zeros(len(totals), np.intp) if strata is None else strata
    df = len(totals) - len(np.unique(strata))
    estimate = optional(float(statistic(totals.sum(axis=0, keepdims=True))[0]))
    if estimate is None or df < 1:
        return Estimate(estimate, None, df)
    variance = 0.0
    for stratum in np.unique(strata):
        without = statistic(_leave_one_out(totals, strata == stratum))
        size = len(without)
        variance += (size - 1) / size * float(((without - estimate) ** 2).sum())
    deviation = optional(variance)
    return Estimate(estimate, None if deviation is None else deviation**0.5, df)


def _leave_one_out(totals: Floats, stratum: NDArray[np.bool_]) -> Floats:
    """The sums without each unit of a stratum in turn, the others reweighted."""
    members = totals[stratum]
    if len(members) < 2:
        raise InputError(
            "a stratum has one sampling unit, so its variance is unknown: merge it with another"
        )
    inside = members.sum(axis=0)
    outside = totals.sum(axis=0) - inside
    share = len(members) / (len(members) - 1)
    return np.asarray(outside + (inside - members) * share)


def _resample_totals(
    totals: Floats, strata: Integers | None, resamples: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield sums of resampled units; units with equal sums are drawn together."""
    groups = [totals] if strata is None else [totals[strata == each] for each in np.unique(strata)]
    kinds = [np.unique(group, axis=0, return_counts=True) for group in groups]
    width = totals.shape[1] + max(len(counts) for _, counts in kinds)
    portion = max(1, PORTION // width)
    for start in range(0, resamples, portion):
        size = min(portion, resamples - start)
        yield sum(
            (
                rng.multinomial(counts.sum(), counts / counts.sum(), size=size) @ sums
                for sums, counts in kinds
            ),
            start=np.zeros((size, totals.shape[1])),
        )


def permute_within(
    labels: Integers, blocks: Integers, permutations: int, rng: np.random.Generator
) -> Integers:
    """Labels shuffled within their blocks, a row per permutation.

    >>> labels, blocks = np.array([0, 1, 2, 3]), np.array([0, 1, 0, 1])
    >>> permute_within(labels, blocks, 2, np.random.default_rng(5))
    array([[2, 3, 0, 1],
           [0, 3, 2, 1]])
    """
    places = np.argsort(blocks, kind="stable")
    keys = rng.random((permutations, len(labels))) + blocks
    shuffled = np.empty((permutations, len(labels)), dtype=labels.dtype)
    shuffled[:, places] = labels[np.argsort(keys, axis=1)]
    return shuffled


def sign_flip_test(
    changes: ArrayLike, *, rng: np.random.Generator, permutations: int = 10_000
) -> float:
    """P-value of paired differences against zero, by exchanging conditions within clusters.

    If there are at most ``permutations`` exchanges, each is counted once (Fisher 1935).

    >>> sign_flip_test([0.2, 0.1, 0.4, 0.3, 0.2, 0.3], rng=np.random.default_rng(1))
    0.03125
    """
    column = finite(changes, "differences")
    if not column.size:
        raise InputError("differences: no cluster to compare")
    observed = abs(float(column.sum()))
    if 2 ** len(column) <= permutations:
        places = np.arange(2 ** len(column))[:, None] >> np.arange(len(column))
        every = np.abs((places % 2 * 2.0 - 1) @ column)
        return _as_extreme(observed, every) / len(every)
    signs = rng.integers(0, 2, size=(permutations, len(column))) * 2.0 - 1
    return permutation_test(observed, np.abs(signs @ column))


def permutation_test(observed: float, draws: Floats) -> float:
    """P-value of a statistic among permuted ones, itself included (Phipson, Smyth 2010).

    >>> permutation_test(3.0, np.array([1.0, 2.0, 3.0]))
    0.5
    """
    return (_as_extreme(observed, draws) + 1) / (len(draws) + 1)


def _as_extreme(observed: float, draws: Floats) -> int:
    # Another order of additions may change the last bits of equal statistics.
    return int((draws >= observed - 1e-9 * abs(observed)).sum())
