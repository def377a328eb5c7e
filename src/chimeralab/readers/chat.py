"""Chat logs: messages with roles, as OpenAI writes them and as ShareGPT does.

Who speaks, what is text and what nobody says aloud is the same in all logs of messages.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers.fields import (
    Unreadable,
    identity,
    kind,
    listing,
    mapping,
    scalars,
    text,
    text_or_none,
)
from chimeralab.readers.seam import Place, Reader

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
            pieces = [
                _text_of_part(part, f"{place}.content[{n}]") for n, part in enumerate(content)
            ]
            said = "\n".join(piece for piece in pieces if piece is not None)
            types = [part.get("type") for part in content if isinstance(part, dict)]
            named = {name for name in types if isinstance(name, str)}
            return Content(said, calls_tools or bool(named & TOOL_PARTS))
        case None:
            # A refusal stands where the content would.
            return Content(text_or_none(message, "refusal", place) or "", calls_tools)
        case _:
            raise Unreadable(f"{place}.content is {kind(content)}, not text")


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


class OpenAI(Reader):
    """Messages with roles: alone, as a bare list, or as request and response."""

    name = "openai"
    recognised = (
        "an object with messages, or with request, response, body or choices; or a list "
        "of messages with a role"
    )

    KEYS = ("messages", "traj")
    ENVELOPES = ("request", "response", "body", "choices")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and isinstance(value[0], dict) and "role" in value[0]
        return isinstance(value, dict) and any(key in value for key in self.KEYS + self.ENVELOPES)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = {"messages": value} if isinstance(value, list) else mapping(value, "the line")
        request, response = _opened(fields, "request"), _opened(fields, "response")
        turns: list[Turn] = []
        key = next((key for key in self.KEYS if key in request), None)
        if key is not None or not response.get("choices"):
            messages = enumerate(listing(request, key or self.KEYS[0]))
            turns += [turn_of(message, f"{key}[{n}]") for n, message in messages]
        if response.get("choices"):
            choice = mapping(listing(response, "choices")[0], "choices[0]")
            turns.append(turn_of(choice.get("message"), "choices[0].message"))
        models = [each.get("model") for each in (request, response)]
        named = [model for model in models if isinstance(model, str)]
        metadata = ({"model": named[-1]} if named else {}) | scalars(fields, but={"id"})
        name = identity(fields, "id", "custom_id") or place.default_id()
        yield Trajectory(name, tuple(turns), metadata, str(place))


def _opened(fields: Mapping[str, Any], envelope: str) -> Mapping[str, Any]:
    """What a request or response holds, wherever it starts: in an envelope, its body, or bare."""
    for key in (envelope, "body"):
        inner = fields.get(key)
        fields = inner if isinstance(inner, dict) else fields
    return fields


class ShareGPT(Reader):
    """Conversations of `from` and `value`, or of pairs of a question and an answer."""

    name = "sharegpt"
    recognised = "an object with conversations or conversation, or a list of objects with from"

    KEYS = ("conversations", "conversation")
    PAIR_SIDES = ("system", "human", "user", "gpt", "bot", "assistant")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and isinstance(value[0], dict) and "from" in value[0]
        return isinstance(value, dict) and any(key in value for key in self.KEYS)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        key = self.KEYS[0]
        fields = {key: value} if isinstance(value, list) else mapping(value, "the line")
        key = next((key for key in self.KEYS if key in fields), key)
        entries = enumerate(listing(fields, key))
        turns = tuple(turn for n, entry in entries for turn in self._turns(entry, f"{key}[{n}]"))
        name = identity(fields, "id", "conversation_id") or place.default_id()
        yield Trajectory(name, turns, scalars(fields, but={"id"}), str(place))

    def _turns(self, entry: Any, place: str) -> Iterator[Turn]:
        fields = mapping(entry, place)
        if "from" in fields:
            role = role_of(text(fields, "from", place))
            yield spoken_turn(Content(text(fields, "value", place), tools=False), role, None, None)
            return
        if "role" in fields:
            yield turn_of(fields, place)
            return
        sides = [side for side in self.PAIR_SIDES if side in fields]
        if not sides:
            raise Unreadable(f"{place}.from is missing")
        for side in sides:
            said = Content(text(fields, side, place), tools=False)
            yield spoken_turn(said, role_of(side), None, None)
