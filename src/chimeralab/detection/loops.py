"""The loop detector: is it going round in circles, since when, and what repeats?

Each message gives evidence from 0 to 1 that it repeats earlier ones. A running sum of it, less what
a healthy message may have, says when a stretch counts as a loop: four identical messages do, one
accident does not. Courtesy, each speaker by itself and tool calls have sums of their own.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chimeralab.core.records import RESULTS, Call, Loop, Turn, side_of
from chimeralab.detection.calls import CallLog, as_told
from chimeralab.detection.evidence import NOTHING, LoopSettings, TextEvidence, TextMemory, Weighed
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.seam import Detector, Needs, Seen, Signal
from chimeralab.detection.words import HeardMessage

EXCERPT = 80
ROUNDING = 1e-9
WARMTH = 0.05  # evidence per message that leaves the score as it is
FOURTH = 2.35  # what the fourth identical message has added up to, as the third identical call
# Fitted to the share of stuck conversations: benchmarks/validity/loop_score.py
HALF_WAY, STEEPNESS = 1.62, 1.3


@dataclass(frozen=True, slots=True)
class Loops(LoopSettings, Detector):
    """A turn at which the loop detector has a verdict that is still going on."""

    @property
    def name(self) -> str:
        return "loops"

    @property
    def standard(self) -> str:
        return "loops-1"

    @property
    def rule(self) -> str:
        return (
            "a turn counts as collapsed while the conversation repeats itself: the same words, one"
            " template, a cycle of messages, courtesy without end, or the same tool call with the"
            " same result"
        )

    @property
    def needs(self) -> Needs:
        return Needs()

    def start(self) -> "LoopingTurns":
        return LoopingTurns(self)


LOOPS = Loops()


class Judges(NamedTuple):
    """What judges collapse and what judges loops; None where nobody asks for it."""

    collapse: Detector | None = LOCKED
    loops: Loops | None = LOOPS


def loops_beside(detector: Detector | None) -> Loops:
    """The loop detector to use beside another: the same where that is one with its own settings.

    >>> loops_beside(Loops(window=8)).window, loops_beside(None) is LOOPS
    (8, True)
    """
    return detector if isinstance(detector, Loops) else LOOPS


class Sum:
    """Adds up evidence less the drift; on from a threshold, off at half of it.

    It remembers at which message it left zero and which earlier message that one resembled: there
    a loop began.
    """

    def __init__(self, settings: LoopSettings, level: str, stream: str) -> None:
        self._settings = settings
        self.level, self.stream = level, stream
        self.value = 0.0
        self.on = False
        self.left_zero = self.first = self.last = 0
        self.kinds: dict[str, int] = {}
        self.periods: deque[int] = deque(maxlen=8)

    def add(self, number: int, seen: Weighed) -> None:
        """Take in the evidence of message `number`."""
        if seen.evidence > self._settings.drift + ROUNDING:
            self._note(number, seen)
        self._move(self.value + seen.evidence - self._settings.drift)

    def rise(self, number: int, seen: Weighed) -> None:
        """Take in evidence that is a sum already, and that fades when nothing follows."""
        if seen.evidence:
            self._note(number, seen)
        self._move(max(seen.evidence, self.value - self._settings.drift))

    def _note(self, number: int, seen: Weighed) -> None:
        if self.value <= ROUNDING:
            self.left_zero = number
            self.first = seen.near[0] if seen.near else number
            self.kinds.clear()
            self.periods.clear()
        self.last = number
        self.kinds[seen.kind] = self.kinds.get(seen.kind, 0) + 1
        if seen.period:
            self.periods.append(seen.period)

    def _move(self, value: float) -> None:
        s = self._settings
        self.value = min(s.cap, max(0.0, value))
        self.on = self.value >= s.on - ROUNDING or (self.on and self.value > s.on / 2)

    @property
    def kind(self) -> str:
        return max(self.kinds, key=lambda kind: self.kinds[kind], default="")

    @property
    def period(self) -> int:
        return Counter(self.periods).most_common(1)[0][0] if self.periods else 1

    @property
    def began(self) -> int:
        """The message that the first repeat resembled, but at most one period before it."""
        return max(self.first, self.left_zero - self.period)


class LoopSignal(NamedTuple):
    """What the detector says after a message: the loops that are going on, and the score so far.

    ``repeats`` are the positions of earlier messages that this one repeats, in a loop or not.
    """

    position: int
    loops: tuple[Loop, ...]
    score: float
    repeats: tuple[int, ...] = ()

    @property
    def looping(self) -> bool:
        return any(loop.level == "verdict" for loop in self.loops)


class ToolRule(NamedTuple):
    """What counts for one tool: how many identical calls make a loop, if any number does."""

    repeats: int = 3
    ignore: bool = False


ANY_TOOL = ToolRule()


class Occasion(NamedTuple):
    """Where a sum stands: positions of its messages, and the text of the last one."""

    positions: Sequence[int]
    said: str


def is_said(turn: Turn) -> bool:
    """Whether somebody says something in a turn."""
    return turn.spoken and bool(turn.text.strip())


def is_in_stream(turn: Turn, stream: str) -> bool:
    """Whether a loop of a stream can be made of this message."""
    if stream == "calls":
        return bool(turn.calls)
    return is_said(turn) and stream in ("all", f"speaker:{turn.speaker}")


class LoopStream:
    """Judges one conversation as it goes on; what a message costs depends on the window alone.

    Spoken messages and tool calls are numbered apart; `loops` speak of positions of messages.
    """

    def __init__(
        self, settings: LoopSettings = LOOPS, tools: Mapping[str, ToolRule] | None = None
    ) -> None:
        self.settings = settings
        self._tools = tools or {}
        self.position = 0
        self.loops: list[Loop] = []
        self.score = 0.0
        self._repeated: set[int] = set()
        self._going_on: dict[tuple[str, str], int] = {}
        self._repeats: dict[tuple[str, str], int] = {}
        self._heat: dict[str | None, float] = {}
        self._texts, self._text_positions = TextMemory(settings), [0]
        self._calls, self._call_positions = CallLog(settings.calls), [0]
        self._repeating = Sum(settings, "verdict", "all")
        self._polite = Sum(settings, "verdict", "all")
        self._rewording = Sum(settings, "notice", "all")
        self._speakers: dict[str, Sum] = {}
        self._calling = Sum(settings, "verdict", "calls")
        self._failing = Sum(settings, "notice", "calls")

    def update(self, turn: Turn) -> LoopSignal:
        """Take the next message of the conversation, whoever says it."""
        self.take(turn, HeardMessage(turn.text) if is_said(turn) else None)
        return self.signal

    def take(self, turn: Turn, message: HeardMessage | None) -> set[int]:
        """Take the next message, with its words if it says any; which earlier ones it repeats."""
        self.position += 1
        self._repeated = set()
        if message is not None:
            self._judge_text(message, turn.speaker)
        elif not turn.spoken and side_of(turn) in RESULTS:
            self._texts.something_new |= self._calls.heard(turn.text)
        for call in turn.calls:
            self.judge_call(call, self.position)
        return self._repeated

    @property
    def signal(self) -> LoopSignal:
        """How things stand after the last message."""
        going_on = tuple(self.loops[place] for place in self._going_on.values())
        return LoopSignal(self.position, going_on, self.score, tuple(sorted(self._repeated)))

    @property
    def steps(self) -> int:
        """How many spoken messages and tool calls were judged."""
        return self._texts.number + len(self._call_positions) - 1

    def repeats_since(self, loop: Loop) -> int:
        """How many messages have repeated something since a loop was noticed."""
        return self._repeats[loop.level, loop.stream]

    def _judge_text(self, message: HeardMessage, speaker: str | None) -> None:
        seen = self._texts.weigh(message, speaker)
        self._text_positions.append(self.position)
        if message.quiet:
            if self._heat:  # else nothing was ever added
                self._fade(speaker)
            if not self._going_on:  # and no loop is noticed at a message that repeats nothing
                return
        else:
            self._add(seen, speaker)
        loudest = max(self._repeating, self._polite, key=lambda each: (each.on, each.value))
        common = seen.polite if loudest is self._polite else seen.repeated
        moment = Occasion(self._text_positions, message.text)
        self._follow(loudest, moment, common.near)
        for own in self._speakers.values():
            self._follow(own, moment, seen.own.near, hidden=loudest.on)
        self._follow(self._rewording, moment, seen.best.near, hidden=loudest.on)

    def _add(self, seen: TextEvidence, speaker: str | None) -> None:
        """Add to the sums what a message is evidence of."""
        number, best = self._texts.number, seen.best
        if seen.repeated.kind == "within-turn":
            self._repeating.rise(number, seen.repeated)
        else:
            self._repeating.add(number, seen.repeated)
        self._polite.add(number, seen.polite)
        self._rewording.add(number, best)
        self._warm(None, best.evidence)
        if speaker is not None:
            self._warm(speaker, seen.own_heat)
            own = self._speakers.get(speaker)
            if own is None:
                own = Sum(self.settings, "verdict", f"speaker:{speaker}")
                self._speakers[speaker] = own
            own.add(number, seen.own)
        telling = max(best, seen.own, seen.polite, key=lambda each: each.evidence)
        if telling.evidence > self.settings.drift + ROUNDING:
            self._repeated.update(self._text_positions[n] for n in telling.near)

    def _fade(self, speaker: str | None) -> None:
        """Add nothing: what is less than it was can't raise a score, and what is 0 stays so."""
        own = self._speakers.get(speaker) if speaker is not None else None
        for each in (self._repeating, self._polite, self._rewording, own):
            if each is not None and (each.value or each.on):
                each.add(self._texts.number, NOTHING)
        for name in {None, speaker}:
            if self._heat.get(name):
                self._heat[name] = max(0.0, self._heat[name] - WARMTH)

    def judge_call(self, call: Call, position: int) -> None:
        """Take a tool call of the message at a position, once its result is known."""
        rule = self._tools.get(call.name, ANY_TOOL)
        if rule.ignore:
            return
        s, number = self.settings, len(self._call_positions)
        self._call_positions.append(position)
        repeat = self._calls.add(number, call)
        self._texts.something_new |= self._calls.heard(call.result) and not repeat.failed
        weight = repeat.weight * (ANY_TOOL.repeats - 1) / (rule.repeats - 1)
        seen = Weighed(s.on * weight / 2, "tool", repeat.of, repeat.period)
        self._calling.rise(number, seen)
        # The second time that the same call fails in the same way is worth a word.
        warning = s.on if repeat.failed and weight >= 1 else 0.0
        self._failing.rise(number, seen._replace(evidence=warning))
        self.score = max(self.score, score_of(FOURTH * weight / 2))
        moment = Occasion(self._call_positions, f"{call.name} {as_told(call.arguments)}")
        self._repeated.update({self._call_positions[n] for n in repeat.of[:2]} - {position})
        self._follow(self._calling, moment, repeat.of[:2])
        self._follow(self._failing, moment, repeat.of[:2], hidden=self._calling.on)

    def _warm(self, speaker: str | None, evidence: float) -> None:
        self._heat[speaker] = max(0.0, self._heat.get(speaker, 0.0) + evidence - WARMTH)
        self.score = max(self.score, score_of(self._heat[speaker]))

    def _follow(
        self, sums: Sum, moment: Occasion, near: Sequence[int], *, hidden: bool = False
    ) -> None:
        """Begin, go on with or end the loop of a sum; one that another explains is not begun.

        The last message repeats those that are `near`.
        """
        key = sums.level, sums.stream
        place = self._going_on.get(key)
        if place is None and not sums.on:
            return
        if place is not None and not sums.on:
            del self._going_on[key]
            ended = moment.positions[sums.last]
            self.loops[place] = replace(self.loops[place], ended=ended)
        elif place is not None:
            self._repeats[key] += moment.positions[sums.last] == moment.positions[-1]
            self.loops[place] = replace(
                self.loops[place], kind=sums.kind, period=sums.period, score=self.score
            )
        elif sums.on and not hidden and moment.positions[sums.last] == moment.positions[-1]:
            # Noticed at a message that repeats, never at a new one after a louder loop has ended.
            reworded = sums.kind == "paraphrase"
            began = self._texts.stretched_back(sums.began) if reworded else sums.began
            excerpt = " ".join(moment.said.split())
            self._going_on[key], self._repeats[key] = len(self.loops), 0
            self.loops.append(
                Loop(
                    level=sums.level,
                    kind=sums.kind,
                    stream=sums.stream,
                    began=moment.positions[began],
                    noticed=moment.positions[-1],
                    ended=None,
                    period=sums.period,
                    repeats=tuple(sorted(moment.positions[n] for n in near)),
                    excerpt=excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…",
                    score=self.score,
                )
            )


def find_loops(
    turns: Sequence[Turn], words: Iterator[HeardMessage], settings: Loops
) -> dict[str, Any]:
    """The fields of a verdict that say whether a conversation loops; `words` of what is said."""
    stream, repeats = LoopStream(settings), dict[int, set[int]]()
    for position, turn in enumerate(turns, start=1):
        if earlier := stream.take(turn, next(words) if is_said(turn) else None):
            repeats[position] = earlier
    return {
        "steps": stream.steps,
        "looping": any(loop.level == "verdict" for loop in stream.loops),
        "loops": with_echoes(stream.loops, turns, repeats),
        "loop_score": stream.score,
    }


def with_echoes(
    loops: Sequence[Loop], turns: Sequence[Turn], repeats: Mapping[int, Collection[int]]
) -> tuple[Loop, ...]:
    """The loops of a conversation, each with what its messages repeat of it."""

    def echoes(loop: Loop) -> Iterator[tuple[int, ...]]:
        last = min(loop.ended or len(turns), len(turns))
        for position in range(loop.began, last + 1):
            # A message before the loop may share a phrase with this one; it does not go round.
            earlier = sorted(n for n in repeats.get(position, ()) if n >= loop.began)
            if earlier and is_in_stream(turns[position - 1], loop.stream):
                yield (position, *earlier)

    return tuple(replace(loop, echoes=tuple(echoes(loop))) for loop in loops)


def recall_echoes(
    loops: Sequence[Loop], turns: Sequence[Turn], settings: LoopSettings = LOOPS
) -> Sequence[Loop]:
    """The same for loops that were stored; those without echoes are looked for again."""
    if all(loop.echoes is not None for loop in loops):
        return loops
    stream = LoopStream(settings)
    repeats = {n: stream.update(turn).repeats for n, turn in enumerate(turns, start=1)}
    return with_echoes(loops, turns, repeats)


def score_of(heat: float) -> float:
    """How far a conversation is from a loop, from what it has added up.

    >>> score_of(0.0), score_of(HALF_WAY)
    (0.0, 0.5)
    """
    odds: float = (heat / HALF_WAY) ** STEEPNESS
    return odds / (odds + 1)


class LoopingTurns:
    """The loop detector behind the seam: a turn is collapsed while a verdict is going on."""

    def __init__(self, settings: LoopSettings) -> None:
        self._stream = LoopStream(settings)

    def update(self, seen: Seen) -> Signal:
        signal = self._stream.update(seen.turn)
        found = next((loop for loop in signal.loops if loop.level == "verdict"), None)
        named = (signal.repeats or found.repeats) if found else ()
        earlier = [place for place in named if place < signal.position]
        return Signal(
            signal.position,
            collapsed=found is not None,
            repeats=max(earlier, default=None),
        )
