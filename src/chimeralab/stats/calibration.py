"""Calibration of stated confidence, for many samples at once."""

import numpy as np

from chimeralab.stats.arrays import Floats, ratios

BINS = 10


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
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, levels, side="left") - 1, 0, BINS - 1)
    surplus = (wrong + right) * levels - right
    gaps = np.abs(surplus @ (place[:, None] == np.arange(BINS))).sum(axis=1)
    squares = (right * (1 - levels) ** 2 + wrong * levels**2).sum(axis=1)
    below = wrong.cumsum(axis=1) - wrong / 2
    return {
        "ece": ratios(gaps, total),
        "brier": ratios(squares, total),
        "auroc": ratios((right * below).sum(axis=1), right.sum(axis=1) * wrong.sum(axis=1)),
    }
