"""A live guard: feed it each message of a conversation, and it warns of a loop."""

import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from time import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zlib import crc32

from chimeralab.core.config import find_config
from chimeralab.core.errors import InputError
from chimeralab.core.records import Call, Loop, Turn
from chimeralab.detection.advice import (
    ADVICE,
    CHANGE,
    MAX_CALLS,
    WAY_OUT,
    CallCounts,
    CountedCall,
    format_duration,
    quote,
    shorten,
)
from chimeralab.detection.calls import HEAD, CallLog, CallRecord
from chimeralab.detection.cause import BEFORE, CAUSES, classify_result
from chimeralab.detection.classes import ADVISED, PATIENCE, StepLog, ToolStep
from chimeralab.detection.evidence import TextMemory
from chimeralab.detection.identity import Identities
from chimeralab.detection.locked import LOCKED, LockedRule, LockedStream
from chimeralab.detection.loops import (
    LOOPS,
    RUN,
    Cusum,
    LoopingTurnsStream,
    Loops,
    LoopStream,
    check_loops,
)
from chimeralab.detection.runs import RunWork
from chimeralab.detection.seam import Detector, Observation, Signal, check_encoder, read_needs
from chimeralab.detection.streams import MessageStreams, StreamCut
from chimeralab.detection.tools import (
    Tools,
    choose_loops,
    choose_rule,
    choose_tools,
    read_rules,
)
from chimeralab.detection.winding import WindingDown, WindingSettings, WindingSum
from chimeralab.detection.words import MessageWords, SpokenMessage, is_blank
from chimeralab.readers.chat import ChatMessage, Result, parse_message
from chimeralab.readers.seam import Unreadable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from chimeralab.embedding.encoder import Encoder

STATE_VERSION = 7
MAX_TROUBLE = 64  # failures and empty results that are kept, for what a loop began with
NO_SIGNAL = Signal(0)
# Repeats after the first nudge until `stop`; fewer once the model has been told.
UNTOLD, TOLD = 4, 2


class LoopWarning(NamedTuple):
    """A loop in progress, how serious it is, and advice to pass on to the model.

    A ``notice`` is not a verdict yet; ``nudge`` comes with the verdict, and ``stop``, never before
    a ``nudge``, when the conversation keeps repeating itself. ``more`` counts the repeats since the
    loop was noticed; ``what`` says what repeats and since when, and ``advice`` adds a way out.
    """

    level: Literal["notice", "nudge", "stop"]
    loop: Loop
    more: int
    what: str
    advice: str


class GuardSignal(NamedTuple):
    """The guard's answer to a message: the collapse detector's signal, and the loop if any.

    ``turn`` counts the spoken messages judged by the collapse detector; it is 0 without one.
    """

    turn: int
    s1: float
    s2: float
    period1: bool
    period2: bool
    run: int
    collapsed: bool
    repeats: int | None
    position: int
    loop: LoopWarning | None

    @property
    def stop(self) -> bool:
        return self.loop is not None and self.loop.level == "stop"


class Guard:
    """Watches one conversation live, by words, tool calls and, unless disabled, vectors.

    ``tools`` are rules per tool, such as ``{"wait": "ignore", "search": {"repeats": 6}}``. For what
    is not given, the project's configuration counts, unless ``project=False``.

    >>> guard = Guard(vectors=False)
    >>> for _ in range(4):
    ...     signal = guard.update("I will try that again.")
    >>> signal.loop.level, signal.loop.loop.kind, signal.loop.loop.began
    ('nudge', 'verbatim', 1)
    """

    def __init__(  # noqa: PLR0913 - its settings
        self,
        detector: Detector = LOCKED,
        encoder: "Encoder | None" = None,
        *,
        vectors: bool = True,
        loops: Loops | None = None,
        tools: Tools | None = None,
        max_wait: float | None = None,
        project: bool = True,
    ) -> None:
        if project:
            detector = choose_rule() if detector is LOCKED else detector
            loops, tools = choose_loops(loops), choose_tools(tools)
            max_wait = find_config().values.get("max_wait") if max_wait is None else max_wait
        needs = read_needs(detector, "vectors=False")
        if needs.why_not_live:
            raise InputError(f"{detector.name} can't guard a conversation: {needs.why_not_live}")
        self._detector = detector if vectors or not needs.lags else None
        if encoder is not None:
            check_encoder(encoder)
        self._encoder = encoder
        self._settings = LOOPS if loops is None else check_loops(loops)
        self._max_wait = _check_wait(max_wait)
        self._tools, self._identities = read_rules(tools) if tools else ({}, {})
        self._thread: ThreadPoolExecutor | None = None
        # How advice names a message, by its position; a host may know a better name.
        self.place: Callable[[int], str] = "message {}".format
        # When a message was written, by its position, for messages that do not say it.
        self.time_of: Callable[[int], float] = lambda position: time()
        # Whether a call was answered by a guard and never made; such a call is not judged.
        self.was_refused: Callable[[Call], bool] = lambda call: False
        self.reset()

    def reset(self, before: int = 0) -> None:
        """Start a new conversation, or one of which the first messages were not seen."""
        self._loops = LoopStream(self._settings, self._tools, self._identities)
        self._loops.position = before
        self._times: deque[tuple[int, float]] = deque(maxlen=MAX_CALLS)
        self._collapse = _Collapse(self._detector, self._encoder) if self._detector else None
        self._work: tuple[RunWork, str] | None = None
        # Calls without a result so far: id, call, and position of the message.
        self._waiting: list[tuple[str | None, Call, int]] = []
        self._counts = CallCounts()
        # What went wrong with the last calls: position, kind and result.
        self._trouble: deque[tuple[int, str, str]] = deque(maxlen=MAX_TROUBLE)
        self._streams = MessageStreams()
        # By loop, the repeats when it was first at `nudge`, when the model was told, and up to
        # which it is allowed.
        self._warned: dict[Loop, int] = {}
        self._nudged: dict[Loop, int] = {}
        self._allowed: dict[Loop, int] = {}

    def update(self, message: str | Mapping[str, Any] | Turn | ChatMessage) -> GuardSignal:
        """Take in the next message: a text, a message with tool calls or results, or a `Turn`.

        An unreadable message raises before anything changes. A call is judged when its result is
        known, or when the conversation goes on without one.
        """
        return self._take(read_message(message))

    def feed(self, delta: str, *, reasoning: bool = False) -> StreamCut | None:
        """Judge a piece of the next message, or of its reasoning, while it streams.

        The cut is returned once, and again if the text went on to something else in between. The
        streams end with `update`, which takes the whole message.

        >>> guard = Guard(vectors=False)
        >>> found = [guard.feed(delta) for delta in ["I see. ", *["Wait. "] * 120]]
        >>> next(cut.what for cut in found if cut)
        'You have written “Wait” 100 times in a row'
        """
        return self._streams.feed(delta, reasoning=reasoning)

    async def update_async(self, message: str | Mapping[str, Any] | Turn) -> GuardSignal:
        """`update` for async code: the work is done in a thread.

        Messages are judged in the order of the calls, even if these are not awaited one by one.
        """
        import asyncio  # noqa: PLC0415 - slow to import; async callers have imported it
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        read = read_message(message)
        # A single thread keeps the order, and finishes a cancelled update before the next.
        self._thread = self._thread or ThreadPoolExecutor(1, "chimera-guard")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._take, read)

    def _take(self, message: ChatMessage) -> GuardSignal:
        turn, content = message
        for result in content.results:
            self._add_result(result)
        # A system message between a call and its result does not end the wait for the result.
        if not content.results and self._waiting and (turn.spoken or turn.calls):
            for _, call, called_at in self._waiting:
                self._judge_call(call, called_at)
            self._waiting = []
        signal = NO_SIGNAL
        if self._collapse:
            signal = self._collapse.update(turn) if turn.spoken else self._collapse.last
        vector = self._collapse.vector if self._collapse and turn.spoken else None
        self._loops.update(replace(turn, calls=()), acts=bool(turn.calls), vector=vector)
        position = self._loops.position
        if turn.calls:
            self._times.append((position, read_time(turn.at) or self.time_of(position)))
        for call in turn.calls:
            if call.result is not None:
                self._judge_call(call, position)
        self._waiting += [(name, c, position) for name, c in content.calls if c.result is None]
        warning = self.warning
        if warning and warning.level != "notice":
            self._warned.setdefault(identify_loop(warning.loop), warning.more)
        self._streams = MessageStreams(position + 1)
        return GuardSignal(*signal, position, warning)

    @property
    def warning(self) -> LoopWarning | None:
        """The loop in progress, as in the last signal, if any."""
        going_on = sorted(self._loops.going_on, key=lambda loop: loop.level != "verdict")
        for loop in going_on:
            more = self._loops.repeats_since(loop)
            if more > self._allowed.get(identify_loop(loop), -1):
                words = self._describe(loop)
                kind = "shared work" if loop.stream == RUN else loop.kind
                advice = f"{words}. {self._explain(loop)}{WAY_OUT.get(kind, CHANGE)}"
                return LoopWarning(self._level(loop, more), loop, more, words, advice)
        return None

    @property
    def position(self) -> int:
        """How many messages there have been."""
        return self._loops.position

    def mark_nudged(self) -> None:
        """Record that the model got the advice: from now on, `stop` comes after fewer repeats."""
        if warning := self.warning:
            self._nudged.setdefault(identify_loop(warning.loop), warning.more)

    nudged = mark_nudged  # its first public name

    def was_nudged(self, loop: Loop) -> bool:
        """Whether the model got the advice about a loop."""
        return identify_loop(loop) in self._nudged

    def forgive(self, steps: int = 0) -> None:
        """Record that somebody has stepped in: a loop that goes on is nudged again first.

        A loop of which the model was told may go on for a number of repeats before that.
        """
        for loop in self._loops.going_on:
            self._allow(loop, steps if self.was_nudged(loop) else 0)

    def join_run(self, work: RunWork, name: str) -> None:
        """Compare the calls from now on with those of other conversations of one run."""
        self._work = work, name

    def allow(self, loop: Loop, steps: int = 20) -> bool:
        """Let a loop go on for a number of repeats; return whether it was going on at all.

        After them, it is nudged again first.
        """
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"steps is {steps!r}; expected a whole number of at least 1")
        if not isinstance(loop, Loop):
            raise InputError(f"loop is {loop!r:.60}; expected the loop of a signal or warning")
        found = [
            each for each in self._loops.going_on if identify_loop(each) == identify_loop(loop)
        ]
        for each in found:
            self._allow(each, steps)
        return bool(found)

    def _allow(self, loop: Loop, steps: int) -> None:
        name = identify_loop(loop)
        self._allowed[name] = self._loops.repeats_since(loop) + steps
        self._warned.pop(name, None)
        self._nudged.pop(name, None)

    def repeats_call(self, loop: Loop, name: str, arguments: Any) -> bool:
        """Whether a call is one that a loop repeats."""
        step, _ = self._loops.describe_call(Call(name, arguments))
        return loop.stream == "calls" and self._counts.repeats(loop, step)

    def state(self) -> dict[str, Any]:
        """The state of the conversation as plain JSON values, for `restore`."""
        collapse = self._collapse
        parts = {
            "guard": STATE_VERSION,
            "loops": to_plain(self._loops),
            "waiting": to_plain(self._waiting),
            "counts": to_plain(self._counts),
            "times": to_plain(self._times),
            "trouble": to_plain(self._trouble),
            "told": to_plain([self._warned, self._nudged, self._allowed]),
            "collapse": collapse and to_plain((collapse.stream, collapse.texts, collapse.last)),
        }
        return {**parts, "check": _checksum(parts)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of a guard with the same settings; nothing else is accepted."""
        parts = dict(state) if isinstance(state, Mapping) else {}
        check = parts.pop("check", None)
        if parts.get("guard") != STATE_VERSION:
            raise InputError("this is not the state of a guard of this version; start a new guard")
        if check is None or check != _checksum(parts):
            raise InputError("this is not the state of a guard as it was saved; start a new guard")
        if (parts["collapse"] is None) != (self._collapse is None):
            raise InputError("this is not the state of a guard with these settings")
        loops, counts, told, waiting, self._times, self._trouble = (
            from_plain(parts[key])
            for key in ("loops", "counts", "told", "waiting", "times", "trouble")
        )
        if self._collapse:
            stream, texts, last = from_plain(parts["collapse"])
            self._collapse.stream, self._collapse.texts, self._collapse.last = stream, texts, last
        self._loops, self._counts, self._waiting = loops, counts, waiting
        self._warned, self._nudged, self._allowed = told

    def _add_result(self, result: Result) -> None:
        named = [waiting for waiting in self._waiting if waiting[0] == result.call]
        found = next(iter(named or (self._waiting if result.call is None else [])), None)
        if found is not None:
            self._waiting.remove(found)
            _, call, position = found
            self._judge_call(replace(call, result=result.text, error=result.error), position)

    def _judge_call(self, call: Call, position: int) -> None:
        """Judge a call, unless it is ignored, was refused, or repeats one of the same message."""
        if self._tools.get(call.name, 0) is None or self.was_refused(call):
            return
        if kind := classify_result(call):
            self._trouble.append((position, kind, shorten((call.result or "")[: 2 * HEAD])))
        step, essential = self._loops.describe_call(call)
        if self._counts.add(call, position, step, essential):
            self._loops.judge_call(call, position)
        if self._work:
            work, name = self._work
            self._loops.judge_work(work.add(name, position, step), position)

    def _level(self, loop: Loop, more: int) -> Literal["notice", "nudge", "stop"]:
        patience = PATIENCE.get(loop.kind)
        name, told = identify_loop(loop), TOLD
        if loop.level == "notice":
            advised = patience and more >= ADVISED.get(loop.kind, math.inf) - patience.notice
            if loop.kind == "waiting" and self._max_wait is not None:
                waited = self._seconds_waited()
                if waited >= self._max_wait:
                    return "stop" if name in self._nudged and waited else "nudge"
            return "nudge" if advised else "notice"
        if patience and self._settings.version > 1:
            if patience.stop is None or patience.verdict is None:
                return "nudge"
            told = patience.stop - patience.verdict
        if name in self._nudged:
            return "stop" if more - self._nudged[name] >= told else "nudge"
        untold = max(UNTOLD, told)
        return "stop" if more - self._warned.get(name, more) >= untold else "nudge"

    def _explain(self, loop: Loop) -> str:
        """Say what went wrong when a loop of calls began, if that is not what repeats."""
        near = range(loop.began - BEFORE, loop.began + 1)
        if loop.stream != "calls" or loop.kind in ("failure", "no-news", "waiting"):
            return ""
        for position, kind, what in reversed(self._trouble):
            if position in near and (kind != "empty" or position == loop.began):
                said = f": {quote(what)}" if what else ""
                return f"It began when {CAUSES[kind]} ({self.place(position)}{said}). "
        return ""

    def _describe(self, loop: Loop) -> str:
        """Say what repeats and since when; every number and quotation is true of the log."""
        if loop.stream == "calls":
            waited = self._seconds_waited() if loop.kind == "waiting" else 0.0
            return self._counts.describe(loop, format_duration(waited), self.place)
        kind = "shared work" if loop.stream == RUN else loop.kind
        return ADVICE[kind].format(what=quote(loop.excerpt), place=self.place(loop.began))

    def _seconds_waited(self) -> float:
        """How long nothing has changed, at the last of the calls that wait."""
        first = self._counts.find_unchanged()
        known = dict(self._times)
        if first is None or first not in known or not self._times:
            return 0.0
        return max(0.0, known[self._counts.calls[-1].position] - known[first])


class _Collapse:
    """The collapse detector, fed with each turn's similarities to the last ones."""

    def __init__(self, detector: Detector, encoder: "Encoder | None") -> None:
        needs = detector.needs
        self._skip_blank = needs.skip_blank
        self.stream, self.last = detector.start(), Signal(0)
        self.vector: Any = None  # of the last turn
        self.texts: deque[str] = deque(maxlen=needs.lags + 1)
        self._similarities: Callable[[list[str]], tuple[float, ...]] = lambda texts: ()
        if not needs.lags:
            return
        # Imported here: without vectors a guard needs no numpy.
        from chimeralab.detection.measure import GuardBand, lag_similarities  # noqa: PLC0415
        from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415

        opened = encoder or default_encoder()
        band = GuardBand(opened, needs.cutoffs)

        def similarities(texts: list[str]) -> tuple[float, ...]:
            vectors = opened.encode(texts).vectors
            self.vector = vectors[-1]
            table = lag_similarities(vectors, needs.lags)
            band.recompute(texts, table)
            return tuple(table[-1].tolist())

        self._similarities = similarities

    def update(self, turn: Turn) -> Signal:
        blank, self.vector = is_blank(turn.text), None
        if blank and self._skip_blank:
            return self.last._replace(collapsed=False, repeats=None)
        self.texts.append(turn.text)
        lags = self._similarities(list(self.texts))
        self.last = self.stream.update(Observation(turn, lags, blank))
        return self.last


def read_message(message: Any) -> ChatMessage:
    """Read a plain chat message directly, and any other with the readers."""
    if isinstance(message, ChatMessage):
        return message
    if isinstance(message, dict) and "role" in message and not {"type", "lc"} & message.keys():
        with suppress(Unreadable):
            return parse_message(message, "message")
    # Imported here: it imports every log format, which is too slow for a guard in a hook.
    from chimeralab.readers.memory import parse_any_message  # noqa: PLC0415

    return parse_any_message(message)


def identify_loop(loop: Loop) -> Loop:
    """A loop without the fields that change while it goes on."""
    return replace(loop, kind="", period=0, ended=None, score=0.0, echoes=None)


def _check_wait(seconds: Any) -> float | None:
    if seconds is None or (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
    ):
        return seconds
    raise InputError(f"max_wait is {seconds!r}; expected a number of seconds above 0")


def read_time(at: str | None) -> float | None:
    """A time in a log, in seconds; None if there is none that can be read.

    >>> read_time("1970-01-01T00:01:00Z"), read_time("later")
    (60.0, None)
    """
    try:
        return datetime.fromisoformat(at).timestamp() if at else None
    except (ValueError, OverflowError):
        return None


# A state is loaded from JSON, so only these classes can be instantiated.
_ROWS = {
    cls.__name__: cls
    for cls in (
        Call,
        CountedCall,
        Loop,
        CallRecord,
        ToolStep,
        Signal,
        LockedRule,
        Loops,
        WindingSettings,
    )
}
_OBJECTS = {
    cls.__name__: cls
    for cls in (
        CallCounts,
        Identities,
        CallLog,
        Cusum,
        LockedStream,
        LoopStream,
        LoopingTurnsStream,
        SpokenMessage,
        StepLog,
        TextMemory,
        WindingDown,
        WindingSum,
    )
}
_PLAIN = {str, int, float, bool, type(None)}
_LISTS: dict[str, Any] = {cls.__name__: cls for cls in (tuple, list, set, frozenset, MessageWords)}


def to_plain(value: Any) -> Any:
    """Convert a value of the guard's state to JSON values."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, int | float | str):  # the first for nine of ten
        return value
    name = kind.__name__
    if name in _ROWS:
        names = getattr(value, "_fields", None) or type(value).__dataclass_fields__
        return {"row": name, "cells": {each: to_plain(getattr(value, each)) for each in names}}
    if name in _OBJECTS:
        return {"object": name, "cells": {k: to_plain(v) for k, v in vars(value).items()}}
    if isinstance(value, dict):
        pairs = [[to_plain(k), to_plain(v)] for k, v in value.items()]
        return {"pairs": pairs}
    if isinstance(value, deque):
        return {"deque": value.maxlen, "items": [to_plain(item) for item in value]}
    if name in _LISTS:
        return {"list": name, "items": [to_plain(item) for item in value]}
    raise InputError(f"a guard with a {name} can't be saved: only built-in detectors can")


def from_plain(plain: Any) -> Any:
    """Load a value that `to_plain` wrote."""
    if not isinstance(plain, dict):
        return plain
    if "pairs" in plain:
        return {from_plain(key): from_plain(value) for key, value in plain["pairs"]}
    if "items" in plain:
        items = [from_plain(item) for item in plain["items"]]
        return deque(items, plain["deque"]) if "deque" in plain else _LISTS[plain["list"]](items)
    cells = {name: from_plain(cell) for name, cell in plain["cells"].items()}
    if "row" in plain:
        return _ROWS[plain["row"]](**cells)
    cls: Any = _OBJECTS[plain["object"]]
    loaded = cls.__new__(cls)
    vars(loaded).update(cells)
    return loaded


def _checksum(parts: Mapping[str, Any]) -> int | None:
    """A checksum of a state; None for what can't be one."""
    try:
        return crc32(json.dumps(parts, sort_keys=True).encode())
    except (TypeError, ValueError, RecursionError):
        return None
