"""Logs of providers that are no plain messages: OpenAI Responses, Gemini, and ChatGPT's export."""

from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any

from chimeralab.core.records import Call, Trajectory, role_of
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    Result,
    brought,
    message_of,
    result_text,
    spoken,
    turns_of,
    unwrapped,
)
from chimeralab.readers.seam import (
    Place,
    Reader,
    first_given,
    first_text,
    identity,
    items,
    listing,
    mapping,
    nested,
    numbered,
    scalars,
    text,
    text_or_none,
)

CALL = "_call"
OUTPUT = "_call_output"
ARGUMENTS = ("arguments", "input", "action", "code", "queries", "operation")
THOUGHT = "reasoning"
UNFINISHED = ("in_progress", "queued", "incomplete", "cancelled")


class Responses(Reader):
    """Items of OpenAI's Responses: a bare list, or an object with input, output or both."""

    name = "responses"
    keys = frozenset({"input", "output", "request", "response", "body"})
    recognised = "an object whose input or output is a list of items, or such a list"
    turns = "a message item; a call item, with the output item of its call_id"
    left_out = "reasoning, images, lists of tools, answers that previous_response_id names"

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            some = value[:200]
            return any(map(_is_item, some)) and all(isinstance(item, dict) for item in some)
        if not isinstance(value, dict):
            return False
        request, response = unwrapped(value, "request"), unwrapped(value, "response")
        asked, given = request.get("input"), response.get("output")
        if isinstance(given, list):
            return response.get("object") == "response" or any(map(_is_item, given[:200]))
        if given is not None or not isinstance(asked, list):
            return False
        first = next(iter(asked), None)
        return isinstance(first, dict) and ("role" in first or "type" in first)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = {"output": value} if isinstance(value, list) else mapping(value, "the line")
        request, response = unwrapped(fields, "request"), unwrapped(fields, "response")
        messages = []
        if isinstance(system := response.get("instructions", request.get("instructions")), str):
            messages.append(spoken(system, "system"))
        asked = request.get("input")
        if isinstance(asked, str):
            messages.append(spoken(asked, "user"))
        elif asked is not None:
            messages += items_of_responses(listing(request, "input"), "input")
        if response.get("output") is not None:
            messages += items_of_responses(listing(response, "output"), "output")
        model = identity(response, "model") or identity(request, "model")
        metadata = scalars(fields, but={"id", "input", "output"})
        metadata |= {"model": model} if model else {}
        metadata |= {"unfinished": True} if response.get("status") in UNFINISHED else {}
        name = identity(fields, "custom_id", "id") or identity(response, "id")
        yield Trajectory(name or place.default_id(), turns_of(messages), metadata, str(place))


def _is_item(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    named = item["type"]
    if named == "message":
        return "role" in item and "content" in item
    return named == THOUGHT or (named.endswith((CALL, OUTPUT)) and "role" not in item)


def items_of_responses(items: list[Any], place: str) -> list[ChatMessage]:
    """The items that say, call or bring something."""
    return [each for each in starmap(item_message, numbered(items, place)) if each]


def item_message(item: Any, place: str) -> ChatMessage | None:
    """An item as a message; None for thoughts and notes."""
    fields = mapping(item, place)
    named = text_or_none(fields, "type", place) or "message"
    if named == "message":
        return message_of(fields, place)
    call = first_text(fields, "call_id", "id")
    given = first_given(fields, "output", "outputs", "results", "result")
    failed = fields.get("status") == "failed" or bool(fields.get("error"))
    if named.endswith(OUTPUT):
        return brought(given, call, failed or None)
    if not named.endswith(CALL):
        return None
    name = fields.get("name") if isinstance(fields.get("name"), str) else named.removesuffix(CALL)
    arguments = first_given(fields, *ARGUMENTS)
    # What the provider runs itself brings its result along.
    given = given if given is not None else fields.get("error")
    done = Call(str(name), arguments, None if given is None else result_text(given), failed or None)
    message = spoken(Content("", tools=True, calls=((call, done),)), "assistant")
    if given is None:
        return message
    return ChatMessage(message.turn, message.content._replace(calls=()))


class Gemini(Reader):
    """Contents with parts, as the Gemini interface takes them, and the candidates it gives."""

    name = "gemini"
    keys = frozenset({"contents", "history", "candidates", "request", "response", "body"})
    recognised = "an object with contents, candidates or history of role and parts, or such a list"
    turns = "a content with its text parts; functionCall parts, with their functionResponse"
    left_out = "thoughts, inline data and files, other candidates than the first"

    KEYS = ("contents", "history")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and _is_content(value[0])
        if not isinstance(value, dict):
            return False
        request, response = unwrapped(value, "request"), unwrapped(value, "response")
        listed = (request.get(key) for key in self.KEYS)
        found = any(isinstance(each, list) and each and _is_content(each[0]) for each in listed)
        candidate = next(iter(items(response.get("candidates"))), None)
        return found or isinstance(candidate, dict)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = {"contents": value} if isinstance(value, list) else mapping(value, "the line")
        request, response = unwrapped(fields, "request"), unwrapped(fields, "response")
        systems = ("systemInstruction", "system_instruction")
        messages = [
            _said_by("system", request[s], s) for s in systems if _is_content(request.get(s))
        ]
        key = next((key for key in self.KEYS if key in request), self.KEYS[0])
        candidates = response.get("candidates")
        if key in request or not candidates:
            messages += starmap(gemini_message, numbered(listing(request, key), key))
        cut_off = False
        if candidates:
            first = mapping(listing(response, "candidates")[0], "candidates[0]")
            if first.get("content") is not None:
                messages.append(gemini_message(first["content"], "candidates[0].content", "model"))
            cut_off = "MAX_TOKENS" in (first.get("finishReason"), first.get("finish_reason"))
        model = identity(response, "modelVersion", "model_version") or identity(request, "model")
        metadata = scalars(fields, but={"id"}) | ({"model": model} if model else {})
        metadata |= {"unfinished": True} if cut_off else {}
        name = identity(fields, "id", "key", "custom_id", "responseId") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _is_content(value: Any) -> bool:
    parts = value.get("parts") if isinstance(value, dict) else None
    if not isinstance(parts, list):
        return False
    return not (parts and isinstance(parts[0], dict) and "type" in parts[0])


def gemini_message(value: Any, place: str, role: str = "user") -> ChatMessage:
    """A content: its role, and parts of text, calls and responses."""
    if isinstance(value, str):
        return spoken(value, "user")
    fields = mapping(value, place)
    return _said_by(role_of(text_or_none(fields, "role", place) or role), fields, place)


def _said_by(role: str, fields: Mapping[str, Any], place: str) -> ChatMessage:
    if fields.get("parts") is None:
        return spoken("", role)
    texts, calls, results = [], [], []
    for part, where in numbered(listing(fields, "parts", place), f"{place}.parts"):
        given = {"text": part} if isinstance(part, str) else mapping(part, where)
        if given.get("thought") is True:
            continue
        if (said := text_or_none(given, "text", where)) is not None:
            texts.append(said)
        call = given.get("functionCall", given.get("function_call"))
        if isinstance(call, dict):
            calls.append((identity(call, "id"), Call(str(call.get("name")), call.get("args"))))
        result = given.get("functionResponse", given.get("function_response"))
        if isinstance(result, dict):
            results.append(_result(result))
    content = Content("\n".join(texts), bool(calls or results), tuple(calls), tuple(results))
    return spoken(content, role)


def _result(fields: Mapping[str, Any]) -> Result:
    given = fields.get("response")
    failed = bool(nested(given, "error")) or None
    if isinstance(given, dict):
        only = next((given[key] for key in ("error", "output", "result") if given.get(key)), None)
        given = only if only is not None and len(given) == 1 else given
    return Result(identity(fields, "id"), result_text(given), failed)


CHATGPT_ASIDES = (
    "thoughts", "reasoning_recap", "user_editable_context", "model_editable_context",
)  # fmt: skip


class ChatGPT(Reader):
    """The export of ChatGPT: a tree of messages, of which the current branch was the talk."""

    name = "chatgpt"
    keys = frozenset({"mapping"})
    recognised = "an object with a mapping of nodes that have a message, a parent and children"
    turns = "a message on the branch that ends in current_node; code sent to a tool is a call"
    left_out = "other branches, hidden messages, thoughts, images"

    def matches(self, value: Any) -> bool:
        nodes = nested(value, "mapping")
        first = next(iter(nodes.values()), None) if isinstance(nodes, dict) else None
        return isinstance(first, dict) and ("parent" in first or "children" in first)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        nodes = mapping(fields.get("mapping"), "mapping")
        at = text_or_none(fields, "current_node")
        last = at = next(reversed(list(nodes)), None) if at is None else at
        branch: dict[str | None, Any] = {}
        while at is not None and at not in branch:
            node = mapping(nodes.get(at), f"mapping.{at}")
            branch[at] = node.get("message")
            at = text_or_none(node, "parent", f"mapping.{at}")
        placed = ((each, f"mapping.{key}.message") for key, each in reversed(branch.items()))
        messages = list(filter(None, starmap(_chatgpt_message, placed)))
        metadata = scalars(fields, but={"id", "conversation_id"})
        if nested(branch.get(last), "status") == "in_progress":
            metadata["unfinished"] = True
        models = [message.turn.model for message in messages if message.turn.model]
        metadata |= {"model": models[-1]} if models else {}
        name = identity(fields, "conversation_id", "id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _chatgpt_message(message: Any, place: str) -> ChatMessage | None:
    if message is None:
        return None
    fields = mapping(message, place)
    hidden = nested(fields, "metadata", "is_visually_hidden_from_conversation")
    content = mapping(fields.get("content") or {}, f"{place}.content")
    role = text(mapping(fields.get("author"), f"{place}.author"), "role", f"{place}.author")
    if hidden or content.get("content_type") in CHATGPT_ASIDES:
        return None
    said = [part for part in items(content.get("parts")) if isinstance(part, str)]
    if isinstance(content.get("text"), str):
        said.append(content["text"])
    whole = "\n".join(said)
    recipient = fields.get("recipient")
    if role == "tool":
        return brought(whole)
    if isinstance(recipient, str) and recipient not in ("all", ""):
        return spoken(Content("", True, ((None, Call(recipient, whole)),)), role)
    about = fields["metadata"] if isinstance(fields.get("metadata"), dict) else {}
    return spoken(whole, role, None, text_or_none(about, "model_slug", place))
