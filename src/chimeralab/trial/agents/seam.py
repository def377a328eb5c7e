"""The seam of agents: subjects that keep their own memory and get one message at a time.

A plan names an agent by a frozen dataclass whose fields are its settings: `use = "http"` for a
built-in one, `use = "module:Class"` for your own. It must have `start(session)`, or an `open()`
that returns an object with it. `can` declares its further abilities, so that a plan that needs more
is rejected before the run. Probes are asked in a fork of its session, or else in a sibling: a
second session that gets the same messages, so that the first never sees them.
"""

import asyncio
import inspect
import threading
import traceback
from asyncio import timeout as time_limit
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args
from uuid import uuid4

from pydantic import Field

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.parts import Seam, choose
from chimeralab.models.seam import Message, ModelFailure, Reply, Request, SubjectTurn, make_failure

Ability = Literal["history", "fork", "forget", "recall"]
ABILITIES: tuple[Ability, ...] = get_args(Ability)
DEFAULT_TIMEOUT = 120.0
Seconds = Annotated[float, Field(gt=0)]


class Session(Protocol):
    """One conversation with an agent. Only `observe` is required.

    The others exist if `can` names them. Any method may be a coroutine. Messages are numbered from
    1 in the order in which the session got them; a fork continues the count.
    """

    def observe(self, message: str) -> str:
        """Take a message and answer it."""

    def fork(self, session: str) -> "Session":
        """Copy the session under a new id, independent of the original."""

    def forget(self, episodes: Sequence[int]) -> None:
        """Act from now on as if these messages and their answers did not exist.

        The list is complete: a message that is no longer on it must be remembered again.
        """

    def recall(self, memory: Sequence[Message]) -> None:
        """Replace what the session remembers; called before every message."""


class Agent(Protocol):
    """Starts sessions. `can` names their abilities, by default none."""

    def start(self, session: str) -> Session:
        """Start a session under an opaque id."""


SEAM = Seam("start", {"can": tuple[str, ...]})


class SessionLost(ChimeraError):
    """The agent no longer knows a session; raise it from `observe`.

    The session is then replayed from its start, and ends if the answers differ.
    """


class AgentFailure(ModelFailure):
    """A method of an agent failed, so it is unknown what its session has received."""


def read_abilities(agent: Any, what: str) -> tuple[str, ...]:
    """Read and check the `can` of an agent; `what` names it in errors."""
    stated = getattr(agent, "can", ())
    if isinstance(stated, str) or not all(isinstance(each, str) for each in stated):
        raise InputError(f'{what} can is {stated!r}; it lists abilities, as in ["fork"]')
    for each in stated:
        choose(each, ABILITIES, f"ability {each!r} in {what} can")
    return tuple(each for each in ABILITIES if each in stated)


async def call_method(
    method: Callable[..., Any], *arguments: Any, timeout: float | None = DEFAULT_TIMEOUT
) -> Any:
    """Call a method of an agent; any error becomes an `AgentFailure`.

    A plain method runs in a daemon thread, so that one that hangs does not block the exit.
    """
    name = getattr(method, "__name__", type(method).__name__)
    clock = time_limit(timeout)
    try:
        async with clock:
            if inspect.iscoroutinefunction(method):
                return await method(*arguments)
            result = await _run_in_thread(method, *arguments)
            return await result if inspect.isawaitable(result) else result
    except ChimeraError:
        raise
    except (Exception, SystemExit) as error:
        if clock.expired():
            raise AgentFailure("timeout", f"{name}() gave no answer within {timeout:g} s") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        failure = make_failure("server", f"{name}() raised {error!r} ({place})")
        raise AgentFailure(failure.kind, str(failure)) from error


async def _run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    done: Future[Any] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            # Exceptions that would end the loop or the program are failures here, too.
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            done.set_exception(error if plain else RuntimeError(repr(error)))

    waiting = asyncio.wrap_future(done)
    threading.Thread(target=run, daemon=True).start()
    return await waiting


def check_text(answer: Any, method: str) -> str:
    """Return an answer if it is text; raise AgentFailure otherwise."""
    if not isinstance(answer, str):
        kind = type(answer).__name__
        raise AgentFailure("bad_answer", f"{method}() returned a {kind}, not a text")
    return answer


def as_plain(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content}


class AgentSubject:
    """Answers requests through the sessions of an agent, one per conversation.

    It is `backstage` to tell questions from probes, but passes on nothing but messages.
    """

    backstage: ClassVar[bool] = True

    def __init__(self, agent: Any, can: Sequence[str]) -> None:
        self._agent = agent
        self._can = frozenset(can)
        # None if the agent has its own timeout.
        self.timeout: float | None = getattr(agent, "timeout", DEFAULT_TIMEOUT)
        self._conversations: dict[str, AgentConversation] = {}

    async def reply(self, request: Request) -> Reply:
        if not request.conversation:
            return Reply(await self._try_abilities(request.messages[-1].content))
        name = request.conversation
        conversation = self._conversations.setdefault(name, AgentConversation(self))
        return await conversation.reply(request)

    async def leave(self, conversation: str) -> None:
        """End the sessions of a conversation that is over."""
        if found := self._conversations.pop(conversation, None):
            await found.end()

    async def close(self) -> None:
        if hasattr(self._agent, "close"):
            with suppress(ModelFailure):
                await call_method(self._agent.close, timeout=self.timeout)

    def can(self, ability: str) -> bool:
        return ability in self._can

    async def start_session(self) -> "TrackedSession":
        session = await call_method(self._agent.start, uuid4().hex, timeout=self.timeout)
        return TrackedSession(session, self)

    async def _try_abilities(self, hello: str) -> str:
        """Say hello in a separate session, and try each declared ability there."""
        session = await self.start_session()
        if self.can("recall"):
            await session.recall(())
        answer = await session.observe(hello)
        if self.can("forget"):
            for episodes in ([1], []):
                await session.call("forget", episodes)
        if self.can("fork"):
            await (await session.fork()).end()
        await session.end()
        return answer


class TrackedSession:
    """A session, the turns that it has received, and what it was told to forget.

    It is `broken` once it is unknown what it received. `turns` has the message numbers of each
    turn: in a sibling, a probe belongs to its turn and is forgotten with it.
    """

    def __init__(self, session: Any, subject: AgentSubject) -> None:
        self.broken = False
        self.turns: list[list[int]] = []
        self._session = session
        self._probes_before: list[int] = []
        self._messages = 0
        self._forgotten: list[int] = []
        self._subject = subject

    async def take_turn(self, turn: SubjectTurn) -> str:
        """Forget what the turn removes, then answer its message."""
        await self.forget(turn.gone)
        answer = await self.observe(turn.text)
        self.turns.append([*self._probes_before, self._messages])
        self._probes_before = []
        return answer

    async def take_probe(self, text: str, *, before: bool) -> str:
        """Answer a probe; it is recorded with the last turn, or `before` the next one."""
        answer = await self.observe(text)
        (self._probes_before if before else self.turns[-1]).append(self._messages)
        return answer

    async def observe(self, text: str) -> str:
        answer = await self.call("observe", text)
        self._messages += 1
        return str(answer)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the session."""
        found = getattr(self._session, method, None)
        if not callable(found):
            raise InputError(f"its session has no {method}(), which `can` promises")
        try:
            result = await call_method(found, *arguments, timeout=self._subject.timeout)
            return check_text(result, method) if method == "observe" else result
        except (AgentFailure, SessionLost):
            self.broken = True
            raise

    async def forget(self, turns: Sequence[int]) -> None:
        gone = sorted(number for turn in turns for number in self.turns[turn - 1])
        if gone and not self._subject.can("forget"):
            raise InputError(
                "a stressor removes episodes, but the agent can't forget; give the stressor "
                'acts_on_memory = "forget", so that the plan is rejected, or see docs/agents.md'
            )
        if gone != self._forgotten:
            await self.call("forget", gone)
            self._forgotten = gone

    async def recall(self, memory: Sequence[Any]) -> None:
        await self.call("recall", list(memory))

    async def fork(self) -> "TrackedSession":
        copy = TrackedSession(await self.call("fork", uuid4().hex), self._subject)
        copy.turns, copy._messages = [list(turn) for turn in self.turns], self._messages
        copy._forgotten = list(self._forgotten)
        return copy

    async def catch_up(self, past: Sequence[SubjectTurn]) -> str | None:
        """Replay the turns that are missing; return a note on the first answer that differs."""
        note = None
        for number, turn in enumerate(past[len(self.turns) :], start=len(self.turns) + 1):
            answer, before = await self.take_turn(turn), turn.answer or ""
            if answer.strip() != before.strip() and note is None:
                new, old = (repr(t if len(t) <= 40 else t[:39] + "…") for t in (answer, before))
                note = f"it answered turn {number} with {new} where it had said {old}"
        return note

    async def end(self) -> None:
        if hasattr(self._session, "end"):
            with suppress(ModelFailure, SessionLost):
                await self.call("end")


class AgentConversation:
    """A conversation with an agent: the session that answers, and a sibling for probes."""

    def __init__(self, subject: AgentSubject) -> None:
        self._subject = subject
        self._main: TrackedSession | None = None
        self._sibling: TrackedSession | None = None

    async def reply(self, request: Request) -> Reply:
        try:
            return await (self._probe(request) if request.probe else self._answer(request))
        except SessionLost as error:
            raise make_failure("connection", f"it lost its session: {error}") from error

    async def end(self) -> None:
        for session in (self._main, self._sibling):
            if session:
                await session.end()

    async def _answer(self, request: Request) -> Reply:
        if self._subject.can("recall"):
            self._main = await self._open(self._main)
            return await self._reply_from_memory(self._main, request)
        *before, present = request.history
        if self._main and len(self._main.turns) > len(before):
            self._main.broken = True  # it has the question, but its answer was rejected
        main = await self._catch_up(before)
        return Reply(await main.take_turn(present))

    async def _probe(self, request: Request) -> Reply:
        if self._subject.can("recall"):
            self._sibling = await self._open(self._sibling)
            return await self._reply_from_memory(self._sibling, request)
        text = request.messages[-1].content
        *before, present = request.history
        comes_first = present.answer is None
        past = before if comes_first else request.history
        if self._subject.can("fork"):
            fork = await (await self._catch_up(past)).fork()
            if comes_first:
                await fork.forget(present.gone)
            answer = await fork.observe(text)
            await fork.end()
            return Reply(answer)
        self._sibling = await self._open(self._sibling)
        note = await self._sibling.catch_up(past)
        if comes_first:
            await self._sibling.forget(present.gone)
        answer = await self._sibling.take_probe(text, before=comes_first)
        return Reply(answer, note=f"in a sibling session, {note}" if note else None)

    async def _reply_from_memory(self, session: TrackedSession, request: Request) -> Reply:
        *memory, present = request.messages
        await session.recall(memory)
        return Reply(await session.observe(present.content))

    async def _open(self, session: TrackedSession | None) -> TrackedSession:
        return session if session and not session.broken else await self._subject.start_session()

    async def _catch_up(self, past: Sequence[SubjectTurn]) -> TrackedSession:
        """The main session with all past turns; a new one must repeat the recorded answers."""
        self._main = await self._open(self._main)
        if note := await self._main.catch_up(past):
            raise make_failure("lost", f"its session was lost and replayed, but {note}")
        return self._main
