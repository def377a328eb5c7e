"""Clustered runs: repeats of one prompt are not independent.

A cell has the repeats of one prompt under one condition. Means and shares allow for clusters, and
shares for weights too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, optional, ratios, same_length
from chimeralab.stats.intervals import (
    Estimate,
    Interval,
    normal_quantile,
    percentile_interval,
    share_interval,
    student_sf,
    t_interval,
    t_quantile,
    wilson,
)
from chimeralab.stats.resample import (
    Column,
    SampleDesign,
    bootstrap,
    cluster_totals,
    effective_units,
    jackknife,
    units,
)


@dataclass(frozen=True, slots=True)
class Cells:
    """Size, mean and squared deviations of each cell; clusters are rows, conditions columns.

    The mean of an empty cell is NaN.
    """

    clusters: tuple[Any, ...]
    conditions: tuple[Any, ...]
    counts: Integers
    means: Floats
    squares: Floats

    def columns(self, conditions: Sequence[Any]) -> "Cells":
        """Select conditions, in this order, and the clusters that have a run under each.

        >>> cells = cells_of([1.0, 2.0, 3.0], ["A", "B", "A"], ["x", "x", "y"])
        >>> cells.columns(["B", "A"]).means
        array([[2., 1.]])
        """
        unknown = [name for name in conditions if name not in self.conditions]
        if unknown:
            known = ", ".join(map(str, self.conditions))
            raise InputError(f"unknown condition '{unknown[0]}'; known: {known}")
        where = np.array([self.conditions.index(name) for name in conditions], dtype=np.intp)
        complete = np.flatnonzero((self.counts[:, where] > 0).all(axis=1))
        picked = np.ix_(complete, where)
        return Cells(
            tuple(self.clusters[place] for place in complete),
            tuple(conditions),
            self.counts[picked],
            self.means[picked],
            self.squares[picked],
        )


def cells_of(values: ArrayLike, conditions: Column, clusters: Column) -> Cells:
    """Tabulate values by cluster and condition.

    >>> cells_of([1.0, 2.0, 6.0], ["A", "B", "A"], ["x", "x", "x"]).means
    array([[3.5, 2. ]])
    """
    column = finite(values, "values")
    same_length(values=column, conditions=conditions, clusters=clusters)
    (rows, row), (columns, col) = encode(clusters), encode(conditions)
    shape = (len(rows), len(columns))
    cell = row * shape[1] + col
    counts = np.bincount(cell, minlength=shape[0] * shape[1])
    means = ratios(np.bincount(cell, weights=column, minlength=counts.size), counts)
    deviations = (column - means[cell]) ** 2
    squares = np.bincount(cell, weights=deviations, minlength=counts.size)
    return Cells(
        rows,
        columns,
        counts.astype(np.intp).reshape(shape),
        means.reshape(shape),
        squares.astype(np.float64).reshape(shape),
    )


@dataclass(frozen=True, slots=True)
class ClusterMean:
    """A mean with its cluster-robust standard error; None for what the clusters can't estimate.

    ``se_ratio`` is the naive standard error over the clustered one; below 1, an analysis that
    treats the rows as independent overclaims.
    """

    n: int
    clusters: int
    mean: float
    standard_error: float | None
    se_ratio: float | None
    icc: float | None
    design_effect: float | None
    interval: Interval | None

    def share_interval(self, level: float = 0.95) -> Interval | None:
        """The interval of a mean of shares, within 0 and 1; None without a standard error."""
        if not self.standard_error:
            return None
        return share_interval(self.mean, self.standard_error, self.clusters - 1, level)


def cluster_mean(values: ArrayLike, clusters: Column, level: float = 0.95) -> ClusterMean:
    """Mean of all rows with a t interval on (clusters - 1) degrees of freedom.

    The standard error is the cluster-robust one; with clusters of equal size it is that of the
    mean of the cluster means (Donner, Klar 2000).

    >>> result = cluster_mean([0.1, 0.3, 0.6, 0.8], ["a", "a", "b", "b"])
    >>> round(result.mean, 2), round(result.standard_error, 2), round(result.icc, 2)
    (0.45, 0.25, 0.85)
    """
    column, code = _columns(values, clusters)
    groups = int(code.max()) + 1
    mean, error = float(column.mean()), _clustered_error(column, code)
    naive = float(column.std(ddof=1) / len(column) ** 0.5) if len(column) > 1 else None
    icc = intraclass_correlation(column, code)
    return ClusterMean(
        n=len(column),
        clusters=groups,
        mean=mean,
        standard_error=error,
        se_ratio=naive / error if naive is not None and error else None,
        icc=icc,
        design_effect=None if icc is None else design_effect(icc, _typical_size(code)),
        interval=t_interval(mean, error, groups - 1, level) if error else None,
    )


class ClusterSlope(NamedTuple):
    """A least-squares slope with its cluster-robust standard error, and the naive one."""

    value: float
    standard_error: float
    naive_error: float
    n: int
    clusters: int

    def interval(self, level: float = 0.95) -> Interval:
        return t_interval(self.value, self.standard_error, self.clusters - 1, level)

    def naive_interval(self, level: float = 0.95) -> Interval:
        return t_interval(self.value, self.naive_error, self.n - 2, level)

    @property
    def p(self) -> float | None:
        if not self.standard_error:
            return None
        return 2 * student_sf(abs(self.value / self.standard_error), self.clusters - 1)


def cluster_slope(x: ArrayLike, y: ArrayLike, clusters: Column) -> ClusterSlope | None:
    """Regress y on x; clusters may differ in any way (Liang, Zeger 1986, with Stata's correction).

    None if x does not vary or there are fewer than two clusters or three rows.

    >>> found = cluster_slope([0, 1, 2, 3], [0.0, 1.2, 1.8, 3.3], ["a", "a", "b", "b"])
    >>> round(found.value, 2), round(found.standard_error, 4)
    (1.05, 0.0367)
    """
    predictor, (outcome, code) = finite(x, "x"), _columns(y, clusters)
    n, groups = same_length(x=predictor, y=outcome), int(code.max()) + 1
    centred = predictor - predictor.mean()
    spread = float((centred**2).sum())
    if groups < 2 or n < 3 or np.ptp(predictor) == 0:
        return None
    value = float(centred @ outcome) / spread
    residuals = outcome - outcome.mean() - value * centred
    scores = np.bincount(code, weights=centred * residuals)
    correction = groups / (groups - 1) * (n - 1) / (n - 2)
    return ClusterSlope(
        value,
        float(np.sqrt(correction * (scores**2).sum())) / spread,
        float(np.sqrt((residuals**2).sum() / (n - 2) / spread)),
        n,
        groups,
    )


def ranks(values: ArrayLike) -> Floats:
    """Ranks from 1; equal values share the mean of theirs.

    >>> ranks([3, 1, 3])
    array([2.5, 1. , 2.5])
    """
    _, code, counts = np.unique(finite(values, "values"), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[code.ravel()], dtype=np.float64)


def intraclass_correlation(values: ArrayLike, clusters: Column) -> float | None:
    """The intraclass correlation from one-way analysis of variance (Fisher 1925).

    None without two clusters or a repeat, or if nothing varies.

    >>> round(intraclass_correlation([0.1, 0.3, 0.6, 0.8], ["a", "a", "b", "b"]), 4)
    0.8519
    """
    column, code = _columns(values, clusters)
    sizes = np.bincount(code)
    n, groups = len(column), len(sizes)
    if groups < 2 or n == groups:
        return None
    means = np.bincount(code, weights=column) / sizes
    between = float((sizes * (means - column.mean()) ** 2).sum()) / (groups - 1)
    within = float(((column - means[code]) ** 2).sum()) / (n - groups)
    return optional(float(ratios(between - within, between + (_typical_size(code) - 1) * within)))


def design_effect(icc: float, cluster_size: float) -> float:
    """The factor by which clustering inflates the variance of a mean (Kish 1965).

    >>> round(design_effect(0.307, 5), 3)
    2.228
    """
    return 1 + (cluster_size - 1) * icc


def mean_bootstrap(
    values: ArrayLike,
    clusters: Column,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Interval | None:
    """Percentile interval of the mean, whole clusters resampled (Davison, Hinkley 1997).

    >>> rng = np.random.default_rng(1)
    >>> interval = mean_bootstrap([0.1, 0.3, 0.6, 0.8], ["a", "a", "b", "b"], rng=rng)
    >>> tuple(round(bound, 2) for bound in interval)
    (0.2, 0.7)
    """
    column, code = _columns(values, clusters)
    sums = cluster_totals(np.column_stack([column, np.ones(len(column))]), code)
    return percentile_interval(bootstrap(sums, quotient, rng=rng, resamples=resamples), level)


def mean_bootstrap_t(
    values: ArrayLike,
    clusters: Column,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Interval | None:
    """Bootstrap-t interval of the mean, which allows for skewness (Efron 1981).

    A resample without differing clusters has no t statistic and is left out.

    >>> rng, values = np.random.default_rng(1), [0.0, 0.1, 0.2, 0.3, 0.5, 0.9]
    >>> interval = mean_bootstrap_t(values, [1, 2, 3, 4, 5, 6], rng=rng)
    >>> tuple(round(bound, 1) for bound in interval)
    (0.1, 1.0)
    """
    column, code = _columns(values, clusters)
    mean, error = float(column.mean()), _clustered_error(column, code)
    if not error:
        return None
    sums = cluster_totals(np.column_stack([column - mean, np.ones(len(column))]), code)

    def t_bound(totals: Floats) -> Floats:
        return mean - error * _t_statistics(totals, len(sums))

    products = np.column_stack([sums, sums[:, 0] ** 2, sums[:, 0] * sums[:, 1], sums[:, 1] ** 2])
    return percentile_interval(bootstrap(products, t_bound, rng=rng, resamples=resamples), level)


def quotient(totals: Floats) -> Floats:
    """First sum over second sum: a mean, or a share of weighted rows.

    >>> quotient(np.array([[1.0, 4.0], [0.0, 0.0]]))
    array([0.25,  nan])
    """
    return ratios(totals[:, 0], totals[:, 1])


def _t_statistics(totals: Floats, groups: int) -> Floats:
    """Mean over its clustered standard error, from sums of s, n, ss, sn and nn over clusters."""
    s, n, ss, sn, nn = totals.T
    mean = s / n
    squares = np.maximum(ss - 2 * mean * sn + mean**2 * nn, 0)
    # Identical clusters differ by rounding only.
    squares[squares < 1e-12 * ss] = 0
    return ratios(s, np.sqrt(squares * groups / (groups - 1)))


def _clustered_error(column: Floats, code: Integers) -> float | None:
    groups = int(code.max()) + 1
    if groups < 2:
        return None
    if np.ptp(column) == 0:
        return 0.0
    residuals = np.bincount(code, weights=column - column.mean())
    return float(np.sqrt(groups / (groups - 1) * (residuals**2).sum()) / len(column))


def _typical_size(code: Integers) -> float:
    """The equivalent size of unequal clusters in analysis of variance."""
    sizes = np.bincount(code)
    if len(sizes) < 2:
        return float(sizes.sum())
    return float((sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(sizes) - 1))


def _columns(values: ArrayLike, clusters: Column) -> tuple[Floats, Integers]:
    column = finite(values, "values")
    if same_length(values=column, clusters=clusters) == 0:
        raise InputError("values: no row to analyse")
    return column, encode(clusters)[1]


@dataclass(frozen=True, slots=True)
class Proportion:
    """A share of hits with its interval; None without rows."""

    value: float | None
    hits: int
    n: int
    interval: Interval | None


def share(
    hits: Floats, among: Floats, design: SampleDesign | None = None, level: float = 0.95
) -> Proportion:
    """Share of hits with a Wilson interval on the effective number of rows.

    Clusters and weights reduce the number of rows to the one with the same standard error (Korn,
    Graubard 1998).

    >>> result = share(np.array([1, 1, 0, 0]), np.array([1, 1, 1, 0]))
    >>> tuple(round(bound, 4) for bound in result.interval)
    (0.2077, 0.9385)
    """
    n, count = int(among.sum()), int(hits.sum())
    if n == 0:
        return Proportion(None, 0, 0, None)
    if design is None:
        return Proportion(count / n, count, n, wilson(count, n, level))
    rows = among > 0
    totals, strata = units(np.column_stack([hits, among])[rows], design.keep(rows))
    spread = jackknife(totals, quotient, strata)
    value = float(quotient(totals.sum(axis=0, keepdims=True))[0])
    return Proportion(value, count, n, effective_wilson(value, spread, totals[:, 1], level))


def effective_wilson(
    value: float, spread: Estimate, rows: Floats, level: float = 0.95
) -> Interval | None:
    """Wilson interval on the number of rows with the same standard error; `rows` are by unit."""
    if spread.df < 1:
        return None
    # If no row differs, the spread is unknown, and each unit counts as one row.
    error = spread.standard_error
    equivalent = effective_units(rows)
    if error and 0 < value < 1:
        equivalent = value * (1 - value) / error**2
    small_sample = (normal_quantile(level) / t_quantile(spread.df, level)) ** 2
    effective = min(equivalent, float(rows.sum())) * small_sample
    return wilson(value * effective, effective, level)
