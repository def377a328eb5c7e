"""Agents in Python: a function, an object with `ainvoke`, an agent or solver of inspect-ai.

A graph with a checkpointer keeps its own memory, one thread per session, and gets only the newest
message. Everything else gets the whole conversation with every question.
"""

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import find_code, load_class
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.models.seam import Reply, Request
from chimeralab.trial.agents.seam import (
    DEFAULT_TIMEOUT,
    AgentFailure,
    Seconds,
    as_plain,
    call_method,
    check_text,
)

# "module:name"
CodePath = Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
START = "__start__"
MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class CodeSettings(Record):
    """An object by its "module:name", looked up next to the plan first."""

    path: CodePath
    timeout: Seconds = DEFAULT_TIMEOUT

    def code(self, folder: Path) -> dict[str, Path | None]:
        """The file of the module, found without running it; None if there is none."""
        return {self.path: find_code(self.path.partition(":")[0], folder).path}

    def load(self, folder: Path) -> Any:
        return load_class(self.path, f"path = {self.path!r}", folder)


class CallableSettings(CodeSettings):
    """`use = "callable"`: a function `f(messages) -> str`, plain or async.

    A message has a role and a content.
    """

    can: ClassVar[tuple[str, ...]] = ("history",)

    def within(self, folder: Path) -> "HistorySubject":
        function = self.load(folder)
        if not callable(function):
            raise InputError(f"path = {self.path!r} is not a function f(messages) -> str")
        name = getattr(function, "__name__", "the function")
        return HistorySubject(function, lambda answer: check_text(answer, name), self.timeout)


@dataclass(frozen=True, slots=True)
class AinvokeSettings(CodeSettings):
    """`use = "ainvoke"`: a graph or runnable.

    Messages are passed as a list, or under `key` in a dict; graphs take them under "messages".
    """

    key: str | None = None

    def within(self, folder: Path) -> "GraphAgent | HistorySubject":
        found = self.load(folder)
        if not callable(getattr(found, "ainvoke", None)):
            raise InputError(
                f"path = {self.path!r} has no ainvoke(); it must be a graph or a runnable"
            )
        is_graph = hasattr(found, "aget_state")
        if is_graph and getattr(found, "checkpointer", None):
            return GraphAgent(found, self.key or MESSAGES, self.timeout)
        key = MESSAGES if is_graph and not self.key else self.key
        return HistorySubject(found.ainvoke, lambda given: _text(given, key), self.timeout, key)


class HistorySubject:
    """Calls a function with the whole conversation, as a list or under a key."""

    can: ClassVar[tuple[str, ...]] = ("history",)

    def __init__(
        self,
        method: Callable[..., Any],
        read: Callable[[Any], str],
        timeout: float,
        key: str | None = None,
    ) -> None:
        self._method = method
        self._read = read
        self._timeout = timeout
        self._key = key

    async def reply(self, request: Request) -> Reply:
        messages = [as_plain(message) for message in request.messages]
        given = {self._key: messages} if self._key else messages
        return Reply(self._read(await call_method(self._method, given, timeout=self._timeout)))


class GraphAgent:
    """Starts a thread of the graph for each session."""

    can: ClassVar[tuple[str, ...]] = ("fork", "forget")

    def __init__(self, graph: Any, key: str, timeout: float) -> None:
        self._graph = graph
        self._key = key
        self.timeout = timeout

    async def start(self, session: str) -> "GraphThread":
        return GraphThread(self._graph, session, self._key)


class GraphThread:
    """A thread of a graph. Forgotten messages are removed from its state, and restored later."""

    def __init__(self, graph: Any, session: str, key: str) -> None:
        self._graph = graph
        self._config = {"configurable": {"thread_id": session}}
        self._key = key
        self._seen: dict[str, Any] = {}
        self._episodes: list[set[str]] = []
        self._hidden: set[str] = set()

    async def observe(self, message: str) -> str:
        given = {self._key: [{"role": "user", "content": message}]}
        result = await self._graph.ainvoke(given, self._config)
        said = await self._messages()
        new = {each.id for each in said} - self._seen.keys()
        self._seen |= {each.id: each for each in said}
        self._episodes.append(new)
        return _text(result, self._key)

    async def forget(self, episodes: Sequence[int]) -> None:
        gone = set().union(*(self._episodes[number - 1] for number in episodes))
        there = {each.id for each in await self._messages()}
        wanted = (there | self._hidden) - gone
        self._hidden = (self._hidden | there) & gone
        if wanted != there:
            await self._rewrite([self._seen[name] for name in self._seen if name in wanted])

    async def fork(self, session: str) -> "GraphThread":
        copy = GraphThread(self._graph, session, self._key)
        copy._seen, copy._hidden = dict(self._seen), set(self._hidden)
        copy._episodes = list(self._episodes)
        values = (await self._graph.aget_state(self._config)).values
        await self._graph.aupdate_state(copy._config, values, as_node=START)
        if await copy._messages() != await self._messages():
            raise InputError(
                "a thread of this graph can't be copied, so probes can't be asked in a fork"
            )
        return copy

    async def end(self) -> None:
        """Delete the thread, if the checkpointer can."""
        if hasattr(self._graph.checkpointer, "adelete_thread"):
            await self._graph.checkpointer.adelete_thread(self._config["configurable"]["thread_id"])

    async def _messages(self) -> list[Any]:
        state = await self._graph.aget_state(self._config)
        found: list[Any] = state.values.get(self._key, [])
        return found

    async def _rewrite(self, messages: list[Any]) -> None:
        # Not a dependency of ours: LangGraph installs it.
        remove = importlib.import_module("langchain_core.messages").RemoveMessage
        removed = [remove(id=each.id) for each in await self._messages()]
        for change in (removed, messages):
            if change:
                update = {self._key: change}
                await self._graph.aupdate_state(self._config, update, as_node=START)
        if [each.id for each in await self._messages()] != [each.id for each in messages]:
            raise InputError(
                "the memory of this graph can't be edited, so it can't forget; give its state "
                f"{self._key!r} the reducer add_messages, or leave amnesia out"
            )


def _text(result: Any, key: str | None) -> str:
    """The text of a result: a text, a message, or a dict with a list of messages."""
    if isinstance(result, dict) and isinstance(result.get(key or MESSAGES), list):
        result = result[key or MESSAGES][-1]
    content = getattr(result, "content", result)
    if isinstance(content, list):
        blocks = [each if isinstance(each, str) else each.get("text", "") for each in content]
        content = "".join(blocks)
    if not isinstance(content, str):
        kind = type(result).__name__
        raise AgentFailure("bad_answer", f"ainvoke() returned a {kind}, not a message")
    return content


@dataclass(frozen=True, slots=True)
class InspectAgentSettings(CodeSettings):
    """`use = "inspect"`: an agent or solver, or the decorated function that makes one.

    `model` is inspect-ai's name of the model it generates with. It gets the whole conversation with
    every question, so its memory is what the lab shows it.
    """

    can: ClassVar[tuple[str, ...]] = ("history",)

    model: str | None = None

    def within(self, folder: Path) -> "InspectSubject":
        try:
            importlib.import_module("inspect_ai")
        except ImportError as error:
            raise InputError(
                'use = "inspect" needs inspect-ai; install it with: '
                'pip install "chimera-lab[inspect]"'
            ) from error
        found = self.load(folder)
        try:
            agent = found if "state" in inspect.signature(found).parameters else found()
            takes = list(inspect.signature(agent).parameters)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"path = {self.path!r} is not an agent or solver of inspect-ai ({error})"
            ) from error
        if takes[:1] != ["state"]:
            raise InputError(
                f"path = {self.path!r} is not an agent or solver of inspect-ai; those take a state"
            )
        return InspectSubject(agent, "generate" in takes, self)


class InspectSubject:
    """Runs the agent or solver once per question, on the conversation so far."""

    can: ClassVar[tuple[str, ...]] = ("history",)

    def __init__(self, part: Any, is_solver: bool, settings: InspectAgentSettings) -> None:
        self._part = part
        self._is_solver = is_solver
        self._settings = settings

    async def reply(self, request: Request) -> Reply:
        state = await call_method(self._run, request, timeout=self._settings.timeout)
        output = state.output
        usage = output.usage
        return Reply(
            redact(check_text(output.completion, "completion")),
            prompt_tokens=usage.input_tokens if usage else None,
            completion_tokens=usage.output_tokens if usage else None,
            reported_model=output.model or None,
        )

    async def _run(self, request: Request) -> Any:
        # An optional dependency, and slow to import.
        from inspect_ai import model as chat  # noqa: PLC0415
        from inspect_ai.agent import AgentState  # noqa: PLC0415
        from inspect_ai.solver import TaskState  # noqa: PLC0415

        kinds = {
            "system": chat.ChatMessageSystem,
            "user": chat.ChatMessageUser,
            "assistant": chat.ChatMessageAssistant,
        }
        messages: list[Any] = [kinds[each.role](content=each.content) for each in request.messages]
        if not self._is_solver:
            return await self._part(AgentState(messages=messages))
        model = chat.get_model(self._settings.model)

        async def generate(state: Any, **_: Any) -> Any:
            state.output = await model.generate(state.messages, tools=state.tools)
            state.messages.append(state.output.message)
            return state

        state = TaskState(
            model=chat.ModelName(model),
            sample_id=request.conversation,
            epoch=1,
            input=request.messages[-1].content,
            messages=messages,
        )
        return await self._part(state, generate)
