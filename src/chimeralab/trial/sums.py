"""Sums over trials, block by block, and MCI, GFQ and DFS as functions of the sums.

Sums are arrays by name, with an entry per session, per stretch of trials or per cluster. Missing
cells are skipped.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, ratios
from chimeralab.trial.columns import TrialColumns, match_pairs

# Blocks of this many rows fit the CPU cache and keep memory constant.
BLOCK_ROWS = 32_768
# With more levels of confidence than this, intervals round it to two decimals to bound memory.
MAX_LEVELS = 101
# An answer halfway between signal and truth does not follow the signal, despite rounding.
ROUNDING = 1e-9
CALIBRATION_BINS = 10

Sums = dict[str, Floats]
# Levels of confidence, and answers by row, by familiar or novel, by wrong or right, and by level.
LevelTable = tuple[Floats, Floats]


def fill_missing(column: Floats | None, rows: int) -> tuple[Floats, Floats | None]:
    """A column with missing cells set to 0, and its mask of known cells (None if all are).

    >>> fill_missing(np.array([0.5, np.nan]), 2)
    (array([0.5, 0. ]), array([1., 0.]))
    """
    if column is None:
        return np.zeros(rows), np.zeros(rows)
    missing = np.isnan(column)
    if not missing.any():
        return column, None
    return np.where(missing, 0.0, column), (~missing).astype(np.float64)


class Block:
    """Complete sessions with complete pairs, whose members are the rows `neutral` and `biased`.

    A stretch ends where the session or the scenario changes.
    """

    def __init__(self, columns: TrialColumns) -> None:
        self.columns = columns
        self.neutral, self.biased, self.unpaired = match_pairs(columns)

    @cached_property
    def sessions(self) -> Integers:
        """The first row of each session."""
        return self.columns.starts

    @cached_property
    def stretches(self) -> Integers:
        """The first row of each stretch."""
        columns = self.columns
        if columns.scenario is None:
            return self.sessions
        new = np.ones(len(columns), dtype=bool)
        new[1:] = (np.diff(columns.session) != 0) | (np.diff(columns.scenario) != 0)
        return np.flatnonzero(new)

    @cached_property
    def pair_stretches(self) -> tuple[Integers, Integers]:
        """The stretches of the neutral and the biased member of each pair."""
        codes = np.repeat(np.arange(len(self.stretches)), self.lengths(self.stretches))
        return codes[self.neutral], codes[self.biased]

    def lengths(self, starts: Integers) -> Integers:
        return np.diff(starts, append=len(self.columns))

    def total(self, starts: Integers, *factors: Floats | None) -> Floats:
        """The sum of the product of factors from each start to the next; None stands for ones.

        >>> block = Block(TrialColumns(np.array([0, 0, 1])))
        >>> block.total(block.sessions, np.array([1.0, 2.0, 4.0]), None)
        array([3., 4.])
        """
        product = _product(factors)
        if product is None:
            return self.lengths(starts).astype(np.float64)
        return np.asarray(np.add.reduceat(product, starts))

    def pair_total(self, *factors: Floats | None) -> Floats:
        """The sum of a product over the pairs whose neutral member is in each stretch."""
        place, count = self.pair_stretches[0], len(self.stretches)
        return np.bincount(place, _product(factors), minlength=count).astype(np.float64)


def split_blocks(columns: TrialColumns) -> list[Block]:
    """Split trials into blocks of about `BLOCK_ROWS`; one block if pairs span them."""
    starts = columns.starts
    found = np.searchsorted(starts, np.arange(BLOCK_ROWS, len(columns), BLOCK_ROWS))
    cuts = np.unique(starts[found[found < len(starts)]])
    pair = columns.pair
    if pair is not None and len(cuts):
        in_order = all((part[1:] >= part[:-1]).all() for part in np.split(pair, cuts))
        # Pairs out of order, or across a cut, need the whole table.
        if not in_order or (pair[cuts - 1] >= pair[cuts]).any():
            return [Block(columns)]
    parts = [columns.keep(slice(*edge)) for edge in pairwise([0, *cuts.tolist(), len(columns)])]
    try:
        return [Block(part) for part in parts]
    except InputError:
        # Match the whole table, so that the error has the right row number.
        match_pairs(columns)
        raise


def _product(factors: tuple[Floats | None, ...]) -> Floats | None:
    given = [factor for factor in factors if factor is not None]
    return reduce(np.multiply, given) if given else None


def absolute_steps(column: Floats, session: Integers) -> Floats:
    """The absolute difference of each number from the last one in its session, or 0.

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
    """The distance of two columns of answers, row by row; NaN where either is missing."""
    if one is None or other is None:
        return None
    if not columns.categories:
        return np.abs(one - other)
    return np.where(np.isnan(one) | np.isnan(other), np.nan, one != other)


def session_sums(block: Block) -> Sums:
    """The sums behind MCI and GFQ, per session."""
    columns, rows = block.columns, len(block.columns)
    correct, judged = fill_missing(columns.correct, rows)
    weight, weighed = fill_missing(columns.weight, rows)
    confidence, stated = fill_missing(columns.confidence, rows)
    novel, marked = fill_missing(columns.novel, rows)
    steps = absolute_steps(
        confidence if columns.confidence is None else columns.confidence, columns.session
    )

    def total(*factors: Floats | None) -> Floats:
        return block.total(block.sessions, *factors)

    novel_judged, novel_right = total(novel, judged), total(novel, correct)
    return {
        "judged": total(judged),
        "right": total(correct),
        "stated": total(stated),
        "movement": total(steps),
        "weighed": total(judged, weighed),
        "weight": total(judged, weight),
        "weighted_right": total(correct, weight),
        "novel": novel_judged,
        "novel_right": novel_right,
        "novel_stated": total(novel, judged, stated),
        "confident_right": total(novel, correct, confidence),
        "seen": total(marked, judged) - novel_judged,
        "seen_right": total(marked, correct) - novel_right,
    }


def mci_parts(sums: Mapping[str, Floats], weights: tuple[float, float, float]) -> Sums:
    """Memory Coherence Index with its parts and the highest index possible; NaN where undefined.

    Source: the sandbox's methods, section 3.2.1. The parts are recall fidelity, continuity
    integrity and context binding. The ceiling is defined where the index is, or else `possible`.

    >>> names = "judged", "right", "stated", "movement", "weighed", "weight", "weighted_right"
    >>> sums = dict(zip(names, np.array([[5.0], [3.0], [5.0], [0.8], [5.0], [3.5], [1.75]])))
    >>> mci_parts(sums, (0.4, 0.3, 0.3))["mci"].round(3)
    array([0.585])
    """
    rf = ratios(sums["right"], sums["judged"])
    ci = 1 - ratios(sums["movement"], np.maximum(sums["stated"] - 1, 0))
    cb = ratios(sums["weighted_right"], sums["weighed"])
    highest = ratios(sums["weight"], sums["weighed"])
    value = weighted_sum(weights, rf, ci, cb)
    possible = weighted_sum(weights, np.ones_like(rf), np.ones_like(rf), highest)
    # Index and ceiling are averaged over the same sessions, or an index could exceed its ceiling.
    ceiling = np.where(np.isnan(value), np.nan, possible)
    parts = {"mci": value, "mci.rf": rf, "mci.ci": ci, "mci.cb": cb}
    return {**parts, "mci.ceiling": ceiling, "mci.possible": possible}


def gfq_parts(sums: Mapping[str, Floats], weights: tuple[float, float]) -> Sums:
    """Generalization Fidelity Quotient with its parts; NaN where undefined.

    Source: the sandbox's methods, section 3.2.2. The parts are task accuracy and confidence-task
    agreement on novel trials.

    >>> names = "novel", "novel_right", "novel_stated", "confident_right"
    >>> sums = dict(zip(names, np.array([[5.0], [3.0], [5.0], [2.2]])))
    >>> gfq_parts(sums, (0.6, 0.4))["gfq"].round(3)
    array([0.536])
    """
    ta = ratios(sums["novel_right"], sums["novel"])
    cta = ratios(sums["confident_right"], sums["novel_stated"])
    return {"gfq": weighted_sum(weights, ta, cta), "gfq.ta": ta, "gfq.cta": cta}


def frame_sums(block: Block) -> Sums:
    """The sums behind DFS, per stretch.

    A pair counts if both members are answered. A neutral trial always counts, with no error; a
    biased one counts if its answer and the truth are known.
    """
    columns = block.columns
    answers, shifts = columns.response, None
    if answers is not None:
        shifts = answer_gap(columns, answers[block.neutral], answers[block.biased])
    shift, paired = fill_missing(shifts, len(block.neutral))
    bias, stated = fill_missing(columns.bias, len(columns))
    error, known = fill_missing(answer_gap(columns, answers, columns.truth), len(columns))

    def total(*factors: Floats | None) -> Floats:
        return block.total(block.stretches, *factors)

    flagged, biased = total(bias), total(bias, known)
    return {
        "pairs": block.pair_total(paired),
        "shift": block.pair_total(shift),
        "trials": total(stated) - flagged + biased,
        "flagged": flagged,
        "biased": biased,
        "error": total(bias, error),
    }


def dfs_parts(sums: Mapping[str, Floats], weights: tuple[float, float]) -> Sums:
    """Decision Frame Stability with its parts, and bias resistance without the neutral trials.

    Source: the sandbox's methods, section 3.2.3, which uses one N for both parts; here frame
    invariance is over the matched pairs and bias resistance over all trials. NaN where undefined.

    >>> names = "pairs", "shift", "trials", "flagged", "biased", "error"
    >>> sums = dict(zip(names, np.array([[5.0], [2.0], [10.0], [5.0], [5.0], [1.0]])))
    >>> [float(part[0].round(3)) for part in dfs_parts(sums, (0.5, 0.5)).values()]
    [0.75, 0.6, 0.9, 0.8]
    """
    fi = 1 - ratios(sums["shift"], sums["pairs"])
    # If none of the biased trials can be judged, the neutral ones alone say nothing.
    trials = np.where((sums["flagged"] > 0) & (sums["biased"] == 0), 0, sums["trials"])
    br = 1 - ratios(sums["error"], trials)
    biased_only = 1 - ratios(sums["error"], sums["biased"])
    value = weighted_sum(weights, fi, br)
    return {"dfs": value, "dfs.fi": fi, "dfs.br": br, "br_biased_only": biased_only}


def weighted_sum(weights: tuple[float, ...], *parts: Floats) -> Floats:
    """The weighted sum of parts; a part of weight 0 may be undefined.

    >>> weighted_sum((1.0, 0.0), np.array([0.5]), np.array([np.nan]))
    array([0.5])
    """
    counted = [weight * part for weight, part in zip(weights, parts, strict=True) if weight]
    return np.asarray(np.sum(counted, axis=0))


def pressure_sums(block: Block) -> Sums:
    """Counts of the effect of signals, per stretch.

    ``signalled`` are the biased trials with a misleading signal, ``toward`` those of them answered
    nearer to the signal than to the truth. Of the ``compared`` pairs, in ``b`` only the neutral
    member is right and in ``c`` only the biased one (McNemar 1947).
    """
    columns = block.columns
    toward, signalled = fill_missing(_toward(columns), len(columns))
    neutral, biased = _right(columns, block.neutral), _right(columns, block.biased)
    turned_wrong, compared = fill_missing(neutral * (1 - biased), len(neutral))
    turned_right, _ = fill_missing((1 - neutral) * biased, len(neutral))
    return {
        "signalled": block.total(block.stretches, signalled),
        "toward": block.total(block.stretches, toward),
        "compared": block.pair_total(compared),
        "b": block.pair_total(turned_wrong),
        "c": block.pair_total(turned_right),
    }


def _toward(columns: TrialColumns) -> Floats | None:
    """Whether a misleading signal was followed; NaN where there was none."""
    to_signal = answer_gap(columns, columns.response, columns.signal)
    to_truth = answer_gap(columns, columns.response, columns.truth)
    misled_by = answer_gap(columns, columns.signal, columns.truth)
    if to_signal is None or to_truth is None or misled_by is None:
        return None
    misleading = (columns.bias == 1) & (misled_by > 0) & ~np.isnan(to_signal)
    return np.where(misleading, to_signal < to_truth - ROUNDING, np.nan)


def _right(columns: TrialColumns, rows: Integers) -> Floats:
    """Whether the answers of some rows are right: as stated, or else if they equal the truth."""
    correct, response, truth = (
        None if column is None else column[rows]
        for column in (columns.correct, columns.response, columns.truth)
    )
    stated = np.full(len(rows), np.nan) if correct is None else correct
    missed = answer_gap(columns, response, truth)
    if missed is None:
        return stated
    equal = np.where(np.isnan(missed), np.nan, missed == 0)
    return np.where(np.isnan(stated), equal, stated)


def level_counts(
    columns: TrialColumns, row: Integers | None = None, rows: int = 1, limit: int | None = None
) -> LevelTable:
    """Count the judged answers of each row at each level of confidence.

    `row` is the row in which each trial is counted, by default a single one. With more than `limit`
    levels, confidence is rounded to two decimals.
    """
    level, correct = columns.confidence, columns.correct
    if level is None or correct is None:
        return np.empty(0), np.empty((rows, 2, 2, 0))
    novel = np.zeros(len(columns), bool) if columns.novel is None else columns.novel == 1
    row = np.zeros(len(columns), np.intp) if row is None else row
    known = ~np.isnan(level + correct)
    if not known.all():
        level, correct, novel, row = level[known], correct[known], novel[known], row[known]
    levels, place = _levels(level, limit)
    cell = ((row * 2 + novel) * 2 + (correct == 1)) * len(levels) + place
    flat = np.bincount(cell, minlength=rows * 4 * len(levels)).astype(np.float64)
    return levels, flat.reshape(rows, 2, 2, len(levels))


def _levels(stated: Floats, limit: int | None) -> tuple[Floats, Integers]:
    """The distinct levels in ascending order, and the index of each confidence among them."""
    hundredths = np.rint(stated * 100)
    if (hundredths / 100 == stated).all():
        # The common case, which needs no sorting.
        codes = hundredths.astype(np.intp)
        used = np.bincount(codes, minlength=101) > 0
        return np.flatnonzero(used) / 100, (np.cumsum(used) - 1)[codes]
    levels, place = np.unique(stated, return_inverse=True)
    return _levels(stated.round(2), None) if limit and len(levels) > limit else (levels, place)


def join_counts(parts: Sequence[LevelTable]) -> LevelTable:
    """Merge the counts of several tables of one row."""
    levels, place = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    flat = np.concatenate([part[1][0] for part in parts], axis=-1).reshape(4, -1)
    table = [np.bincount(place, weights=counts, minlength=len(levels)) for counts in flat]
    return levels, np.reshape(table, (1, 2, 2, len(levels)))


def cluster_codes(scenario: Integers, session: Integers) -> Integers:
    """Cluster trials by scenario, or else by session; codes have no gaps.

    >>> cluster_codes(np.array([4, -1, 4, -1]), np.array([0, 1, 2, 3]))
    array([0, 1, 0, 2])
    """
    scenarios = int(scenario.max(initial=-1)) + 1
    labels = np.where(scenario >= 0, scenario, scenarios + session)
    met = np.zeros(int(labels.max(initial=-1)) + 1, dtype=np.intp)
    met[labels] = 1
    return (np.cumsum(met) - 1)[labels]


def merge_clusters(codes: Integers, links: NDArray[np.intp]) -> Integers:
    """Merge clusters that share a pair, which resampling would otherwise split.

    >>> merge_clusters(np.array([0, 1, 2]), np.array([[0, 2]]))
    array([0, 1, 0])
    """
    size = int(codes.max(initial=-1)) + 1
    one, other = codes[links].reshape(-1, 2).T
    graph = coo_array((np.ones(len(one)), (one, other)), shape=(size, size))
    group = connected_components(graph, directed=False)[1]
    return np.asarray(group, np.intp)[codes]


def calibration_rows(levels: Floats, wrong: Floats, right: Floats) -> dict[str, Floats]:
    """Calibration of each sample (row) from its wrong and right answers at each level (column).

    The levels of confidence must be in ascending order; undefined values are NaN.

    The expected calibration error is the mean gap between confidence and accuracy over bins of
    equal width; confidence 0 is in the first bin (Guo et al. 2017). The Brier score is the mean
    squared difference between confidence and correctness, 0 or 1 (Brier 1950). The AUROC is the
    probability that a right answer has more confidence than a wrong one, where a tie counts half
    (Hanley, McNeil 1982).

    >>> one = np.array([[1.0, 0.0, 0.0, 1.0]]), np.array([[0.0, 1.0, 1.0, 1.0]])
    >>> rows = calibration_rows(np.array([0.3, 0.5, 0.8, 0.9]), *one)
    >>> round(float(rows["auroc"][0]), 4), round(float(rows["brier"][0]), 4)
    (0.5833, 0.24)
    """
    total = (wrong + right).sum(axis=1)
    edges = np.linspace(0, 1, CALIBRATION_BINS + 1)
    place = np.clip(np.searchsorted(edges, levels, side="left") - 1, 0, CALIBRATION_BINS - 1)
    surplus = (wrong + right) * levels - right
    gaps = np.abs(surplus @ (place[:, None] == np.arange(CALIBRATION_BINS))).sum(axis=1)
    squares = (right * (1 - levels) ** 2 + wrong * levels**2).sum(axis=1)
    below = wrong.cumsum(axis=1) - wrong / 2
    return {
        "ece": ratios(gaps, total),
        "brier": ratios(squares, total),
        "auroc": ratios((right * below).sum(axis=1), right.sum(axis=1) * wrong.sum(axis=1)),
    }
