"""Chat messages to turns: who speaks, what is text, and what nobody says aloud."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from chimeralab.core.records import Turn
from chimeralab.readers.expect import Unreadable, kind, mapping, text, text_or_none

ROLES = {
    "human": "user",
    "customer": "user",
    "gpt": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "chatgpt": "assistant",
    "ai": "assistant",
    "model": "assistant",
}
"""What other logs call the two sides of a chat."""

SILENT = {
    "system",
    "developer",
    "tool",
    "function",
    "function_call",
    "function_response",
    "tool_call",
    "tool_response",
    "tool_result",
    "observation",
}
"""Roles whose messages nobody says."""

TOOL_PARTS = {
    "tool_use",
    "tool_call",
    "tool_result",
    "function_call",
    "function_call_output",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "web_search_tool_result",
}


class Content(NamedTuple):
    """The text of a message, and whether it calls tools or brings back their results."""

    text: str
    tools: bool


def turn_of(message: Any, place: str) -> Turn:
    """A message with `role`, `content` and perhaps `name`, `tool_calls` and `model`."""
    fields = mapping(message, place)
    role = role_of(text(fields, "role", place))
    name = text_or_none(fields, "name", place)
    model = text_or_none(fields, "model", place)
    return spoken_turn(content_of(fields, place), role, name, model)


def spoken_turn(content: Content, role: str, name: str | None, model: str | None) -> Turn:
    only_tools = content.tools and not content.text.strip()
    spoken = role not in SILENT and not only_tools
    return Turn(content.text, name or role, role, model, spoken)


def role_of(name: str) -> str:
    """The role in one spelling.

    >>> role_of("Human"), role_of("gpt"), role_of("critic")
    ('user', 'assistant', 'critic')
    """
    folded = name.strip().lower()
    return ROLES.get(folded, folded)


def content_of(message: Mapping[str, Any], place: str) -> Content:
    content = message.get("content")
    calls_tools = bool(message.get("tool_calls") or message.get("function_call"))
    match content:
        case str():
            return Content(content, calls_tools)
        case list():
            joined = _joined(content, f"{place}.content")
            return Content(joined.text, joined.tools or calls_tools)
        case None:
            # A refusal stands where the content would.
            return Content(text_or_none(message, "refusal", place) or "", calls_tools)
        case _:
            raise Unreadable(f"{place}.content is {kind(content)}, not text")


def _joined(parts: list[Any], place: str) -> Content:
    texts = [_text_of_part(part, f"{place}[{n}]") for n, part in enumerate(parts)]
    tools = any(isinstance(part, dict) and _is_tool(part) for part in parts)
    return Content("\n".join(piece for piece in texts if piece is not None), tools)


def _text_of_part(part: Any, place: str) -> str | None:
    """What a part says; None where it is an image, a thought or a tool's business."""
    if isinstance(part, str):
        return part
    fields = mapping(part, place)
    match fields.get("type", "text"):
        case "text" | "input_text" | "output_text":
            return text(fields, "text", place)
        case "refusal":
            return text(fields, "refusal", place)
        case _:
            return None


def _is_tool(part: Mapping[str, Any]) -> bool:
    name = part.get("type")
    return isinstance(name, str) and name in TOOL_PARTS
