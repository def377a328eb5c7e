"""The registry of detectors. `seam` says what a detector is; one of a user's own needs no entry."""

from typing import NamedTuple

from chimeralab.detection.locked import LOCKED, READINGS, Lags, Locked, LockedStream
from chimeralab.detection.loops import LOOPS, Loops
from chimeralab.detection.seam import (
    Cutoff,
    Detector,
    Needs,
    Seen,
    Signal,
    Stream,
    check_detector,
    in_brief,
)

__all__ = [
    "DETECTORS",
    "LOCKED",
    "LOOPS",
    "READINGS",
    "Cutoff",
    "Detector",
    "Judges",
    "Lags",
    "Locked",
    "LockedStream",
    "Loops",
    "Needs",
    "Seen",
    "Signal",
    "Stream",
    "check_detector",
    "in_brief",
]

DETECTORS: dict[str, type[Detector]] = {"locked": Locked, "loops": Loops}


class Judges(NamedTuple):
    """What judges collapse and what judges loops; None where nobody asks for it."""

    collapse: Detector | None = LOCKED
    loops: Loops | None = LOOPS
