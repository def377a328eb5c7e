"""Many settings of the locked detector judging one conversation at once.

The rule itself stands in `detectors.locked`, turn by turn; this is the same rule as arithmetic on
whole arrays, so that a thousand settings take no longer than a few.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.detectors import Locked
from chimeralab.detection.locked import FIRST_FLAGGED_TURN, TOLERANCE
from chimeralab.detection.measure import Measured
from chimeralab.stats.arrays import Floats

Marks = NDArray[np.bool_]


class Bench(NamedTuple):
    """Settings as columns, one row a detector."""

    s1: Floats
    s2: Floats
    d1: Floats
    d2: Floats
    window: Floats
    breaks: Marks
    same: Marks
    both: Marks
    either: Marks
    retroactive: Marks


def bench(detectors: Sequence[Locked]) -> Bench:
    """Line the detectors up."""

    def numbers(name: str) -> Floats:
        return np.array([[getattr(each, name)] for each in detectors], dtype=np.float64)

    def reads(name: str, value: str) -> Marks:
        return np.array([[getattr(each, name) == value] for each in detectors])

    return Bench(
        s1=numbers("s1"),
        s2=numbers("s2"),
        d1=numbers("d1"),
        d2=numbers("d2"),
        window=numbers("window"),
        breaks=reads("empty", "break"),
        same=reads("sustain", "same"),
        both=reads("drift", "both"),
        either=reads("drift", "either"),
        retroactive=reads("marking", "retroactive"),
    )


def judge_with_all(measured: Measured, settings: Bench) -> Marks:
    """Which turns (columns) each detector (rows) marks as collapsed."""
    s1, s2 = measured.similarities[:, :2].T
    judged = np.arange(1, len(s1) + 1) >= FIRST_FLAGGED_TURN
    heard = judged & ~(measured.blank & settings.breaks)
    period1 = heard & (s1 >= settings.s1 - TOLERANCE)
    period2 = heard & (s2 >= settings.s2 - TOLERANCE)
    mixed = _sustained(period1 | period2, settings)
    alike = _sustained(period1, settings) | _sustained(period2, settings)
    low1, low2 = s1 >= 1 - settings.d1 - TOLERANCE, s2 >= 1 - settings.d2 - TOLERANCE
    matched = (period1 & low1) | (period2 & low2)
    low = np.where(settings.both, low1 & low2, np.where(settings.either, low1 | low2, matched))
    return np.asarray(np.where(settings.same, alike, mixed) & low)


def _sustained(flags: Marks, settings: Bench) -> Marks:
    """Turns in a run of flags that is long enough: so far, or in all for those who look back."""
    so_far = _run_lengths(flags)
    in_all = so_far.copy()
    for turn in range(flags.shape[1] - 2, -1, -1):
        goes_on = flags[:, turn] & flags[:, turn + 1]
        in_all[:, turn] = np.where(goes_on, in_all[:, turn + 1], in_all[:, turn])
    return np.asarray(np.where(settings.retroactive, in_all, so_far) >= settings.window)


def _run_lengths(flags: Marks) -> NDArray[np.intp]:
    """How many flags in a row end at each turn."""
    lengths = np.zeros(flags.shape, dtype=np.intp)
    run = np.zeros(len(flags), dtype=np.intp)
    for turn in range(flags.shape[1]):
        run = (run + 1) * flags[:, turn]
        lengths[:, turn] = run
    return lengths
