"""Does stated confidence match being right? Answers counted by level, for many samples at once."""

from typing import NamedTuple

import numpy as np

from chimeralab.stats.arrays import Floats, ratios

BINS = 10


class LevelCounts(NamedTuple):
    """Wrong and right answers of each sample (rows) at each level of confidence (columns)."""

    levels: Floats
    wrong: Floats
    right: Floats


class CalibrationRows(NamedTuple):
    """Calibration of each row of counts; NaN where undefined."""

    ece: Floats
    brier: Floats
    auroc: Floats


def calibration_rows(counts: LevelCounts) -> CalibrationRows:
    """Three numbers for every row of counts, their levels in rising order.

    The expected calibration error is the mean gap between confidence and accuracy over bins of
    equal width, 0 in the first (Guo et al. 2017). The Brier score is the mean squared distance of
    confidence from being right (Brier 1950). The AUROC is the chance that a right answer states
    more confidence than a wrong one, ties half (Hanley, McNeil 1982).

    >>> one = np.array([[1.0, 0.0, 0.0, 1.0]]), np.array([[0.0, 1.0, 1.0, 1.0]])
    >>> rows = calibration_rows(LevelCounts(np.array([0.3, 0.5, 0.8, 0.9]), *one))
    >>> round(float(rows.auroc[0]), 4), round(float(rows.brier[0]), 4)
    (0.5833, 0.24)
    """
    levels, wrong, right = counts
    total = (wrong + right).sum(axis=1)
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, levels, side="left") - 1, 0, BINS - 1)
    surplus = (wrong + right) * levels - right
    gaps = np.abs(surplus @ (place[:, None] == np.arange(BINS))).sum(axis=1)
    squares = (right * (1 - levels) ** 2 + wrong * levels**2).sum(axis=1)
    below = wrong.cumsum(axis=1) - wrong / 2
    return CalibrationRows(
        ece=ratios(gaps, total),
        brier=ratios(squares, total),
        auroc=ratios((right * below).sum(axis=1), right.sum(axis=1) * wrong.sum(axis=1)),
    )
