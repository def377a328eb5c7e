"""Chimera Lab: measure how language models fall into loops."""

from typing import TYPE_CHECKING, Any

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.detection import Guard, detect, detect_all, detect_file
from chimeralab.detection.detectors import LOCKED, Cutoff, Detector, Locked, Needs, Seen, Signal
from chimeralab.version import __version__

if TYPE_CHECKING:
    from chimeralab.pipeline import run
    from chimeralab.study import Study


__all__ = [
    "LOCKED",
    "ChimeraError",
    "Cutoff",
    "Detection",
    "Detector",
    "Guard",
    "InputError",
    "Locked",
    "Needs",
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


def __getattr__(name: str) -> Any:
    """Studies bring clients and validators along; who only detects should not wait for them."""
    if name == "Study":
        from chimeralab.study import Study  # noqa: PLC0415

        return Study
    if name == "run":
        from chimeralab.pipeline import run  # noqa: PLC0415

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
