"""The loop detector: whether a conversation loops, since when, and what repeats.

Each message gives evidence from 0 to 1 that it repeats earlier ones (`evidence`), and each tool
call that it brings nothing new (`calls`). A CUSUM (Page 1954) adds up the evidence minus what a
healthy message may have, and marks a stretch as a loop: four identical messages are one, a single
coincidence is not. Courtesy, paraphrase, each speaker and tool calls have sums of their own.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import RESULT_ROLES, Call, Loop, Record, Turn, role_of_turn
from chimeralab.detection.calls import CallLog, has_failed, normalize, quote_call
from chimeralab.detection.classes import PATIENCE, QUIET, Repetition, StepLog, ToolStep
from chimeralab.detection.evidence import (
    NOTHING,
    LoopEvidence,
    TextEvidence,
    TextMemory,
    strongest,
)
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.runs import SharedWork
from chimeralab.detection.seam import Detector, Needs, Observation, Signal
from chimeralab.detection.winding import WindingDown
from chimeralab.detection.words import SpokenMessage, fill_frame, find_frame

EXCERPT = 80
ROUNDING = 1e-9
LEAK = 0.05  # evidence per message at which the score stays the same
IDENTICAL_CALLS = 3  # a loop, unless a tool has a number of its own
MAX_SPEAKERS = 32  # with sums of their own: the last ones who repeated something
CALL_SUM = 2.35  # of the third identical call: what four identical messages add up to
# Fitted to the share of stuck conversations: benchmarks/validity/loop_score.py
HALF_WAY, STEEPNESS = 1.62, 1.3
COPIED = ("verbatim", "alternating", "cycle", "within-turn")  # kinds that reasoning can loop in
RUN = "run"  # the stream of work that other conversations of a run have done
ENDING = ("ending", "all")  # the kind and the stream of a talk that winds down
MAX_COMMAND_WORDS = 3
# By tool, the number of identical calls that make a loop, and the arguments that count.
ToolRules = tuple[Mapping[str, int | None], Mapping[str, Iterable[str]]]
MIN_THOUGHT = 8  # words of reasoning that can be part of a loop


@dataclass(frozen=True, slots=True)
class Loops(Record, Detector):
    """The settings of the loop detector. The defaults are `loops-2`; changed ones are reported.

    `version` 1 is `loops-1`, which is kept for studies that declared it: it compares the texts of
    messages that act, too, and knows one class of tool calls.

    Pairs of `low` and `high` are ramps: evidence is 0 up to `low` and 1 from `high` on. `evidence`
    explains the rules.
    """

    window: int = 32  # earlier messages that are compared
    twin_low: float = 0.15  # trigrams shared with one earlier message
    twin_high: float = 0.45
    order_low: float = 0.60  # words in the same order, the mean of the three nearest messages
    order_high: float = 0.80
    frame_low: float = 0.22  # words of a template that the last two messages have too
    frame_high: float = 0.35
    frame: float = 0.70  # evidence of a template with new fillings
    words_low: float = 0.38  # stems shared, the mean of the three nearest messages
    words_high: float = 0.60
    fresh_low: float = 0.30  # new content words that weaken a paraphrase, and that refute it
    fresh_high: float = 0.60
    short: int = 4  # words; a shorter message weighs less
    short_weight: float = 0.75
    progress: float = 0.30  # weight of a repeat after news from a tool
    courtesy: float = 0.65  # evidence of a message that is nothing but courtesy, after another
    reply: float = 0.60  # weight of a short answer to something new
    own_words: int = 6  # words; a shorter message is not part of its speaker's own loop
    drift: float = 0.30  # evidence that a healthy message may have
    on: float = 1.6  # the sum at which a loop is noticed; it ends at half of that
    cap: float = 2.0  # the largest sum, so that a loop ends soon after the last repeat
    calls: int = 16  # earlier tool calls that are compared
    version: int = 2

    def __post_init__(self) -> None:
        if self.version not in (1, 2):
            raise InputError(f"loops has the versions 1 and 2, not {self.version!r}")
        for each in fields(self):
            value, whole = getattr(self, each.name), isinstance(each.default, int)
            expected = int if whole else int | float
            if not isinstance(value, expected) or isinstance(value, bool) or value < whole:
                least = "a whole number of at least 1" if whole else "a number of at least 0"
                raise InputError(f"{each.name} is {value!r:.60}; expected {least}")

    @property
    def name(self) -> str:
        return "loops"

    @property
    def standard(self) -> str:
        return f"loops-{self.version}"

    @property
    def changed(self) -> dict[str, Any]:
        ours = {each.name: (getattr(self, each.name), each.default) for each in fields(self)}
        del ours["version"]  # which is in the name of the operating point
        return {name: value for name, (value, default) in ours.items() if value != default}

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

    def start(self) -> "LoopingTurnsStream":
        return LoopingTurnsStream(self)


LOOPS = Loops()


def check_loops(loops: Any) -> Loops:
    """Refuse what is not the settings of the loop detector."""
    if not isinstance(loops, Loops):
        raise InputError(
            f"loops is {loops!r:.60}, a {type(loops).__name__}; expected chimeralab.Loops(…)"
        )
    return loops


class DetectorPair(NamedTuple):
    """The collapse detector and the loop detector to run; None for one that is not wanted."""

    collapse: Detector | None = LOCKED
    loops: Loops | None = LOOPS


BOTH = DetectorPair()


def resolve_loops(detector: Detector | None) -> Loops:
    """The loop detector to run alongside a collapse detector, or that one if it detects loops.

    >>> resolve_loops(Loops(window=8)).window, resolve_loops(None) is LOOPS
    (8, True)
    """
    return detector if isinstance(detector, Loops) else LOOPS


class Cusum:
    """A sum of evidence minus drift; it is on from a threshold until it falls to half of that.

    A loop began where the sum left zero, at the earlier message that this one repeats.
    """

    def __init__(self, settings: Loops, level: str, stream: str) -> None:
        self._settings = settings
        self.level, self.stream = level, stream
        self.value = 0.0
        self.on = False
        self.patience = 0  # messages that a loop must have lasted
        self.left_zero = self.first = self.last = 0
        self.kinds: dict[str, int] = {}
        self.periods: deque[int] = deque(maxlen=8)

    def add(self, number: int, found: LoopEvidence) -> None:
        """Add the evidence of message `number`."""
        if found.strength > self._settings.drift + ROUNDING:
            self._record(number, found)
        self._set(self.value + found.strength - self._settings.drift)

    def raise_to(self, number: int, found: LoopEvidence) -> None:
        """Raise the sum to evidence that is a sum already, such as a count of identical calls."""
        if found.strength:
            self._record(number, found)
        self._set(max(found.strength, self.value - self._settings.drift))

    def _record(self, number: int, found: LoopEvidence) -> None:
        if self.value <= ROUNDING:
            self.left_zero = number
            self.first = found.near[0] if found.near else number
            self.kinds.clear()
            self.periods.clear()
        self.last = number
        self.kinds[found.kind] = self.kinds.get(found.kind, 0) + 1
        if found.period:
            self.periods.append(found.period)

    def _set(self, value: float) -> None:
        s = self._settings
        self.value = min(s.cap, max(0.0, value))
        lasts = self.last - self.began >= self.patience
        self.on = (lasts and self.value >= s.on - ROUNDING) or (self.on and self.value > s.on / 2)

    @property
    def kind(self) -> str:
        return max(self.kinds, key=lambda kind: self.kinds[kind], default="")

    @property
    def period(self) -> int:
        return Counter(self.periods).most_common(1)[0][0] if self.periods else 1

    @property
    def began(self) -> int:
        """The message that the first repeat resembles, but at most one period before it."""
        return max(self.first, self.left_zero - self.period)


def has_text(turn: Turn) -> bool:
    """Whether a turn is spoken and not empty."""
    return turn.spoken and bool(turn.text.strip())


def is_in_stream(turn: Turn, stream: str) -> bool:
    """Whether a message can be part of a loop of this stream."""
    if stream in ("calls", "reasoning"):
        return bool(turn.calls if stream == "calls" else turn.reasoning)
    return has_text(turn) and stream in ("all", f"speaker:{turn.speaker}")


def is_command(text: str) -> bool:
    """Whether a message is a command to the program, or its note, rather than something said.

    >>> is_command("/clear"), is_command("<task-notification> done </task-notification>")
    (True, True)
    """
    text = text.strip()
    wrapped = text[:1] + text[-1:] in ("<>", "[]")
    return wrapped or (text.startswith("/") and len(text.split()) <= MAX_COMMAND_WORDS)


class LoopStream:
    """Judges one conversation message by message, in time that depends on the window alone.

    Spoken messages and tool calls are numbered separately; `loops` name messages by position.
    `tools` gives the number of identical calls of a tool that make a loop, None for never;
    `identities` the arguments that make two calls of a tool the same.
    """

    # Not set by `__init__`, because states that guards have saved lack them.
    _last_said = _answer = ""
    _answers: Sequence[str] = ()

    def __init__(
        self,
        settings: Loops = LOOPS,
        tools: Mapping[str, int | None] | None = None,
        identities: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self.settings = settings
        self._tools = tools or {}
        self.position = 0
        self.loops: list[Loop] = []
        self.score = 0.0
        self._repeated: set[int] = set()
        self._going_on: dict[tuple[str, str], int] = {}
        self._repeats: dict[tuple[str, str], int] = {}
        self._leaky_sums: dict[str | None, float] = {}
        self._texts, self._text_positions = TextMemory(settings), [0]
        self._calls, self._call_positions = CallLog(settings.calls), [0]
        self._repeats_sum = Cusum(settings, "verdict", "all")
        self._courtesy_sum = Cusum(settings, "verdict", "all")
        self._paraphrase_sum = Cusum(settings, "notice", "all")
        self._speaker_sums: dict[str, Cusum] = {}
        self._call_sum = Cusum(settings, "verdict", "calls")
        self._failure_sum = Cusum(settings, "notice", "calls")
        self._classes, self._parallel = StepLog(identities), (0, set[str]())
        self._last_steps: dict[str, int] = {}
        self._silence: list[int] = []
        self._has_acted = self._has_vectors = False
        self._winding, self._winding_positions = WindingDown(), [0]
        self._thoughts, self._thought_positions = TextMemory(settings), [0]
        self._thought_sum = Cusum(settings, "verdict", "reasoning")

    def update(self, turn: Turn, *, acts: bool | None = None, vector: Any = None) -> list[int]:
        """Take in the next message; return the positions of earlier ones that it repeats.

        `acts` is whether it calls tools, if their results are not known yet; `vector` is that of
        its text, if there is one.
        """
        message = SpokenMessage(turn.text) if has_text(turn) else None
        return sorted(self.update_words(turn, message, acts=acts, vector=vector))

    def update_words(
        self,
        turn: Turn,
        message: SpokenMessage | None,
        *,
        acts: bool | None = None,
        vector: Any = None,
    ) -> set[int]:
        """Like `update`, with the words of the turn; None if it has no text."""
        self.position += 1
        self._repeated = set()
        acts = bool(turn.calls) if acts is None else acts
        if self.settings.version > 1:
            self._judge_reasoning(turn)
            self._judge_silence(turn, acts=acts)
        self._has_acted |= acts
        asks = role_of_turn(turn) == "user" and (self._has_acted or is_command(turn.text))
        if self._has_acted and self.settings.version > 1:
            self.record_answer(turn, acts=acts)
        if message is not None and (acts or asks) and self.settings.version > 1:
            self._skim(message, turn.speaker, may_repeat=acts)
        elif message is not None:
            is_user = self.settings.version > 1 and role_of_turn(turn) == "user"
            if self.settings.version > 1 and vector is not None:
                self._judge_ending(message, None if is_user else vector)
            self._judge_text(message, turn.speaker, is_user=is_user)
        elif not turn.spoken and role_of_turn(turn) in RESULT_ROLES:
            self._texts.something_new |= self._calls.add_result(turn.text)
        for call in turn.calls:
            self.judge_call(call, self.position)
        return self._repeated

    @property
    def going_on(self) -> list[Loop]:
        """The loops that have not ended."""
        return [self.loops[index] for index in self._going_on.values()]

    @property
    def steps(self) -> int:
        """The number of spoken messages and tool calls so far."""
        return self._texts.number + len(self._call_positions) - 1

    def repeats_since(self, loop: Loop) -> int:
        """The number of repeats since a loop was noticed."""
        return self._repeats[self._key(loop)]

    def _key(self, loop: Loop) -> tuple[str, str]:
        """What a loop that goes on is found by."""
        if loop.kind == ENDING[0]:
            return ENDING
        has_class = self.settings.version > 1 and loop.kind in PATIENCE
        return (loop.kind if has_class else loop.level), loop.stream

    def _judge_text(self, message: SpokenMessage, speaker: str | None, *, is_user: bool) -> None:
        """Judge a message as prose; a user who repeats himself is not an agent in a loop."""
        text = message.text
        found = self._texts.weigh(message, speaker)
        self._text_positions.append(self.position)
        if message.quiet:
            if self._leaky_sums:  # else there is nothing to decay
                self._decay(speaker)
            if not self._going_on:  # a loop is never noticed at a quiet message
                return
        else:
            self._add(found, speaker, is_user=is_user)
            if found.repeat.strength and self._is_answered_alike(text):
                again = found.repeat._replace(strength=self.settings.on)
                self._repeats_sum.raise_to(self._texts.number, again)
                self.score = max(self.score, loop_score(CALL_SUM))
        stronger = max(
            self._repeats_sum, self._courtesy_sum, key=lambda each: (each.on, each.value)
        )
        near = (found.courtesy if stronger is self._courtesy_sum else found.repeat).near
        self._follow(stronger, text, near)
        if self.settings.version > 1 and max(found.repeat.strength, found.courtesy.strength) == 0:
            self._classes.record_news()
        for each in self._speaker_sums.values():
            self._follow(each, text, found.own.near, hidden=stronger.on)
        near = strongest(found.repeat, found.paraphrase).near
        self._follow(self._paraphrase_sum, text, near, hidden=stronger.on)

    def _skim(self, message: SpokenMessage, speaker: str | None, *, may_repeat: bool) -> None:
        """Take in a message that acts, or one of an agent's user, without comparing its words.

        What an agent does is judged as calls; a user who says the same again is not its loop.
        """
        within = self._texts.skim(message, speaker)
        self._text_positions.append(self.position)
        if within.strength and may_repeat:
            self._repeats_sum.raise_to(self._texts.number, within)
            self._follow(self._repeats_sum, message.text, ())

    def record_answer(self, turn: Turn, *, acts: bool) -> None:
        """Remember what the same message of an agent has been answered each time."""
        if role_of_turn(turn) != "assistant":
            self._answer = normalize(turn.text) or self._answer
            return
        said = "" if acts else normalize(turn.text)
        self._answers = [*self._answers[-1:], self._answer] if said == self._last_said else []
        self._last_said, self._answer = said, ""

    def _is_answered_alike(self, text: str) -> bool:
        """Whether an agent says for the third time what had one answer, or none, both times before.

        It is a call that the program can't read, and as much a loop as the same call is.
        """
        if len(self._answers) < IDENTICAL_CALLS - 1 or len(text.split()) < self.settings.short:
            return False
        return len(set(self._answers)) == 1

    def _judge_reasoning(self, turn: Turn) -> None:
        """Reasoning loops if it is copied, or if it repeats itself; alike thoughts are work."""
        if not turn.reasoning or not turn.reasoning.strip():
            return
        thought = SpokenMessage(turn.reasoning)
        is_short = len(thought.words) < MIN_THOUGHT
        found = self._thoughts.weigh(thought, turn.speaker).repeat
        self._thought_positions.append(self.position)
        if found.kind not in COPIED or is_short:
            found = NOTHING
        add = self._thought_sum.raise_to if found.kind == "within-turn" else self._thought_sum.add
        add(self._thoughts.number, found)
        if self._thought_sum.on:
            self.score = max(self.score, loop_score(CALL_SUM))
            self._repeated.update(self._thought_positions[n] for n in found.near)
        self._follow(self._thought_sum, turn.reasoning, found.near)

    def _judge_ending(self, message: SpokenMessage, vector: Any) -> None:
        """A talk that winds down without ending; where vectors tell, courtesy has to last."""
        winding, self._has_vectors = self._winding, vector is not None
        news = self._texts.something_new
        evidence = winding.update(message.masked_words, message.text, vector, news)
        self._winding_positions.append(self.position)
        index, level = self._going_on.get(ENDING), winding.level
        if index is None:
            if level and not (self._repeats_sum.on or self._courtesy_sum.on):
                began = self._winding_positions[winding.began]
                self._going_on[ENDING], self._repeats[ENDING] = len(self.loops), 0
                kind, stream = ENDING
                self.loops.append(
                    self._make_loop(
                        message.text, (), level=level, kind=kind, stream=stream, began=began
                    )
                )
        elif not level:
            del self._going_on[ENDING]
            self.loops[index] = replace(self.loops[index], ended=self._winding_positions[-2])
        else:
            loop = self.loops[index]
            self._repeats[ENDING] += evidence > winding.settings.drift
            if loop.level == "notice" and level == "verdict":
                self._repeats[ENDING] = 0
                loop = replace(loop, level=level, noticed=self.position)
            self.loops[index] = replace(loop, score=self.score)
        if level == "verdict":
            self.score = max(self.score, loop_score(CALL_SUM))

    def _make_loop(self, text: str, near: Sequence[int], **fields: Any) -> Loop:
        """A loop that is noticed at this message, with its text."""
        excerpt = " ".join(text.split())
        return Loop(
            **{"noticed": self.position, "ended": None, "period": 1, "score": self.score} | fields,
            repeats=tuple(sorted(set(near))),
            excerpt=excerpt if len(excerpt) <= EXCERPT else excerpt[: EXCERPT - 1] + "…",
        )

    def _judge_silence(self, turn: Turn, *, acts: bool) -> None:
        """Messages without a word, one after the other, are a loop, too."""
        if acts or has_text(turn) or turn.reasoning:
            self._silence = []
            self._end_class("silence", "all")
        elif turn.spoken and role_of_turn(turn) not in ("user", *RESULT_ROLES):
            self._silence.append(self.position)
            found = Repetition("silence", len(self._silence), 1, (len(self._silence) - 1,))
            self._report(found, [0, *self._silence], "", "all")

    def _add(self, found: TextEvidence, speaker: str | None, *, is_user: bool) -> None:
        """Add the evidence of a message to the sums."""
        number, any_repeat = self._texts.number, strongest(found.repeat, found.paraphrase)
        if found.repeat.kind == "within-turn":
            if not is_user:  # people paste logs
                self._repeats_sum.raise_to(number, found.repeat)
        else:
            self._repeats_sum.add(number, found.repeat)
        self._courtesy_sum.patience = self._winding.settings.goodbye if self._has_vectors else 0
        self._courtesy_sum.add(number, found.courtesy)
        self._paraphrase_sum.add(number, any_repeat)
        self._raise_score(None, any_repeat.strength)
        if speaker is not None and not is_user:
            self._raise_score(speaker, found.own_strength)
            self._add_own(speaker, found.own)
        best = strongest(any_repeat, NOTHING if is_user else found.own, found.courtesy)
        if best.strength > self.settings.drift + ROUNDING:
            self._repeated.update(self._text_positions[n] for n in best.near)

    def _add_own(self, speaker: str, found: LoopEvidence) -> None:
        """Add to the sum of a speaker; only the last speakers with evidence have one."""
        sums = self._speaker_sums
        if found.strength:
            last = sums.pop(speaker, None)
            sums[speaker] = last or Cusum(self.settings, "verdict", f"speaker:{speaker}")
        if speaker in sums:
            sums[speaker].add(self._texts.number, found)
        if len(sums) > MAX_SPEAKERS:
            silent = sums.pop(next(iter(sums)))
            index = self._going_on.pop((silent.level, silent.stream), None)
            if index is not None:
                ended = self._text_positions[silent.last]
                self.loops[index] = replace(self.loops[index], ended=ended)

    def _decay(self, speaker: str | None) -> None:
        """Add no evidence; sums that are 0 stay so, and a falling sum can't raise the score."""
        own = self._speaker_sums.get(speaker) if speaker is not None else None
        for each in (self._repeats_sum, self._courtesy_sum, self._paraphrase_sum, own):
            if each is not None and (each.value or each.on):
                each.add(self._texts.number, NOTHING)
        for name in {None, speaker}:
            if self._leaky_sums.get(name):
                self._leaky_sums[name] = max(0.0, self._leaky_sums[name] - LEAK)

    def judge_call(self, call: Call, position: int) -> None:
        """Take in a tool call of the message at a position, once its result is known."""
        identical = self._tools.get(call.name, IDENTICAL_CALLS)
        if identical is None:
            return
        if self.settings.version > 1:
            self._judge_step(call, position, identical)
            return
        s, number = self.settings, len(self._call_positions)
        self._call_positions.append(position)
        repeats, near, failed, period = self._calls.add(number, call)
        self._texts.something_new |= self._calls.add_result(call.result) and not failed
        weight = repeats * (IDENTICAL_CALLS - 1) / (identical - 1)
        found = LoopEvidence(s.on * weight / 2, "tool", near, period)
        self._call_sum.raise_to(number, found)
        # A call that fails for the second time in the same way is worth a notice.
        notice = s.on if failed and weight >= 1 else 0.0
        self._failure_sum.raise_to(number, found._replace(strength=notice))
        self.score = max(self.score, loop_score(CALL_SUM * weight / 2))
        text = quote_call(call.name, call.arguments)
        self._repeated.update({self._call_positions[n] for n in near[:2]} - {position})
        self._follow(self._call_sum, text, near[:2])
        self._follow(self._failure_sum, text, near[:2], hidden=self._call_sum.on)

    def describe_call(self, call: Call) -> tuple[ToolStep, Any]:
        """A call as others are compared with it, and its arguments that count."""
        number = len(self._call_positions)
        return self._classes.describe(number, call), self._classes.identities.essential(call)

    def judge_work(self, found: SharedWork | None, position: int) -> None:
        """Begin or continue a loop of work that others of the run have done, or end it."""
        if found is None:
            self._end_class("reread", RUN)
            return
        times, first, names = found
        repetition = Repetition("reread", times, 0, ())
        self._report(repetition, [first, position], ", ".join(names), RUN)

    def _judge_step(self, call: Call, position: int, identical: int) -> None:
        """Compare a call by its class."""
        identity = self._classes.identities.identify(call)
        if self._parallel[0] != position:
            self._parallel = position, set()
        if identity in self._parallel[1]:  # twins in one message count once
            return
        self._parallel[1].add(identity)
        number = len(self._call_positions)
        self._call_positions.append(position)
        is_news = self._calls.add_result(call.result) and not has_failed(call)
        self._texts.something_new |= is_news
        self._thoughts.something_new |= is_news
        text = quote_call(call.name, call.arguments)
        for found in self._classes.add(number, call):
            # A tool may have its own number of identical calls that make a loop.
            scale = (IDENTICAL_CALLS - 1) / (identical - 1) if found.kind == "tool" else 1.0
            times = 1 + (found.times - 1) * scale
            self._report(found._replace(times=times), self._call_positions, text, "calls")
        for kind, last in list(self._last_steps.items()):
            if number - last >= QUIET:
                self._end_class(kind, "calls")

    def _report(self, found: Repetition, positions: Sequence[int], text: str, stream: str) -> None:
        """Begin a loop of a class, or continue it; one that another class explains is left out."""
        patience, number = PATIENCE[found.kind], len(positions) - 1
        if found.times < patience.notice - ROUNDING:
            return
        is_loop = patience.verdict is not None and found.times >= patience.verdict - ROUNDING
        level = "verdict" if is_loop else "notice"
        self._repeated.update({positions[n] for n in found.near} - {positions[-1]})
        share = (found.times - 1) / ((patience.verdict or 2 * patience.notice) - 1)
        self.score = max(self.score, loop_score(CALL_SUM * min(share, 1.0 if is_loop else 0.5)))
        index = self._going_on.get((found.kind, stream))
        if index is None and self._is_explained(level, stream):
            return
        if stream == "calls":
            self._last_steps[found.kind] = number
        if index is not None:
            loop = self.loops[index]
            self._repeats[found.kind, stream] += loop.level == level
            if loop.level == "notice" and is_loop:
                self._repeats[found.kind, stream] = 0
                self._end_weaker(found.kind, stream)
                near = tuple(sorted({positions[n] for n in found.near}))
                loop = replace(loop, level=level, noticed=positions[-1], repeats=near)
            self.loops[index] = replace(loop, score=self.score)
            return
        if is_loop:
            self._end_weaker(found.kind, stream)
        self._going_on[found.kind, stream], self._repeats[found.kind, stream] = len(self.loops), 0
        self.loops.append(
            self._make_loop(
                text,
                [positions[n] for n in found.near],
                level=level,
                kind=found.kind,
                stream=stream,
                began=positions[found.first],
                noticed=positions[-1],
                period=found.period,
            )
        )

    def _is_explained(self, level: str, stream: str) -> bool:
        """Whether a loop of another class that was seen in this call is as strong."""
        number = len(self._call_positions) - 1
        return stream == "calls" and any(
            last == number
            and (level == "notice" or self.loops[self._going_on[kind, stream]].level == level)
            for kind, last in self._last_steps.items()
        )

    def _end_weaker(self, kind: str, stream: str) -> None:
        """End the notices among calls that a verdict of another class explains."""
        if stream != "calls":
            return
        for other in [each for each in self._last_steps if each != kind]:
            if self.loops[self._going_on[other, stream]].level == "notice":
                self._end_class(other, stream)

    def _end_class(self, kind: str, stream: str) -> None:
        index = self._going_on.pop((kind, stream), None)
        last = self._last_steps.pop(kind, None) if stream == "calls" else None
        if index is not None:
            ended = self._call_positions[last] if last is not None else self.position - 1
            self.loops[index] = replace(self.loops[index], ended=ended)

    def _raise_score(self, speaker: str | None, strength: float) -> None:
        self._leaky_sums[speaker] = max(0.0, self._leaky_sums.get(speaker, 0.0) + strength - LEAK)
        self.score = max(self.score, loop_score(self._leaky_sums[speaker]))

    def _follow(self, sums: Cusum, text: str, near: Sequence[int], *, hidden: bool = False) -> None:
        """Begin, continue or end the loop of a sum; a `hidden` one is explained by another.

        `text` is the last message, and `near` are those that it repeats.
        """
        key = sums.level, sums.stream
        index = self._going_on.get(key)
        if index is None and not sums.on:
            return
        streams = {"calls": self._call_positions, "reasoning": self._thought_positions}
        positions = streams.get(sums.stream, self._text_positions)
        if index is not None and not sums.on:
            del self._going_on[key]
            self.loops[index] = replace(self.loops[index], ended=positions[sums.last])
        elif index is not None:
            self._repeats[key] += positions[sums.last] == positions[-1]
            self.loops[index] = replace(
                self.loops[index], kind=sums.kind, period=sums.period, score=self.score
            )
        elif not hidden and positions[sums.last] == positions[-1]:
            # Noticed at a message that repeats, not at a new one after a stronger loop has ended.
            began = sums.began
            if sums.kind == "paraphrase":
                began = self._texts.extend_back(began)
            self._going_on[key], self._repeats[key] = len(self.loops), 0
            self.loops.append(
                self._make_loop(
                    text,
                    [positions[n] for n in near],
                    level=sums.level,
                    kind=sums.kind,
                    stream=sums.stream,
                    began=positions[began],
                    noticed=positions[-1],
                    period=sums.period,
                )
            )


def find_loops(
    turns: Sequence[Turn],
    messages: Iterator[SpokenMessage],
    settings: Loops,
    vectors: Mapping[int, Any],
    tools: ToolRules = ({}, {}),
) -> dict[str, Any]:
    """Judge a conversation for loops; return the fields of its verdict about them.

    `vectors` are those of messages by position, as far as there are any; `tools` are the rules of
    `LoopStream`.
    """
    stream, repeats = LoopStream(settings, *tools), dict[int, set[int]]()
    for position, turn in enumerate(turns, start=1):
        message = next(messages) if has_text(turn) else None
        if earlier := stream.update_words(turn, message, vector=vectors.get(position)):
            repeats[position] = earlier
    return {
        "steps": stream.steps,
        "looping": any(loop.level == "verdict" for loop in stream.loops),
        "loops": attach_echoes(stream.loops, turns, repeats),
        "loop_score": stream.score,
    }


def attach_echoes(
    loops: Sequence[Loop], turns: Sequence[Turn], repeats: Mapping[int, Collection[int]]
) -> tuple[Loop, ...]:
    """Add to each loop which of its messages repeat which earlier ones."""

    def echoes(loop: Loop) -> Iterator[tuple[int, ...]]:
        last = min(loop.ended or len(turns), len(turns))
        for position in range(loop.began, last + 1):
            # A message before the loop may share a phrase with it without being part of it.
            earlier = sorted(n for n in repeats.get(position, ()) if n >= loop.began)
            if earlier and is_in_stream(turns[position - 1], loop.stream):
                yield (position, *earlier)

    found = (replace(loop, echoes=tuple(echoes(loop))) for loop in loops)
    return tuple(attach_frame(loop, turns) for loop in found)


def attach_frame(loop: Loop, turns: Sequence[Turn]) -> Loop:
    """Add to a loop of templates that of the message which showed it, and what fills its slots."""
    if loop.kind != "template":
        return loop
    texts = [turns[position - 1].text for position in (loop.noticed, *loop.repeats)]
    frame = find_frame(texts) if len(texts) > 1 else None
    if frame is None:
        return loop
    places = {*loop.repeats, loop.noticed, *(n for echo in loop.echoes or () for n in echo)}
    rows = ((n, fill_frame(frame, turns[n - 1].text)) for n in sorted(places))
    fillings: tuple[tuple[int | str, ...], ...]
    fillings = tuple((n, *slots) for n, slots in rows if slots is not None)
    return replace(loop, frame=frame, fillings=fillings)


def restore_echoes(
    loops: Sequence[Loop], turns: Sequence[Turn], settings: Loops = LOOPS
) -> Sequence[Loop]:
    """Add echoes to stored loops; where they were not stored, they are computed again."""
    if all(loop.echoes is not None for loop in loops):
        return tuple(loop if loop.frame else attach_frame(loop, turns) for loop in loops)
    stream = LoopStream(settings)
    repeats = {n: stream.update(turn) for n, turn in enumerate(turns, start=1)}
    return attach_echoes(loops, turns, repeats)


def loop_score(leaky_sum: float) -> float:
    """The loop score of a conversation, from 0 to 1, at its highest leaky sum of evidence.

    >>> loop_score(0.0), loop_score(HALF_WAY)
    (0.0, 0.5)
    """
    odds: float = (leaky_sum / HALF_WAY) ** STEEPNESS
    return odds / (odds + 1)


class LoopingTurnsStream:
    """The loop detector as a `Stream`: a turn is collapsed while a loop with a verdict goes on."""

    def __init__(self, settings: Loops) -> None:
        self._stream = LoopStream(settings)

    def update(self, seen: Observation, /) -> Signal:
        repeats, position = self._stream.update(seen.turn), self._stream.position
        found = next((loop for loop in self._stream.going_on if loop.level == "verdict"), None)
        candidates = (repeats or found.repeats) if found else ()
        earlier = max((place for place in candidates if place < position), default=None)
        return Signal(position, collapsed=found is not None, repeats=earlier)
