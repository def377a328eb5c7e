"""Chimera Lab: measure how language models fall into loops."""

from chimeralab.detection import Guard, detect, detect_all, detect_file
from chimeralab.detectors import LOCKED, Locked, Signal
from chimeralab.errors import ChimeraError, InputError
from chimeralab.records import Detection, Trajectory, Turn

__version__ = "0.1.0"

__all__ = [
    "LOCKED",
    "ChimeraError",
    "Detection",
    "Guard",
    "InputError",
    "Locked",
    "Signal",
    "Trajectory",
    "Turn",
    "__version__",
    "detect",
    "detect_all",
    "detect_file",
]
