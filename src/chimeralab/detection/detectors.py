"""Detectors: from similarities to verdicts. `DETECTORS` names our own."""

from chimeralab.detection.locked import (
    LOCKED,
    READINGS,
    Cutoff,
    Lags,
    Locked,
    LockedStream,
    Signal,
)

__all__ = [
    "DETECTORS",
    "LOCKED",
    "READINGS",
    "Cutoff",
    "Lags",
    "Locked",
    "LockedStream",
    "Signal",
]

DETECTORS = {"locked": Locked}
