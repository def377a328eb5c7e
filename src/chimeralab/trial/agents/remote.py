"""Agents in another process: one JSON object per request, over HTTP or on standard input.

`do` names the method of a session: observe, fork, forget, recall or end. A new id starts a session.
Messages are numbered, so that a repeated one can be recognised.
"""

import asyncio
import json
import os
from asyncio import timeout
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json
from chimeralab.core.parts import SentKey
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.models.seam import Message, Reply, Request, classify_status, make_failure
from chimeralab.trial.agents.seam import (
    DEFAULT_TIMEOUT,
    Ability,
    AgentFailure,
    Seconds,
    SessionLost,
    as_plain,
)

Abilities = tuple[Ability, ...]
# The status codes for an unknown session.
UNKNOWN_SESSION = {404, 410}
MAX_LINE = 2**24


@dataclass(frozen=True, slots=True)
class HttpSettings(Record):
    """`use = "http"`: an agent at a URL, to which every request is posted.

    `can` names its abilities: fork, forget, recall or history. The key in the environment variable
    `key_env` is sent as a bearer token.
    """

    needs_network: ClassVar[bool] = True

    url: Annotated[str, Field(pattern=r"^https?://")]
    can: Abilities = ()
    key_env: str | None = None
    timeout: Seconds = DEFAULT_TIMEOUT

    def __post_init__(self) -> None:
        url = urlsplit(self.url)
        if url.username or url.password or url.query:
            raise InputError(
                f"url has more than an address at {url.hostname}; remove users, passwords and "
                "queries: the key is read from the environment variable that key_env names"
            )

    @property
    def sent_key(self) -> SentKey | None:
        return SentKey(self.key_env, self.url) if self.key_env else None

    def open(self) -> "HttpAgent":
        return HttpAgent(self)


@dataclass(frozen=True, slots=True)
class CommandSettings(Record):
    """`use = "command"`: a program that answers each line of JSON with one.

    It is started once, in the folder of the plan or a subfolder, and serves all sessions. `can`
    names its abilities: fork, forget, recall or history.
    """

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    can: Abilities = ()
    timeout: Seconds = DEFAULT_TIMEOUT
    folder: str = ""

    def code(self, folder: Path) -> dict[str, Path | None]:
        """The command, and the file it runs, if that is next to the plan."""
        place = folder / self.folder
        words = [word for word in self.command if not Path(word).is_absolute()]
        files = [place / word for word in words if (place / word).is_file()]
        return {" ".join(self.command): files[0] if files else None}

    def within(self, folder: Path) -> "CommandSettings":
        return replace(self, folder=str(folder / self.folder))

    def open(self) -> "CommandAgent":
        return CommandAgent(self)


class RemoteAgent:
    """An agent in another process, which has sessions or gets the whole conversation."""

    timeout = None  # `send` has its own

    async def send(self, request: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    async def start(self, session: str) -> "RemoteSession":
        return RemoteSession(self, session)

    async def reply(self, request: Request) -> Reply:
        messages = [as_plain(message) for message in request.messages]
        session = request.conversation or "hello"
        given = await self.send({"session": session, "do": "observe", "messages": messages})
        return Reply(_answer(given))


class RemoteSession:
    """A session, and how many messages it has received."""

    def __init__(self, agent: RemoteAgent, session: str, received: int = 0) -> None:
        self._agent = agent
        self._session = session
        self._received = received

    async def observe(self, message: str) -> str:
        given = await self._ask("observe", episode=self._received + 1, message=message)
        self._received += 1
        return _answer(given)

    async def fork(self, session: str) -> "RemoteSession":
        await self._ask("fork", into=session)
        return RemoteSession(self._agent, session, self._received)

    async def forget(self, episodes: Sequence[int]) -> None:
        await self._ask("forget", episodes=list(episodes))

    async def recall(self, memory: Sequence[Message]) -> None:
        await self._ask("recall", memory=[as_plain(message) for message in memory])

    async def end(self) -> None:
        await self._ask("end")

    async def _ask(self, do: str, **more: Any) -> Any:
        return await self._agent.send({"session": self._session, "do": do, **more})


def _answer(given: Any) -> str:
    answer = given.get("answer") if isinstance(given, Mapping) else None
    if not isinstance(answer, str):
        found = type(answer).__name__
        raise AgentFailure(
            "bad_answer", f'it returned {found}, where {{"answer": "a text"}} was expected'
        )
    return redact(answer)


class HttpAgent(RemoteAgent):
    """Posts requests to a URL; the client is created on first use."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._client: Any = None

    async def send(self, request: Mapping[str, Any]) -> Any:
        import httpx  # noqa: PLC0415 - slow to import, and rarely needed

        where = self._settings.url
        if self._client is None:
            headers, name = {}, self._settings.key_env
            if name is not None:
                key = os.environ.get(name)
                if not key:
                    raise InputError(
                        f"the environment variable {name} is not set; put the key there"
                    )
                headers = {"Authorization": f"Bearer {key}"}
            # Its own timeouts restart with each byte received.
            self._client = httpx.AsyncClient(timeout=None, headers=headers)  # noqa: S113
        try:
            async with timeout(self._settings.timeout):
                response = await self._client.post(where, json=request)
        except TimeoutError:
            said = f"{where} gave no answer within {self._settings.timeout:g} s"
            raise make_failure("timeout", said) from None
        except httpx.HTTPError as error:
            raise make_failure("connection", f"{where}: {error or type(error).__name__}") from None
        if response.status_code in UNKNOWN_SESSION:
            raise SessionLost(f"{where} answered {response.status_code}")
        if response.status_code != 200:
            words = f"{where} answered {response.status_code}: {response.text[:200]}"
            raise make_failure(classify_status(response.status_code, response.text), words)
        try:
            return response.json()
        except ValueError:
            raise AgentFailure("bad_answer", f"{where} did not answer with JSON") from None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


class CommandAgent(RemoteAgent):
    """A running command. If it ends it is restarted, and has lost every session."""

    def __init__(self, settings: CommandSettings) -> None:
        self._settings = settings
        self._process: Process | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._last_error: deque[str] = deque(maxlen=1)
        self._readers: list[asyncio.Task[None]] = []
        self._starting = asyncio.Lock()

    async def send(self, request: Mapping[str, Any]) -> Any:
        async with self._starting:
            process = await self._start()
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": number, **request}) + "\n"
        try:
            assert process.stdin is not None
            process.stdin.write(line.encode())
            await process.stdin.drain()
            async with timeout(self._settings.timeout):
                return await answer
        except TimeoutError:
            said = f"{self._name} gave no answer within {self._settings.timeout:g} s"
            raise AgentFailure("timeout", said) from None
        except (ConnectionError, BrokenPipeError):
            raise SessionLost(self._describe_end()) from None
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        for reader in self._readers:
            reader.cancel()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    @property
    def _name(self) -> str:
        return self._settings.command[0]

    async def _start(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            folder = self._settings.folder or None
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._settings.command,
                    stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder, limit=MAX_LINE,
                )  # fmt: skip
            except OSError as error:
                raise InputError(f"{self._name} can't be started ({error.strerror})") from error
            self._readers = [
                asyncio.create_task(self._read_answers(self._process)),
                asyncio.create_task(self._read_errors(self._process)),
            ]
        return self._process

    async def _read_answers(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self._settle(line)
        await process.wait()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(SessionLost(self._describe_end()))

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self._last_error.append(line.decode(errors="replace").strip())

    def _settle(self, line: bytes) -> None:
        """Resolve the request that a line answers; other lines are ignored."""
        try:
            given = parse_json(line)
        except ValueError:
            return
        number = given.get("id") if isinstance(given, dict) else None
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        if given.get("lost"):
            answer.set_exception(SessionLost(f"{self._name} does not have this session any more"))
        elif "error" in given:
            answer.set_exception(make_failure("server", f"{self._name}: {given['error']}"))
        else:
            answer.set_result(given)

    def _describe_end(self) -> str:
        code = self._process.returncode if self._process else None
        last = f": {self._last_error[-1]}" if self._last_error else ""
        return f"{self._name} ended with code {code}{last}"
