"""Anything with `ainvoke` as a subject: runnables of LangChain, graphs of LangGraph.

A graph with a checkpointer keeps its own memory, a thread per session, and hears the newest message
alone. Everything else gets the whole conversation.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chimeralab.core.errors import InputError
from chimeralab.core.parts import load_class
from chimeralab.core.records import Record
from chimeralab.models.seam import Reply, Request
from chimeralab.trial.agents.python import CodePath, Seconds, code_path, plainly
from chimeralab.trial.agents.seam import USUAL_TIMEOUT, Interrupted, called

START = "__start__"
MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class AinvokeSettings(Record):
    """`use = "ainvoke"`: a graph or runnable, by its "module:name".

    Messages go in as a list, or under `key` in a table; graphs have them under "messages".
    """

    path: CodePath
    key: str | None = None
    timeout: Seconds = USUAL_TIMEOUT

    def code(self, folder: Path) -> dict[str, Path | None]:
        return {self.path: code_path(self.path, folder)}

    def within(self, folder: Path) -> "GraphAgent | Runnable":
        found = load_class(self.path, f"path = {self.path!r}", folder)
        if not callable(getattr(found, "ainvoke", None)):
            raise InputError(
                f"path = {self.path!r} has no ainvoke(); it takes a graph or a runnable"
            )
        is_graph = hasattr(found, "aget_state")
        if is_graph and getattr(found, "checkpointer", None):
            return GraphAgent(found, self.key or MESSAGES, self.timeout)
        return Runnable(found, MESSAGES if is_graph and not self.key else self.key, self.timeout)


class Runnable:
    """Invokes the object with the whole conversation."""

    can: ClassVar[tuple[str, ...]] = ("history",)

    def __init__(self, runnable: Any, key: str | None, timeout: float) -> None:
        self._runnable = runnable
        self._key = key
        self._timeout = timeout

    def open(self) -> "Runnable":
        return self

    async def reply(self, request: Request) -> Reply:
        messages = [plainly(message) for message in request.messages]
        given = {self._key: messages} if self._key else messages
        result = await called(self._runnable.ainvoke, given, timeout=self._timeout)
        return Reply(_text(result, self._key))


class GraphAgent:
    """Starts a thread of the graph for each session."""

    can: ClassVar[tuple[str, ...]] = ("fork", "forget")

    def __init__(self, graph: Any, key: str, timeout: float) -> None:
        self._graph = graph
        self._key = key
        self.timeout = timeout

    def open(self) -> "GraphAgent":
        return self

    async def start(self, session: str) -> "Thread":
        return Thread(self._graph, session, self._key)


class Thread:
    """One thread. What is forgotten is taken out of its state, and put back in its old place."""

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

    async def fork(self, session: str) -> "Thread":
        copy = Thread(self._graph, session, self._key)
        copy._seen, copy._hidden = dict(self._seen), set(self._hidden)
        copy._episodes = list(self._episodes)
        values = (await self._graph.aget_state(self._config)).values
        await self._graph.aupdate_state(copy._config, values, as_node=START)
        if await copy._messages() != await self._messages():
            raise InputError(
                "a thread of this graph can't be copied, so nothing can be asked in a fork"
            )
        return copy

    async def end(self) -> None:
        """Let the checkpointer drop the thread, where it can."""
        if hasattr(self._graph.checkpointer, "adelete_thread"):
            await self._graph.checkpointer.adelete_thread(self._config["configurable"]["thread_id"])

    async def _messages(self) -> list[Any]:
        state = await self._graph.aget_state(self._config)
        found: list[Any] = state.values.get(self._key, [])
        return found

    async def _rewrite(self, messages: list[Any]) -> None:
        # No dependency of ours: where there is a graph, there are its messages.
        remove = importlib.import_module("langchain_core.messages").RemoveMessage
        removed = [remove(id=each.id) for each in await self._messages()]
        for change in (removed, messages):
            if change:
                update = {self._key: change}
                await self._graph.aupdate_state(self._config, update, as_node=START)
        if [each.id for each in await self._messages()] != [each.id for each in messages]:
            raise InputError(
                "the memory of this graph can't be edited, so nothing can be taken from it; give "
                f"its state {self._key!r} the reducer add_messages, or leave amnesia out"
            )


def _text(result: Any, key: str | None) -> str:
    """The text of what came back: a text, a message, or a table whose last message it is."""
    if isinstance(result, dict) and isinstance(result.get(key or MESSAGES), list):
        result = result[key or MESSAGES][-1]
    content = getattr(result, "content", result)
    if isinstance(content, list):
        blocks = [each if isinstance(each, str) else each.get("text", "") for each in content]
        content = "".join(blocks)
    if not isinstance(content, str):
        kind = type(result).__name__
        raise Interrupted("bad_answer", f"ainvoke() gave a value of type {kind}, not a message")
    return content
