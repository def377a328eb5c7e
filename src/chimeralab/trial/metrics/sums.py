"""Sums of trials by session and by cluster, one block of rows at a time, missing cells left out."""

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers
from chimeralab.trial.columns import MatchedPairs, TrialColumns, matched_pairs

# Blocks of this many rows stay in the processor's cache, and memory does not grow with the trials.
BLOCK_ROWS = 32_768


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
class Stretches:
    """Rows that lie together: the first row of each stretch, and the number of all rows."""

    starts: Integers
    rows: int

    def total(self, *factors: Floats | None) -> Floats:
        """The sum over each stretch of the factors' product; None stands for ones.

        >>> Stretches(np.array([0, 2]), 3).total(np.array([1.0, 2.0, 4.0]), None)
        array([3., 4.])
        """
        product = _product(factors)
        if product is None:
            return np.diff(self.starts, append=self.rows).astype(np.float64)
        return np.asarray(np.add.reduceat(product, self.starts))


@dataclass(frozen=True)
class Block:
    """Whole sessions with whole pairs; `stretches` are cut where the scenario changes too."""

    columns: TrialColumns
    pairs: MatchedPairs

    @cached_property
    def sessions(self) -> Stretches:
        return Stretches(self.columns.starts, len(self.columns))

    @cached_property
    def stretches(self) -> Stretches:
        columns = self.columns
        if columns.scenario is None:
            return self.sessions
        new = np.ones(len(columns), dtype=bool)
        new[1:] = (np.diff(columns.session) != 0) | (np.diff(columns.scenario) != 0)
        return Stretches(np.flatnonzero(new), len(columns))

    @cached_property
    def pair_stretches(self) -> MatchedPairs:
        """The stretches, in place of the rows, that the halves of each pair are in."""
        starts, rows = self.stretches.starts, self.stretches.rows
        codes = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows))
        neutral, biased, unpaired = self.pairs
        return MatchedPairs(codes[neutral], codes[biased], unpaired)

    def pair_total(self, *factors: Floats | None) -> Floats:
        """The sum of a product over the pairs whose neutral half is in each stretch."""
        place, count = self.pair_stretches.neutral, len(self.stretches.starts)
        return np.bincount(place, _product(factors), minlength=count).astype(np.float64)


def blocks(columns: TrialColumns) -> list[Block]:
    """The trials in blocks of about `BLOCK_ROWS`, or in a single one where pairs lie far apart."""
    starts = columns.starts
    found = np.searchsorted(starts, np.arange(BLOCK_ROWS, len(columns), BLOCK_ROWS))
    cuts = np.unique(starts[found[found < len(starts)]])
    if not _pairs_keep_within(columns.pair, cuts):
        return [Block(columns, matched_pairs(columns))]
    parts = [columns.keep(slice(*edge)) for edge in pairwise([0, *cuts.tolist(), len(columns)])]
    try:
        return [Block(part, matched_pairs(part)) for part in parts]
    except InputError:
        # The whole table names the row as its reader counts it.
        matched_pairs(columns)
        raise


def _pairs_keep_within(pair: Integers | None, cuts: Integers) -> bool:
    """Whether pairs come in order and no cut goes through one."""
    if pair is None or not len(cuts):
        return True
    in_order = all(bool((part[1:] >= part[:-1]).all()) for part in np.split(pair, cuts))
    return in_order and bool((pair[cuts - 1] < pair[cuts]).all())


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


def answer_gap(columns: TrialColumns, one: Floats | None, other: Floats | None) -> Floats | None:
    """How far apart two columns of answers are, row by row; NaN where either is missing."""
    if one is None or other is None:
        return None
    if not columns.categories:
        return np.abs(one - other)
    return np.where(np.isnan(one) | np.isnan(other), np.nan, one != other)


def cluster_codes(scenario: Integers, session: Integers) -> Integers:
    """Trials of one scenario are a cluster, else those of one session; numbered without gaps.

    >>> cluster_codes(np.array([4, -1, 4, -1]), np.array([0, 1, 2, 3]))
    array([0, 1, 0, 2])
    """
    scenarios = int(scenario.max(initial=-1)) + 1
    labels = np.where(scenario >= 0, scenario, scenarios + session)
    met = np.zeros(int(labels.max(initial=-1)) + 1, dtype=np.intp)
    met[labels] = 1
    return (np.cumsum(met) - 1)[labels]


def merged(codes: Integers, links: NDArray[np.intp]) -> Integers:
    """Clusters after joining those that share a pair, which resampling would split otherwise.

    >>> merged(np.array([0, 1, 2]), np.array([[0, 2]]))
    array([0, 1, 0])
    """
    size = int(codes.max(initial=-1)) + 1
    one, other = codes[links].reshape(-1, 2).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(size, size))
    group = connected_components(graph, directed=False)[1]
    return np.asarray(group, np.intp)[codes]


def _product(factors: tuple[Floats | None, ...]) -> Floats | None:
    given = [factor for factor in factors if factor is not None]
    return reduce(np.multiply, given) if given else None
