"""The registry of log formats. A format is told by what is in a log, never by the file's ending."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose, load_class
from chimeralab.readers.agents import ATIF, AutoGen, LangChain, SWEAgent
from chimeralab.readers.chat import OpenAI, ShareGPT
from chimeralab.readers.claude_code import ClaudeCode
from chimeralab.readers.evaluations import Preferences, Promptfoo, Tau2
from chimeralab.readers.fields import Unreadable, kind
from chimeralab.readers.inspect import Inspect
from chimeralab.readers.json_values import JsonValue
from chimeralab.readers.openhands import OpenHands
from chimeralab.readers.opentelemetry import OpenTelemetry
from chimeralab.readers.plain import Plain
from chimeralab.readers.providers import Gemini, Responses
from chimeralab.readers.seam import Place, Reader
from chimeralab.readers.sessions import ChatGPT, Codex, GeminiCLI
from chimeralab.readers.tables import RowPerTurn
from chimeralab.readers.traces import Langfuse, LangSmith, OpenAITraces
from chimeralab.readers.transcripts import NameAndText

READERS: dict[str, type[Reader]] = {
    reader.name: reader
    for reader in (
        Plain,
        Inspect,
        OpenTelemetry,
        LangSmith,
        Langfuse,
        OpenAITraces,
        Tau2,
        Promptfoo,
        ChatGPT,
        GeminiCLI,
        Codex,
        LangChain,
        AutoGen,
        OpenHands,
        SWEAgent,
        ATIF,
        Gemini,
        Responses,
        Preferences,
        OpenAI,
        ShareGPT,
        ClaudeCode,
        RowPerTurn,
        NameAndText,
    )
}
"""Every format by name, in the order in which they are tried."""

UNKNOWN = "is not a conversation in a known format"

NO_CONVERSATIONS = {
    "resourceLogs": "is OpenTelemetry log records; let your instrumentation put the messages into "
    "spans (OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental and "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only)",
    "resourceMetrics": "is OpenTelemetry metrics, which hold no messages; export the spans",
    "traceID": "is a Jaeger trace; export it as OTLP JSON",
    "agent_states": "is the saved state of an AutoGen team; dump the result of its run instead: "
    "result.model_dump_json()",
    "llm_context": "is the saved state of an AutoGen agent; dump the result of its run instead: "
    "result.model_dump_json()",
    "chat_messages": "is an export of Claude; write a row for each message, with "
    "conversation_id, speaker and text",
}
"""What is often handed in for a conversation, by a field that gives it away, and the way out."""


def reader_named(name: str) -> type[Reader]:
    """The reader of a format, or one of the user's own: `module:Class`.

    >>> reader_named("plain").recognised
    'an object with turns'
    """
    if ":" not in name:
        choose(name, READERS, f"format {name!r}", or_else="or 'module:Class' for your own")
        return READERS[name]
    cls = load_class(name, f"format {name!r}", Path.cwd())
    if not (isinstance(cls, type) and issubclass(cls, Reader)):
        raise InputError(f"format {name!r} is not a subclass of chimeralab.readers.Reader")
    return cls


class Piece(NamedTuple):
    """What should be one conversation, or one line of a session."""

    value: Any
    place: Place


class Formats:
    """The readers of one log: all that are known, or the one that was asked for."""

    def __init__(self, asked: type[Reader] | None = None) -> None:
        self.asked = asked() if asked else None
        known = [reader() for reader in READERS.values()]
        self.readers = [self.asked] if self.asked else known
        self.names_columns = asked is not None and issubclass(asked, RowPerTurn)
        # Lists are taken apart alike whatever format was asked for.
        self.all = [*known, *([self.asked] if self.asked else [])]
        self._holders = [each for each in self.all if type(each).inner is not Reader.inner]

    def of(self, value: Any) -> Reader:
        """The reader of a JSON value."""
        for reader in self.readers:
            if reader is self.asked or reader.matches(value):
                return reader
        shape = f"it is {kind(value)}"
        if isinstance(value, dict):
            page = value.get("data")
            first = page[0] if isinstance(page, list) and page else None
            for sign, advice in NO_CONVERSATIONS.items():
                if sign in value or (isinstance(first, dict) and sign in first):
                    raise Unreadable(advice)
            keys = ", ".join(repr(key[:20]) for key in list(value)[:5])
            shape = f"its fields are {keys or 'none'}; expected turns, messages or conversations"
        raise Unreadable(f"{UNKNOWN}: {shape} (`chimera formats` lists them)")

    def of_archives(self) -> Reader:
        """The reader of a zip archive."""
        for reader in self.readers:
            if reader.zipped:
                return reader
        raise Unreadable(f"is a zip archive, which the format {self.readers[0].name} is never in")

    def pieces(self, item: JsonValue, place: Place) -> Iterator[Piece]:
        """A value as it is, or the conversations in it where it holds several."""
        here, value = place.at(item.line), item.value
        if isinstance(value, list):
            inner = [] if self.is_one_talk(value) else value
        else:
            inner = next((found for each in self._holders if (found := each.inner(value))), [])
        if not inner:
            yield Piece(value, here)
        for number, part in enumerate(inner, 1):
            yield Piece(part, here.inside(f"conversation {number}"))

    def is_one_talk(self, values: list[Any]) -> bool:
        """Whether a list is the messages of one conversation, and not a list of conversations.

        >>> Formats().is_one_talk([{"role": "user", "content": "Hi"}])
        True
        >>> Formats().is_one_talk([{"turns": ["Hi"]}])
        False
        """
        by_the_list = any(reader.matches(values) for reader in self.all)
        return by_the_list and not any(r.whole and r.matches(values[0]) for r in self.all)
