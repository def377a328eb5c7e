"""Chat logs: messages with roles, as OpenAI writes them and as ShareGPT does.

Who speaks, what is text and what nobody says aloud is the same in all logs of messages.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from chimeralab.core.records import CALLS, RESULTS, SILENT, Call, Trajectory, Turn, role_of
from chimeralab.readers.seam import (
    Place,
    Reader,
    Unreadable,
    identity,
    kind,
    listing,
    mapping,
    scalars,
    text,
    text_or_none,
)

CALL_PARTS = {"tool_use", "tool_call", "function_call", "server_tool_use", "mcp_tool_use"}
RESULT_PARTS = {"tool_result", "function_call_output", "mcp_tool_result", "web_search_tool_result"}


class Result(NamedTuple):
    """What a tool gave back, and the id of the call that it answers."""

    call: str | None
    text: str
    error: bool | None


class Content(NamedTuple):
    """The text of a message, the tools that it calls, by id, and the results that it brings."""

    text: str
    tools: bool = False
    calls: tuple[tuple[str | None, Call], ...] = ()
    results: tuple[Result, ...] = ()


class ChatMessage(NamedTuple):
    """A message as a turn, with what joins it to others."""

    turn: Turn
    content: Content


def message_of(message: Any, place: str) -> ChatMessage:
    """A message with `role`, `content` and perhaps `name`, `tool_calls` and `model`."""
    fields = mapping(message, place)
    role = role_of(text(fields, "role", place))
    name = text_or_none(fields, "name", place)
    model = text_or_none(fields, "model", place)
    content = content_of(fields, place)
    if role in RESULTS and not content.results:
        failed = fields.get("error")
        error = bool(failed) if "error" in fields or isinstance(failed, dict) else None
        called = fields.get("tool_call_id")
        said = failed.get("message") if isinstance(failed, dict) and not content.text else None
        result = Result(called if isinstance(called, str) else None, said or content.text, error)
        content = content._replace(text=result.text, results=(result,))
    return spoken(content, role, name, model)


def spoken(
    content: Content, role: str, name: str | None = None, model: str | None = None
) -> ChatMessage:
    only_tools = content.tools and not content.text.strip()
    if only_tools and content.results and not content.calls:
        # In the user's name, but it is what tools gave back: the same message as elsewhere.
        content = content._replace(text="\n".join(result.text for result in content.results))
        role, name = "tool", None
    says = role not in SILENT and not only_tools
    calls = tuple(call for _, call in content.calls)
    return ChatMessage(Turn(content.text, name or role, role, model, says, calls), content)


def called(name: str, arguments: Any, call: str | None = None) -> ChatMessage:
    """A message of the assistant that only calls a tool."""
    return spoken(Content("", tools=True, calls=((call, Call(name, arguments)),)), "assistant")


def brought(content: Any, call: str | None = None, error: bool | None = None) -> ChatMessage:
    """A message that only brings what a tool gave back."""
    said = result_text(content)
    return spoken(Content(said, tools=True, results=(Result(call, said, error),)), "tool")


def turns_of(messages: Iterable[ChatMessage]) -> tuple[Turn, ...]:
    """The turns, every call with its result: by its id, or else the first that waits for one."""
    turns: list[Turn] = []
    waiting: dict[tuple[int, int], str | None] = {}
    for turn, content in messages:
        for result in content.results:
            places = [place for place, name in waiting.items() if name == result.call]
            place = next(iter(places or (waiting if result.call is None else ())), None)
            if place is not None:
                del waiting[place]
                at, number = place
                calls = list(turns[at].calls)
                calls[number] = replace(calls[number], result=result.text, error=result.error)
                turns[at] = replace(turns[at], calls=tuple(calls))
        waiting |= {(len(turns), n): name for n, (name, _) in enumerate(content.calls)}
        turns.append(turn)
    return tuple(turns)


def content_of(message: Mapping[str, Any], place: str) -> Content:
    content = message.get("content")
    listed = message.get("tool_calls")
    listed = [*(listed if isinstance(listed, list) else ()), message.get("function_call")]
    calls = tuple(call_of(each) for each in listed if isinstance(each, dict))
    tools = bool(message.get("tool_calls") or message.get("function_call"))
    match content:
        case str():
            return Content(content, tools, calls)
        case list():
            pieces = [
                _text_of_part(part, f"{place}.content[{n}]") for n, part in enumerate(content)
            ]
            said = "\n".join(piece for piece in pieces if piece is not None)
            parts = [part for part in content if isinstance(part, dict)]
            used = tuple(call_of(part) for part in parts if str(part.get("type")) in CALL_PARTS)
            brought = tuple(
                _result_of(part) for part in parts if str(part.get("type")) in RESULT_PARTS
            )
            return Content(said, bool(tools or used or brought), calls + used, brought)
        case None:
            # A refusal stands where the content would.
            return Content(text_or_none(message, "refusal", place) or "", tools, calls)
        case _:
            raise Unreadable(f"{place}.content is {kind(content)}, not text")


def call_of(fields: Mapping[str, Any]) -> tuple[str | None, Call]:
    """A call as OpenAI, Anthropic, Inspect or a plain log writes it, and its id."""
    function = fields.get("function")
    inner = function if isinstance(function, dict) else fields
    name = function if isinstance(function, str) else inner.get("name")
    arguments = next((inner[key] for key in ("arguments", "input", "args") if key in inner), None)
    names = (fields.get(key) for key in ("id", "call_id"))
    identity = next((name for name in names if isinstance(name, str)), None)
    return identity, Call(str(name or ""), arguments)


def _result_of(part: Mapping[str, Any]) -> Result:
    called = next((part[key] for key in ("tool_use_id", "call_id") if key in part), None)
    content = part.get("content", part.get("output"))
    error = part.get("is_error")
    return Result(
        called if isinstance(called, str) else None,
        result_text(content),
        error if isinstance(error, bool) else None,
    )


def result_text(content: Any) -> str:
    """What a tool gave back as text: its texts, or else JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and any(
        isinstance(part, dict) and "text" in part for part in content
    ):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return "" if content is None else json.dumps(content, default=str)


def _text_of_part(part: Any, place: str) -> str | None:
    """What a part says; None where it is an image, a thought or a tool's business."""
    if isinstance(part, str):
        return part
    fields = mapping(part, place)
    match fields.get("type", "text"):
        case "text" | "input_text" | "output_text":
            return text(fields, "text" if "text" in fields else "content", place)
        case "refusal":
            return text(fields, "refusal", place)
        case _:
            return None


class OpenAI(Reader):
    """Messages with roles: alone, as a bare list, or as request and response."""

    name = "openai"
    keys = frozenset({"messages", "traj", "request", "response", "body", "choices"})
    recognised = (
        "an object with messages, or with request, response, body or choices; or a list "
        "of messages with a role"
    )
    turns = "a message with its text parts; its tool calls, with the results that come later"
    left_out = "images, audio, thoughts, other choices than the first"

    LISTS = ("messages", "traj")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            first = value[0] if value else None
            return isinstance(first, dict) and "role" in first and "parts" not in first
        return isinstance(value, dict) and not self.keys.isdisjoint(value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = {"messages": value} if isinstance(value, list) else mapping(value, "the line")
        request, response = unwrapped(fields, "request"), unwrapped(fields, "response")
        messages: list[ChatMessage] = []
        cut_off = False
        key = next((key for key in self.LISTS if key in request), None)
        if key is not None or not response.get("choices"):
            listed = enumerate(listing(request, key or self.LISTS[0]))
            messages += [message_of(message, f"{key}[{n}]") for n, message in listed]
        if response.get("choices"):
            choice = mapping(listing(response, "choices")[0], "choices[0]")
            messages.append(message_of(choice.get("message"), "choices[0].message"))
            cut_off = choice.get("finish_reason") == "length"
        models = [each.get("model") for each in (request, response)]
        named = [model for model in models if isinstance(model, str)]
        metadata = ({"model": named[-1]} if named else {}) | scalars(fields, but={"id"})
        metadata |= {"unfinished": True} if cut_off else {}
        name = identity(fields, "id", "custom_id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def unwrapped(fields: Mapping[str, Any], envelope: str) -> Mapping[str, Any]:
    """What a request or response holds, wherever it starts: in an envelope, its body, or bare."""
    for key in (envelope, "body"):
        inner = fields.get(key)
        fields = inner if isinstance(inner, dict) else fields
    return fields


class ShareGPT(Reader):
    """Conversations of `from` and `value`, or of pairs of a question and an answer."""

    name = "sharegpt"
    keys = frozenset({"conversations", "conversation"})
    recognised = "an object with conversations or conversation, or a list of objects with from"
    turns = "an entry with from and value, or each side of a pair of user and assistant"
    left_out = "nested fields beside the entries"

    PAIR_SIDES = ("system", "human", "user", "gpt", "bot", "assistant")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and isinstance(value[0], dict) and "from" in value[0]
        return isinstance(value, dict) and not self.keys.isdisjoint(value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = {"conversations": value} if isinstance(value, list) else mapping(value, "the line")
        key = (
            "conversation"
            if "conversations" not in fields and "conversation" in fields
            else "conversations"
        )
        entries = enumerate(listing(fields, key))
        messages = [
            message for n, entry in entries for message in self._messages(entry, f"{key}[{n}]")
        ]
        name = identity(fields, "id", "conversation_id") or place.default_id()
        yield Trajectory(name, turns_of(messages), scalars(fields, but={"id"}), str(place))

    def _messages(self, entry: Any, place: str) -> Iterator[ChatMessage]:
        fields = mapping(entry, place)
        if "from" in fields:
            role, said = role_of(text(fields, "from", place)), text(fields, "value", place)
            results = (Result(None, said, None),) if role in RESULTS else ()
            content = Content(said, results=results)
            if role in CALLS:
                # The assistant's call, spelled out under a role of its own.
                role, content = "assistant", Content("", tools=True, calls=(_call_in(said),))
            yield spoken(content, role)
            return
        if "role" in fields:
            yield message_of(fields, place)
            return
        sides = [side for side in self.PAIR_SIDES if side in fields]
        if not sides:
            raise Unreadable(f"{place}.from is missing")
        for side in sides:
            yield spoken(Content(text(fields, side, place)), role_of(side))


def _call_in(said: str) -> tuple[str | None, Call]:
    """The call that a message of a tool role spells out; where it is not JSON, as it stands."""
    try:
        fields = json.loads(said)
    except (ValueError, RecursionError):
        fields = None
    return call_of(fields) if isinstance(fields, dict) else (None, Call("", said))


HUMAN = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")


class Preferences(Reader):
    """Pairs of preferences: a prompt, the answer that was chosen and the one that was rejected."""

    name = "preferences"
    keys = frozenset({"chosen"})
    recognised = "an object with chosen and rejected"
    turns = "the messages of the prompt and of each answer; each answer is a conversation"
    left_out = "scores"

    SIDES = ("chosen", "rejected")

    def matches(self, value: Any) -> bool:
        return isinstance(value, dict) and all(
            isinstance(value.get(side), str | list | dict) for side in self.SIDES
        )

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        name = identity(fields, "id", "prompt_id") or place.default_id()
        metadata = scalars(fields, but={"id", "prompt", *self.SIDES})
        asked = list(_preferred(fields.get("prompt"), "prompt", "user"))
        for side in self.SIDES:
            told = list(_preferred(fields.get(side), side, "assistant"))
            # Many sets repeat the prompt in front of both answers.
            same = [each.turn for each in told[: len(asked)]] == [each.turn for each in asked]
            turns = turns_of(told if same else asked + told)
            yield Trajectory(f"{name}#{side}", turns, metadata | {"side": side}, str(place))


def _preferred(value: Any, place: str, role: str) -> Iterator[ChatMessage]:
    if value is None:
        return
    if isinstance(value, list):
        yield from (message_of(each, f"{place}[{n}]") for n, each in enumerate(value))
    elif isinstance(value, dict):
        yield message_of(value, place)
    elif not isinstance(value, str):
        raise Unreadable(f"{place} is {kind(value)}, not text or a list")
    elif len(pieces := HUMAN.split(value)) > 2:
        sides = zip(pieces[1::2], pieces[2::2], strict=True)
        yield from (spoken(Content(said.strip()), role_of(side)) for side, said in sides)
    else:
        yield spoken(Content(value), role)
