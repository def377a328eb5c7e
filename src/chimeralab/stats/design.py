"""How rows came into a sample: which belong together, from which stratum, standing for how many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, same_length

Column = Sequence[Any] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class SampleDesign:
    """The sampling design, one entry per row; what is None plays no part.

    Rows of one cluster are kept together. Strata are sampled apart from each other, unless a
    cluster reaches over several: then the clusters alone are the sampling units, which is the
    wider and safer reading. A weight says how many rows of the population a row stands for.
    """

    clusters: Column | None = None
    strata: Column | None = None
    weights: Sequence[float] | Floats | None = None

    def keep(self, rows: NDArray[np.bool_]) -> "SampleDesign":
        """The design of the rows that are marked."""
        same_length(rows=rows, clusters=self.clusters, strata=self.strata, weights=self.weights)
        return SampleDesign(
            *(
                None if column is None else np.asarray(column)[rows]
                for column in (self.clusters, self.strata, self.weights)
            )
        )


class Units(NamedTuple):
    """What is resampled as a whole: each unit's sums, and the stratum that it belongs to."""

    totals: Floats
    strata: Integers


def units(rows: Floats, design: SampleDesign | None = None) -> Units:
    """Weight the rows and add them up within each cluster; without clusters each row is a unit.

    >>> units(np.array([[1.0], [2.0], [4.0]]), SampleDesign(clusters=["a", "a", "b"])).totals
    array([[3.],
           [4.]])
    """
    design = design or SampleDesign()
    n = same_length(
        rows=rows, clusters=design.clusters, strata=design.strata, weights=design.weights
    )
    cluster = np.arange(n) if design.clusters is None else encode(design.clusters).codes
    stratum = np.zeros(n, np.intp) if design.strata is None else encode(design.strata).codes
    totals = cluster_totals(rows * row_weights(design, n)[:, None], cluster)
    return Units(totals, _unit_strata(cluster, stratum))


def effective_units(sample: Units, column: int) -> float:
    """How many equal units would weigh as much as these, by one of their sums (Kish 1965).

    >>> effective_units(Units(np.array([[1.0], [1.0], [2.0]]), np.zeros(3, np.intp)), 0)
    2.6666666666666665
    """
    weight = sample.totals[:, column]
    return float(weight.sum() ** 2 / (weight**2).sum())


def cluster_totals(rows: Floats, cluster: Integers) -> Floats:
    """The sum of the rows of each cluster, clusters numbered from 0.

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


def _unit_strata(cluster: Integers, stratum: Integers) -> Integers:
    if cluster.size == 0:
        return stratum
    pairs = np.unique(np.column_stack([cluster, stratum]), axis=0)
    if len(pairs) > cluster.max() + 1:
        return np.zeros(int(cluster.max()) + 1, np.intp)
    return pairs[:, 1]
