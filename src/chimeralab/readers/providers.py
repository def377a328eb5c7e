"""Provider formats other than chat messages: OpenAI Responses, Gemini, and ChatGPT's export."""

from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any

from chimeralab.core.records import Call, Trajectory, normalize_role
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    Result,
    annotate,
    make_message,
    make_result,
    make_thought,
    make_trajectory,
    parse_message,
    reasoning_text,
    result_text,
    unwrap,
)
from chimeralab.readers.seam import (
    COMMON,
    FITS,
    Place,
    Reader,
    as_object,
    as_object_with,
    first_present,
    first_text,
    get_id,
    get_list,
    get_path,
    get_text,
    items,
    optional_text,
    other_scalars,
    with_places,
)

CALL = "_call"
OUTPUT = "_call_output"
ARGUMENTS = ("arguments", "input", "action", "code", "queries", "operation")
THOUGHT = "reasoning"
UNFINISHED = ("in_progress", "queued", "incomplete", "cancelled")


class Responses(Reader):
    """Items of OpenAI's Responses API: a bare list, or an object with input, output or both."""

    name = "responses"
    keys = frozenset({"input", "output", "request", "response", "body"})
    recognised = "an object whose input or output is a list of items, or such a list"
    turns = "a message item; a call item, with the output item of its call_id"
    left_out = "images, tool definitions, the response of previous_response_id"

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            some = value[:200]
            return any(map(_is_item, some)) and all(isinstance(item, dict) for item in some)
        if not isinstance(value, dict):
            return False
        request, response = unwrap(value, "request"), unwrap(value, "response")
        asked, given = request.get("input"), response.get("output")
        if isinstance(given, list):
            return response.get("object") == "response" or any(map(_is_item, given[:200]))
        if given is not None or not isinstance(asked, list):
            return False
        first = next(iter(asked), None)
        return isinstance(first, dict) and ("role" in first or "type" in first)

    def sureness(self, value: Any) -> float:
        if not self.matches(value):
            return 0.0
        is_list = isinstance(value, list)
        return FITS if is_list or "output" in unwrap(value, "response") else COMMON

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("output", value)
        request, response = unwrap(fields, "request"), unwrap(fields, "response")
        messages = []
        if isinstance(system := response.get("instructions", request.get("instructions")), str):
            messages.append(make_message(system, "system"))
        asked = request.get("input")
        if isinstance(asked, str):
            messages.append(make_message(asked, "user"))
        elif asked is not None:
            messages += items_of_responses(get_list(request, "input"), "input")
        if response.get("output") is not None:
            messages += items_of_responses(get_list(response, "output"), "output")
            messages[-1:] = [annotate(each, response) for each in messages[-1:]]
        model = get_id(response, "model") or get_id(request, "model")
        metadata = other_scalars(fields, exclude={"id", "input", "output"})
        metadata |= {"model": model} if model else {}
        unfinished = response.get("status") in UNFINISHED
        name = get_id(fields, "custom_id", "id") or get_id(response, "id")
        yield make_trajectory(place, name, messages, metadata, unfinished=unfinished)


def _is_item(item: Any) -> bool:
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    kind = item["type"]
    if kind == "message":
        return "role" in item and "content" in item
    return kind == THOUGHT or (kind.endswith((CALL, OUTPUT)) and "role" not in item)


def items_of_responses(items: list[Any], place: str) -> list[ChatMessage]:
    """Parse the items that are messages, calls or results."""
    return [each for each in starmap(item_message, with_places(items, place)) if each]


def item_message(item: Any, place: str) -> ChatMessage | None:
    """Parse an item; None for notes."""
    fields = as_object(item, place)
    kind = optional_text(fields, "type", place) or "message"
    if kind == "message":
        return parse_message(fields, place)
    if kind == THOUGHT:
        return make_thought(reasoning_text([fields.get("summary"), fields.get("content")]))
    call = first_text(fields, "call_id", "id")
    given = first_present(fields, "output", "outputs", "results", "result")
    failed = fields.get("status") == "failed" or bool(fields.get("error"))
    if kind.endswith(OUTPUT):
        return make_result(given, call, failed or None)
    if not kind.endswith(CALL):
        return None
    name = fields.get("name") if isinstance(fields.get("name"), str) else kind.removesuffix(CALL)
    arguments = first_present(fields, *ARGUMENTS)
    # Tools that the provider runs have their result in the call item.
    given = given if given is not None else fields.get("error")
    done = Call(str(name), arguments, None if given is None else result_text(given), failed or None)
    message = make_message(Content("", tools=True, calls=((call, done),)), "assistant")
    if given is None:
        return message
    return ChatMessage(message.turn, message.content._replace(calls=()))


class Gemini(Reader):
    """Contents with parts, and candidates, as in Gemini's API."""

    name = "gemini"
    keys = frozenset({"contents", "history", "candidates", "request", "response", "body"})
    recognised = "an object with contents, candidates or history of role and parts, or such a list"
    turns = "a content with its text parts; functionCall parts, with their functionResponse"
    left_out = "inline data and files, candidates after the first"

    KEYS = ("contents", "history")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and _is_content(value[0])
        if not isinstance(value, dict):
            return False
        request, response = unwrap(value, "request"), unwrap(value, "response")
        listed = (request.get(key) for key in self.KEYS)
        found = any(isinstance(each, list) and each and _is_content(each[0]) for each in listed)
        candidate = next(iter(items(response.get("candidates"))), None)
        return found or isinstance(candidate, dict)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("contents", value)
        request, response = unwrap(fields, "request"), unwrap(fields, "response")
        systems = ("systemInstruction", "system_instruction")
        messages = [
            _parse_parts("system", request[s], s) for s in systems if _is_content(request.get(s))
        ]
        key = next((key for key in self.KEYS if key in request), self.KEYS[0])
        candidates = response.get("candidates")
        if key in request or not candidates:
            messages += starmap(gemini_message, with_places(get_list(request, key), key))
        cut_off = False
        if candidates:
            first = as_object(get_list(response, "candidates")[0], "candidates[0]")
            if first.get("content") is not None:
                answer = gemini_message(first["content"], "candidates[0].content", "model")
                messages.append(annotate(answer, response))
            cut_off = "MAX_TOKENS" in (first.get("finishReason"), first.get("finish_reason"))
        model = get_id(response, "modelVersion", "model_version") or get_id(request, "model")
        metadata = other_scalars(fields, exclude={"id"}) | ({"model": model} if model else {})
        name = get_id(fields, "id", "key", "custom_id", "responseId")
        yield make_trajectory(place, name, messages, metadata, unfinished=cut_off)


def _is_content(value: Any) -> bool:
    parts = value.get("parts") if isinstance(value, dict) else None
    if not isinstance(parts, list):
        return False
    return not (parts and isinstance(parts[0], dict) and "type" in parts[0])


def gemini_message(value: Any, place: str, role: str = "user") -> ChatMessage:
    """Parse a `Content` object: its role, and parts that are text, calls or responses."""
    if isinstance(value, str):
        return make_message(value, "user")
    fields = as_object(value, place)
    return _parse_parts(normalize_role(optional_text(fields, "role", place) or role), fields, place)


def _parse_parts(role: str, fields: Mapping[str, Any], place: str) -> ChatMessage:
    if fields.get("parts") is None:
        return make_message("", role)
    texts, calls, results, thoughts = [], [], [], []
    for part, where in with_places(get_list(fields, "parts", place), f"{place}.parts"):
        given = {"text": part} if isinstance(part, str) else as_object(part, where)
        if given.get("thought") is True:
            thoughts.append(reasoning_text(given))
            continue
        if (text := optional_text(given, "text", where)) is not None:
            texts.append(text)
        call = given.get("functionCall", given.get("function_call"))
        if isinstance(call, dict):
            calls.append((get_id(call, "id"), Call(str(call.get("name")), call.get("args"))))
        result = given.get("functionResponse", given.get("function_response"))
        if isinstance(result, dict):
            results.append(_result(result))
    content = Content("\n".join(texts), bool(calls or results), tuple(calls), tuple(results))
    return make_message(content._replace(reasoning="\n".join(thoughts)), role)


def _result(fields: Mapping[str, Any]) -> Result:
    given = fields.get("response")
    failed = bool(get_path(given, "error")) or None
    if isinstance(given, dict):
        only = next((given[key] for key in ("error", "output", "result") if given.get(key)), None)
        given = only if only is not None and len(given) == 1 else given
    return Result(get_id(fields, "id"), result_text(given), failed)


CHATGPT_ASIDES = ("reasoning_recap", "user_editable_context", "model_editable_context")


class ChatGPT(Reader):
    """ChatGPT's export: a tree of messages, of which the current branch is the conversation."""

    name = "chatgpt"
    keys = frozenset({"mapping"})
    recognised = "an object with a mapping of nodes that have a message, a parent and children"
    turns = "a message on the branch that ends in current_node; code sent to a tool is a call"
    left_out = "other branches, hidden messages, images"

    def matches(self, value: Any) -> bool:
        nodes = get_path(value, "mapping")
        first = next(iter(nodes.values()), None) if isinstance(nodes, dict) else None
        return isinstance(first, dict) and ("parent" in first or "children" in first)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        nodes = as_object(fields.get("mapping"), "mapping")
        at = optional_text(fields, "current_node")
        last = at = next(reversed(list(nodes)), None) if at is None else at
        branch: dict[str | None, Any] = {}
        while at is not None and at not in branch:
            node = as_object(nodes.get(at), f"mapping.{at}")
            branch[at] = node.get("message")
            at = optional_text(node, "parent", f"mapping.{at}")
        placed = ((each, f"mapping.{key}.message") for key, each in reversed(branch.items()))
        messages = list(filter(None, starmap(_chatgpt_message, placed)))
        metadata = other_scalars(fields, exclude={"id", "conversation_id"})
        if get_path(branch.get(last), "status") == "in_progress":
            metadata["unfinished"] = True
        models = [message.turn.model for message in messages if message.turn.model]
        metadata |= {"model": models[-1]} if models else {}
        name = get_id(fields, "conversation_id", "id")
        yield make_trajectory(place, name, messages, metadata)


def _chatgpt_message(message: Any, place: str) -> ChatMessage | None:
    if message is None:
        return None
    fields = as_object(message, place)
    hidden = get_path(fields, "metadata", "is_visually_hidden_from_conversation")
    content = as_object(fields.get("content") or {}, f"{place}.content")
    role = get_text(as_object(fields.get("author"), f"{place}.author"), "role", f"{place}.author")
    if hidden or content.get("content_type") in CHATGPT_ASIDES:
        return None
    if content.get("content_type") == "thoughts":
        return make_thought(reasoning_text(content.get("thoughts")))
    text = [part for part in items(content.get("parts")) if isinstance(part, str)]
    if isinstance(content.get("text"), str):
        text.append(content["text"])
    whole = "\n".join(text)
    recipient = fields.get("recipient")
    about = fields["metadata"] if isinstance(fields.get("metadata"), dict) else {}
    if role == "tool":
        found = make_result(whole)
    elif isinstance(recipient, str) and recipient not in ("all", ""):
        found = make_message(Content("", True, ((None, Call(recipient, whole)),)), role)
    else:
        found = make_message(whole, role, None, optional_text(about, "model_slug", place))
    return annotate(found, {"create_time": fields.get("create_time")})
