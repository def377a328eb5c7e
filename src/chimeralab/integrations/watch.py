"""The rules of every live guard: nudge first, then stop, and never break the host.

A host passes the conversation so far, or its messages one by one, and gets None, a nudge for the
model, or a stop. The loop detector itself ignores polling and paging.
"""

import json
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, NamedTuple, TypedDict

from chimeralab.core.errors import ChimeraError, InputError, LoopDetected
from chimeralab.core.records import Loop
from chimeralab.detection.guard import Guard, LoopWarning, Tools
from chimeralab.detection.loops import LOOPS, Loops

SWITCH = "CHIMERA_GUARD"
OFF = {"0", "off", "no", "false"}
MARK = "Loop guard: "
"""The prefix of every message of a guard, by which nudges in a conversation are recognised."""

TAIL = 200  # messages judged of a conversation seen for the first time; windows are shorter
MAX_CONVERSATIONS = 256
MAX_USER_TEXTS = 64  # kept to recognise repeated ones

Message = Mapping[str, Any]


class GuardAction(NamedTuple):
    """What a host should do now: pass the message to the model, or stop and show it.

    ``message`` says what repeats and since when. ``again`` is whether the host ignored a stop.
    """

    action: Literal["nudge", "stop"]
    message: str
    loop: Loop
    again: bool = False

    def raise_stop(self) -> None:
        """Raise `LoopDetected` if this is a stop."""
        if self.action == "stop":
            raise LoopDetected(self.message, self.loop)


class WatchSettings(TypedDict, total=False):
    """The settings of every live guard; see `Watch`."""

    tools: Tools
    loops: Loops
    enabled: bool


class Watch:
    """Watches the conversations of one host.

    ``tools`` are settings per tool, as in `Guard`; ``enabled=False``, or the environment variable
    CHIMERA_GUARD=off, turns it off. An internal error is logged once and ends the watching
    of its conversation.

    >>> watch = Watch()
    >>> call = {"id": "c", "function": {"name": "sh", "arguments": "make"}}
    >>> asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    >>> gets = {"role": "tool", "tool_call_id": "c", "content": "1 failed"}
    >>> for step in range(1, 6):
    ...     found = watch.follow([asks, gets] * step)
    ...     print(step, found and found.action)
    1 None
    2 None
    3 nudge
    4 None
    5 stop
    >>> print(found.message)
    Loop guard: stopped. You have called “sh make” 5 times with the same outcome since message 1.
    """

    def __init__(
        self,
        *,
        tools: Tools | None = None,
        loops: Loops = LOOPS,
        enabled: bool = True,
        place: Callable[[int], str] = "message {}".format,
    ) -> None:
        self._enabled, self._logged = enabled, False
        self._lock = RLock()
        self._conversations: OrderedDict[str | int, _Conversation | None] = OrderedDict()

        def start(before: int = 0) -> _Conversation:
            guard = Guard(vectors=False, loops=loops, tools=tools)
            guard.place = lambda position: place(before + position)
            return _Conversation(guard)

        self._start = start
        start()  # reject bad settings now, not in the middle of a conversation

    @property
    def enabled(self) -> bool:
        return self._enabled and os.environ.get(SWITCH, "").strip().lower() not in OFF

    def update(self, message: Message, key: str = "") -> GuardAction | None:
        """Judge the next message of a conversation."""
        return self._run_safely(lambda: self._judge(key, key, [message], before=0))

    def follow(self, messages: Iterable[Message], key: str = "") -> GuardAction | None:
        """Judge the new messages of a conversation, given as a whole.

        Conversations are identified by their beginning, so a changed beginning, as after a summary,
        is a new conversation; ``key`` separates identical ones.
        """

        def judge_new() -> GuardAction | None:
            listed = list(messages)
            names = [hash(key)]
            for each in listed:
                names.append(hash((names[-1], json.dumps(each, default=str))))
            known = next(
                (n for n in range(len(listed), 0, -1) if names[n] in self._conversations), None
            )
            before = max(0, len(listed) - TAIL) if known is None else known
            old = names[0] if known is None else names[known]
            return self._judge(old, names[-1], listed[before:], before)

        return self._run_safely(judge_new)

    def _judge(
        self, old: str | int, new: str | int, messages: Iterable[Message], before: int
    ) -> GuardAction | None:
        """Find a conversation by its old key, judge its new messages, keep it under the new key."""
        known = self._conversations
        conversation = known.pop(old) if old in known else self._start(before)
        known[new] = None  # stays unwatched if the update fails
        while len(known) > MAX_CONVERSATIONS:
            known.popitem(last=False)
        found = conversation.update(messages) if conversation else None
        known[new] = conversation
        return found

    def _run_safely(self, act: Callable[[], GuardAction | None]) -> GuardAction | None:
        if self.enabled:
            with self._lock, self.contain_errors():
                return act()
        return None

    @contextmanager
    def contain_errors(self) -> Iterator[None]:
        """Suppress errors, so that they don't reach the host, and log the first."""
        try:
            yield
        except Exception as error:
            if self._logged:
                return
            import logging  # noqa: PLC0415 - slow to import, and seldom needed

            self._logged = True
            logging.getLogger(__name__).warning(
                "the loop guard failed (%s: %s); the conversation is no longer watched, and later"
                " errors are not logged",
                type(error).__name__, error,
                exc_info=None if isinstance(error, ChimeraError) else error,
            )  # fmt: skip


class _Conversation:
    """One conversation: its guard, the loops that the model was nudged about, the user's texts."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._warning: LoopWarning | None = None
        self._nudged: set[tuple[str, int]] = set()
        self._stopped: tuple[str, int] | None = None
        self._user_texts: deque[str] = deque(maxlen=MAX_USER_TEXTS)

    def update(self, messages: Iterable[Any]) -> GuardAction | None:
        for message in messages:
            if not isinstance(message, Mapping):
                what = type(message).__name__
                raise InputError(f"a message is a {what}, not an object with role and content")
            ours = str(message.get("content")).startswith(MARK)
            read = {**message, "role": "system"} if ours else message
            self._warning = self._guard.update(read).loop
            if ours and self._warning:
                self._nudge(self._warning.loop)
            elif self._is_new_from_user(message):
                self._nudged.clear()
                self._stopped = None
                self._guard.forgive()
        warning = self._warning
        if warning is None or warning.level == "notice":
            return None
        name = warning.loop.stream, warning.loop.began
        if name in self._nudged and warning.level == "stop":
            again, self._stopped = self._stopped == name, name
            return GuardAction("stop", f"{MARK}stopped. {warning.what}.", warning.loop, again)
        if name in self._nudged:
            return None
        self._nudge(warning.loop)
        return GuardAction("nudge", MARK + warning.advice, warning.loop)

    def _nudge(self, loop: Loop) -> None:
        self._nudged.add((loop.stream, loop.began))
        self._guard.mark_nudged()

    def _is_new_from_user(self, message: Message) -> bool:
        """Whether the user intervenes with a text not seen before."""
        text = message.get("content")
        if message.get("role") != "user" or not isinstance(text, str) or text in self._user_texts:
            return False
        self._user_texts.append(text)
        return True
