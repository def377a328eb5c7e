"""Adding up products of columns, by session or by cluster, missing cells left out."""

from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from chimeralab.stats.arrays import Floats, Integers


class Filled(NamedTuple):
    """A column with 0 for what is missing, and 1 where a cell is known; None: all are."""

    number: Floats
    known: Floats | None


def filled(column: Floats | None, rows: int) -> Filled:
    """The column made ready for products; one that is not there is missing in every row.

    >>> filled(np.array([0.5, np.nan]), 2)
    Filled(number=array([0.5, 0. ]), known=array([1., 0.]))
    """
    if column is None:
        return Filled(np.zeros(rows), np.zeros(rows))
    missing = np.isnan(column)
    if not missing.any():
        return Filled(column, None)
    return Filled(np.where(missing, 0.0, column), (~missing).astype(np.float64))


@dataclass(frozen=True, slots=True)
class Sessions:
    """The first row of each session, and the number of rows."""

    starts: Integers
    rows: int

    def total(self, *factors: Floats | None) -> Floats:
        """The sum over each session of the factors' product; None stands for ones.

        >>> Sessions(np.array([0, 2]), 3).total(np.array([1.0, 2.0, 4.0]), None)
        array([3., 4.])
        """
        product = _product(factors)
        if product is None:
            return np.diff(self.starts, append=self.rows).astype(np.float64)
        return np.asarray(np.add.reduceat(product, self.starts))


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each row, counted from 0; without codes, all rows are one cluster."""

    count: int
    rows: int
    codes: Integers | None = None

    def of(self, rows: Integers) -> "Clusters":
        """The clusters of some of the rows."""
        return Clusters(self.count, len(rows), None if self.codes is None else self.codes[rows])

    def total(self, *factors: Floats | None) -> Floats:
        """The sum over each cluster of the factors' product; None stands for ones.

        >>> Clusters(2, 3, np.array([0, 1, 0])).total(np.array([1.0, 2.0, 4.0]))
        array([5., 2.])
        """
        product = _product(factors)
        if self.codes is None:
            return np.array([self.rows if product is None else product.sum()], np.float64)
        sums = np.bincount(self.codes, weights=product, minlength=self.count)
        return np.asarray(sums, np.float64)


def absolute_steps(column: Floats, session: Integers) -> Floats:
    """Each number's distance from the last one that its session states; 0 where there is none.

    >>> absolute_steps(np.array([0.5, np.nan, 0.75, 0.0]), np.array([0, 0, 0, 1]))
    array([0.  , 0.  , 0.25, 0.  ])
    """
    known = ~np.isnan(column)
    steps = np.zeros(len(column))
    if not known.all():
        steps[known] = absolute_steps(column[known], session[known])
        return steps
    np.subtract(column[1:], column[:-1], out=steps[1:])
    steps[1:] *= session[1:] == session[:-1]
    return np.abs(steps, out=steps)


def _product(factors: tuple[Floats | None, ...]) -> Floats | None:
    given = [factor for factor in factors if factor is not None]
    return reduce(np.multiply, given) if given else None
