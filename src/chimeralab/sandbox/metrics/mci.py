"""Memory Coherence Index: recall that is right, steady in confidence, and bound to its context.

Source: the sandbox's methods, section 3.2.1. Sums come from a session's trials, at once or one
by one; everything else follows from the sums.
"""

from typing import NamedTuple

import numpy as np

from chimeralab.sandbox.columns import TrialColumns
from chimeralab.sandbox.metrics.sums import Sessions, absolute_steps, filled
from chimeralab.sandbox.metrics.weights import weighted
from chimeralab.stats.arrays import Floats, ratios


class MciSums(NamedTuple):
    """What the trials of each session add up to, an entry a session."""

    judged: Floats
    right: Floats
    stated: Floats
    movement: Floats
    weighed: Floats
    weight: Floats
    weighted_right: Floats


class MciParts(NamedTuple):
    """The index and its parts, an entry a session; NaN where undefined."""

    value: Floats
    rf: Floats
    ci: Floats
    cb: Floats
    ceiling: Floats
    cb_normalised: Floats


def mci_parts(sums: MciSums, weights: tuple[float, float, float]) -> MciParts:
    """Recall fidelity, continuity integrity, context binding, and the highest index in reach.

    >>> sums = MciSums(*np.array([[5.0], [3.0], [5.0], [0.8], [5.0], [3.5], [1.75]]))
    >>> mci_parts(sums, (0.4, 0.3, 0.3)).value.round(3)
    array([0.585])
    """
    rf = ratios(sums.right, sums.judged)
    ci = 1 - ratios(sums.movement, np.maximum(sums.stated - 1, 0))
    cb = ratios(sums.weighted_right, sums.weighed)
    highest = ratios(sums.weight, sums.weighed)
    return MciParts(
        value=weighted(weights, rf, ci, cb),
        rf=rf,
        ci=ci,
        cb=cb,
        ceiling=weighted(weights, np.ones_like(rf), np.ones_like(rf), highest),
        cb_normalised=ratios(sums.weighted_right, sums.weight),
    )


def mci_sums(columns: TrialColumns, sessions: Sessions) -> MciSums:
    """The sums of every session; a cell that is missing takes no part."""
    rows, total = len(columns), sessions.total
    correct, weight = filled(columns.correct, rows), filled(columns.weight, rows)
    confidence = filled(columns.confidence, rows)
    steps = absolute_steps(
        confidence.number if columns.confidence is None else columns.confidence, columns.session
    )
    return MciSums(
        judged=total(correct.known),
        right=total(correct.number),
        stated=total(confidence.known),
        movement=total(steps),
        weighed=total(correct.known, weight.known),
        weight=total(correct.known, weight.number),
        weighted_right=total(correct.number, weight.number),
    )
