"""What every live guard does: nudge first, then stop, leave work alone, never break its host.

A host hands over the conversation so far, or its messages one by one, and is told what to do: to
go on (None), to hand a nudge to the model, or to stop. Polling and paging are left alone by the
loop detector itself.
"""

import json
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Literal, NamedTuple, TypedDict

from chimeralab.core.errors import LoopDetected
from chimeralab.core.records import Loop
from chimeralab.detection.guard import Guard, LoopWarning, Tools
from chimeralab.detection.loops import LOOPS, Loops

SWITCH = "CHIMERA_GUARD"
OFF = {"0", "off", "no", "false"}
MARK = "Loop guard: "
"""How what we say begins, so that a nudge is known when it comes back in the conversation."""

TAIL = 200  # messages of a conversation that is seen for the first time; windows are shorter
CONVERSATIONS = 256  # that are followed at a time
REMEMBERED = 64  # texts of the user that are known when they come again

Message = Mapping[str, Any]


class Intervention(NamedTuple):
    """What a host does now: hand the message to the model, or stop and show it.

    ``message`` says what repeats and since when; ``loop`` is the loop itself; ``again`` is whether
    the host was told to stop before, and went on.
    """

    action: Literal["nudge", "stop"]
    message: str
    loop: Loop
    again: bool = False

    def raise_stop(self) -> None:
        """For hosts that stop by an exception: raise one where this is a stop."""
        if self.action == "stop":
            raise LoopDetected(self.message, self.loop)


class WatchSettings(TypedDict, total=False):
    """What every live guard can be told: see `Watch`."""

    tools: Tools
    loops: Loops
    enabled: bool


class Watch:
    """Watches the conversations of one host, each under its own key.

    ``tools`` are settings per tool, as the guard takes them; ``enabled=False``, or the environment
    variable CHIMERA_GUARD=off, turns it off. An error inside is logged once, and the conversation
    goes on unwatched.

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
        self._talks: OrderedDict[str | int, _Talk | None] = OrderedDict()

        def started(before: int = 0) -> _Talk:
            guard = Guard(vectors=False, loops=loops, tools=tools)
            guard.place = lambda position: place(before + position)
            return _Talk(guard)

        self._started = started
        started()  # settings that can't be used are refused now, not in the middle of a talk

    @property
    def enabled(self) -> bool:
        return self._enabled and os.environ.get(SWITCH, "").strip().lower() not in OFF

    def update(self, message: Message, key: str = "") -> Intervention | None:
        """Take the next message of a conversation."""
        return self._safely(lambda: self._judged(key, key, [message], before=0))

    def follow(self, messages: Iterable[Message], key: str = "") -> Intervention | None:
        """Take a conversation as it stands now; what was seen before is not judged again.

        It is known by its beginning, so a host need not say which one it is. Where the beginning
        has changed, as after a summary, it is a new one; ``key`` tells twins apart.
        """

        def caught_up() -> Intervention | None:
            listed = list(messages)
            names = [hash(key)]
            for each in listed:
                names.append(hash((names[-1], json.dumps(each, default=str))))
            known = next((n for n in range(len(listed), 0, -1) if names[n] in self._talks), None)
            before = max(0, len(listed) - TAIL) if known is None else known
            old = names[0] if known is None else names[known]
            return self._judged(old, names[-1], listed[before:], before)

        return self._safely(caught_up)

    def _judged(
        self, old: str | int, new: str | int, messages: Iterable[Message], before: int
    ) -> Intervention | None:
        """Find a conversation by its old name, judge its new messages, keep it by its new name."""
        talk = self._talks.pop(old) if old in self._talks else self._started(before)
        self._talks[new] = None  # steps aside for good, if what follows fails
        while len(self._talks) > CONVERSATIONS:
            self._talks.popitem(last=False)
        found = talk.update(messages) if talk else None
        self._talks[new] = talk
        return found

    def _safely(self, act: Callable[[], Intervention | None]) -> Intervention | None:
        if self.enabled:
            with self._lock, self.stepping_aside():
                return act()
        return None

    @contextmanager
    def stepping_aside(self) -> Iterator[None]:
        """Around what must not break the host: an error goes no further, and is logged once."""
        try:
            yield
        except Exception as error:
            if self._logged:
                return
            import logging  # noqa: PLC0415 - slow to import, and hardly ever needed

            self._logged = True
            logging.getLogger(__name__).warning(
                "the loop guard steps aside after an error of its own (%s: %s);"
                " the conversation goes on unwatched, and later errors are not logged",
                type(error).__name__, error, exc_info=error,
            )  # fmt: skip


class _Talk:
    """One conversation: its guard, what the model was told, and what the user has said."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._warning: LoopWarning | None = None
        self._told: set[tuple[str, int]] = set()
        self._stopped: tuple[str, int] | None = None
        self._heard: deque[str] = deque(maxlen=REMEMBERED)

    def update(self, messages: Iterable[Message]) -> Intervention | None:
        for message in messages:
            ours = str(message.get("content")).startswith(MARK)
            read = {**message, "role": "system"} if ours else message
            self._warning = self._guard.update(read).loop
            if ours and self._warning:
                self._tell(self._warning.loop)
            elif self._is_news_from_user(message):
                self._told.clear()
                self._stopped = None
                self._guard.forgive()
        warning = self._warning
        if warning is None or warning.level == "notice":
            return None
        name = warning.loop.stream, warning.loop.began
        if name in self._told and warning.level == "stop":
            again, self._stopped = self._stopped == name, name
            return Intervention("stop", f"{MARK}stopped. {warning.what}.", warning.loop, again)
        if name in self._told:
            return None
        self._tell(warning.loop)
        return Intervention("nudge", MARK + warning.advice, warning.loop)

    def _tell(self, loop: Loop) -> None:
        self._told.add((loop.stream, loop.began))
        self._guard.mark_nudged()

    def _is_news_from_user(self, message: Message) -> bool:
        """Whether a person has stepped in: the user says what they have not said before."""
        said = message.get("content")
        if message.get("role") != "user" or not isinstance(said, str) or said in self._heard:
            return False
        self._heard.append(said)
        return True
