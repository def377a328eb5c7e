"""Chat messages with roles, text parts and tool calls; the formats of OpenAI and ShareGPT."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, starmap
from typing import Any, NamedTuple

from chimeralab.core.records import (
    CALL_ROLES,
    RESULT_ROLES,
    SILENT_ROLES,
    Call,
    Trajectory,
    Turn,
    normalize_role,
)
from chimeralab.readers.seam import (
    Place,
    Reader,
    Unreadable,
    as_object,
    as_object_with,
    bool_or_none,
    first_text,
    get_id,
    get_list,
    get_path,
    get_text,
    items,
    json_type,
    optional_text,
    other_scalars,
    str_or_none,
    try_json,
    with_places,
)

CALL_PARTS = {"tool_use", "tool_call", "function_call", "server_tool_use", "mcp_tool_use"}
RESULT_PARTS = {"tool_result", "function_call_output", "mcp_tool_result", "web_search_tool_result"}


class Result(NamedTuple):
    """The result of a tool call, with the call's id."""

    call: str | None
    text: str
    error: bool | None


class Content(NamedTuple):
    """The text of a message, its tool calls by id, and the tool results in it."""

    text: str
    tools: bool = False
    calls: tuple[tuple[str | None, Call], ...] = ()
    results: tuple[Result, ...] = ()


class ChatMessage(NamedTuple):
    """A message as a turn, with the ids that link calls to results."""

    turn: Turn
    content: Content


def parse_message(message: Any, place: str) -> ChatMessage:
    """Parse a message with `role`, `content`, and optionally `name`, `tool_calls` and `model`."""
    fields = as_object(message, place)
    role = normalize_role(get_text(fields, "role", place))
    name = optional_text(fields, "name", place)
    model = optional_text(fields, "model", place)
    content = parse_content(fields, place)
    if role in RESULT_ROLES and not content.results:
        failed = fields.get("error")
        error = bool(failed) if "error" in fields or isinstance(failed, dict) else None
        text = get_path(failed, "message") if not content.text else None
        result = Result(str_or_none(fields.get("tool_call_id")), text or content.text, error)
        content = content._replace(text=result.text, results=(result,))
    return make_message(content, role, name, model)


def make_message(
    body: Content | str, role: str, name: str | None = None, model: str | None = None
) -> ChatMessage:
    """Make a message from content or text."""
    content = Content(body) if isinstance(body, str) else body
    only_tools = content.tools and not content.text.strip()
    if only_tools and content.results and not content.calls:
        # Anthropic sends tool results as the user; other formats have a role for them.
        content = content._replace(text="\n".join(result.text for result in content.results))
        role, name = "tool", None
    is_spoken = role not in SILENT_ROLES and not only_tools
    calls = tuple(call for _, call in content.calls)
    return ChatMessage(Turn(content.text, name or role, role, model, is_spoken, calls), content)


def mark_unspoken(message: ChatMessage) -> ChatMessage:
    """Mark a message that a program wrote in someone's name as not spoken."""
    return message._replace(turn=replace(message.turn, spoken=False))


def make_result(content: Any, call: str | None = None, error: bool | None = None) -> ChatMessage:
    """Make a message that is only a tool result."""
    text = result_text(content)
    return make_message(Content(text, tools=True, results=(Result(call, text, error),)), "tool")


def parse_messages(
    read: Callable[[Any, str], Iterable[ChatMessage]], listed: Iterable[Any], place: str
) -> Iterator[ChatMessage]:
    """Parse items that each have any number of messages."""
    return chain.from_iterable(starmap(read, with_places(listed, place)))


def join_turns(messages: Iterable[ChatMessage]) -> tuple[Turn, ...]:
    """Turn messages into turns, joining each result to its call by id, or else in order."""
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


def make_trajectory(
    place: Place,
    name: str | None,
    messages: Iterable[ChatMessage],
    metadata: Mapping[str, Any],
    *,
    unfinished: bool = False,
) -> Trajectory:
    """Make a conversation; without a name, it is named after its place."""
    metadata = {**metadata, "unfinished": True} if unfinished else metadata
    return Trajectory(name or place.default_id(), join_turns(messages), metadata, str(place))


def parse_content(message: Mapping[str, Any], place: str) -> Content:
    content = message.get("content")
    listed = [*items(message.get("tool_calls")), message.get("function_call")]
    calls = tuple(parse_call(each) for each in listed if isinstance(each, dict))
    tools = bool(message.get("tool_calls") or message.get("function_call"))
    match content:
        case str():
            return Content(content, tools, calls)
        case list():
            texts = starmap(_text_of_part, with_places(content, f"{place}.content"))
            text = "\n".join(text for text in texts if text is not None)
            parts = [part for part in content if isinstance(part, dict)]
            used = tuple(parse_call(part) for part in parts if str(part.get("type")) in CALL_PARTS)
            results = tuple(
                Result(
                    str_or_none(part.get("tool_use_id", part.get("call_id"))),
                    result_text(part.get("content", part.get("output"))),
                    bool_or_none(part.get("is_error")),
                )
                for part in parts
                if str(part.get("type")) in RESULT_PARTS
            )
            return Content(text, bool(tools or used or results), calls + used, results)
        case None:
            # A refusal replaces the content.
            return Content(optional_text(message, "refusal", place) or "", tools, calls)
        case _:
            raise Unreadable(f"{place}.content is {json_type(content)}, not text")


def parse_call(fields: Mapping[str, Any]) -> tuple[str | None, Call]:
    """Parse a tool call of OpenAI, Anthropic, Inspect or a plain log; returns its id first."""
    function = fields.get("function")
    inner = function if isinstance(function, dict) else fields
    name = function if isinstance(function, str) else inner.get("name")
    arguments = next((inner[key] for key in ("arguments", "input", "args") if key in inner), None)
    return first_text(fields, "id", "call_id"), Call(str(name or ""), arguments)


def result_text(content: Any) -> str:
    """Render a tool result as text: its text parts, or else JSON."""
    if isinstance(content, str):
        return content
    parts = [part for part in items(content) if isinstance(part, dict)]
    if any("text" in part for part in parts):
        texts = (part.get("text") for part in parts)
        return "\n".join(text for text in texts if isinstance(text, str))
    return "" if content is None else json.dumps(content, default=str)


def _text_of_part(part: Any, place: str) -> str | None:
    """Return the text of a part; None for images, reasoning and tool calls."""
    if isinstance(part, str):
        return part
    fields = as_object(part, place)
    match fields.get("type", "text"):
        case "text" | "input_text" | "output_text":
            return get_text(fields, "text" if "text" in fields else "content", place)
        case "refusal":
            return get_text(fields, "refusal", place)
        case _:
            return None


class OpenAI(Reader):
    """Messages with roles: an object, a bare list, or a request with its response."""

    name = "openai"
    keys = frozenset({"messages", "traj", "request", "response", "body", "choices"})
    recognised = (
        "an object with messages, or with request, response, body or choices; or a list "
        "of messages with a role"
    )
    turns = "a message with its text parts; its tool calls, with the results that follow"
    left_out = "images, audio, reasoning, choices after the first"

    LISTS = ("messages", "traj")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            first = value[0] if value else None
            return isinstance(first, dict) and "role" in first and "parts" not in first
        return isinstance(value, dict) and not self.keys.isdisjoint(value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("messages", value)
        request, response = unwrap(fields, "request"), unwrap(fields, "response")
        messages: list[ChatMessage] = []
        cut_off = False
        key = next((key for key in self.LISTS if key in request), self.LISTS[0])
        if key in request or not response.get("choices"):
            messages += starmap(parse_message, with_places(get_list(request, key), key))
        if response.get("choices"):
            choice = as_object(get_list(response, "choices")[0], "choices[0]")
            messages.append(parse_message(choice.get("message"), "choices[0].message"))
            cut_off = choice.get("finish_reason") == "length"
        models = [m for m in (request.get("model"), response.get("model")) if isinstance(m, str)]
        metadata = ({"model": models[-1]} if models else {}) | other_scalars(fields, exclude={"id"})
        name = get_id(fields, "id", "custom_id")
        yield make_trajectory(place, name, messages, metadata, unfinished=cut_off)


def unwrap(fields: Mapping[str, Any], envelope: str) -> Mapping[str, Any]:
    """Return the payload of a request or response: in an envelope, in its body, or bare."""
    for key in (envelope, "body"):
        inner = fields.get(key)
        fields = inner if isinstance(inner, dict) else fields
    return fields


class ShareGPT(Reader):
    """Entries with `from` and `value`, or pairs of a question and an answer."""

    name = "sharegpt"
    keys = frozenset({"conversations", "conversation"})
    recognised = "an object with conversations or conversation, or a list of objects with from"
    turns = "an entry with from and value, or each side of a pair of user and assistant"
    left_out = "nested fields other than the entries"

    PAIR_SIDES = ("system", "human", "user", "gpt", "bot", "assistant")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and isinstance(value[0], dict) and "from" in value[0]
        return isinstance(value, dict) and not self.keys.isdisjoint(value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("conversations", value)
        keys = ("conversations", "conversation")
        key = next((key for key in keys if key in fields), keys[0])
        messages = parse_messages(self._messages, get_list(fields, key), key)
        name = get_id(fields, "id", "conversation_id")
        yield make_trajectory(place, name, messages, other_scalars(fields, exclude={"id"}))

    def _messages(self, entry: Any, place: str) -> Iterator[ChatMessage]:
        fields = as_object(entry, place)
        if "from" in fields:
            role, text = (
                normalize_role(get_text(fields, "from", place)),
                get_text(fields, "value", place),
            )
            results = (Result(None, text, None),) if role in RESULT_ROLES else ()
            content = Content(text, results=results)
            if role in CALL_ROLES:
                # A call of the assistant, written as text under its own role.
                spelled = try_json(text)
                call = parse_call(spelled) if isinstance(spelled, dict) else (None, Call("", text))
                role, content = "assistant", Content("", tools=True, calls=(call,))
            yield make_message(content, role)
            return
        if "role" in fields:
            yield parse_message(fields, place)
            return
        sides = [side for side in self.PAIR_SIDES if side in fields]
        if not sides:
            raise Unreadable(f"{place}.from is missing")
        for side in sides:
            yield make_message(get_text(fields, side, place), normalize_role(side))


HUMAN = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")


class Preferences(Reader):
    """Preference pairs: a prompt with a chosen and a rejected answer."""

    name = "preferences"
    keys = frozenset({"chosen"})
    recognised = "an object with chosen and rejected"
    turns = "the messages of the prompt and of each answer; each answer is a conversation"
    left_out = "scores"

    SIDES = ("chosen", "rejected")

    def matches(self, value: Any) -> bool:
        return all(isinstance(get_path(value, side), str | list | dict) for side in self.SIDES)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        name = get_id(fields, "id", "prompt_id") or place.default_id()
        metadata = other_scalars(fields, exclude={"id", "prompt", *self.SIDES})
        prompt = list(_parse_answer(fields.get("prompt"), "prompt", "user"))
        for side in self.SIDES:
            answer = list(_parse_answer(fields.get(side), side, "assistant"))
            # Many datasets repeat the prompt in both answers.
            same = [each.turn for each in answer[: len(prompt)]] == [each.turn for each in prompt]
            turns = join_turns(answer if same else prompt + answer)
            yield Trajectory(f"{name}#{side}", turns, metadata | {"side": side}, str(place))


def _parse_answer(value: Any, place: str, role: str) -> Iterator[ChatMessage]:
    if value is None:
        return
    if isinstance(value, list):
        yield from starmap(parse_message, with_places(value, place))
    elif isinstance(value, dict):
        yield parse_message(value, place)
    elif not isinstance(value, str):
        raise Unreadable(f"{place} is {json_type(value)}, not text or a list")
    elif len(pieces := HUMAN.split(value)) > 2:
        sides = zip(pieces[1::2], pieces[2::2], strict=True)
        yield from (make_message(text.strip(), normalize_role(side)) for side, text in sides)
    else:
        yield make_message(value, role)
