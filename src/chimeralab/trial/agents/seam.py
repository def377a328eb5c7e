"""The seam of agents: subjects that keep their own memory and hear one message at a time.

A plan names an agent by a frozen dataclass whose fields are its settings: `use = "http"` for one of
ours, `use = "module:Class"` for your own. It must have `start(session)`, or an `open()` that gives
the object that has it. What it can do beyond answering stands in `can`, so that a plan that asks
for more is refused before anything is run.
"""

import asyncio
import inspect
import threading
import traceback
from asyncio import timeout as time_limit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.parts import Seam, choose
from chimeralab.models.seam import Message, ModelFailure, failure

Ability = Literal["history", "fork", "forget", "recall"]
ABILITIES: tuple[Ability, ...] = get_args(Ability)
USUAL_TIMEOUT = 120.0


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
    method: Callable[..., Any], *arguments: Any, timeout: float | None = USUAL_TIMEOUT
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
        said = failure("server", f"{name}() raised {error!r} ({place})")
        raise Interrupted(said.kind, str(said)) from error


def text_of(answer: Any, method: str) -> str:
    """An answer, if it is a text."""
    if not isinstance(answer, str):
        kind = type(answer).__name__
        raise Interrupted("bad_answer", f"{method}() gave a value of type {kind}, not a text")
    return answer


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
