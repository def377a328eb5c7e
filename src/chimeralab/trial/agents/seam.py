"""The seam of agents: subjects that keep their own memory and hear one message at a time.

A plan names an agent by a frozen dataclass whose fields are its settings: `use = "http"` for one of
ours, `use = "module:Class"` for your own. It must have `start(session)`, or an `open()` that gives
the object that has it. What it can do beyond answering stands in `can`, so that a plan that asks
for more is refused before anything is run. Probes are asked in a fork of its session. Where there
is none, they are asked in a sibling: a second session that is put through the same messages, so
that the first never hears of them.
"""

import asyncio
import inspect
import threading
import traceback
from asyncio import timeout as time_limit
from collections.abc import Callable, Sequence
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
    """One conversation with an agent. `observe` is the one required method.

    The others are there where `can` names them, and any of them may be a coroutine. Messages are
    numbered from 1 in the order in which this session heard them; a fork counts on from there.
    """

    def observe(self, message: str) -> str:
        """Take in a message and answer it."""

    def fork(self, session: str) -> "Session":
        """A copy under a new id: whatever happens in it, this session never knows."""

    def forget(self, episodes: Sequence[int]) -> None:
        """From now on, act as if these messages and their answers had never been.

        The list is complete: a message that was on the last one and is not on this one is back.
        """

    def recall(self, memory: Sequence[Message]) -> None:
        """What the session remembers from now on; called before every message."""


class Agent(Protocol):
    """What starts sessions. `can` names the abilities of its sessions, none unless it says so."""

    def start(self, session: str) -> Session:
        """A new session; its id says nothing about what will be done in it."""


SEAM = Seam("start", {"can": tuple[str, ...]})


class SessionLost(ChimeraError):
    """An agent does not know a session that it started; raise it from `observe` where that is so.

    The session is then gone through again from its start, and ends if the answers differ.
    """


class Interrupted(ModelFailure):
    """A method of an agent broke off: nobody knows what its session has heard."""


def abilities(agent: Any, what: str) -> tuple[str, ...]:
    """What an agent says that it can do; `what` names it in errors."""
    stated = getattr(agent, "can", ())
    if isinstance(stated, str) or not all(isinstance(each, str) for each in stated):
        raise InputError(f'{what} can is {stated!r}; it lists abilities, as in ["fork"]')
    for each in stated:
        choose(each, ABILITIES, f"ability {each!r} in {what} can")
    return tuple(each for each in ABILITIES if each in stated)


async def called(
    method: Callable[..., Any], *arguments: Any, timeout: float | None = DEFAULT_TIMEOUT
) -> Any:
    """What a method of an agent gives; whatever else it does becomes a failure by name.

    A method that is no coroutine runs in a thread of its own: it may wait for a model, and one that
    hangs must keep nobody from leaving.
    """
    name = getattr(method, "__name__", type(method).__name__)
    clock = time_limit(timeout)
    try:
        async with clock:
            if inspect.iscoroutinefunction(method):
                return await method(*arguments)
            given = await _in_thread(method, *arguments)
            return await given if inspect.isawaitable(given) else given
    except ChimeraError:
        raise
    except (Exception, SystemExit) as error:
        if clock.expired():
            raise Interrupted("timeout", f"{name}() gave no answer within {timeout:g} s") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        said = make_failure("server", f"{name}() raised {error!r} ({place})")
        raise Interrupted(said.kind, str(said)) from error


def text_of(answer: Any, method: str) -> str:
    """An answer, if it is a text."""
    if not isinstance(answer, str):
        kind = type(answer).__name__
        raise Interrupted("bad_answer", f"{method}() gave a value of type {kind}, not a text")
    return answer


def plainly(message: Message) -> dict[str, str]:
    """A message as everybody writes it."""
    return {"role": message.role, "content": message.content}


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(give: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            give(value)

    def run() -> None:
        try:
            value = function(*arguments)
        except BaseException as error:
            # What would end a loop or a program is as much a failure here as any other.
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            tell(done.set_exception, error if plain else RuntimeError(repr(error)))
        else:
            tell(done.set_result, value)

    def tell(give: Callable[[Any], None], value: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, give, value)

    threading.Thread(target=run, daemon=True).start()
    return await done


class AgentSubject:
    """Answers requests through the sessions of one agent, one per conversation.

    It is `backstage` to tell questions from probes, and passes on nothing but messages.
    """

    backstage: ClassVar[bool] = True

    def __init__(self, agent: Any, can: Sequence[str]) -> None:
        self._agent = agent
        self._can = frozenset(can)
        # An agent that keeps its own time says None.
        self.timeout: float | None = getattr(agent, "timeout", DEFAULT_TIMEOUT)
        self._dialogues: dict[str, Dialogue] = {}

    async def reply(self, request: Request) -> Reply:
        if not request.conversation:
            return Reply(await self._greet(request.messages[-1].content))
        dialogue = self._dialogues.setdefault(request.conversation, Dialogue(self))
        return await dialogue.reply(request)

    async def leave(self, conversation: str) -> None:
        """A conversation is over; its sessions may go."""
        dialogue = self._dialogues.pop(conversation, None)
        if dialogue:
            await dialogue.end()

    async def close(self) -> None:
        if hasattr(self._agent, "close"):
            with suppress(ModelFailure):  # all that it had to say is said
                await called(self._agent.close, timeout=self.timeout)

    def can(self, ability: str) -> bool:
        return ability in self._can

    async def started(self) -> "Line":
        return Line(await called(self._agent.start, uuid4().hex, timeout=self.timeout), self)

    async def _greet(self, hello: str) -> str:
        """Say hello in a session of its own, and try what the agent says that it can do."""
        line = await self.started()
        if self.can("recall"):
            await line.recalling(())
        answer = await line.observe(hello)
        if self.can("forget"):
            for episodes in ([1], []):
                await line.call("forget", episodes)
        if self.can("fork"):
            await (await line.forked()).end()
        await line.end()
        return answer


class Line:
    """One session, how many turns it has heard, and what it has been told to forget.

    It is `broken` once nobody knows what it has heard. `turns` has, for each turn, the numbers that
    its messages have in this session: in a sibling, a probe belongs to its turn and goes with it.
    """

    def __init__(self, session: Any, subject: AgentSubject) -> None:
        self.broken = False
        self.turns: list[list[int]] = []
        self._session = session
        self._aside: list[int] = []
        self._messages = 0
        self._gone: list[int] = []
        self._subject = subject

    async def hear(self, heard: SubjectTurn) -> str:
        """The next turn: what must be gone is forgotten first."""
        await self.forgetting(heard.gone)
        answer = await self.observe(heard.text)
        self.turns.append([*self._aside, self._messages])
        self._aside = []
        return answer

    async def ask_on_the_side(self, text: str, *, before: bool) -> str:
        """A question that is no turn: it belongs to the last one, or to the one after it."""
        answer = await self.observe(text)
        (self._aside if before else self.turns[-1]).append(self._messages)
        return answer

    async def observe(self, text: str) -> str:
        answer = await self.call("observe", text)
        self._messages += 1
        return str(answer)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the session; one that it lacks is named."""
        found = getattr(self._session, method, None)
        if not callable(found):
            raise InputError(f"its session has no {method}(), which `can` promises")
        try:
            given = await called(found, *arguments, timeout=self._subject.timeout)
            return text_of(given, method) if method == "observe" else given
        except (Interrupted, SessionLost):
            self.broken = True
            raise

    async def forgetting(self, turns: Sequence[int]) -> None:
        gone = sorted(number for turn in turns for number in self.turns[turn - 1])
        if gone and not self._subject.can("forget"):
            raise InputError(
                "a stressor takes episodes away, and the agent can't forget; let the stressor say "
                'acts_on_memory = "forget", so that the plan is refused, or see docs/agents.md'
            )
        if gone != self._gone:
            await self.call("forget", gone)
            self._gone = gone

    async def recalling(self, memory: Sequence[Any]) -> None:
        await self.call("recall", list(memory))

    async def forked(self) -> "Line":
        copy = Line(await self.call("fork", uuid4().hex), self._subject)
        copy.turns, copy._messages = [list(turn) for turn in self.turns], self._messages
        copy._gone = list(self._gone)
        return copy

    async def end(self) -> None:
        """Let go of the session; one that can't even do that is left alone."""
        if hasattr(self._session, "end"):
            with suppress(ModelFailure, SessionLost):
                await self.call("end")


class Dialogue:
    """One conversation with an agent: the session that answers, and a sibling for all else."""

    def __init__(self, subject: AgentSubject) -> None:
        self._subject = subject
        self._main: Line | None = None
        self._sibling: Line | None = None

    async def reply(self, request: Request) -> Reply:
        try:
            return await (self._aside(request) if request.probe else self._answer(request))
        except SessionLost as error:
            raise make_failure("connection", f"it lost its session: {error}") from error

    async def end(self) -> None:
        for line in (self._main, self._sibling):
            if line:
                await line.end()

    async def _answer(self, request: Request) -> Reply:
        if self._subject.can("recall"):
            self._main = await self._open(self._main)
            await self._main.recalling(request.messages[:-1])
            return Reply(await self._main.observe(request.messages[-1].content))
        *before, present = request.history
        if self._main and len(self._main.turns) > len(before):
            self._main.broken = True  # it has heard the question, and its answer was turned down
        main = await self._caught_up(before)
        return Reply(await main.hear(present))

    async def _aside(self, request: Request) -> Reply:
        text = request.messages[-1].content
        if self._subject.can("recall"):
            self._sibling = await self._open(self._sibling)
            await self._sibling.recalling(request.messages[:-1])
            return Reply(await self._sibling.observe(text))
        *before, present = request.history
        asked_first = present.answer is None
        past = before if asked_first else request.history
        if self._subject.can("fork"):
            fork = await (await self._caught_up(past)).forked()
            if asked_first:
                await fork.forgetting(present.gone)
            answer = await fork.observe(text)
            await fork.end()
            return Reply(answer)
        self._sibling = await self._open(self._sibling)
        note = await _changed(self._sibling, past)
        if asked_first:
            await self._sibling.forgetting(present.gone)
        answer = await self._sibling.ask_on_the_side(text, before=asked_first)
        return Reply(answer, note=f"in a sibling session, {note}" if note else None)

    async def _open(self, line: Line | None) -> Line:
        return line if line and not line.broken else await self._subject.started()

    async def _caught_up(self, past: Sequence[SubjectTurn]) -> Line:
        """The session that answers, as far as it should be; a new one is put through all of it.

        Only if it answers as on record does it stand in for the one that was lost.
        """
        self._main = await self._open(self._main)
        if note := await _changed(self._main, past):
            raise make_failure("lost", f"its session was lost, and gone through again, {note}")
        return self._main


async def _changed(line: Line, past: Sequence[SubjectTurn]) -> str | None:
    """Put a session through the turns that it lacks; says where an answer is not the one before."""
    note = None
    for turn, heard in enumerate(past[len(line.turns) :], start=len(line.turns) + 1):
        answer = await line.hear(heard)
        if answer.strip() != (heard.answer or "").strip() and note is None:
            note = (
                f"it answered turn {turn} with {_short(answer)} where it had said "
                f"{_short(heard.answer or '')}"
            )
    return note


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
