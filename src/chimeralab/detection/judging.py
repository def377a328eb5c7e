"""Judge conversations with both detectors: one, a frame of them, or a log."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from chimeralab import readers
from chimeralab.core.errors import InputError
from chimeralab.core.parts import Seam
from chimeralab.core.records import (
    Caveat,
    Detection,
    Episode,
    Evidence,
    Trajectory,
    Turn,
    TurnTrace,
)
from chimeralab.core.text import replace_surrogates
from chimeralab.core.verdict_rows import verdict_frame, verdict_html
from chimeralab.detection.cause import attach_causes
from chimeralab.detection.cost import Prices, attach_costs
from chimeralab.detection.locked import LOCKED, LockedRule
from chimeralab.detection.loops import LOOPS, Loops, check_loops, find_loops, has_text
from chimeralab.detection.measure import GuardBand, Vectors, encode_batches
from chimeralab.detection.screen import Screen
from chimeralab.detection.seam import (
    Detector,
    Needs,
    Observation,
    Signal,
    check_encoder,
    read_needs,
)
from chimeralab.detection.tools import Tools, read_rules
from chimeralab.detection.verdict import CAVEATS
from chimeralab.detection.words import is_blank
from chimeralab.readers.memory import DataFrame, is_frame, parse_conversation, parse_frame

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder

DETECTORS: dict[str, type[Detector]] = {"locked": LockedRule, "loops": Loops}
"""The detectors that a plan can name; plug-ins need no entry."""
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
EXCERPT = 80

NO_COLLAPSE: Mapping[str, Any] = {
    "at_risk_turns": 0,
    "collapsed": (),
    "collapsed_turns": None,
    "collapse_rate": None,
    "at_risk_rate": None,
    "first_collapse_turn": None,
    "episodes": (),
    "evidence": (),
    "warnings": (),
    "reason": "no collapse verdict: it needs vectors, and none were wanted",
}
"""The fields of a verdict without a collapse detector."""

# Messages may also be objects of LangChain or of a provider's SDK.
Conversation = Trajectory | Sequence[str | Turn | Mapping[str, Any] | Any]


class Judge:
    """Both detectors, or one of them, ready to judge conversations.

    An encoder is opened only if the collapse detector needs similarities.
    """

    def __init__(  # noqa: PLR0913
        self,
        detector: Detector | None = LOCKED,
        loops: Loops | None = LOOPS,
        open_encoder: "Callable[[], Encoder] | None" = None,
        *,
        speaker: str | None = None,
        trace: bool = False,
        prices: Prices | None = None,
        tools: Tools | None = None,
    ) -> None:
        self.detector, self.loops, self.prices = detector, loops, prices
        self._rules = ({}, {}) if tools in (None, {}) else read_rules(tools)
        self.tools = dict(tools or {})
        if loops is not None:
            check_loops(loops)
        if not isinstance(speaker, str | None):
            raise InputError(f"speaker is {speaker!r:.60}; expected a name, or 'all'")
        self._speaker, self._trace = speaker, trace
        self.encoder: Encoder | None = None
        self.band: GuardBand | None = None
        if detector is not None and read_needs(detector, "None").lags:
            from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - slow to import

            self.encoder = (open_encoder or default_encoder)()
            self.band = GuardBand(self.encoder, detector.needs.cutoffs)

    def judge(self, trajectories: Iterable[Trajectory]) -> Iterator[tuple[Trajectory, Detection]]:
        """Judge a stream of conversations, about a thousand turns at a time."""
        screen = Screen(self.loops) if self.loops else None
        skip_blank = self.detector is not None and self.detector.needs.skip_blank
        used: dict[str, Any] = {
            "detector": self.detector.describe() if self.detector else NO_DETECTOR,
            "encoder": self.encoder.describe() if self.encoder else NO_ENCODER,
            "loop_detector": self.loops.describe() if self.loops else None,
        }
        if self.loops and self.tools:
            used["loop_detector"]["tools"] = self.tools
        batches = encode_batches(
            trajectories, self.encoder, speaker=self._speaker, skip_blank=skip_blank
        )
        for batch in batches:
            texts = ([turn.text for turn in talk.turns if has_text(turn)] for talk, *_ in batch)
            messages = screen.screen(texts) if screen else iter(())
            for talk, positions, judged, vectors, truncated in batch:
                fields = talk.metadata.items()
                known = dict(zip(positions, vectors, strict=False)) if self.encoder else {}
                found: dict[str, Any] = {}
                if self.loops:
                    found = find_loops(talk.turns, messages, self.loops, known, self._rules)
                loops = found.get("loops", ())
                loops = attach_causes(loops, talk.turns) if loops else ()
                detection = Detection(
                    id=talk.id,
                    source=talk.source,
                    judged=judged,
                    turns=len(positions),
                    positions=positions,
                    # The fields to group by; nested ones stay in the log.
                    metadata={k: v for k, v in fields if isinstance(v, str | int | float | bool)},
                    **used,
                    **self._judge_collapse(talk, positions, vectors, int(truncated.sum())),
                    **found | attach_costs(talk, loops, self.prices),
                )
                yield talk, detection

    def _judge_collapse(
        self, talk: Trajectory, positions: Sequence[int], vectors: Vectors, truncated: int
    ) -> Mapping[str, Any]:
        """The fields of a verdict about collapse."""
        if self.detector is None:
            return NO_COLLAPSE
        turns = [talk.turns[n - 1] for n in positions]
        lags: list[list[float]] = [[]] * len(turns)
        if self.band:
            lags = self.band.similarities(turns, vectors, self.detector.needs.lags).tolist()
        observations = [
            Observation(turn, tuple(row), is_blank(turn.text))
            for turn, row in zip(turns, lags, strict=True)
        ]
        signals = self.detector.judge(observations)
        fields = summarise_signals(self.detector, observations, signals, truncated)
        if self._trace:
            fields["trace"] = tuple(_trace(observations, signals, positions))
        return fields


def summarise_signals(
    detector: Detector,
    observations: Sequence[Observation],
    signals: Sequence[Signal],
    truncated: int,
) -> dict[str, Any]:
    """Rates, episodes, evidence and caveats of the judged turns."""
    needs, total = detector.needs, len(signals)
    collapsed = tuple(signal.turn for signal in signals if signal.collapsed)
    at_risk = max(0, total - needs.first_turn_at_risk + 1)
    enough = total >= needs.turns
    counts = {
        "blank_turns": sum(each.blank for each in observations),
        "truncated_turns": truncated,
        "repaired_turns": sum(
            replace_surrogates(each.turn.text) != each.turn.text for each in observations
        ),
        "longer_cycle": detector.cycles_missed(observations, signals),
    }
    return {
        "at_risk_turns": at_risk if enough else 0,
        "collapsed": collapsed,
        "collapsed_turns": len(collapsed) if enough else None,
        "collapse_rate": len(collapsed) / total if enough else None,
        "at_risk_rate": len(collapsed) / at_risk if enough else None,
        "first_collapse_turn": collapsed[0] if collapsed else None,
        "episodes": tuple(_episodes(collapsed)),
        "evidence": tuple(_evidence(observations, signals)),
        "warnings": tuple(
            Caveat(code, n, f"{n} {'turn' if n == 1 else 'turns'} {CAVEATS[code]}")
            for code, n in counts.items()
            if n
        ),
        "reason": None
        if enough
        else f"no verdict: {total} judged turns, and the rule needs {needs.turns}",
    }


def _episodes(collapsed: Sequence[int]) -> Iterator[Episode]:
    if not collapsed:
        return
    breaks = [(a, b) for a, b in pairwise(collapsed) if b != a + 1]
    starts = [collapsed[0], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), collapsed[-1]]
    yield from (Episode(start, end) for start, end in zip(starts, ends, strict=True))


def _evidence(observations: Sequence[Observation], signals: Sequence[Signal]) -> Iterator[Evidence]:
    for signal, (turn, lags, _) in zip(signals, observations, strict=True):
        if not signal.collapsed or signal.repeats is None:
            continue
        back = signal.turn - signal.repeats
        text = " ".join(turn.text.split())
        yield Evidence(
            turn=signal.turn,
            repeats=signal.repeats,
            similarity=_none_if_nan(lags[back - 1]) if 0 < back <= len(lags) else None,
            excerpt=text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…",
        )


def _trace(
    observations: Sequence[Observation], signals: Sequence[Signal], positions: Sequence[int]
) -> Iterator[TurnTrace]:
    last_turn: dict[str | None, int] = {}
    for signal, each, position in zip(signals, observations, positions, strict=True):
        speaker = each.turn.speaker
        back = signal.turn - last_turn.get(speaker, signal.turn)
        last_turn[speaker] = signal.turn
        lags = tuple(map(_none_if_nan, each.lags))
        yield TurnTrace(
            turn=signal.turn,
            position=position,
            speaker=speaker,
            s1=lags[0] if lags else None,
            s2=lags[1] if lags else None,
            period1=signal.period1,
            period2=signal.period2,
            run=signal.run,
            collapsed=signal.collapsed,
            lags=lags,
            same_speaker=lags[back - 1] if 0 < back <= len(lags) else None,
        )


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


class Results(list[Detection]):
    """A list of verdicts, such as those of `detect_all` or `detect_file`.

    >>> found = Results(detect_all([["Once more."] * 6, ["Well."] * 2], detector=None))
    >>> [each.looping for each in found]
    [True, False]
    """

    def to_pandas(self) -> Any:
        """A pandas frame with a row per conversation, or per turn if there are traces."""
        return verdict_frame(self)

    def _repr_html_(self) -> str:
        return verdict_html(self)


class DetectSettings(TypedDict, total=False):
    """The settings of `detect`, which are those of `detect_all`."""

    speaker: str | None
    detector: Detector | None
    vectors: bool
    loops: Loops | None
    encoder: "Encoder | None"
    trace: bool
    tools: Tools | None


@overload
def detect(conversation: Conversation, **settings: Unpack[DetectSettings]) -> Detection: ...


@overload
def detect(conversation: DataFrame, **settings: Unpack[DetectSettings]) -> Results: ...


def detect(  # noqa: PLR0913 - its settings
    conversation: Conversation | DataFrame,
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    vectors: bool = True,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
    tools: Tools | None = None,
) -> Detection | Results:
    """Judge a conversation: its texts or messages in order, or a `Trajectory`.

    Messages are dicts (of OpenAI, Anthropic and the other log formats), objects of LangChain or of
    a provider's SDK, or `Turn` records. A pandas or polars DataFrame holds several conversations
    and gives `Results`, a list of verdicts.

    Both detectors run. ``vectors=False`` leaves out the collapse verdict, which needs them, as
    ``detector=None`` does; ``loops=None`` leaves out the loop detector. ``tools`` are rules per
    tool, as in `Guard`.

    >>> found = detect(["What now?"] + ["Let me check that again."] * 7)
    >>> found.collapsed, found.loops[0].kind, found.loops[0].began, found.loops[0].noticed
    ((5, 6, 7, 8), 'verbatim', 2, 5)
    """
    settings: DetectSettings = {
        "speaker": speaker, "detector": detector, "vectors": vectors, "loops": loops,
        "encoder": encoder, "trace": trace, "tools": tools,
    }  # fmt: skip
    if is_frame(conversation):
        return Results(detect_all(conversation, **settings))
    return next(detect_all([parse_conversation(conversation)], **settings))


def detect_file(  # noqa: PLR0913
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the name of the command line's option
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    vectors: bool = True,
    loops: Loops | None = LOOPS,
    trace: bool = False,
    tools: Tools | None = None,
) -> Iterator[Detection]:
    """Judge every conversation of a log file, or of a folder of logs."""
    if not isinstance(path, str | Path):
        raise InputError(f"path is {path!r:.60}; expected the path of a log or a folder")
    detector = drop_vectors(detector) if not vectors else detector
    talks = readers.read_all([path], format=format)
    judge = Judge(detector, loops, speaker=speaker, trace=trace, tools=tools)
    return (detection for _, detection in judge.judge(talks))


def detect_all(  # noqa: PLR0913
    conversations: Iterable[Conversation] | DataFrame,
    *,
    speaker: str | None = None,
    detector: Detector | None = LOCKED,
    vectors: bool = True,
    loops: Loops | None = LOOPS,
    encoder: "Encoder | None" = None,
    trace: bool = False,
    tools: Tools | None = None,
) -> Iterator[Detection]:
    """Judge a stream of conversations in constant memory; each is anything `detect` takes."""
    if encoder is not None:
        check_encoder(encoder)
    detector = drop_vectors(detector) if not vectors else detector
    open_encoder = (lambda: encoder) if encoder else None
    judge = Judge(detector, loops, open_encoder, speaker=speaker, trace=trace, tools=tools)
    for _, detection in judge.judge(_trajectories(conversations)):
        yield detection


def drop_vectors(detector: Detector | None) -> Detector | None:
    """The detector if it needs no vectors, else none."""
    return None if detector is None or read_needs(detector, "None").lags else detector


def _trajectories(conversations: Any) -> Iterator[Trajectory]:
    if is_frame(conversations):
        yield from parse_frame(conversations)
        return
    if isinstance(conversations, str | bytes | Mapping | Trajectory):
        raise InputError(
            f"detect_all takes several conversations, not a {type(conversations).__name__};"
            " use detect for one"
        )
    if not isinstance(conversations, Iterable):
        raise InputError(
            f"conversations is {conversations!r:.60}; expected several, each as `detect` takes it"
        )
    for number, each in enumerate(conversations, start=1):
        yield parse_conversation(each, f"conversation-{number}")
