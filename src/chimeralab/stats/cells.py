"""Runs sorted into cells: one cell holds the repeats of one prompt under one condition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, ratios, same_length
from chimeralab.stats.design import Column


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
        """These conditions only, in this order, and the clusters that have a run under each.

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
    """Sort the values into cells.

    >>> cells_of([1.0, 2.0, 6.0], ["A", "B", "A"], ["x", "x", "x"]).means
    array([[3.5, 2. ]])
    """
    column = finite(values, "values")
    same_length(values=column, conditions=conditions, clusters=clusters)
    row, col = encode(clusters), encode(conditions)
    shape = (len(row.names), len(col.names))
    cell = row.codes * shape[1] + col.codes
    counts = np.bincount(cell, minlength=shape[0] * shape[1])
    means = ratios(np.bincount(cell, weights=column, minlength=counts.size), counts)
    deviations = (column - means[cell]) ** 2
    squares = np.bincount(cell, weights=deviations, minlength=counts.size)
    return Cells(
        row.names,
        col.names,
        counts.astype(np.intp).reshape(shape),
        means.reshape(shape),
        squares.astype(np.float64).reshape(shape),
    )
