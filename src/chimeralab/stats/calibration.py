"""Does stated confidence match being right? Missing confidences are left out and counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, same_length

Numbers = Sequence[float | None] | Floats | NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well confidence and correctness go together, over answers that state a confidence."""

    n_total: int
    n_valid: int
    ece: float | None
    brier: float | None
    auroc: float | None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfidenceBin:
    """Answers whose confidence lies above ``low`` and up to ``high``."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


class _Answers(NamedTuple):
    stated: Floats
    right: Floats


def calibration(confidence: Numbers, correct: Numbers, bins: int = 10) -> Calibration:
    """All three numbers, with a reason for each that is undefined.

    >>> result = calibration([0.9, 0.8, 0.6, 0.7, 0.3], [1, 1, 0, 1, 0])
    >>> round(result.ece, 2), round(result.brier, 3), result.auroc
    (0.3, 0.118, 1.0)
    """
    stated, right = _answers(confidence, correct)
    area = auroc(stated, right)
    reasons = {}
    if area is None:
        reasons["auroc"] = "needs right and wrong answers"
    if not stated.size:
        reasons = dict.fromkeys(("ece", "brier", "auroc"), "no answer states a confidence")
    return Calibration(
        n_total=len(confidence),
        n_valid=len(stated),
        ece=expected_calibration_error(stated, right, bins),
        brier=brier_score(stated, right),
        auroc=area,
        reasons=reasons,
    )


def expected_calibration_error(
    confidence: Numbers, correct: Numbers, bins: int = 10
) -> float | None:
    """Mean gap between confidence and accuracy over equal-width bins (Guo et al. 2017).

    >>> round(expected_calibration_error([0.9, 0.8, 0.6, 0.7, 0.3], [1, 1, 0, 1, 0]), 2)
    0.3
    """
    parts = confidence_bins(confidence, correct, bins)
    total = sum(part.n for part in parts)
    if not total:
        return None
    return sum(part.n * abs(part.accuracy - part.confidence) for part in parts) / total


def confidence_bins(
    confidence: Numbers, correct: Numbers, bins: int = 10
) -> tuple[ConfidenceBin, ...]:
    """The bins that hold an answer, for a reliability diagram; 0 belongs to the first bin.

    >>> confidence_bins([0.9, 0.95], [1, 0], bins=2)[0].accuracy
    0.5
    """
    stated, right = _answers(confidence, correct)
    edges = np.linspace(0, 1, bins + 1)
    place = np.clip(np.searchsorted(edges, stated, side="left") - 1, 0, bins - 1)
    return tuple(
        ConfidenceBin(
            low=float(edges[k]),
            high=float(edges[k + 1]),
            n=int((place == k).sum()),
            confidence=float(stated[place == k].mean()),
            accuracy=float(right[place == k].mean()),
        )
        for k in np.unique(place)
    )


def brier_score(confidence: Numbers, correct: Numbers) -> float | None:
    """Mean squared distance of confidence from being right (Brier 1950); 0 is perfect.

    >>> round(brier_score([0.9, 0.8, 0.6, 0.7, 0.3], [1, 1, 0, 1, 0]), 3)
    0.118
    """
    stated, right = _answers(confidence, correct)
    return float(((stated - right) ** 2).mean()) if stated.size else None


def auroc(confidence: Numbers, correct: Numbers) -> float | None:
    """Chance that a right answer is held with more confidence than a wrong one, ties half.

    Source: Hanley, McNeil 1982. None unless there are right and wrong answers.

    >>> round(auroc([0.9, 0.8, 0.8, 0.3], [1, 1, 0, 0]), 3)
    0.875
    """
    stated, right = _answers(confidence, correct)
    levels, place = np.unique(stated, return_inverse=True)
    ones = np.bincount(place.ravel(), weights=right, minlength=len(levels))
    zeros = np.bincount(place.ravel(), minlength=len(levels)) - ones
    pairs = ones.sum() * zeros.sum()
    if pairs == 0:
        return None
    below = zeros.cumsum() - zeros
    return float((ones * (below + zeros / 2)).sum() / pairs)


def _answers(confidence: Numbers, correct: Numbers) -> _Answers:
    same_length(confidence=confidence, correct=correct)
    stated, right = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    wrong = np.flatnonzero((stated < 0) | (stated > 1) | ~((right == 0) | (right == 1)))
    if wrong.size:
        pair = f"confidence {stated[wrong[0]]:g}, correct {right[wrong[0]]:g}"
        raise InputError(f"answer {wrong[0] + 1}: {pair}; they must lie in 0..1 and be 0 or 1")
    known = ~np.isnan(stated)
    return _Answers(stated[known], right[known])
