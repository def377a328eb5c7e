"""Formats of agent frameworks: LangChain and AutoGen."""

from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any

from chimeralab.core.records import Trajectory, normalize_role
from chimeralab.readers.chat import (
    CALL_PARTS,
    ChatMessage,
    Content,
    make_message,
    make_result,
    make_trajectory,
    parse_call,
    parse_message,
    parse_messages,
    result_text,
)
from chimeralab.readers.seam import (
    Place,
    Reader,
    Unreadable,
    as_object,
    as_object_with,
    bool_or_none,
    get_id,
    get_list,
    get_path,
    get_text,
    items,
    other_scalars,
    str_or_none,
    with_places,
)

LANGCHAIN_ROLES = {
    "human": "user", "ai": "assistant", "system": "system", "developer": "developer",
    "tool": "tool", "function": "function", "chat": "chat",
}  # fmt: skip


class LangChain(Reader):
    """Messages as LangChain serialises them: `dumpd`, `messages_to_dict`, or `model_dump`."""

    name = "langchain"
    keys = frozenset({"kwargs", "values", "messages.lc", "messages.type"})
    recognised = "messages with lc and kwargs, with type and data, or with type human or ai"
    turns = "a message with its text parts; tool_calls, with the message of their tool_call_id"
    left_out = "images, reasoning, usage, pickled messages"

    def matches(self, value: Any) -> bool:
        return is_langchain(next(iter(_langchain_list(value)), None))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages = starmap(langchain_message, with_places(_langchain_list(value), "messages"))
        fields = value if isinstance(value, dict) else {}
        name = get_id(fields, "id", "thread_id") if "lc" not in fields else None
        metadata = {} if "lc" in fields else other_scalars(fields, but={"id"})
        yield make_trajectory(place, name, messages, metadata)


def _langchain_list(value: Any) -> list[Any]:
    """Find the messages in a state or a serialised prompt."""
    for key in ("kwargs", "values", "messages"):
        if isinstance(value, dict) and isinstance(value.get(key), dict | list):
            value = value[key]
    return items(value)


def _langchain_fields(message: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind of a message and its fields, however it was serialised."""
    if not isinstance(message, dict):
        return None
    kind, data = message.get("type"), message
    if "lc" in message and isinstance(message.get("kwargs"), dict):
        kind = next(reversed(items(message.get("id"))), None)
        data = message["kwargs"]
    elif isinstance(message.get("data"), dict):
        data = message["data"]
    elif "role" in message or "source" in message or "content" not in message:
        return None
    if not isinstance(kind, str):
        return None
    folded = kind.lower().removesuffix("chunk").removesuffix("message")
    return (folded, data) if folded in LANGCHAIN_ROLES else None


def is_langchain(message: Any) -> bool:
    return _langchain_fields(message) is not None


def langchain_message(message: Any, place: str) -> ChatMessage:
    found = _langchain_fields(message)
    if found is None:
        raise Unreadable(f"{place} is not a LangChain message")
    kind, data = found
    role = get_text(data, "role", place) if kind == "chat" else LANGCHAIN_ROLES[kind]
    calls = items(data.get("tool_calls")) + items(data.get("invalid_tool_calls"))
    content = data.get("content")
    if calls and isinstance(content, list):
        # Anthropic's parts repeat the calls.
        content = [
            p for p in content if not (isinstance(p, dict) and str(p.get("type")) in CALL_PARTS)
        ]
    elif not calls:
        calls = get_path(data, "additional_kwargs", "tool_calls") or []
    fields = {"role": role, "content": content, "tool_calls": calls, "name": data.get("name")}
    if data.get("tool_call_id"):
        fields["tool_call_id"] = data["tool_call_id"]
    if data.get("status") == "error":
        fields["error"] = True
    return parse_message(fields, place)


AUTOGEN_SILENT = (
    "ThoughtEvent", "MemoryQueryEvent", "UserInputRequestedEvent", "ModelClientStreamingChunkEvent",
    "SelectSpeakerEvent", "SelectorEvent", "CodeGenerationEvent", "CodeExecutionEvent",
)  # fmt: skip


class AutoGen(Reader):
    """Messages of AutoGen's AgentChat, with a source, a type and content."""

    name = "autogen"
    keys = frozenset({"messages.source", "source"})
    recognised = "messages with source, type and content, in a list or under messages"
    turns = "a message of a source; calls of a ToolCallRequestEvent, with their results"
    left_out = "thoughts, streamed chunks, summaries of tool calls, saved team states"
    whole = False

    def __init__(self) -> None:
        self._lines: list[ChatMessage] = []

    def matches(self, value: Any) -> bool:
        listed = items(value.get("messages") if isinstance(value, dict) else value)
        first = listed[0] if listed else value
        return (
            isinstance(first, dict)
            and all(key in first for key in ("source", "content"))
            and isinstance(first.get("type"), str)
            and first["type"].endswith(("Message", "Event"))
        )

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if isinstance(value, dict) and "messages" not in value:
            self._lines += _autogen_messages(value, "the line")
            return
        fields = as_object_with("messages", value)
        messages = parse_messages(_autogen_messages, get_list(fields, "messages"), "messages")
        metadata = other_scalars(fields, but={"id"})
        yield make_trajectory(place, get_id(fields, "id"), messages, metadata)

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._lines:
            yield make_trajectory(place, place.stem, self._lines, {})


def _autogen_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    fields = as_object(message, place)
    source, named = get_text(fields, "source", place), get_text(fields, "type", place)
    content = fields.get("content")
    entries = [entry for entry in items(content) if isinstance(entry, dict)]
    if named in AUTOGEN_SILENT:
        return
    if entries and all("call_id" in entry for entry in entries):
        for entry in entries:
            call, failed = str_or_none(entry["call_id"]), bool_or_none(entry.get("is_error"))
            yield make_result(entry.get("content"), call, failed)
        return
    role = "user" if normalize_role(source) == "user" else "assistant"
    role = "system" if named == "SystemMessage" else role
    if entries and all("arguments" in entry for entry in entries):
        calls = tuple(map(parse_call, entries))
        yield make_message(Content("", tools=True, calls=calls), role, source)
        return
    texts = [part for part in items(content) if isinstance(part, str)]
    text = content if isinstance(content, str) else "\n".join(texts) or result_text(content)
    # A summary repeats the tool's result under the agent's name.
    is_summary = named == "ToolCallSummaryMessage"
    yield make_message(text, "tool") if is_summary else make_message(text, role, source)
