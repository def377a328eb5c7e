"""Intervals for any statistic of sums, by resampling whole units (rows, or clusters of rows).

A statistic is a function from many rows of sums to one number each, NaN where undefined. Because
resampling only changes the sums, ten thousand resamples are one product of two matrices.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, finite, optional
from chimeralab.stats.design import Units
from chimeralab.stats.intervals import Interval, percentile_interval, t_interval

Statistic = Callable[[Floats], Floats]

# Draws are made in portions of about this many numbers, so that memory stays small.
PORTION = 2_000_000


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A percentile interval, and how many of its resamples left the statistic undefined."""

    interval: Interval | None
    resamples: int
    undefined: int


@dataclass(frozen=True, slots=True)
class Jackknife:
    """An estimate with its standard error; None when leaving out a unit makes it undefined."""

    estimate: float | None
    standard_error: float | None
    df: int

    def interval(self, level: float = 0.95) -> Interval | None:
        """The t interval with units minus strata degrees of freedom."""
        if self.estimate is None or self.standard_error is None:
            return None
        return t_interval(self.estimate, self.standard_error, self.df, level)


def bootstrap(
    units: Units,
    statistic: Statistic,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Bootstrap:
    """Percentile interval over resamples of whole units within strata (Efron 1979).

    >>> sums = Units(np.array([[1.0, 2.0], [2.0, 2.0], [0.0, 2.0]]), np.zeros(3, np.intp))
    >>> rng = np.random.default_rng(1)
    >>> bootstrap(sums, lambda totals: totals[:, 0] / totals[:, 1], rng=rng).interval
    Interval(low=0.0, high=1.0)
    """
    if not len(units.totals):
        return Bootstrap(None, resamples, resamples)
    return summarise(bootstrap_draws(units, statistic, rng=rng, resamples=resamples), level)


def summarise(draws: Floats, level: float = 0.95) -> Bootstrap:
    """The percentile interval of the draws that are defined.

    >>> summarise(np.array([0.0, 40.0, np.nan]))
    Bootstrap(interval=Interval(low=1.0, high=39.0), resamples=3, undefined=1)
    """
    defined = draws[~np.isnan(draws)]
    interval = percentile_interval(defined, level) if defined.size else None
    return Bootstrap(interval, draws.size, int(draws.size - defined.size))


def bootstrap_draws(
    units: Units, statistic: Statistic, *, rng: np.random.Generator, resamples: int
) -> Floats:
    """The statistic in each resample; its values may be numbers or rows of numbers.

    >>> sums = Units(np.array([[1.0], [1.0]]), np.zeros(2, np.intp))
    >>> rng = np.random.default_rng(1)
    >>> bootstrap_draws(sums, lambda totals: totals[:, 0], rng=rng, resamples=3)
    array([2., 2., 2.])
    """
    portions = _resampled_totals(units, resamples, rng)
    return np.concatenate([statistic(totals) for totals in portions])


def jackknife(units: Units, statistic: Statistic) -> Jackknife:
    """Standard error from leaving out one unit at a time, within strata (Tukey 1958, Rust 1985).

    >>> sums = Units(np.array([[1.0, 2.0], [2.0, 2.0], [0.0, 2.0]]), np.zeros(3, np.intp))
    >>> round(jackknife(sums, lambda totals: totals[:, 0] / totals[:, 1]).standard_error, 4)
    0.2887
    """
    totals, strata = units
    df = len(totals) - len(np.unique(strata))
    estimate = optional(float(statistic(totals.sum(axis=0, keepdims=True))[0]))
    if estimate is None or df < 1:
        return Jackknife(estimate, None, df)
    variance = 0.0
    for stratum in np.unique(strata):
        without = statistic(_leave_one_out(units, stratum))
        size = len(without)
        variance += (size - 1) / size * float(((without - estimate) ** 2).sum())
    deviation = optional(variance)
    return Jackknife(estimate, None if deviation is None else deviation**0.5, df)


def _leave_one_out(units: Units, stratum: int) -> Floats:
    """All sums without one unit of the stratum, the others standing in for it."""
    members = units.totals[units.strata == stratum]
    if len(members) < 2:
        raise InputError(
            "a stratum holds one sampling unit, so its spread is unknown: merge it with another"
        )
    inside = members.sum(axis=0)
    outside = units.totals.sum(axis=0) - inside
    share = len(members) / (len(members) - 1)
    return np.asarray(outside + (inside - members) * share)


def _resampled_totals(units: Units, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Sums of resampled units, portion by portion. Units with equal sums are drawn as one kind."""
    kinds = [
        np.unique(units.totals[units.strata == stratum], axis=0, return_counts=True)
        for stratum in np.unique(units.strata)
    ]
    width = units.totals.shape[1] + max(len(counts) for _, counts in kinds)
    portion = max(1, PORTION // width)
    for start in range(0, resamples, portion):
        size = min(portion, resamples - start)
        yield sum(
            (
                rng.multinomial(counts.sum(), counts / counts.sum(), size=size) @ sums
                for sums, counts in kinds
            ),
            start=np.zeros((size, units.totals.shape[1])),
        )


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """Share of permutations at least as extreme as the data, the data itself counted in."""

    p: float
    permutations: int
    as_extreme: int


def permute_within(
    labels: Integers, blocks: Integers, permutations: int, rng: np.random.Generator
) -> Integers:
    """Labels shuffled among the places of their own block, one row for each permutation.

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
) -> PermutationTest:
    """Test that paired differences centre on zero: exchange the two conditions cluster by cluster.

    Where there are no more exchanges than ``permutations``, each is counted once (Fisher 1935).

    >>> sign_flip_test([0.2, 0.1, 0.4, 0.3, 0.2, 0.3], rng=np.random.default_rng(1))
    PermutationTest(p=0.03125, permutations=64, as_extreme=2)
    """
    column = finite(changes, "differences")
    if not column.size:
        raise InputError("differences: no cluster to compare")
    if 2 ** len(column) <= permutations:
        places = np.arange(2 ** len(column))[:, None] >> np.arange(len(column))
        every = np.abs((places % 2 * 2.0 - 1) @ column)
        as_extreme = permutation_test(abs(float(column.sum())), every).as_extreme
        return PermutationTest(as_extreme / len(every), len(every), as_extreme)
    signs = rng.integers(0, 2, size=(permutations, len(column))) * 2.0 - 1
    return permutation_test(abs(float(column.sum())), np.abs(signs @ column))


def permutation_test(observed: float, draws: Floats) -> PermutationTest:
    """P-value of an observed statistic among permuted ones (Phipson, Smyth 2010).

    >>> permutation_test(3.0, np.array([1.0, 2.0, 3.0])).p
    0.5
    """
    # Equal statistics reached by another order of additions may differ in the last bits.
    as_extreme = int((draws >= observed - 1e-9 * abs(observed)).sum())
    return PermutationTest((as_extreme + 1) / (len(draws) + 1), len(draws), as_extreme)
