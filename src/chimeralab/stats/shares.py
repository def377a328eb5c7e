"""A share of rows with an interval that keeps to 0..1, also for clustered or weighted rows."""

from dataclasses import dataclass

import numpy as np

from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import quotient
from chimeralab.stats.design import Design, Units, effective_units, units
from chimeralab.stats.intervals import Interval, normal_quantile, t_quantile, wilson
from chimeralab.stats.resample import jackknife


@dataclass(frozen=True, slots=True)
class Share:
    """Hits among the rows that could be hits; None where there are none to tell from."""

    value: float | None
    hits: int
    n: int
    interval: Interval | None


def share(hits: Floats, among: Floats, design: Design | None = None, level: float = 0.95) -> Share:
    """Share of hits with a Wilson interval on the effective number of rows.

    Clusters and weights shrink that number to what would give the same standard error (Korn,
    Graubard 1998); without them it is the number of rows.

    >>> result = share(np.array([1, 1, 0, 0]), np.array([1, 1, 1, 0]))
    >>> tuple(round(bound, 4) for bound in result.interval)
    (0.2077, 0.9385)
    """
    n, count = int(among.sum()), int(hits.sum())
    if n == 0:
        return Share(None, 0, 0, None)
    if design is None:
        return Share(count / n, count, n, wilson(count, n, level))
    rows = among > 0
    sample = units(np.column_stack([hits, among])[rows], design.keep(rows))
    value = float(quotient(sample.totals.sum(axis=0, keepdims=True))[0])
    effective = _effective_rows(sample, value, level)
    if effective is None:
        return Share(value, count, n, None)
    return Share(value, count, n, wilson(value * effective, effective, level))


def _effective_rows(sample: Units, value: float, level: float) -> float | None:
    result = jackknife(sample, quotient)
    if result.df < 1:
        return None
    # Without a single differing row the spread is unknown: each unit then counts as one row.
    error = result.standard_error
    rows = value * (1 - value) / error**2 if error else effective_units(sample, 1)
    small_sample = (normal_quantile(level) / t_quantile(result.df, level)) ** 2
    return min(rows, float(sample.totals[:, 1].sum())) * small_sample
