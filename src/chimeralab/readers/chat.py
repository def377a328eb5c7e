"""Chat messages with roles, text parts and tool calls; the formats of OpenAI and ShareGPT."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, starmap
from typing import Any, NamedTuple, TypeGuard

from chimeralab.core.records import (
    CALL_ROLES,
    RESULT_ROLES,
    SILENT_ROLES,
    Call,
    Tokens,
    Trajectory,
    Turn,
    normalize_role,
)
from chimeralab.readers.seam import (
    COMMON,
    FITS,
    VAGUE,
    WRAPS,
    Place,
    Reader,
    Unreadable,
    as_object,
    as_object_with,
    bool_or_none,
    first_present,
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
    try_literal,
    with_places,
)

CALL_PARTS = {"tool_use", "tool_call", "function_call", "server_tool_use", "mcp_tool_use"}
THOUGHT_PARTS = {"thinking", "reasoning", "thought"}
RESULT_PARTS = {"tool_result", "function_call_output", "mcp_tool_result", "web_search_tool_result"}


class Result(NamedTuple):
    """The result of a tool call, with the call's id."""

    call: str | None
    text: str
    error: bool | None


class Content(NamedTuple):
    """The text of a message, its tool calls by id, the tool results in it, and its reasoning."""

    text: str
    tools: bool = False
    calls: tuple[tuple[str | None, Call], ...] = ()
    results: tuple[Result, ...] = ()
    reasoning: str = ""


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
    if role in CALL_ROLES and not content.calls:
        role, content = "assistant", Content("", tools=True, calls=parse_calls(content.text))
    if role in RESULT_ROLES and not content.results:
        failed = fields.get("error")
        error = bool(failed) if "error" in fields or isinstance(failed, dict) else None
        text = get_path(failed, "message") if not content.text else None
        call = str_or_none(fields.get("tool_call_id"))
        if call is None and (named := CALL_ID.match(content.text)):
            call, text = named[1], content.text[named.end() :]
        result = Result(call, text or content.text, error)
        content = content._replace(text=result.text, results=(result,))
    return annotate(make_message(content, role, name, model), fields)


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
    if role == "assistant":
        text, thought = split_reasoning(content.text)
        if text != content.text:
            content = content._replace(text=text, reasoning=content.reasoning + thought)
    is_spoken = role not in SILENT_ROLES and not only_tools
    calls = tuple(call for _, call in content.calls)
    reasoning = content.reasoning or None
    turn = Turn(content.text, name or role, role, model, is_spoken, calls, reasoning)
    return ChatMessage(turn, content)


# A model's reasoning at the head of its text; some chat templates leave out the first tag.
THINKING = re.compile(r"\s*<(think|thinking)>(.*?)(?:</\1>\s*|\Z)", re.DOTALL)
THOUGHT_END = "</think>"


def split_reasoning(text: str) -> tuple[str, str]:
    """Split the reasoning in tags from the text that follows it.

    >>> split_reasoning("<think>Two and two.</think> Four.")
    ('Four.', 'Two and two.')
    """
    if "<think" not in text and THOUGHT_END not in text:
        return text, ""
    thoughts = []
    while found := THINKING.match(text):
        thoughts.append(found[2].strip())
        text = text[found.end() :]
    if not thoughts and "<think" not in text:
        thought, _, text = text.partition(THOUGHT_END)
        thoughts.append(thought.strip())
        text = text.lstrip()
    return text, "\n".join(filter(None, thoughts))


USAGE = (
    "usage", "usage_metadata", "usageMetadata", "models_usage", "metrics", "tokens", "tokenUsage",
)  # fmt: skip
READ = (
    "input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count", "input", "prompt",
    "tokensIn", "tokens_sent", "inputTokens", "promptTokens",
)  # fmt: skip
# Counted apart from the other input.
CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens", "cacheRead", "cacheWrite")
WRITTEN = (
    "output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count",
    "output", "completion", "tokensOut", "tokens_received", "outputTokens", "completionTokens",
)  # fmt: skip
THOUGHT = ("thoughtsTokenCount", "thoughts_token_count", "thoughts")
TOTAL = ("total_tokens", "totalTokenCount", "total_token_count", "total", "totalTokens")
COST = ("cost", "cost_usd", "costUSD", "total_cost", "totalCost", "instance_cost")
TIMES = (
    "timestamp", "created_at", "createdAt", "create_time", "created", "time", "ts", "startTime",
    "start_time",
)  # fmt: skip


MAX_NUMBER = 1e300  # an integer of JSON may have more digits than a float has


def is_number(value: Any) -> TypeGuard[float]:
    is_bool = isinstance(value, bool)
    return isinstance(value, int | float) and not is_bool and abs(value) < MAX_NUMBER


def parse_tokens(usage: Any) -> Tokens | None:
    """Parse the usage of a model call in the spelling of any provider; zeros are not a count.

    >>> parse_tokens({"input_tokens": 2, "cache_read_input_tokens": 40, "output_tokens": 5})
    Tokens(input=42, output=5, total=47, estimated=False)
    """
    if not isinstance(usage, dict):
        return None

    def count(*keys: str) -> list[int]:
        return [int(n) for n in map(usage.get, keys) if is_number(n) and n >= 0]

    read, written, total = count(*READ)[:1], count(*WRITTEN)[:1], count(*TOTAL)[:1]
    if not (read or written or total):
        return None
    read = [sum(read + count(*CACHED))] if read else []
    written = [sum(written + count(*THOUGHT)[:1])] if written else []
    whole = total[0] if total else sum(read + written)
    if not any((whole, *read, *written)):
        return None
    return Tokens(read[0] if read else None, written[0] if written else None, whole)


def add_tokens(usage: Iterable[Tokens | None]) -> Tokens | None:
    """Add up the usage of several calls; None if none of them has any."""
    known = [each for each in usage if each is not None]
    if not known:
        return None
    counts = ([each.input, each.output, each.total] for each in known)
    return Tokens(*(sum(filter(None, column)) for column in zip(*counts, strict=True)))


def parse_cost(fields: Mapping[str, Any]) -> float | None:
    """Parse what a message or a conversation cost; a log that gives 0 did not know the price."""
    holders = [fields, *(fields[key] for key in USAGE if isinstance(fields.get(key), dict))]
    given = [holder.get(key) for holder in holders for key in COST]
    costs = [get_path(cost, "total") if isinstance(cost, dict) else cost for cost in given]
    return next((float(cost) for cost in costs if is_number(cost) and cost), None)


def parse_time(value: Any) -> str | None:
    """Return a time as text: as it is in the log, or ISO 8601 for a number of seconds or less.

    >>> parse_time("2026-01-01 12:00"), parse_time(1767268800), parse_time(1767268800000)
    ('2026-01-01 12:00', '2026-01-01T12:00:00+00:00', '2026-01-01T12:00:00+00:00')
    """
    if isinstance(value, str):
        if not (value.isdecimal() and 9 < len(value) < 20):
            return value or None
        value = int(value)
    if not is_number(value) or value <= 0:
        return None
    while value > 1e11:  # milliseconds, or less
        value /= 1000
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


ANNOTATIONS = frozenset({*USAGE, *COST, *TIMES, "_metadata", "agent", "agent_name"})


def annotate(message: ChatMessage, fields: Mapping[str, Any]) -> ChatMessage:
    """Add what a log says about a message: its tokens, its cost, its time and its agent."""
    if ANNOTATIONS.isdisjoint(fields):
        return message
    usage = next(filter(None, (parse_tokens(fields.get(key)) for key in USAGE)), None)
    times = [parse_time(fields.get(key)) for key in TIMES]
    times.append(parse_time(get_path(fields, "_metadata", "timestamp")))
    turn = replace(
        message.turn,
        tokens=usage or message.turn.tokens,
        cost=message.turn.cost if (cost := parse_cost(fields)) is None else cost,
        at=next(filter(None, times), message.turn.at),
        agent=first_text(fields, "agent", "agent_name") or message.turn.agent,
    )
    return message._replace(turn=turn)


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


REASONING = "reasoning"


def make_thought(reasoning: str) -> ChatMessage:
    """Make a message of reasoning alone, which `join_turns` adds to the assistant's next turn."""
    return make_message(Content("", reasoning=reasoning), REASONING)


def join_turns(messages: Iterable[ChatMessage]) -> tuple[Turn, ...]:
    """Turn messages into turns, joining each result to its call by id, or else in order."""
    turns: list[Turn] = []
    thoughts: list[str] = []
    waiting: dict[tuple[int, int], str | None] = {}
    for turn, content in messages:
        if turn.role == REASONING:
            thoughts += filter(None, [turn.reasoning or turn.text])
            continue
        if thoughts and turn.role == "assistant":
            thoughts += filter(None, [turn.reasoning])
            turn = replace(turn, reasoning="\n".join(thoughts))  # noqa: PLW2901
            thoughts = []
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
    if thoughts:  # cut off before it said anything
        last = "\n".join(thoughts)
        turns.append(Turn("", "assistant", "assistant", spoken=False, reasoning=last))
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


def with_usage(trajectory: Trajectory, usage: Any) -> Trajectory:
    """Add the tokens and the cost of a whole conversation, for a log without those of messages."""
    if not isinstance(usage, dict):
        return trajectory
    return replace(trajectory, tokens=parse_tokens(usage), cost=parse_cost(usage))


EMPTY = {"content", "refusal", "audio", "tool_calls", "function_call", "error", "images"}
"""Fields of messages without a text."""


def parse_content(message: Mapping[str, Any], place: str) -> Content:
    content = message.get("content")
    listed = [*items(message.get("tool_calls")), message.get("function_call")]
    calls = tuple(parse_call(each) for each in listed if isinstance(each, dict))
    tools = bool(message.get("tool_calls") or message.get("function_call"))
    thought = reasoning_text(first_present(message, "reasoning_content", "reasoning", "thinking"))
    match content:
        case str():
            return Content(content, tools, calls, reasoning=thought)
        case list():
            texts = starmap(_text_of_part, with_places(content, f"{place}.content"))
            text = "\n".join(text for text in texts if text is not None)
            parts = [part for part in content if isinstance(part, dict)]
            made = (parse_call(part) for part in parts if str(part.get("type")) in CALL_PARTS)
            # Some logs have a call as a part and once more, with the same id, under `tool_calls`.
            known = {name for name, _ in calls if name is not None}
            used = tuple(each for each in made if each[0] not in known)
            results = tuple(
                Result(
                    first_text(part, "tool_use_id", "call_id", "tool_call_id"),
                    result_text(first_present(part, "content", "output")),
                    bool_or_none(part.get("is_error")),
                )
                for part in parts
                if str(part.get("type")) in RESULT_PARTS
            )
            thoughts = [
                reasoning_text(part) for part in parts if str(part.get("type")) in THOUGHT_PARTS
            ]
            thought = reasoning_text([thought, *thoughts])
            return Content(text, bool(tools or used or results), calls + used, results, thought)
        case None:
            if len(message) > 1 and not (tools or thought or message.keys() & EMPTY):
                raise Unreadable(f"{place}.content is missing")
            # A refusal replaces the content.
            return Content(
                optional_text(message, "refusal", place) or "", tools, calls, reasoning=thought
            )
        case _:
            raise Unreadable(f"{place}.content is {json_type(content)}, not text")


def reasoning_text(value: Any) -> str:
    """Return the reasoning in a text, a part, an item or a list of them; encrypted is empty.

    >>> reasoning_text({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]})
    'Hm.'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(reasoning_text, value)))
    if not isinstance(value, dict):
        return ""
    keys = ("thinking", "reasoning", "text", "content", "summary", "value")
    return next(filter(None, (reasoning_text(value.get(key)) for key in keys)), "")


def parse_call(fields: Mapping[str, Any]) -> tuple[str | None, Call]:
    """Parse a tool call of OpenAI, Anthropic, Inspect or a plain log; returns its id first."""
    told = fields.get("value")
    if isinstance(told, str) and isinstance(given := try_json(told), dict):
        fields = given
    function = fields.get("function")
    inner = function if isinstance(function, dict) else fields
    name = function if isinstance(function, str) else inner.get("name")
    arguments = next((inner[key] for key in ("arguments", "input", "args") if key in inner), None)
    # An item of the Responses API has both: `id` names the item, and results name the `call_id`.
    return first_text(fields, "call_id", "id", "tool_call_id"), Call(str(name or ""), arguments)


# How smolagents begins a call and its result.
CALLING = "Calling tools:"
CALL_ID = re.compile(r"Call id: (\S+)\n(?:Observation:\n)?")


def parse_calls(text: str) -> tuple[tuple[str | None, Call], ...]:
    """Parse the calls of a message that is nothing else, under a role of its own.

    >>> parse_calls('{"name": "ls", "arguments": {}}')
    ((None, Call(name='ls', arguments={}, result=None, error=None)),)
    """
    given = try_json(text) or try_literal(text.strip().removeprefix(CALLING))
    listed = given if isinstance(given, list) else [given]
    calls = tuple(parse_call(each) for each in listed if isinstance(each, dict))
    return calls or ((None, Call("", text)),)


def result_text(content: Any) -> str:
    """Render a tool result as text: its text parts, or else JSON."""
    if isinstance(content, str):
        return content
    parts = [part for part in items(content) if isinstance(part, dict)]
    if any("text" in part for part in parts):
        texts = (part.get("text") for part in parts)
        return "\n".join(text for text in texts if isinstance(text, str))
    return "" if content is None else json.dumps(content, default=str)


TEXT_KEYS = ("text", "content", "value")


def _text_of_part(part: Any, place: str) -> str | None:
    """Return the text of a part; None for images, reasoning and tool calls."""
    if isinstance(part, str):
        return part
    fields = as_object(part, place)
    match fields.get("type", "text"):
        case "tool_output":  # its text may be a list of parts
            return result_text(first_present(fields, "text", "content"))
        case "text" | "input_text" | "output_text":
            return get_text(fields, next((k for k in TEXT_KEYS if k in fields), "content"), place)
        case "refusal":
            return get_text(fields, "refusal", place)
        case _:
            return None


# What Magentic-One adds to the name of an agent: a thought, whom it asks, why it stopped.
ASIDE = re.compile(r"(.+?) \((thought|-> .+|termination condition)\)")


def has_asides(messages: list[Any]) -> bool:
    """Whether messages are those of a team of agents, one of whom thinks aloud."""
    return any(ASIDE.fullmatch(str(get_path(each, "role"))) for each in messages[:5])


class OpenAI(Reader):
    """Messages with roles: an object, a bare list, or a request with its response."""

    name = "openai"
    keys = frozenset({"messages", "traj", "request", "response", "body", "choices"})
    recognised = (
        "an object with messages, or with request, response, body or choices; or a list "
        "of messages with a role"
    )
    turns = "a message with its text parts; its tool calls, with the results that follow"
    left_out = "images, audio, choices after the first"

    LISTS = ("messages", "traj")

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            first = value[0] if value else None
            known = isinstance(first, dict) and "role" in first and "parts" not in first
            return known and not has_asides(value)
        return isinstance(value, dict) and not self.keys.isdisjoint(value)

    def sureness(self, value: Any) -> float:
        if not self.matches(value):
            return 0.0
        if isinstance(value, list):
            return COMMON
        request, response = unwrap(value, "request"), unwrap(value, "response")
        first = next((each for key in self.LISTS for each in items(request.get(key))), None)
        known = isinstance(first, dict) and "role" in first
        return COMMON if known or isinstance(response.get("choices"), list) else VAGUE

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
            answer = parse_message(choice.get("message"), "choices[0].message")
            messages.append(annotate(answer, response))
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

    def matches(self, value: Any) -> bool:
        if isinstance(value, list):
            return bool(value) and isinstance(value[0], dict) and "from" in value[0]
        return isinstance(value, dict) and not self.keys.isdisjoint(value)

    def sureness(self, value: Any) -> float:
        if not self.matches(value):
            return 0.0
        listed = value if isinstance(value, list) else first_present(value, *sorted(self.keys))
        first = next(iter(items(listed)), None)
        return FITS if isinstance(first, dict) and {"from", "value"} <= first.keys() else VAGUE

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object_with("conversations", value)
        keys = ("conversations", "conversation")
        key = next((key for key in keys if key in fields), keys[0])
        messages = parse_messages(parse_entry, get_list(fields, key), key)
        name = get_id(fields, "id", "conversation_id")
        yield make_trajectory(place, name, messages, other_scalars(fields, exclude={"id"}))


PAIR_SIDES = ("system", "human", "user", "gpt", "bot", "assistant")
SAID = ("message", "text", "content", "utterance")


def parse_entry(entry: Any, place: str) -> Iterator[ChatMessage]:
    """Parse an entry of ShareGPT, of a chat, of a speaker, or a pair of question and answer."""
    fields = as_object(entry, place)
    if "from" in fields:
        role, text = (
            normalize_role(get_text(fields, "from", place)),
            get_text(fields, "value", place),
        )
        results = (Result(None, text, None),) if role in RESULT_ROLES else ()
        content = Content(text, results=results)
        if role in CALL_ROLES:
            role, content = "assistant", Content("", tools=True, calls=parse_calls(text))
        yield make_message(content, role)
    elif "role" in fields:
        yield parse_message(fields, place)
    elif (name := first_text(fields, "speaker")) and (said := first_text(fields, *SAID)):
        role = normalize_role(name)
        told = make_message(said, role, name)
        known = role in ("user", "assistant", *SILENT_ROLES)
        yield annotate(told if known else told._replace(turn=Turn(said, name)), fields)
    else:
        sides = [side for side in PAIR_SIDES if side in fields]
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
    PROMPTS = ("prompt", "conversations", "messages")

    def matches(self, value: Any) -> bool:
        return all(isinstance(get_path(value, side), str | list | dict) for side in self.SIDES)

    def sureness(self, value: Any) -> float:
        return WRAPS if self.matches(value) else 0.0

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        name = get_id(fields, "id", "prompt_id") or place.default_id()
        metadata = other_scalars(fields, exclude={"id", *self.PROMPTS, *self.SIDES})
        prompt = list(_parse_answer(first_present(fields, *self.PROMPTS), "prompt", "user"))
        for side in self.SIDES:
            answer = list(_parse_answer(fields.get(side), side, "assistant"))
            # Many datasets repeat the prompt in both answers.
            same = [each.turn for each in answer[: len(prompt)]] == [each.turn for each in prompt]
            turns = join_turns(answer if same else prompt + answer)
            yield Trajectory(f"{name}#{side}", turns, metadata | {"side": side}, str(place))


def _parse_answer(value: Any, place: str, role: str) -> Iterator[ChatMessage]:
    if value is None:
        return
    if isinstance(value, list | dict):
        listed = value if isinstance(value, list) else [value]
        yield from parse_messages(parse_entry, listed, place)
    elif not isinstance(value, str):
        raise Unreadable(f"{place} is {json_type(value)}, not text or a list")
    elif len(pieces := HUMAN.split(value)) > 2:
        sides = zip(pieces[1::2], pieces[2::2], strict=True)
        yield from (make_message(text.strip(), normalize_role(side)) for side, text in sides)
    else:
        yield make_message(value, role)
