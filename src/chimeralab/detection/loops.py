"""The loop detector: is it going round in circles, since when, and what repeats?

Each message gives evidence from 0 to 1 that it repeats earlier ones. A running sum of it, less what
a healthy message may have, says when a stretch counts as a loop: four identical messages do, one
accident does not. Courtesy, each speaker by itself and tool calls have sums of their own.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chimeralab.core.records import RESULT_ROLES, Call, Loop, Record, Turn, role_of_turn
from chimeralab.detection.calls import CallLog, as_told
from chimeralab.detection.evidence import NOTHING, TextEvidence, TextMemory, Weighed
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.seam import Detector, Needs, Observation, Signal
from chimeralab.detection.words import HeardMessage

EXCERPT = 80
ROUNDING = 1e-9
WARMTH = 0.05  # evidence per message that leaves the score as it is
IDENTICAL_CALLS = 3  # make a loop, unless a tool has a number of its own
FOURTH = 2.35  # what the fourth identical message has added up to, as the third identical call
# Fitted to the share of stuck conversations: benchmarks/validity/loop_score.py
HALF_WAY, STEEPNESS = 1.62, 1.3


@dataclass(frozen=True, slots=True)
class Loops(Record, Detector):
    """The settings of the loop detector. The defaults are `loops-1`; whatever differs is marked.

    Pairs of `low` and `high` are ramps: evidence is 0 up to the one and 1 from the other on.
    """

    window: int = 32  # messages looked back
    twin_low: float = 0.15  # three-word runs shared with one earlier message
    twin_high: float = 0.45
    order_low: float = 0.60  # words in the same order, the mean of the three nearest messages
    order_high: float = 0.80
    frame_low: float = 0.22  # words that stand in the last two messages too, around a slot
    frame_high: float = 0.35
    frame: float = 0.70  # evidence of one frame with ever new fillings
    words_low: float = 0.38  # words shared, the mean of the three nearest messages
    words_high: float = 0.60
    fresh_low: float = 0.30  # new content words that weaken a paraphrase, and that refute it
    fresh_high: float = 0.60
    short: int = 4  # a message of fewer words weighs less
    short_weight: float = 0.75
    progress: float = 0.30  # weight of a repeat after a tool has brought something new
    courtesy: float = 0.65  # evidence of an empty courteous message after another one
    reply: float = 0.60  # weight of a short answer to something new
    own_words: int = 6  # a speaker's own loop is made of messages of so many words
    drift: float = 0.30  # evidence that a healthy message may have
    on: float = 1.6  # the sum at which a loop is noticed; it ends at half of it
    cap: float = 2.0
    calls: int = 16  # tool calls looked back

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


class DetectorPair(NamedTuple):
    """What judges collapse and what judges loops; None where nobody asks for it."""

    collapse: Detector | None = LOCKED
    loops: Loops | None = LOOPS


def resolve_loops(detector: Detector | None) -> Loops:
    """The loop detector to use beside another: the same where that is one with its own settings.

    >>> resolve_loops(Loops(window=8)).window, resolve_loops(None) is LOOPS
    (8, True)
    """
    return detector if isinstance(detector, Loops) else LOOPS


class Sum:
    """Adds up evidence less the drift; on from a threshold, off at half of it.

    It remembers at which message it left zero and which earlier message that one resembled: there
    a loop began.
    """

    def __init__(self, settings: Loops, level: str, stream: str) -> None:
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


def has_text(turn: Turn) -> bool:
    """Whether somebody says something in a turn."""
    return turn.spoken and bool(turn.text.strip())


def is_in_stream(turn: Turn, stream: str) -> bool:
    """Whether a loop of a stream can be made of this message."""
    if stream == "calls":
        return bool(turn.calls)
    return has_text(turn) and stream in ("all", f"speaker:{turn.speaker}")


def _strongest(*seen: Weighed) -> Weighed:
    """Of what a message is evidence of, what says most."""
    return max(seen, key=lambda each: each.evidence)


class LoopStream:
    """Judges one conversation as it goes on; what a message costs depends on the window alone.

    Spoken messages and tool calls are numbered apart; `loops` speak of positions of messages.
    `tools` says how many identical calls of a tool make a loop, or None where no number does.
    """

    def __init__(
        self, settings: Loops = LOOPS, tools: Mapping[str, int | None] | None = None
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

    def update(self, turn: Turn) -> list[int]:
        """Take the next message, whoever says it.

        Gives the positions of earlier messages that it repeats, in a loop or not.
        """
        return sorted(self.take(turn, HeardMessage(turn.text) if has_text(turn) else None))

    def take(self, turn: Turn, message: HeardMessage | None) -> set[int]:
        """The same with the words of the message, if it says any."""
        self.position += 1
        self._repeated = set()
        if message is not None:
            self._judge_text(message, turn.speaker)
        elif not turn.spoken and role_of_turn(turn) in RESULT_ROLES:
            self._texts.something_new |= self._calls.heard(turn.text)
        for call in turn.calls:
            self.judge_call(call, self.position)
        return self._repeated

    @property
    def going_on(self) -> list[Loop]:
        """The loops that have not ended."""
        return [self.loops[place] for place in self._going_on.values()]

    @property
    def steps(self) -> int:
        """How many spoken messages and tool calls were judged."""
        return self._texts.number + len(self._call_positions) - 1

    def repeats_since(self, loop: Loop) -> int:
        """How many messages have repeated something since a loop was noticed."""
        return self._repeats[loop.level, loop.stream]

    def _judge_text(self, message: HeardMessage, speaker: str | None) -> None:
        said = message.text
        seen = self._texts.weigh(message, speaker)
        self._text_positions.append(self.position)
        repeated, reworded, polite, own, _ = seen
        if message.quiet:
            if self._heat:  # else nothing was ever added
                self._fade(speaker)
            if not self._going_on:  # and no loop is noticed at a message that repeats nothing
                return
        else:
            self._add(seen, speaker)
        loudest = max(self._repeating, self._polite, key=lambda each: (each.on, each.value))
        common = polite if loudest is self._polite else repeated
        self._follow(loudest, said, common.near)
        for each in self._speakers.values():
            self._follow(each, said, own.near, hidden=loudest.on)
        best = _strongest(repeated, reworded)
        self._follow(self._rewording, said, best.near, hidden=loudest.on)

    def _add(self, seen: TextEvidence, speaker: str | None) -> None:
        """Add to the sums what a message is evidence of."""
        repeated, reworded, polite, own, own_heat = seen
        number, best = self._texts.number, _strongest(repeated, reworded)
        if repeated.kind == "within-turn":
            self._repeating.rise(number, repeated)
        else:
            self._repeating.add(number, repeated)
        self._polite.add(number, polite)
        self._rewording.add(number, best)
        self._warm(None, best.evidence)
        if speaker is not None:
            self._warm(speaker, own_heat)
            if speaker not in self._speakers:
                self._speakers[speaker] = Sum(self.settings, "verdict", f"speaker:{speaker}")
            self._speakers[speaker].add(number, own)
        telling = _strongest(best, own, polite)
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
        identical = self._tools.get(call.name, IDENTICAL_CALLS)
        if identical is None:
            return
        s, number = self.settings, len(self._call_positions)
        self._call_positions.append(position)
        repeated, near, failed, period = self._calls.add(number, call)
        self._texts.something_new |= self._calls.heard(call.result) and not failed
        weight = repeated * (IDENTICAL_CALLS - 1) / (identical - 1)
        seen = Weighed(s.on * weight / 2, "tool", near, period)
        self._calling.rise(number, seen)
        # The second time that the same call fails in the same way is worth a word.
        warning = s.on if failed and weight >= 1 else 0.0
        self._failing.rise(number, seen._replace(evidence=warning))
        self.score = max(self.score, score_of(FOURTH * weight / 2))
        said = f"{call.name} {as_told(call.arguments)}"
        self._repeated.update({self._call_positions[n] for n in near[:2]} - {position})
        self._follow(self._calling, said, near[:2])
        self._follow(self._failing, said, near[:2], hidden=self._calling.on)

    def _warm(self, speaker: str | None, evidence: float) -> None:
        self._heat[speaker] = max(0.0, self._heat.get(speaker, 0.0) + evidence - WARMTH)
        self.score = max(self.score, score_of(self._heat[speaker]))

    def _follow(self, sums: Sum, said: str, near: Sequence[int], *, hidden: bool = False) -> None:
        """Begin, go on with or end the loop of a sum; one that another explains is not begun.

        The last message, which is `said`, repeats those that are `near`.
        """
        key = sums.level, sums.stream
        place = self._going_on.get(key)
        if place is None and not sums.on:
            return
        positions = self._call_positions if sums.stream == "calls" else self._text_positions
        if place is not None and not sums.on:
            del self._going_on[key]
            self.loops[place] = replace(self.loops[place], ended=positions[sums.last])
        elif place is not None:
            self._repeats[key] += positions[sums.last] == positions[-1]
            self.loops[place] = replace(
                self.loops[place], kind=sums.kind, period=sums.period, score=self.score
            )
        elif not hidden and positions[sums.last] == positions[-1]:
            # Noticed at a message that repeats, never at a new one after a louder loop has ended.
            reworded = sums.kind == "paraphrase"
            began = self._texts.stretched_back(sums.began) if reworded else sums.began
            excerpt = " ".join(said.split())
            self._going_on[key], self._repeats[key] = len(self.loops), 0
            self.loops.append(
                Loop(
                    level=sums.level,
                    kind=sums.kind,
                    stream=sums.stream,
                    began=positions[began],
                    noticed=positions[-1],
                    ended=None,
                    period=sums.period,
                    repeats=tuple(sorted(positions[n] for n in near)),
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
        if earlier := stream.take(turn, next(words) if has_text(turn) else None):
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


def restore_echoes(
    loops: Sequence[Loop], turns: Sequence[Turn], settings: Loops = LOOPS
) -> Sequence[Loop]:
    """The same for loops that were stored; those without echoes are looked for again."""
    if all(loop.echoes is not None for loop in loops):
        return loops
    stream = LoopStream(settings)
    repeats = {n: stream.update(turn) for n, turn in enumerate(turns, start=1)}
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

    def __init__(self, settings: Loops) -> None:
        self._stream = LoopStream(settings)

    def update(self, seen: Observation) -> Signal:
        repeats, position = self._stream.update(seen.turn), self._stream.position
        found = next((loop for loop in self._stream.going_on if loop.level == "verdict"), None)
        named = (repeats or found.repeats) if found else ()
        earlier = max((place for place in named if place < position), default=None)
        return Signal(position, collapsed=found is not None, repeats=earlier)
