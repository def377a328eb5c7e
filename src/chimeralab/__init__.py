"""Chimera Lab: measure how language models fall into loops."""

from typing import TYPE_CHECKING

from chimeralab.core.lazy import lazy_names
from chimeralab.version import __version__

if TYPE_CHECKING:
    from chimeralab.core.errors import ChimeraError, InputError, LoopDetected
    from chimeralab.core.records import Call, Detection, Loop, Trajectory, Turn
    from chimeralab.detection.explain import explain
    from chimeralab.detection.guard import Guard
    from chimeralab.detection.judging import Results, detect, detect_all, detect_file
    from chimeralab.detection.locked import LOCKED, Locked, LockedRule
    from chimeralab.detection.loops import LOOPS, Loops
    from chimeralab.detection.seam import Cutoff, Detector, Needs, Observation, Seen, Signal
    from chimeralab.pipeline import run
    from chimeralab.study import Study

__all__ = [
    "LOCKED",
    "LOOPS",
    "Call",
    "ChimeraError",
    "Cutoff",
    "Detection",
    "Detector",
    "Guard",
    "InputError",
    "Locked",
    "LockedRule",
    "Loop",
    "LoopDetected",
    "Loops",
    "Needs",
    "Observation",
    "Results",
    "Seen",
    "Signal",
    "Study",
    "Trajectory",
    "Turn",
    "__version__",
    "detect",
    "detect_all",
    "detect_file",
    "explain",
    "run",
]

# A guard without vectors must not import numpy, so names are imported on first use.
__getattr__ = lazy_names(
    __name__,
    {
        "core.errors": ("ChimeraError", "InputError", "LoopDetected"),
        "core.records": ("Call", "Detection", "Loop", "Trajectory", "Turn"),
        "detection.seam": ("Cutoff", "Detector", "Needs", "Observation", "Seen", "Signal"),
        "detection.locked": ("LOCKED", "Locked", "LockedRule"),
        "detection.loops": ("LOOPS", "Loops"),
        "detection.explain": ("explain",),
        "detection.guard": ("Guard",),
        "detection.judging": ("Results", "detect", "detect_all", "detect_file"),
        "pipeline": ("run",),
        "study": ("Study",),
    },
)


def __dir__() -> list[str]:
    return __all__
