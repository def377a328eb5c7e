"""What every live guard does: nudge first, then stop, leave work alone, never break its host.

A host hands over the conversation so far, or its messages one by one, and is told what to do: to
go on (None), to hand a nudge to the model, or to stop. Polling and paging are left alone by the
loop detector itself.
"""

import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Any, Literal, NamedTuple

from chimeralab.core.errors import LoopDetected
from chimeralab.core.records import Loop
from chimeralab.detection.guard import Guard, Tools
from chimeralab.detection.loops import LOOPS, Loops

logger = logging.getLogger(__name__)

SWITCH = "CHIMERA_GUARD"
OFF = {"0", "off", "no", "false"}
NUDGE = "chimera-guard"
"""The name that a nudge of ours has as a message, so that it is known when it comes back."""

TAIL = 200  # messages of a conversation that is seen for the first time; windows are shorter
CONVERSATIONS = 256  # that are followed at a time
REMEMBERED = 64  # texts of the user that are known when they come again

Message = Mapping[str, Any]


class Intervention(NamedTuple):
    """What a host does now: hand the message to the model, or stop and show it.

    ``message`` says what repeats and since when; ``loop`` is the loop itself.
    """

    action: Literal["nudge", "stop"]
    message: str
    loop: Loop

    def raise_stop(self) -> None:
        """For hosts that stop by an exception: raise one where this is a stop."""
        if self.action == "stop":
            raise LoopDetected(self.message, self.loop)


class Watch:
    """Watches the conversations of one host, each under its own key.

    ``tools`` are settings per tool, as the guard takes them; ``enabled=False``, or the environment
    variable CHIMERA_GUARD=off, turns it off. An error inside is logged once, and the conversation
    goes on unwatched.

    >>> watch = Watch()
    >>> call = {"id": "c", "function": {"name": "bash", "arguments": "pytest"}}
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
    Stopped in a loop. You have called “bash pytest” 5 times with the same outcome since message 1.
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
        self._talks: OrderedDict[str, _Talk | None] = OrderedDict()

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
        return self._safely(key, lambda talk: talk.update([message]))

    def follow(self, messages: Iterable[Message], key: str = "") -> Intervention | None:
        """Take a conversation as it stands now; what was seen before is not judged again.

        Where its beginning has changed, as after a summary, it is a new one.
        """

        def caught_up(talk: _Talk) -> Intervention | None:
            listed = list(messages)
            known = len(talk.seen)
            if listed[:known] != talk.seen:
                known = max(0, len(listed) - TAIL)
                talk = self._talks[key] = self._started(known)
            new, talk.seen = listed[known:], listed
            return talk.update(new)

        return self._safely(key, caught_up)

    def forget(self, key: str = "") -> None:
        """A conversation is over."""
        with self._lock:
            self._talks.pop(key, None)

    def _safely(
        self, key: str, act: Callable[["_Talk"], Intervention | None]
    ) -> Intervention | None:
        if not self.enabled:
            return None
        with self._lock:
            try:
                talk = self._talks.setdefault(key, self._started())
                self._talks.move_to_end(key)
                while len(self._talks) > CONVERSATIONS:
                    self._talks.popitem(last=False)
                return act(talk) if talk else None
            except Exception as error:
                self._talks[key] = None  # steps aside for good
                self._log(error)
                return None

    def _log(self, error: Exception) -> None:
        if not self._logged:
            self._logged = True
            logger.warning(
                "the loop guard steps aside after an error of its own (%s: %s);"
                " the conversation goes on unwatched, and later errors are not logged",
                type(error).__name__, error, exc_info=error,
            )  # fmt: skip


class _Talk:
    """One conversation: its guard, what the model was told, and what the user has said."""

    def __init__(self, guard: Guard) -> None:
        self.seen: list[Message] = []
        self._guard = guard
        self._told: set[tuple[str, int]] = set()
        self._heard: deque[str] = deque(maxlen=REMEMBERED)

    def update(self, messages: Iterable[Message]) -> Intervention | None:
        warning = None
        for message in messages:
            ours = message.get("name") == NUDGE
            warning = self._guard.update({**message, "role": "system"} if ours else message).loop
            if ours and warning:
                self._tell(warning.loop)
            elif self._is_news_from_user(message):
                self._told.clear()
                self._guard.forgive()
        if warning is None or warning.level == "notice":
            return None
        told = (warning.loop.stream, warning.loop.began) in self._told
        if told and warning.level == "stop":
            return Intervention("stop", f"Stopped in a loop. {warning.what}.", warning.loop)
        if told:
            return None
        self._tell(warning.loop)
        return Intervention("nudge", warning.advice, warning.loop)

    def _tell(self, loop: Loop) -> None:
        self._told.add((loop.stream, loop.began))
        self._guard.nudged()

    def _is_news_from_user(self, message: Message) -> bool:
        """Whether a person has stepped in: the user says what they have not said before."""
        said = message.get("content")
        if message.get("role") != "user" or not isinstance(said, str) or said in self._heard:
            return False
        self._heard.append(said)
        return True
