"""Generalization Fidelity Quotient: right, and sure of it, on what was never met before.

Source: the sandbox's methods, section 3.2.2. Only novel trials count.
"""

from typing import NamedTuple

from chimeralab.sandbox.columns import TrialColumns
from chimeralab.sandbox.metrics.sums import Sessions, filled
from chimeralab.sandbox.metrics.weights import weighted
from chimeralab.stats.arrays import Floats, ratios


class GfqSums(NamedTuple):
    """What the trials of each session add up to, an entry a session."""

    novel: Floats
    novel_right: Floats
    novel_stated: Floats
    confident_right: Floats
    seen: Floats
    seen_right: Floats


class GfqParts(NamedTuple):
    """The quotient and its parts, an entry a session; NaN where undefined."""

    value: Floats
    ta: Floats
    cta: Floats
    gap: Floats


def gfq_parts(sums: GfqSums, weights: tuple[float, float]) -> GfqParts:
    """Task accuracy, confidence-task agreement, and how much better the familiar trials went.

    >>> import numpy as np
    >>> sums = GfqSums(*np.array([[5.0], [3.0], [5.0], [2.2], [0.0], [0.0]]))
    >>> gfq_parts(sums, (0.6, 0.4)).value.round(3)
    array([0.536])
    """
    ta = ratios(sums.novel_right, sums.novel)
    cta = ratios(sums.confident_right, sums.novel_stated)
    seen = ratios(sums.seen_right, sums.seen)
    return GfqParts(value=weighted(weights, ta, cta), ta=ta, cta=cta, gap=seen - ta)


def gfq_sums(columns: TrialColumns, sessions: Sessions) -> GfqSums:
    """The sums of every session; a cell that is missing takes no part."""
    rows, total = len(columns), sessions.total
    correct, confidence = filled(columns.correct, rows), filled(columns.confidence, rows)
    novel = filled(columns.novel, rows)
    novel_judged = total(novel.number, correct.known)
    novel_right = total(novel.number, correct.number)
    return GfqSums(
        novel=novel_judged,
        novel_right=novel_right,
        novel_stated=total(novel.number, correct.known, confidence.known),
        confident_right=total(novel.number, correct.number, confidence.number),
        seen=total(novel.known, correct.known) - novel_judged,
        seen_right=total(novel.known, correct.number) - novel_right,
    )
