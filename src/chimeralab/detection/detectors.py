"""The registry of detectors. `seam` says what a detector is; one of a user's own needs no entry."""

from typing import Any, NamedTuple

from chimeralab.core.parts import Seam
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
    "SEAM",
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

SEAM = Seam(
    "start",
    {
        "name": str, "rule": str, "standard": str, "remark": str, "changed": dict[str, Any],
        "needs": Needs, "thresholds": Locked | None,
    },
    Detector,
)  # fmt: skip
DETECTORS: dict[str, type[Detector]] = {"locked": Locked, "loops": Loops}


class Judges(NamedTuple):
    """What judges collapse and what judges loops; None where nobody asks for it."""

    collapse: Detector | None = LOCKED
    loops: Loops | None = LOOPS
