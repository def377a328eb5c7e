"""Judging conversations: both detectors on whatever holds one, on a frame of them, or on a log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from chimeralab import readers
from chimeralab.core.errors import InputError
from chimeralab.core.parts import Seam
from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.core.verdict_rows import verdict_frame
from chimeralab.detection.locked import LOCKED, LockedRule
from chimeralab.detection.loops import LOOPS, Loops, find_loops, has_text
from chimeralab.detection.measure import GuardBand, Vectors, encoded
from chimeralab.detection.screen import Screen
from chimeralab.detection.seam import Detector, Needs, Observation
from chimeralab.detection.verdict import NO_COLLAPSE, judge_collapse
from chimeralab.detection.words import is_blank
from chimeralab.readers.memory import DataFrame, is_frame, parse_conversation, parse_frame

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder

DETECTORS: dict[str, type[Detector]] = {"locked": LockedRule, "loops": Loops}
"""The detectors that a plan names; one of a user's own needs no entry."""
SEAM = Seam(
    "start",
    {
        "name": str, "rule": str, "standard": str, "remark": str, "changed": dict[str, Any],
        "needs": Needs, "thresholds": LockedRule | None,
    },
    Detector,
)  # fmt: skip
NO_DETECTOR: Mapping[str, Any] = {
    "name": None,
    "operating_point": None,
    "changed": {},
    "settings": {},
}
NO_ENCODER = {"model": None, "sha256": None, "precision": None}

# Messages may also be objects: LangChain's, or those that the SDK of a provider returns.
Conversation = Trajectory | Sequence[str | Turn | Mapping[str, Any] | Any]


class Judge:
    """Both detectors, ready to judge conversations; where one is None, the other judges alone.

    An encoder is opened only if the collapse detector asks for similarities.
    """

    def __init__(
        self,
        detector: Detector | None = LOCKED,
        loops: Loops | None = LOOPS,
        open_encoder: "Callable[[], Encoder] | None" = None,
        *,
        speaker: str | None = None,
        trace: bool = False,
    ) -> None:
        self.detector, self.loops = detector, loops
        self._speaker, self._trace = speaker, trace
        self.encoder: Encoder | None = None
        self.band: GuardBand | None = None
        if detector is not None and detector.needs.lags:
            from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - as above

            self.encoder = (open_encoder or default_encoder)()
            self.band = GuardBand(self.encoder, detector.needs.cutoffs)

    def judge(self, trajectories: Iterable[Trajectory]) -> Iterator[tuple[Trajectory, Detection]]:
        """Judge conversations as they come, some thousand messages at a time."""
        screen = Screen(self.loops) if self.loops else None
        skip_blank = self.detector is not None and self.detector.needs.skip_blank
        used: dict[str, Any] = {
            "detector": self.detector.describe() if self.detector else NO_DETECTOR,
            "encoder": self.encoder.describe() if self.encoder else NO_ENCODER,
            "loop_detector": self.loops.describe() if self.loops else None,
        }
        groups = encoded(trajectories, self.encoder, speaker=self._speaker, skip_blank=skip_blank)
        for group in groups:
            said = ([turn.text for turn in talk.turns if has_text(turn)] for talk, *_ in group)
            words = screen.hear(said) if screen else iter(())
            for talk, positions, judged, vectors, cut in group:
                fields = talk.metadata.items()
                detection = Detection(
                    id=talk.id,
                    source=talk.source,
                    judged=judged,
                    turns=len(positions),
                    positions=positions,
                    # The fields one can group by. Nested ones stay in the log they came from.
                    metadata={k: v for k, v in fields if isinstance(v, str | int | float | bool)},
                    **used,
                    **self._collapse(talk, positions, vectors, int(cut.sum())),
                    **(find_loops(talk.turns, words, self.loops) if self.loops else {}),
                )
                yield talk, detection

    def _collapse(
        self, talk: Trajectory, positions: Sequence[int], vectors: Vectors, cut: int
    ) -> Mapping[str, Any]:
        """The fields of a verdict that say whether a conversation collapsed."""
        if self.detector is None:
            return NO_COLLAPSE
        turns = [talk.turns[n - 1] for n in positions]
        lags: list[list[float]] = [[]] * len(turns)
        if self.band:
            least = self.detector.needs.lags
            lags = self.band.similarities(turns, vectors, least).tolist()
        seen = [
            Observation(turn, tuple(row), is_blank(turn.text))
            for turn, row in zip(turns, lags, strict=True)
        ]
        return judge_collapse(self.detector, seen, positions, cut, trace=self._trace)


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
    return next(detect_all([parse_conversation(conversation)], **settings))


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
    given = (lambda: encoder) if encoder else None
    judge = Judge(detector, loops, given, speaker=speaker, trace=trace)
    for _, detection in judge.judge(_trajectories(conversations)):
        yield detection


def _trajectories(conversations: Any) -> Iterator[Trajectory]:
    if is_frame(conversations):
        yield from parse_frame(conversations)
        return
    if isinstance(conversations, str | bytes | Mapping | Trajectory):
        raise InputError(
            f"detect_all takes several conversations, not a {type(conversations).__name__};"
            " detect judges one"
        )
    for number, each in enumerate(conversations, start=1):
        yield parse_conversation(each, f"conversation-{number}")
