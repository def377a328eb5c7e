"""Calibration, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from chimeralab.core.errors import InputError
from chimeralab.stats.calibration import (
    auroc,
    brier_score,
    calibration,
    confidence_bins,
    expected_calibration_error,
)


def answers(n=200, seed=1):
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, 11, n) / 10
    return confidence, (rng.random(n) < confidence).astype(int)


def test_auroc_with_ties_agrees_with_scikit_learn():
    confidence, correct = answers()
    assert auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence))


def test_brier_score_agrees_with_scikit_learn():
    confidence, correct = answers()
    assert brier_score(confidence, correct) == pytest.approx(brier_score_loss(correct, confidence))


def test_calibration_error_is_the_weighted_gap_of_the_bins():
    # Two bins: three answers at 0.4 of which one is right, one wrong answer at 1.0.
    gap = (3 * abs(1 / 3 - 0.4) + 1 * abs(0 - 1)) / 4
    found = expected_calibration_error([0.4, 0.4, 0.4, 1.0], [1, 0, 0, 0], bins=2)
    assert found == pytest.approx(gap)


def test_bins_hold_every_answer_once_and_close_at_the_top():
    confidence, correct = answers()
    bins = confidence_bins(confidence, correct)
    assert sum(part.n for part in bins) == 200
    assert all(part.low < part.confidence <= part.high + 1e-12 for part in bins[1:])
    assert bins[0].n == (confidence <= 0.1).sum()


def test_missing_confidences_are_skipped_and_counted():
    result = calibration([0.9, None, 0.2], [1, 0, 0])
    assert (result.n_total, result.n_valid, result.auroc) == (3, 2, 1.0)


def test_nothing_but_right_answers_has_no_auroc_but_a_reason():
    result = calibration([0.9, 0.8], [1, 1])
    assert result.auroc is None
    assert result.brier is not None
    assert set(result.reasons) == {"auroc"}


def test_no_stated_confidence_leaves_everything_undefined():
    result = calibration([None, None], [1, 0])
    assert (result.ece, result.brier, result.auroc) == (None, None, None)
    assert set(result.reasons) == {"ece", "brier", "auroc"}


@pytest.mark.parametrize(("confidence", "correct"), [(1.2, 1), (-0.1, 1), (0.5, 2)])
def test_impossible_answers_are_refused_with_their_place(confidence, correct):
    with pytest.raises(InputError, match="answer 2"):
        calibration([0.5, confidence], [1, correct])
