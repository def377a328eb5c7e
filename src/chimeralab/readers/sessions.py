"""Sessions that assistants keep themselves: Codex, Gemini CLI, and the export of ChatGPT."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chimeralab.core.records import Call, Trajectory, Turn
from chimeralab.readers.chat import ChatMessage, Content, brought, result_text, spoken, turns_of
from chimeralab.readers.fields import (
    identity,
    listing,
    listing_if_any,
    mapping,
    scalars,
    text,
    text_or_none,
)
from chimeralab.readers.providers import gemini_message, item_message
from chimeralab.readers.seam import Place, Reader

CODEX_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
CODEX_EVENTS = ("thread.", "turn.", "item.")
CODEX_CALLS = ("command_execution", "mcp_tool_call", "file_change", "web_search")
# What Codex writes in the user's name before the first question.
CODEX_ASIDES = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")


class Codex(Reader):
    """Sessions of Codex: the rollout files it keeps, or the events of `codex exec --json`."""

    name = "codex"
    recognised = "lines with a type such as session_meta or response_item and a payload, or events"
    turns = "a response_item, as in OpenAI Responses; of the events, completed items"
    left_out = "reasoning, event_msg lines (they repeat the items), instructions, token counts"
    whole = False

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._about: dict[str, Any] = {}
        self._open = False

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return False
        if value["type"] in CODEX_LINES:
            return isinstance(value.get("payload"), dict)
        return value["type"].startswith(CODEX_EVENTS) and "uuid" not in value

    def says_something(self, value: Any) -> bool:
        return value.get("type") in ("response_item", "item.completed")

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        named = text(fields, "type")
        if named in CODEX_LINES:
            self._line(named, mapping(fields.get("payload"), "payload"))
        elif named == "thread.started":
            self._about["session"] = identity(fields, "thread_id")
        elif named in ("turn.started", "turn.completed", "turn.failed"):
            self._open = named == "turn.started"
        elif named == "item.completed":
            self._messages += _exec_messages(mapping(fields.get("item"), "item"))
        return iter(())

    def _line(self, named: str, payload: Mapping[str, Any]) -> None:
        if named == "session_meta":
            self._about["session"] = identity(payload, "id")
        elif named == "turn_context":
            self._about["model"] = text_or_none(payload, "model", "payload")
        elif named == "response_item" and (message := item_message(payload, "payload")):
            aside = message.turn.text.startswith(CODEX_ASIDES)
            self._messages.append(
                ChatMessage(replace(message.turn, spoken=False), message.content)
                if aside
                else message
            )

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            metadata = self._about | ({"unfinished": True} if self._open else {})
            name = self._about.get("session") or place.stem
            yield Trajectory(name, turns_of(self._messages), metadata, str(place))


def _exec_messages(item: Mapping[str, Any]) -> Iterator[ChatMessage]:
    named = item.get("type") or item.get("item_type")
    if named in ("agent_message", "assistant_message", "user_message"):
        role = "user" if named == "user_message" else "assistant"
        yield spoken(Content(text(item, "text", "item")), role)
    elif named in CODEX_CALLS:
        keys = ("command", "arguments", "changes", "query")
        asked = next((item[key] for key in keys if item.get(key) is not None), None)
        given = next(
            (item[k] for k in ("aggregated_output", "result", "error") if item.get(k)), None
        )
        failed = item.get("status") == "failed" or item.get("exit_code") not in (None, 0)
        name = str(item.get("tool") or named)
        call = Call(name, asked, None if given is None else result_text(given), failed or None)
        yield ChatMessage(
            Turn("", "assistant", "assistant", spoken=False, calls=(call,)), Content("", tools=True)
        )


class GeminiCLI(Reader):
    """Sessions that Gemini CLI records: messages of type user or gemini, with their tool calls."""

    name = "gemini-cli"
    recognised = "an object with sessionId, and messages with a type such as gemini"
    turns = "a message of the user or of gemini; its toolCalls, with their results"
    left_out = "thoughts, messages of type info, warning and error"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or "sessionId" not in value:
            return False
        listed = value.get("messages")
        if not isinstance(listed, list) or "type" in value:
            return False
        return not listed or (isinstance(listed[0], dict) and "role" not in listed[0])

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        messages = [
            message
            for n, each in enumerate(listing(fields, "messages"))
            for message in _cli_messages(mapping(each, f"messages[{n}]"), f"messages[{n}]")
        ]
        metadata = scalars(fields, but={"sessionId"})
        name = identity(fields, "sessionId") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _cli_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    named = text(fields, "type", place)
    if named not in ("user", "gemini"):
        return
    role = "user" if named == "user" else "assistant"
    content = fields.get("content")
    parts = content if isinstance(content, list) else [content or ""]
    said = gemini_message({"role": role, "parts": parts}, f"{place}.content").turn.text
    calls = []
    for call in listing_if_any(fields, "toolCalls", place):
        given = mapping(call, f"{place}.toolCalls")
        results = given.get("result")
        answer = (
            gemini_message({"parts": results}, f"{place}.toolCalls.result") if results else None
        )
        failed = given.get("status") in ("error", "cancelled")
        calls.append(
            Call(
                str(given.get("name") or ""),
                given.get("args"),
                answer.turn.text if answer else text_or_none(given, "resultDisplay", place),
                failed or None,
            )
        )
    model = text_or_none(fields, "model", place)
    message = spoken(Content(said, bool(calls)), role, None, model)
    yield ChatMessage(replace(message.turn, calls=tuple(calls)), message.content)


class ChatGPT(Reader):
    """The export of ChatGPT: a tree of messages, of which the current branch was the talk."""

    name = "chatgpt"
    recognised = "an object with a mapping of nodes that have a message, a parent and children"
    turns = "a message on the branch that ends in current_node; code sent to a tool is a call"
    left_out = "other branches, hidden messages, thoughts, images"

    def matches(self, value: Any) -> bool:
        nodes = value.get("mapping") if isinstance(value, dict) else None
        if not isinstance(nodes, dict):
            return False
        first = next(iter(nodes.values()), None)
        return isinstance(first, dict) and ("parent" in first or "children" in first)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        messages = [
            message
            for key, node in _branch(mapping(fields.get("mapping"), "mapping"), fields)
            for message in _chatgpt_messages(node, f"mapping.{key}.message")
        ]
        metadata = scalars(fields, but={"id", "conversation_id"})
        models = [message.turn.model for message in messages if message.turn.model]
        metadata |= {"model": models[-1]} if models else {}
        name = identity(fields, "conversation_id", "id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _branch(nodes: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The nodes from the root to the current one; without one, to the last in the file."""
    at = text_or_none(fields, "current_node")
    if at is None:
        at = next(reversed(list(nodes)), None)
    path: dict[str, Any] = {}
    while at is not None and at not in path:
        node = mapping(nodes.get(at), f"mapping.{at}")
        path[at] = node.get("message")
        at = text_or_none(node, "parent", f"mapping.{at}")
    return list(reversed(path.items()))


def _chatgpt_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    if message is None:
        return
    fields = mapping(message, place)
    about = fields.get("metadata") if isinstance(fields.get("metadata"), dict) else {}
    assert isinstance(about, dict)
    content = mapping(fields.get("content") or {}, f"{place}.content")
    role = text(mapping(fields.get("author"), f"{place}.author"), "role", f"{place}.author")
    if about.get("is_visually_hidden_from_conversation"):
        return
    named = content.get("content_type")
    if named in ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"):
        return
    parts = content.get("parts")
    said = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
    if isinstance(content.get("text"), str):
        said.append(content["text"])
    whole = "\n".join(said)
    recipient = fields.get("recipient")
    if role == "tool":
        yield brought(whole)
    elif isinstance(recipient, str) and recipient not in ("all", ""):
        yield spoken(Content("", True, ((None, Call(recipient, whole)),)), role)
    else:
        yield spoken(Content(whole), role, None, text_or_none(about, "model_slug", place))
