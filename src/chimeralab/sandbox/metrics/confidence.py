"""Stated confidence against being right: answers counted at each level, cluster by cluster.

The numbers themselves are those of `stats.calibration`; here they are computed for many resamples
at once, which their intervals need.
"""

from typing import NamedTuple

import numpy as np

from chimeralab.sandbox.columns import TrialColumns
from chimeralab.stats.arrays import Floats, Integers, ratios
from chimeralab.stats.calibration import Calibration, calibration

BINS = 10
# Above this many levels, intervals see confidence to two decimals, so that memory stays small.
MOST_LEVELS = 101


class Confidences(NamedTuple):
    """Answers that state a confidence and are judged: entry by entry, how many wrong and right."""

    level: Floats
    wrong: Floats
    right: Floats
    cluster: Integers


class LevelCounts(NamedTuple):
    """Wrong and right answers of each cluster or resample (rows) at each level (columns)."""

    levels: Floats
    wrong: Floats
    right: Floats


class CalibrationRows(NamedTuple):
    """Calibration of each row of counts; NaN where undefined."""

    ece: Floats
    brier: Floats
    auroc: Floats


def confidences(
    columns: TrialColumns, cluster: Integers, *, novel_only: bool = False
) -> Confidences:
    """The answers of a table, one an entry."""
    confidence, correct = columns.confidence, columns.correct
    if confidence is None or correct is None or (novel_only and columns.novel is None):
        return Confidences(np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.intp))
    known = ~np.isnan(confidence + correct)
    rows = np.flatnonzero(known & (columns.novel == 1) if novel_only else known)
    return Confidences(confidence[rows], 1 - correct[rows], correct[rows], cluster[rows])


def calibrated(answers: Confidences) -> Calibration:
    """Expected calibration error, Brier score and AUROC of all answers together."""
    right, wrong = answers.right.astype(np.intp), answers.wrong.astype(np.intp)
    stated = np.concatenate([np.repeat(answers.level, right), np.repeat(answers.level, wrong)])
    correct = np.concatenate([np.ones(right.sum()), np.zeros(wrong.sum())])
    return calibration(stated, correct, BINS)


def level_counts(answers: Confidences, clusters: int) -> LevelCounts:
    """The answers of each cluster at each level."""
    levels, place = np.unique(answers.level, return_inverse=True)
    if len(levels) > MOST_LEVELS:
        levels, place = np.unique(answers.level.round(2), return_inverse=True)
    cell = answers.cluster * len(levels) + place
    shape = (clusters, len(levels))
    return LevelCounts(
        levels, *(_table(cell, counts, shape) for counts in (answers.wrong, answers.right))
    )


def calibration_rows(counts: LevelCounts) -> CalibrationRows:
    """The three numbers of `stats.calibration`, for every row of counts.

    >>> one = np.array([[1.0, 0.0, 0.0, 1.0]]), np.array([[0.0, 1.0, 1.0, 1.0]])
    >>> rows = calibration_rows(LevelCounts(np.array([0.3, 0.5, 0.8, 0.9]), *one))
    >>> round(float(rows.auroc[0]), 4), round(float(rows.brier[0]), 4)
    (0.5833, 0.24)
    """
    levels, wrong, right = counts
    n, stated, correct = wrong + right, (wrong + right) * levels, right
    total = n.sum(axis=1)
    gaps = np.abs(_binned(stated, levels) - _binned(correct, levels)).sum(axis=1)
    squares = (right * (1 - levels) ** 2 + wrong * levels**2).sum(axis=1)
    below = wrong.cumsum(axis=1) - wrong / 2
    return CalibrationRows(
        ece=ratios(gaps, total),
        brier=ratios(squares, total),
        auroc=ratios((right * below).sum(axis=1), right.sum(axis=1) * wrong.sum(axis=1)),
    )


def _table(cell: Integers, counts: Floats, shape: tuple[int, int]) -> Floats:
    flat = np.bincount(cell, weights=counts, minlength=shape[0] * shape[1])
    return np.asarray(flat, np.float64).reshape(shape)


def _binned(rows: Floats, levels: Floats) -> Floats:
    """Columns added up within the bins of equal width that their levels fall into."""
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, levels, side="left") - 1, 0, BINS - 1)
    return np.asarray(rows @ (place[:, None] == np.arange(BINS)))
