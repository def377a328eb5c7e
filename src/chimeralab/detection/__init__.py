"""From conversations to verdicts: measure the similarities once, then judge them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from chimeralab import readers
from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.detection.detectors import LOCKED, Detector
from chimeralab.detection.guard import Guard
from chimeralab.detection.measure import Measured, Measurer, measurer_for
from chimeralab.detection.verdict import verdict
from chimeralab.embedding.encoder import Encoder, default_encoder

__all__ = [
    "Guard",
    "Measured",
    "Measurer",
    "detect",
    "detect_all",
    "detect_file",
    "measurer_for",
    "verdict",
]


def detect(
    conversation: Trajectory | Sequence[str],
    *,
    speaker: str | None = None,
    detector: Detector = LOCKED,
    encoder: Encoder | None = None,
    trace: bool = False,
) -> Detection:
    """Judge one conversation: a `Trajectory`, or just its texts in order.

    >>> detect(["What now?"] + ["Let me check that again."] * 7).collapsed
    (5, 6, 7, 8)
    """
    if not isinstance(conversation, Trajectory):
        conversation = Trajectory("conversation", tuple(Turn(text) for text in conversation))
    verdicts = detect_all(
        [conversation], speaker=speaker, detector=detector, encoder=encoder, trace=trace
    )
    return next(verdicts)


def detect_file(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the name of the command line's option
    speaker: str | None = None,
    detector: Detector = LOCKED,
    trace: bool = False,
) -> Iterator[Detection]:
    """Judge every conversation of a log file or a folder of them, one after another."""
    trajectories = readers.read_all([path], format=format)
    return detect_all(trajectories, speaker=speaker, detector=detector, trace=trace)


def detect_all(
    trajectories: Iterable[Trajectory],
    *,
    speaker: str | None = None,
    detector: Detector = LOCKED,
    encoder: Encoder | None = None,
    trace: bool = False,
) -> Iterator[Detection]:
    """Judge conversations as they come, in constant memory."""
    measurer = measurer_for(detector, lambda: encoder or default_encoder(), speaker=speaker)
    for measured in measurer.measure(trajectories):
        yield verdict(measured, detector, measurer.encoder, trace=trace)
