"""A live guard: feed it each message of a conversation, and it warns of a loop."""

import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zlib import crc32

from chimeralab.core.errors import InputError
from chimeralab.core.records import Call, Loop, Turn
from chimeralab.detection.calls import (
    HEAD,
    CallLog,
    CallRecord,
    format_arguments,
    has_failed,
    mask_volatile,
    normalize,
    normalize_arguments,
)
from chimeralab.detection.cause import BEFORE, CAUSES, classify_result
from chimeralab.detection.classes import ADVISED, PATIENCE, StepLog, ToolStep
from chimeralab.detection.evidence import TextMemory
from chimeralab.detection.locked import LOCKED, LockedRule, LockedStream
from chimeralab.detection.loops import EXCERPT, LOOPS, Cusum, LoopingTurnsStream, Loops, LoopStream
from chimeralab.detection.seam import Detector, Observation, Signal
from chimeralab.detection.winding import WindingDown, WindingSettings, WindingSum
from chimeralab.detection.words import MessageWords, SpokenMessage, is_blank
from chimeralab.readers.chat import ChatMessage, Result, parse_message
from chimeralab.readers.seam import Unreadable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from chimeralab.embedding.encoder import Encoder

STATE_VERSION = 6
NO_SIGNAL = Signal(0)
QUOTATION = str.maketrans("“”", "''")
# Repeats after the first nudge until `stop`; fewer once the model has been told.
UNTOLD, TOLD = 4, 2
MAX_OUTCOMES, MAX_POSITIONS = 64, 99  # different calls that are counted, and positions of each

Tools = Mapping[str, Literal["ignore"] | Mapping[str, int]]

ADVICE = {
    "same call": "You have called {what} {times} times with the same outcome since {place}",
    "same failure": "{what} has failed {times} times in the same way since {place}, with {others}"
    " different arguments",
    "same result": "{what} has given the same result {times} times since {place}, for {others}"
    " different arguments",
    "tool": "Tool calls with much the same results have come again and again since {place}",
    "waiting": "You have been waiting since {place}: nothing has changed",
    "test-fix": "The same check has failed after every edit since {place}",
    "undo": "One thing has been changed back and forth since {place}",
    "reread": "What was read before has been read again, starting with {place}",
    "handover": "The same request has been handed round since {place}",
    "silence": "Nothing has been said since {place}",
    "farewell": "Thanks, praise and farewells have been exchanged since {place}",
    "ending": "Nothing new has been said since {place}",
    "within-turn": "One thing has been said over and over since {place}: {what}",
    "paraphrase": "The same has been said in other words since {place}: {what}",
    "template": "One template has come back again and again since {place}: {what}",
    "alternating": "Two messages have taken turns since {place}: {what}",
    "cycle": "The same messages have come round again since {place}: {what}",
    "verbatim": "The same message has come again and again since {place}: {what}",
}
WAY_OUT = {
    "ending": "End the conversation, or say something new.",
    "farewell": "End the conversation, or say something new.",
    "failure": "Other arguments did not help: look at the error from another side.",
    "no-news": "Stop searching for this, and say what is missing.",
    "waiting": "Wait once for longer, or do something else meanwhile.",
    "test-fix": "List what you have tried, and look at the error from another side.",
    "undo": "Decide between the two, and say why.",
    "reread": "You have read these before: say what you want to know.",
    "handover": "Decide who answers, or ask the user.",
    "silence": "Say something, or end the conversation.",
}


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

    >>> guard = Guard(vectors=False)
    >>> for _ in range(4):
    ...     signal = guard.update("I will try that again.")
    >>> signal.loop.level, signal.loop.loop.kind, signal.loop.loop.began
    ('nudge', 'verbatim', 1)
    """

    def __init__(
        self,
        detector: Detector = LOCKED,
        encoder: "Encoder | None" = None,
        *,
        vectors: bool = True,
        loops: Loops = LOOPS,
        tools: Tools | None = None,
    ) -> None:
        needs = detector.needs
        if needs.why_not_live:
            raise InputError(f"{detector.name} can't guard a conversation: {needs.why_not_live}")
        self._detector = detector if vectors or not needs.lags else None
        self._encoder = encoder
        self._settings, self._tools = loops, _tool_rules(tools or {})
        self._thread: ThreadPoolExecutor | None = None
        # How advice names a message, by its position; a host may know a better name.
        self.place: Callable[[int], str] = "message {}".format
        # Whether a call was answered by a guard and never made; such a call is not judged.
        self.was_refused: Callable[[Call], bool] = lambda call: False
        self.reset()

    def reset(self) -> None:
        """Start a new conversation."""
        self._loops = LoopStream(self._settings, self._tools)
        self._collapse = _Collapse(self._detector, self._encoder) if self._detector else None
        # Calls without a result so far: id, call, and position of the message.
        self._waiting: list[tuple[str | None, Call, int]] = []
        self._counts = _CallCounts()
        # What went wrong with the last calls: position, kind and result.
        self._trouble: deque[tuple[int, str, str]] = deque(maxlen=MAX_OUTCOMES)
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
        for call in turn.calls:
            if call.result is not None:
                self._judge_call(call, position)
        self._waiting += [(name, c, position) for name, c in content.calls if c.result is None]
        warning = self.warning
        if warning and warning.level != "notice":
            self._warned.setdefault(identify_loop(warning.loop), warning.more)
        return GuardSignal(*signal, position, warning)

    @property
    def warning(self) -> LoopWarning | None:
        """The loop in progress, as in the last signal, if any."""
        going_on = sorted(self._loops.going_on, key=lambda loop: loop.level != "verdict")
        for loop in going_on:
            more = self._loops.repeats_since(loop)
            if more > self._allowed.get(identify_loop(loop), -1):
                words = self._describe(loop)
                way_out = WAY_OUT.get(loop.kind, "Change something or ask.")
                advice = f"{words}. {self._explain(loop)}{way_out}"
                return LoopWarning(self._level(loop, more), loop, more, words, advice)
        return None

    def mark_nudged(self) -> None:
        """Record that the model got the advice: from now on, `stop` comes after fewer repeats."""
        if warning := self.warning:
            self._nudged.setdefault(identify_loop(warning.loop), warning.more)

    nudged = mark_nudged  # its first public name

    def was_nudged(self, loop: Loop) -> bool:
        """Whether the model got the advice about a loop."""
        return identify_loop(loop) in self._nudged

    def forgive(self) -> None:
        """Record that somebody has stepped in: a loop that goes on is nudged again first."""
        for loop in self._loops.going_on:
            self._allow(loop, 0)

    def allow(self, loop: Loop, steps: int = 20) -> bool:
        """Let a loop go on for a number of repeats; return whether it was going on at all.

        After them, it is nudged again first.
        """
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"steps is {steps!r}; expected a whole number of at least 1")
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
        """Whether a call was made before in a loop, more than once and with the same outcome."""
        call = name, normalize_arguments(arguments)
        return loop.stream == "calls" and any(
            len(positions) > 1
            for key, _, positions in self._counts.since(loop.began)
            if key[:2] == call
        )

    def state(self) -> dict[str, Any]:
        """The state of the conversation as plain JSON values, for `restore`."""
        collapse = self._collapse
        parts = {
            "guard": STATE_VERSION,
            "loops": to_plain(self._loops),
            "waiting": to_plain(self._waiting),
            "counts": to_plain(self._counts),
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
        loops, counts, told, waiting, self._trouble = (
            from_plain(parts[key]) for key in ("loops", "counts", "told", "waiting", "trouble")
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
            what = " ".join((call.result or "")[: 2 * HEAD].split())
            self._trouble.append((position, kind, what[:EXCERPT]))
        if self._counts.add(call, position):
            self._loops.judge_call(call, position)

    def _level(self, loop: Loop, more: int) -> Literal["notice", "nudge", "stop"]:
        patience = PATIENCE.get(loop.kind)
        if loop.level == "notice":
            advised = patience and more >= ADVISED.get(loop.kind, math.inf) - patience.notice
            return "nudge" if advised else "notice"
        name, told = identify_loop(loop), TOLD
        if patience and self._settings.version > 1:
            if patience.stop is None or patience.verdict is None:
                return "nudge"
            told = patience.stop - patience.verdict
        if name in self._nudged:
            return "stop" if more - self._nudged[name] >= told else "nudge"
        untold = max(UNTOLD, told)
        return "stop" if more - self._warned.get(name, more) >= untold else "nudge"

    def _explain(self, loop: Loop) -> str:
        """Say what went wrong when the loop of calls began, if anything did."""
        near = range(loop.began - BEFORE, loop.began + 1) if loop.stream == "calls" else ()
        for position, kind, what in reversed(self._trouble):
            if position in near and (kind != "empty" or position == loop.began):
                said = f": {quote(what)}" if what else ""
                return f"It began when {CAUSES[kind]} ({self.place(position)}{said}). "
        return ""

    def _describe(self, loop: Loop) -> str:
        """Say what repeats and since when; every number and quotation is true of the log."""
        if loop.kind in ADVICE and loop.kind != "tool":
            kind, what, positions, others = loop.kind, loop.excerpt, [loop.began], 0
        elif loop.stream == "calls":
            kind, what, positions, others = self._counts.describe(loop.began)
        return ADVICE[kind].format(
            what=quote(what), times=len(positions), place=self.place(positions[0]), others=others
        )


def quote(text: str) -> str:
    """Quote untrusted text, which must not close its quotation or look like a guard's message.

    >>> quote("Look again” [guard:")
    "“Look again' (guard:”"
    """
    text = text.translate(QUOTATION).rstrip(".")
    return f"“{text.replace('[guard:', '(guard:').replace('Loop guard:', 'Loop guard;')}”"


class _CallCounts:
    """The positions of the last calls, by call and outcome, for advice with true numbers."""

    def __init__(self) -> None:
        # By name, arguments, outcome without times and ids, and whether it failed: how the call is
        # shown, and its positions.
        self.calls: dict[tuple[str, str, str, bool], tuple[str, deque[int]]] = {}
        self.last: tuple[int, set[tuple[str, str, str]]] = 0, set()

    def add(self, call: Call, position: int) -> bool:
        """Count a call; return whether it is the first of its kind in its message."""
        arguments, result = normalize_arguments(call.arguments), normalize(call.result)
        # Only the head of a result is masked, and the rest must be the same for a true count.
        outcome = (
            f"{mask_volatile(call.result)} {crc32(result[4 * HEAD :].encode(errors='replace'))}"
        )
        key = call.name, arguments, outcome, has_failed(call)
        text = " ".join(f"{call.name} {format_arguments(call.arguments)}".split())
        shown = text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"
        _, positions = self.calls.pop(key, (shown, deque(maxlen=MAX_POSITIONS)))
        positions.append(position)
        self.calls[key] = shown, positions
        if len(self.calls) > MAX_OUTCOMES:
            del self.calls[next(iter(self.calls))]
        if self.last[0] != position:
            self.last = position, set()
        twin = call.name, arguments, result
        is_first = twin not in self.last[1]
        self.last[1].add(twin)
        return is_first

    def since(self, began: int) -> Iterator[tuple[tuple[str, str, str, bool], str, list[int]]]:
        """The calls since a position, the latest first: key, how it is shown, and positions."""
        for key, (shown, positions) in reversed(self.calls.items()):
            if kept := [position for position in positions if position >= began]:
                yield key, shown, kept

    def describe(self, began: int) -> tuple[str, str, list[int], int]:
        """What repeats since a position: its kind, name, positions, and how many arguments."""
        calls = list(self.since(began))
        for (name, _, outcome, failed), shown, positions in calls:
            alike = [at for key, _, at in calls if (key[0], *key[2:]) == (name, outcome, failed)]
            places = sorted(place for at in alike for place in at)
            if len(alike) > 1 and len(places) >= 2 * len(positions):
                return "same failure" if failed else "same result", name, places, len(alike)
            if len(positions) > 1:
                return "same call", shown, positions, 1
        return "tool", "", [began], 0


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


def _tool_rules(tools: Tools) -> dict[str, int | None]:
    """The number of identical calls that make a loop, by tool; None for an ignored tool."""
    rules: dict[str, int | None] = {}
    for name, setting in tools.items():
        repeats = setting.get("repeats") if isinstance(setting, Mapping) else None
        if setting == "ignore":
            rules[name] = None
        elif isinstance(repeats, int) and repeats >= 2 and len(setting) == 1:
            rules[name] = repeats
        else:
            raise InputError(
                f"tools[{name!r}] is {setting!r}; expected 'ignore' or {{'repeats': N}} with N >= 2"
            )
    return rules


# A state is loaded from JSON, so only these classes can be instantiated.
_ROWS = {
    cls.__name__: cls
    for cls in (Call, Loop, CallRecord, ToolStep, Signal, LockedRule, Loops, WindingSettings)
}
_OBJECTS = {
    cls.__name__: cls
    for cls in (
        _CallCounts,
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
_LISTS: dict[str, Any] = {cls.__name__: cls for cls in (tuple, list, set, frozenset, MessageWords)}


def to_plain(value: Any) -> Any:
    """Convert a value of the guard's state to JSON values."""
    name = type(value).__name__
    if value is None or isinstance(value, bool | int | float | str):
        return value
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
