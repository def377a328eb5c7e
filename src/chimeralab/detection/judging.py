"""Judging conversations: both detectors on whatever holds one, on a frame of them, or on a log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from chimeralab import readers
from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.core.verdict_rows import verdict_frame
from chimeralab.detection.detectors import LOCKED, Detector
from chimeralab.detection.loops import LOOPS, Loops
from chimeralab.detection.measure import measurer_for
from chimeralab.detection.verdict import verdicts
from chimeralab.readers.held import DataFrame, conversation_in, conversations_in, is_frame

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder

# Messages may also be objects: LangChain's, or those that the SDK of a provider returns.
Conversation = Trajectory | Sequence[str | Turn | Mapping[str, Any] | Any]


class Results(list[Detection]):
    """The verdicts on several conversations; made of those of `detect_all` or `detect_file`, too.

    >>> found = Results(detect_all([["Once more."] * 6, ["Well."] * 2], detector=None))
    >>> [each.looping for each in found]
    [True, False]
    """

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each, or per turn where there are traces."""
        return verdict_frame(self)


@overload
def detect(
    conversation: Conversation,
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
) -> Detection: ...


@overload
def detect(
    conversation: DataFrame,
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
) -> Results: ...


def detect(conversation: Conversation | DataFrame, **settings: Any) -> Detection | Results:
    """Judge a conversation: its texts or messages in order, or a `Trajectory`.

    Messages are dicts (OpenAI, Anthropic and the other formats of logs), objects of LangChain or
    of a provider, or `Turn` records. A pandas or polars DataFrame is a table of conversations, so
    it gives a list of verdicts, `Results`.

    Both detectors are run. With ``detector=None`` there are no vectors, and words and tool calls
    alone say whether it loops; with ``loops=None`` there is the collapse verdict alone.

    >>> found = detect(["What now?"] + ["Let me check that again."] * 7)
    >>> found.collapsed, found.loops[0].kind, found.loops[0].began, found.loops[0].noticed
    ((5, 6, 7, 8), 'verbatim', 2, 5)
    """
    if is_frame(conversation):
        return Results(detect_all(conversation, **settings))
    return next(detect_all([conversation_in(conversation)], **settings))


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
    conversations: Iterable[Conversation] | DataFrame,
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
) -> Iterator[Detection]:
    """Judge conversations as they come, in constant memory; each may be what `detect` takes."""

    def open_encoder() -> "Encoder":
        from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - as for a guard

        return encoder or default_encoder()

    measurer = measurer_for(detector, open_encoder, speaker=speaker)
    measured = measurer.measure(_trajectories(conversations))
    for judged in verdicts(measured, detector, measurer.encoder, loops=loops, trace=trace):
        yield judged.detection


def _trajectories(conversations: Any) -> Iterator[Trajectory]:
    if is_frame(conversations):
        yield from conversations_in(conversations)
        return
    if isinstance(conversations, str | bytes | Mapping | Trajectory):
        raise InputError(
            f"detect_all takes several conversations, not a {type(conversations).__name__};"
            " detect judges one"
        )
    for number, each in enumerate(conversations, start=1):
        yield conversation_in(each, f"conversation-{number}")
