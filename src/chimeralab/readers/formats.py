"""The registry of log formats. A log's format is recognised by content, never by file name."""

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose, load_class
from chimeralab.core.records import Trajectory
from chimeralab.readers.agents import (
    ATIF,
    AgentHistory,
    AutoGen,
    LangChain,
    OpenHands,
    SWEAgent,
    WebArena,
)
from chimeralab.readers.chat import OpenAI, Preferences, ShareGPT
from chimeralab.readers.consoles import (
    Aider,
    ChatDev,
    HeadedText,
    HyperAgent,
    MetaGPT,
    OpenManus,
)
from chimeralab.readers.editors import Cline, Continue, CopilotChat, CopilotJournal, OpenCode
from chimeralab.readers.evaluations import Inspect, Promptfoo, Tau2
from chimeralab.readers.events import CopilotCLI, EventStream
from chimeralab.readers.markdown import MarkdownChat, Terminal
from chimeralab.readers.opentelemetry import OpenTelemetry
from chimeralab.readers.plain import Plain
from chimeralab.readers.providers import ChatGPT, Gemini, Responses
from chimeralab.readers.seam import Place, Reader, Unreadable, Values, items, json_type, try_json
from chimeralab.readers.sessions import ClaudeCode, Codex, GeminiCLI, Pi
from chimeralab.readers.stores import Crush, LangGraph, OpenAISessions
from chimeralab.readers.tables import NameAndText, RowPerTurn
from chimeralab.readers.traces import Langfuse, LangSmith, OpenAITraces

READERS: dict[str, type[Reader]] = {
    reader.name: reader
    for reader in (
        Plain, Inspect, OpenTelemetry, LangSmith, Langfuse, OpenAITraces, Tau2, Promptfoo, ChatGPT,
        GeminiCLI, Codex, Pi, Cline, CopilotChat, CopilotJournal, CopilotCLI, OpenCode, Continue,
        EventStream, LangChain, AutoGen, OpenHands, SWEAgent, AgentHistory, WebArena, ATIF, Gemini,
        Responses, Preferences, OpenAI, ShareGPT, ClaudeCode, Aider, HeadedText, OpenManus,
        HyperAgent, ChatDev, MetaGPT, MarkdownChat, Terminal, RowPerTurn, NameAndText, LangGraph,
        OpenAISessions, Crush,
    )
}  # fmt: skip
"""All formats by name. Their order is that of the table; the surest reader of a value reads it."""

UNKNOWN = "not a conversation in a known format"
HINT = "`chimera formats` lists them"

MESSAGES = ("messages", "conversations", "conversation", "trajectory")

NOT_CONVERSATIONS = {
    "resourceLogs": "OpenTelemetry log records, not conversations; let your instrumentation put "
    "the messages into spans (OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental and "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only)",
    "resourceMetrics": "OpenTelemetry metrics, which have no messages; export the spans",
    "traceID": "a Jaeger trace; export it as OTLP JSON",
    "agent_states": "the saved state of an AutoGen team; dump the result of its run instead: "
    "result.model_dump_json()",
    "llm_context": "the saved state of an AutoGen agent; dump the result of its run instead: "
    "result.model_dump_json()",
    "chat_messages": "an export from Claude; write a row for each message, with "
    "conversation_id, speaker and text",
}
"""Objects often mistaken for conversations, by a telling field, and what to do instead."""


def reader_named(name: str) -> type[Reader]:
    """Return the reader of a format by name, or a custom one by `module:Class`.

    >>> reader_named("plain").recognised
    'an object with turns'
    """
    if not isinstance(name, str):
        raise InputError(f"format is {name!r:.60}; expected a name, or 'module:Class'")
    if ":" not in name:
        choose(name, READERS, f"format {name!r}", or_else="or 'module:Class' for your own")
        return READERS[name]
    cls = load_class(name, f"format {name!r}", Path.cwd())
    if not (isinstance(cls, type) and issubclass(cls, Reader)):
        raise InputError(f"format {name!r} is not a subclass of chimeralab.readers.Reader")
    return cls


def keys_of(value: dict[str, Any]) -> set[str]:
    """List the fields of an object and of its first message, as in `Reader.keys`.

    >>> sorted(keys_of({"id": 1, "messages": [{"role": "user"}]}))
    ['id', 'messages', 'messages.role']
    """
    first = next(iter(items(value.get("messages"))), None)
    return {*value, *(f"messages.{key}" for key in (first if isinstance(first, dict) else ()))}


def unpack_messages(value: Any) -> Any:
    """Parse messages that are JSON inside a text, as columns of data sets have them.

    >>> unpack_messages({"messages": '[{"role": "user"}]'})
    {'messages': [{'role': 'user'}]}
    """
    if isinstance(value, dict):
        if value.keys() == {"role", "message"} and isinstance(value["message"], dict):
            return {**value["message"], "role": value["role"]}  # a line of Cursor's transcripts
        for key in MESSAGES:
            held = value.get(key)
            inner = try_json(held) if isinstance(held, str) else None
            if isinstance(inner, list):
                return {**value, key: inner}
    return value


class Formats:
    """The readers of one log: all formats, or the chosen one.

    A reader is created, and asked, only for values with one of the fields in its `keys`.
    """

    def __init__(self, chosen: type[Reader] | None = None) -> None:
        self.chosen = chosen
        self.named_columns = chosen is not None and issubclass(chosen, RowPerTurn)
        self.types = [chosen] if chosen else list(READERS.values())
        # Lists of conversations are split in the same way whatever the format.
        known = dict.fromkeys([*READERS.values(), *self.types])
        self._known = sorted(known, key=lambda reader: -reader.max_sureness)
        self._made: dict[type[Reader], Reader] = {}
        self._last: Reader | None = None
        self.understood = 0  # entries of the log that could be read

    def of(self, value: Any) -> Reader:
        """Return the reader of a JSON value, or raise `Unreadable`."""
        reader = self._reader(self.chosen) if self.chosen else self.recognise(value)
        if reader is not None:
            self._last = reader
            return reader
        raise Unreadable(self.explain(value))

    def explain(self, value: Any) -> str:
        """Say why no reader knows a value, and what the nearest one looks for."""
        shape = f"it is {json_type(value)}"
        if isinstance(value, dict):
            first = next(iter(items(value.get("data"))), None)
            keys_given = {*value, *first} if isinstance(first, dict) else value
            for key, advice in NOT_CONVERSATIONS.items():
                if key in keys_given:
                    return advice
            keys = ", ".join(repr(str(key)[:20]) for key in list(value)[:5])
            known = keys_of(value)
            nearest = max(self._known, key=lambda reader: len(reader.keys & known))
            wanted = (
                f"the nearest format is {nearest.name}, {nearest.recognised}"
                if nearest.keys & known
                else "expected turns, messages or conversations"
            )
            shape = f"its fields are {keys or 'none'}; {wanted}"
        return f"{UNKNOWN}: {shape} ({HINT})"

    def recognise(self, value: Any) -> Reader | None:
        """Return the surest reader of a value, even if another one was chosen."""
        best: tuple[float, str, Reader | None] = (0.0, "", None)
        if value == []:  # it has nothing to go by
            return None
        for each in self._likely(value):
            if each.max_sureness < best[0]:
                break
            reader = self._reader(each)
            if sureness := reader.sureness(value):
                best = max(best, (sureness, reader.name, reader), key=itemgetter(0, 1))
        return best[2]

    def is_note(self, value: Any) -> bool:
        """Whether a value that no format knows says nothing in the log that was read so far."""
        return self._last is not None and self._last.is_note(value)

    def of_archives(self) -> Reader:
        """Return the reader of a zip archive."""
        for reader in self.types:
            if reader.zipped:
                return self._reader(reader)
        raise Unreadable(f"a zip archive, which the format {self.types[0].name} does not use")

    def conversations(self, values: Values) -> Iterator[tuple[Any, Place]]:
        """Yield each value, or the conversations inside it if it has several."""
        for each, place in values:
            value = unpack_messages(each)
            if isinstance(value, list):
                inner = [] if self.is_one_talk(value) else value
            elif self.chosen in (None, Plain) and self._reader(Plain).matches(value):
                inner = []  # plain wins, whatever its other fields are called
            else:
                likely = (each for each in self._likely(value) if each.inner is not Reader.inner)
                parts = [(reader, reader.inner(value)) for reader in map(self._reader, likely)]
                found = [(r.sureness(part[0]), r.name, part) for r, part in parts if part]
                inner = max(found, key=itemgetter(0, 1), default=(0.0, "", []))[2]
            if not inner:
                yield value, place
            for number, part in enumerate(inner, 1):
                yield part, place.inside(f"conversation {number}")

    def is_one_talk(self, values: list[Any]) -> bool:
        """Whether a list is the messages of one conversation, not a list of conversations.

        >>> Formats().is_one_talk([{"role": "user", "content": "Hi"}])
        True
        >>> Formats().is_one_talk([{"turns": ["Hi"]}])
        False
        """
        if self.recognise(values) is None:
            return False
        first = values[0]
        whole = (self._reader(each) for each in self._likely(first) if each.whole)
        return not any(reader.matches(first) for reader in whole)

    def finish(self, place: Place) -> Iterator[Trajectory]:
        """Yield the conversations that needed the whole log."""
        for reader in self.types:
            if reader in self._made:
                yield from self._made[reader].finish(place)

    def _likely(self, value: Any) -> Iterator[type[Reader]]:
        """Yield the readers that the keys of a value do not rule out; the surest may come first."""
        keys = keys_of(value) if isinstance(value, dict) else None
        for reader in self._known:
            if keys is None or not reader.keys or not reader.keys.isdisjoint(keys):
                yield reader

    def _reader(self, reader: type[Reader]) -> Reader:
        if reader not in self._made:
            self._made[reader] = reader()
        return self._made[reader]
