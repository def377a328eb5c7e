"""Calibration, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from chimeralab.trial.sums import calibration_rows


def answers(n=200, seed=1):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, 11, n) / 10
    return confidence, (rng.random(n) < confidence).astype(int)


def calibrated(confidence, correct) -> dict[str, float]:
    """The numbers of one sample."""
    levels, place = np.unique(confidence, return_inverse=True)
    right = np.bincount(place, np.asarray(correct, float), minlength=len(levels)).astype(float)
    wrong = np.bincount(place, minlength=len(levels)) - right
    found = calibration_rows(levels, wrong[None], right[None])
    return {name: column[0] for name, column in found.items()}


def test_auroc_with_ties_agrees_with_scikit_learn():
    confidence, correct = answers()
    assert calibrated(confidence, correct)["auroc"] == pytest.approx(
        roc_auc_score(correct, confidence)
    )


def test_brier_score_agrees_with_scikit_learn():
    confidence, correct = answers()
    assert calibrated(confidence, correct)["brier"] == pytest.approx(
        brier_score_loss(correct, confidence)
    )


def test_calibration_error_is_the_weighted_gap_of_the_bins():
    # Two bins: three answers at 0.4 of which one is right, one wrong answer at 1.0.
    gap = (3 * abs(1 / 3 - 0.4) + 1 * abs(0 - 1)) / 4
    assert calibrated([0.4, 0.4, 0.4, 1.0], [1, 0, 0, 0])["ece"] == pytest.approx(gap)


def test_levels_within_a_bin_cancel_and_bins_include_their_upper_edge():
    assert calibrated([0.91, 0.99], [1, 0])["ece"] == pytest.approx(abs(0.95 - 0.5))
    assert calibrated([0.1, 0.0], [0, 0])["ece"] == pytest.approx(0.05)
    assert calibrated([0.2, 0.21], [1, 0])["ece"] == pytest.approx((0.8 + 0.21) / 2)


def test_nothing_but_right_answers_has_no_auroc():
    found = calibrated([0.9, 0.8], [1, 1])
    assert np.isnan(found["auroc"])
    assert found["brier"] == pytest.approx(0.025)


def test_without_answers_everything_is_undefined():
    empty = np.zeros((1, 0))
    found = calibration_rows(np.empty(0), empty, empty)
    assert np.isnan([column[0] for column in found.values()]).all()


def test_rows_are_separate_samples():
    samples = [answers(seed=seed) for seed in (1, 2)]
    levels = np.arange(11) / 10
    right, wrong = (
        np.array([[((c == v) & (r == flag)).sum() for v in levels] for c, r in samples], float)
        for flag in (1, 0)
    )
    rows = calibration_rows(levels, wrong, right)
    for n, sample in enumerate(samples):
        assert {name: column[n] for name, column in rows.items()} == pytest.approx(
            calibrated(*sample)
        )
