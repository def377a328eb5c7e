"""The rules of every live guard: nudge first, then stop, and never break the host.

A host passes the conversation so far, or its messages one by one, and gets None, a nudge for the
model, or a stop. The loop detector itself ignores polling and paging.
"""

import json
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any, Literal, NamedTuple, TypedDict

from chimeralab.core.config import find_config
from chimeralab.core.errors import ChimeraError, InputError, LoopDetected
from chimeralab.core.records import Call, Loop
from chimeralab.detection.calls import normalize_arguments
from chimeralab.detection.guard import Guard, LoopWarning, identify_loop, read_message
from chimeralab.detection.loops import Loops
from chimeralab.detection.runs import RunWork
from chimeralab.detection.streams import MessageStreams, StreamCut
from chimeralab.detection.tools import Tools, choose_loops, choose_tools
from chimeralab.integrations.budget import Budget, BudgetSettings, Spending
from chimeralab.readers.chat import ChatMessage

SWITCH = "CHIMERA_GUARD"
KEY = "CHIMERA_GUARD_KEY"
OFF = {"0", "off", "no", "false"}
MARK = "Loop guard: "
"""The beginning of every message of a guard."""

STOPPED = f"{MARK}stopped. "
# A nudge and a refusal are signed, so that a tool can't write one.
SIGNED = re.compile(rf"{MARK}((?:(?!{MARK}).)*?) \[guard:([0-9a-f]{{8}})\]", re.DOTALL)
PROMPTING = {"user", "system", "developer"}  # the roles in which hosts pass on a nudge

# How people tell a guard to let a loop go on. "Continue" is not among them: it is said to agents.
CARRY_ON = re.compile(
    r"\W*(?:(?:yes|ok|okay|please|no|just)\W+)*"
    r"(?:carry on|keep (?:going|waiting|polling|trying|at it)"
    r"|go on|let it (?:run|go on)|(?:this|that|it)(?:'s| is) (?:fine|ok|okay|not a loop|no loop)"
    r"|ignore the (?:loop )?guard)\b.{0,40}",
    re.IGNORECASE,
)
TAIL = 200  # messages judged of a conversation seen for the first time; windows are shorter
MAX_CONVERSATIONS = 256
ALLOWED_STEPS = 20

Message = Mapping[str, Any]
_Decide = Callable[["_Conversation"], "GuardAction | None"]
OnStop = Literal["end", "refuse"]


class GuardAction(NamedTuple):
    """What a host should do now: pass the message to the model, or stop and show it.

    ``message`` says what repeats and since when. ``again`` is whether the host ignored a stop. The
    action ``refuse`` is about one call: the message is its result, in place of the tool's.
    """

    action: Literal["nudge", "stop", "refuse"]
    message: str
    loop: Loop
    again: bool = False

    def raise_stop(self) -> None:
        """Raise `LoopDetected` if this is a stop."""
        if self.action == "stop":
            raise LoopDetected(self.message, self.loop)


class WatchSettings(TypedDict, total=False):
    """The settings of every live guard; see `Watch`."""

    tools: Tools | None
    loops: Loops | None
    enabled: bool
    on_stop: OnStop | None
    max_wait: float | None
    budget: BudgetSettings | None


class Watch:
    """Watches the conversations of one host.

    ``tools`` are settings per tool, as in `Guard`; ``enabled=False``, or the environment variable
    CHIMERA_GUARD=off, turns it off. With ``on_stop="refuse"``, a loop of tool calls is not stopped:
    `check_call` refuses the calls that it repeats. An agent that waits is advised, and stopped only
    after ``max_wait`` seconds, if these are given. A message that can't be read is an `InputError`;
    an error inside the guard is logged once and ends the watching of its conversation. For what is
    not given, the project's configuration counts.

    ``budget`` limits what a conversation may spend, as in ``{"tokens": 100_000, "in_loops":
    {"steps": 20}}``: it is nudged at 80 % and stopped at 100 %.

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

    def __init__(  # noqa: PLR0913 - its settings
        self,
        *,
        tools: Tools | None = None,
        loops: Loops | None = None,
        enabled: bool = True,
        on_stop: OnStop | None = None,
        max_wait: float | None = None,
        budget: BudgetSettings | None = None,
        place: Callable[[int], str] = "message {}".format,
        time_of: Callable[[int], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config = find_config().values
        on_stop = on_stop or config.get("on_stop", "end")
        if on_stop not in ("end", "refuse"):
            raise InputError(f"on_stop is {on_stop!r}; expected 'end' or 'refuse'")
        settings: dict[str, Any] = {"tools": choose_tools(tools)}
        settings |= {"loops": choose_loops(loops), "project": False}
        settings["max_wait"] = config.get("max_wait") if max_wait is None else max_wait
        budget = config.get("budget") if budget is None else budget
        self._enabled, self._refuses, self._logged = enabled, on_stop == "refuse", False
        self._lock = RLock()
        self._conversations: OrderedDict[str | int, _Conversation | None] = OrderedDict()
        self._runs: OrderedDict[str, RunWork] = OrderedDict()
        self._streams: OrderedDict[str, MessageStreams] = OrderedDict()  # of the next messages
        self._clock, limits = clock, Budget(budget)

        def start(before: int = 0) -> _Conversation:
            guard = Guard(vectors=False, **settings)
            guard.reset(before)
            guard.place, guard.was_refused = place, was_refused
            guard.time_of = time_of or guard.time_of
            return _Conversation(guard, Spending(limits), refuses=self._refuses)

        self._start = start
        start()  # reject bad settings now, not in the middle of a conversation

    @property
    def enabled(self) -> bool:
        return self._enabled and os.environ.get(SWITCH, "").strip().lower() not in OFF

    def update(self, message: Any, key: str = "") -> GuardAction | None:
        """Judge the next message of a conversation."""
        if not self.enabled:
            return None
        read, start = read_message(message), self._start
        with self._lock:
            known = self._conversations.get(key)
            self._start_streams(key, known.guard.position + 2 if known else 2)
        return self._judge((key, key), [read], start, _Conversation.decide)

    def follow(self, messages: Any, key: str = "", run: str = "") -> GuardAction | None:
        """Judge the new messages of a conversation, given as a whole, as `detect` takes it.

        Conversations are identified by their beginning, so a changed beginning, as after a summary,
        is a new conversation; ``key`` separates identical ones. ``run`` names the run of which
        several agents work, each by its ``key``, to see whether one repeats another's work.
        """
        return self._follow(messages, key, _Conversation.decide, run) if self.enabled else None

    def feed(self, delta: str, key: str = "", *, reasoning: bool = False) -> StreamCut | None:
        """Judge a piece of a conversation's next message while it streams.

        The stream ends with the next `update` or `follow` of the same key.
        """
        if not self.enabled:
            return None
        with self._lock:
            streams = self._streams.get(key) or self._start_streams(key, 1)
        try:
            return streams.feed(delta, reasoning=reasoning)
        except InputError:
            raise
        except Exception as error:
            self._log(error)
            return None

    def _start_streams(self, key: str, position: int) -> MessageStreams:
        streams = self._streams[key] = MessageStreams(position)
        self._streams.move_to_end(key)
        while len(self._streams) > MAX_CONVERSATIONS:
            self._streams.popitem(last=False)
        return streams

    def _follow(
        self, messages: Any, key: str, decide: _Decide, run: str = ""
    ) -> GuardAction | None:
        listed = _list_messages(messages)
        names = [hash(key)]
        try:
            for each in listed:
                names.append(hash((names[-1], json.dumps(each, default=str))))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"these messages can't be read: {error}") from None
        with self._lock:
            known = next(
                (n for n in range(len(listed), 0, -1) if names[n] in self._conversations), None
            )
            now = self._clock()
            before = max(0, len(listed) - TAIL) if known is None else known
            new = [read_message(message) for message in listed[before:]]
            old = names[0] if known is None else names[known]
            self._start_streams(key, len(listed) + 1)

            def start() -> _Conversation:
                conversation = self._begin(before, key, run)
                conversation.spend(map(read_message, listed[:before]), now)
                return conversation

            return self._judge((old, names[-1]), new, start, decide)

    def _begin(self, before: int, key: str, run: str) -> "_Conversation":
        """Start watching a conversation, with what the others of its run have done."""
        conversation = self._start(before)
        if run:
            work = self._runs.pop(run, None) or RunWork()
            self._runs[run] = work
            if len(self._runs) > MAX_CONVERSATIONS:
                self._runs.popitem(last=False)
            conversation.guard.join_run(work, key)
        return conversation

    def follow_safely(
        self, messages: Iterable[Any], key: str = "", run: str = ""
    ) -> GuardAction | None:
        """`follow` for a guard inside a host, which nothing may break."""
        if self.enabled:
            with self.contain_errors():
                return self.follow(messages, key, run)
        return None

    def check_call(
        self, messages: Any, name: str, arguments: Any, key: str = ""
    ) -> GuardAction | None:
        """Whether a call that the model has asked for is to be refused, after these messages.

        With None for the messages, those of the key count that were given to `update`.
        """
        if not (self.enabled and self._refuses):
            return None

        def decide(talk: _Conversation) -> GuardAction | None:
            return talk.check_call(name, arguments)

        if messages is None:
            return self._judge((key, key), (), self._start, decide)
        return self._follow(messages, key, decide)

    def warning(self, key: str = "") -> LoopWarning | None:
        """The loop in progress in a conversation given to `update`, if any; nothing is nudged."""
        with self._lock:
            conversation = self._conversations.get(key)
            return conversation.guard.warning if conversation else None

    def allow(self, loop: Loop, steps: int = ALLOWED_STEPS) -> None:
        """Let a loop go on for a number of repeats; after them, it is nudged again first."""
        with self._lock:
            for conversation in filter(None, self._conversations.values()):
                conversation.guard.allow(loop, steps)

    def _judge(
        self,
        keys: tuple[str | int, str | int],
        messages: Iterable[ChatMessage],
        start: Callable[[], "_Conversation"],
        decide: _Decide,
    ) -> GuardAction | None:
        """Find a conversation by its old key, judge its new messages, keep it under the new key."""
        (old, new), known = keys, self._conversations
        try:
            with self._lock:
                conversation = known.pop(old) if old in known else start()
                known[new] = None  # stays unwatched if the update fails
                while len(known) > MAX_CONVERSATIONS:
                    known.popitem(last=False)
                found = None
                if conversation:
                    conversation.take(messages, self._clock())
                    found = decide(conversation)
                known[new] = conversation
                return found
        except Exception as error:
            self._log(error)
            return None

    @contextmanager
    def contain_errors(self) -> Iterator[None]:
        """Suppress errors, so that they don't reach the host, and log the first."""
        try:
            yield
        except Exception as error:
            self._log(error)

    def _log(self, error: Exception) -> None:
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


def without_refusals(settings: WatchSettings) -> WatchSettings:
    """Check the settings of a host that can't answer a call in place of its tool.

    A configuration may be there for other hosts, too: what it says about `on_stop` is not followed.
    """
    if settings.get("on_stop") == "refuse":
        raise InputError("on_stop='refuse' is not possible in this host; use 'end'")
    return {**settings, "on_stop": "end"}


class LoopAllowance:
    """What guards inside hosts have in common: a loop can be allowed to go on."""

    _watch: Watch

    def allow(self, loop: Loop, steps: int = ALLOWED_STEPS) -> None:
        """Let a loop go on for a number of repeats; after them, it is nudged again first."""
        self._watch.allow(loop, steps)


class _Conversation:
    """One conversation: its guard, and the loop at which it was stopped."""

    def __init__(self, guard: Guard, spending: Spending, *, refuses: bool) -> None:
        self.guard, self._spending = guard, spending
        self._refuses = refuses
        self._stopped: Loop | str | None = None  # or the budget

    def spend(self, messages: Iterable[ChatMessage], now: float) -> None:
        """Take in the cost of messages that are too old to be judged."""
        for message in messages:
            self._spending.add(message, 0, now)

    def take(self, messages: Iterable[ChatMessage], now: float) -> None:
        """Take in new messages: our nudges, the user's, and all others."""
        guard, spending = self.guard, self._spending
        for message in messages:
            turn, content = message
            nudge = turn.role in PROMPTING and is_nudge(turn.text)
            ours = nudge or (turn.role == "assistant" and turn.text.startswith(STOPPED))
            if ours:
                unspoken = replace(turn, role="system", speaker="system", spoken=False)
                guard.update(ChatMessage(unspoken, content))
            else:
                guard.update(message)
            if nudge:
                guard.mark_nudged()
            elif turn.role == "user" and turn.spoken and not content.results:
                self._stopped = None
                guard.forgive(ALLOWED_STEPS if CARRY_ON.fullmatch(turn.text) else 0)
                spending.forgive()
            spending.add(message, guard.position, now)
            warning = guard.warning
            if warning and warning.level != "notice":
                spending.count_loop(warning.loop.began, guard.position)

    def decide(self) -> GuardAction | None:
        """Nudge or stop, if it is time; a nudge counts as given."""
        return self._decide_budget() or self._decide_loop()

    def _decide_budget(self) -> GuardAction | None:
        overspent = self._spending.judge()
        if overspent is None:
            return None
        what, stops = overspent
        at = self.guard.position
        loop = Loop("verdict", "budget", "all", 1, at, None, 0, (), what, 0.0)
        if not stops:
            return GuardAction("nudge", sign(f"{what}. Finish, or ask for more."), loop)
        again, self._stopped = self._stopped == loop.kind, loop.kind
        return GuardAction("stop", f"{STOPPED}{what}.", loop, again)

    def _cost(self, loop: Loop) -> str:
        """Say what a loop has cost so far, if its messages say so."""
        spent = self._spending.since(loop.began)
        if not spent.tokens or spent.estimated:
            return ""
        money = f" and {spent.show('money')}" if spent.money else ""
        return f" That has cost {spent.show('tokens')}{money} so far."

    def _decide_loop(self) -> GuardAction | None:
        guard, warning = self.guard, self.guard.warning
        if warning is None or warning.level == "notice":
            return None
        loop, nudged = warning.loop, guard.was_nudged(warning.loop)
        if not nudged:
            guard.mark_nudged()
            return GuardAction("nudge", sign(f"{warning.advice}{self._cost(loop)}"), loop)
        if warning.level == "nudge" or (self._refuses and loop.stream == "calls"):
            return None
        name = identify_loop(loop)
        again, self._stopped = self._stopped == name, name
        said = f"{STOPPED}{warning.what}.{self._cost(loop)}"
        return GuardAction("stop", said, loop, again)

    def check_call(self, name: str, arguments: Any) -> GuardAction | None:
        """Refuse a call that repeats a loop which would be stopped."""
        warning = self.guard.warning
        if warning is None or warning.level != "stop":
            return None
        loop = warning.loop
        if not self.guard.was_nudged(loop) or not self.guard.repeats_call(loop, name, arguments):
            return None
        reason = f"this call was not made. {warning.advice}{self._cost(loop)}"
        return GuardAction("refuse", sign(reason, _identify_call(name, arguments)), loop)


def sign(text: str, call: str = "") -> str:
    """Make a message of a guard, with a mark by which it is recognised in a conversation.

    The key of the mark is the environment variable CHIMERA_GUARD_KEY. A refusal is signed for its
    ``call``, so that it counts as the result of no other.
    """
    return f"{MARK}{text} [guard:{_digest(text, call)}]"


def find_signed(text: str, call: str = "") -> list[re.Match[str]]:
    """Find the messages in a text that were signed by a guard."""
    if "[guard:" not in text:
        return []
    return [found for found in SIGNED.finditer(text) if found[2] == _digest(found[1], call)]


def is_nudge(text: str) -> bool:
    """Whether a text is a nudge, and nothing else.

    >>> is_nudge(sign("You go round in circles.")), is_nudge("Loop guard: You go round in circles.")
    (True, False)
    """
    return any(found[0] == text.strip() for found in find_signed(text))


def was_refused(call: Call) -> bool:
    """Whether the result of a call is a refusal of just this call."""
    name = _identify_call(call.name, call.arguments)
    return bool(find_signed(call.result or "", name))


def _identify_call(name: str, arguments: Any) -> str:
    return f"{name} {normalize_arguments(arguments)}"


def _digest(text: str, call: str) -> str:
    import hashlib  # noqa: PLC0415 - slow to import, and seldom needed

    # Hosts may wrap lines.
    signed = " ".join(f"{call}\0{text}".split()).encode(errors="replace")
    key = hashlib.sha256(os.environ.get(KEY, "").encode(errors="replace")).digest()
    return hashlib.blake2s(signed, key=key, digest_size=4).hexdigest()


def _list_messages(messages: Any) -> Sequence[Any]:
    """List the messages of a conversation; what is not plain is read as `detect` reads it."""
    listed = list(messages) if isinstance(messages, list | tuple | Iterator) else messages
    if isinstance(listed, list) and all(map(_is_plain, listed)):
        return listed
    # Imported here: it imports every log format, which is too slow for a guard in a hook.
    from chimeralab.readers.memory import list_messages  # noqa: PLC0415

    return list_messages(listed)


def _is_plain(message: Any) -> bool:
    """Whether a message has a role and no parts, which Gemini's have."""
    return type(message) is dict and "role" in message and "parts" not in message
