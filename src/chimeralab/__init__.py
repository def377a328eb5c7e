"""Chimera Lab: measure how language models fall into loops."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chimeralab.version import __version__

if TYPE_CHECKING:
    from chimeralab.core.errors import ChimeraError, InputError, LoopDetected
    from chimeralab.core.records import Call, Detection, Loop, Trajectory, Turn
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
    "run",
]

_HOMES = {
    "core.errors": ("ChimeraError", "InputError", "LoopDetected"),
    "core.records": ("Call", "Detection", "Loop", "Trajectory", "Turn"),
    "detection.seam": ("Cutoff", "Detector", "Needs", "Observation", "Seen", "Signal"),
    "detection.locked": ("LOCKED", "Locked", "LockedRule"),
    "detection.loops": ("LOOPS", "Loops"),
    "detection.guard": ("Guard",),
    "detection.judging": ("Results", "detect", "detect_all", "detect_file"),
    "pipeline": ("run",),
    "study": ("Study",),
}
_PLACES = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Public names load what they need, and no more: a guard by words alone needs no numpy."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(f"chimeralab.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        from chimeralab.core.extras import missing_extra  # noqa: PLC0415 - hardly ever needed

        raise missing_extra(error) or error from None
    globals()[name] = value
    return value
