"""Judging conversations: both detectors on a list of texts, a trajectory, or a log."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chimeralab import readers
from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.detection.detectors import LOCKED, Detector
from chimeralab.detection.loops import LOOPS, Loops
from chimeralab.detection.measure import measurer_for
from chimeralab.detection.verdict import verdict

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder


def detect(  # noqa: PLR0913 - all but the first are keywords
    conversation: Trajectory | Sequence[str],
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
) -> Detection:
    """Judge one conversation: a `Trajectory`, or just its texts in order.

    Both detectors are run. With ``detector=None`` there are no vectors, and words and tool calls
    alone say whether it loops; with ``loops=None`` there is the collapse verdict alone.

    >>> found = detect(["What now?"] + ["Let me check that again."] * 7)
    >>> found.collapsed, found.loops[0].kind, found.loops[0].began, found.loops[0].noticed
    ((5, 6, 7, 8), 'verbatim', 2, 5)
    """
    if not isinstance(conversation, Trajectory):
        conversation = Trajectory("conversation", tuple(Turn(text) for text in conversation))
    return next(
        detect_all(
            [conversation],
            speaker=speaker,
            detector=detector,
            loops=loops,
            encoder=encoder,
            trace=trace,
        )
    )


def detect_file(  # noqa: PLR0913
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the name of the command line's option
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    trace: bool = False,
) -> Iterator[Detection]:
    """Judge every conversation of a log file or a folder of them, one after another."""
    trajectories = readers.read_all([path], format=format)
    return detect_all(trajectories, speaker=speaker, detector=detector, loops=loops, trace=trace)


def detect_all(  # noqa: PLR0913
    trajectories: Iterable[Trajectory],
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
) -> Iterator[Detection]:
    """Judge conversations as they come, in constant memory."""

    def open_encoder() -> "Encoder":
        from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - as for a guard

        return encoder or default_encoder()

    measurer = measurer_for(detector, open_encoder, speaker=speaker)
    for measured in measurer.measure(trajectories):
        yield verdict(measured, detector, measurer.encoder, loops=loops, trace=trace)
