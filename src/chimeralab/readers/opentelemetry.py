"""OpenTelemetry spans with generative AI attributes, in all versions of the conventions."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.readers.chat import ChatMessage, make_message, parse_message
from chimeralab.readers.seam import (
    Place,
    as_object,
    first_present,
    first_text,
    get_id,
    get_path,
    items,
    optional_list,
    try_json,
)
from chimeralab.readers.traces import MAX_LEVELS, Generation, SpanReader, messages_in

MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
USAGE = ("gen_ai.usage.", "llm.token_count.")
ATTRIBUTES = "span_attributes"  # of a span in a tree
NUMBERED = re.compile(r"(?:gen_ai\.prompt|llm\.input_messages)\.(\d{1,8})\.")
AROUND_CALLS = ("create_agent", "invoke_agent", "invoke_workflow", "execute_tool")
"""Operations whose spans repeat the messages of the calls inside them."""


class OpenTelemetry(SpanReader):
    """Spans with generative AI attributes: OTLP as JSON, or the SDK's console output."""

    name = "opentelemetry"
    keys = frozenset({"resourceSpans", "resource_spans", "attributes", "spans"})
    recognised = (
        "an object with resourceSpans, or spans with a trace id and attributes, also nested"
    )
    turns = "a message of the last span of a chain, since each span repeats the history"
    left_out = "spans without messages"
    no_messages = (
        "is an OpenTelemetry trace without messages; let your instrumentation record them "
        "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true)"
    )

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if isinstance(value.get("resourceSpans", value.get("resource_spans")), list):
            return True
        if isinstance(get_path(next(iter(items(value.get("spans"))), None), ATTRIBUTES), dict):
            return True
        context = value.get("context")
        traced = "traceId" in value or (isinstance(context, dict) and "trace_id" in context)
        return traced and isinstance(value.get("attributes"), dict | list)

    def says_something(self, value: Any) -> bool:
        span_attributes = (_attributes(span.get("attributes")) for span in _spans(value))
        return any(key.startswith(("gen_ai.", "llm.")) for each in span_attributes for key in each)

    def generations(self, value: Any, place: Place) -> Iterator[Generation]:
        for span in _spans(as_object(value, "the line")):
            span_attributes = _attributes(span.get("attributes"))
            inputs, outputs = span_messages(span_attributes, optional_list(span, "events", "span"))
            context = span.get("context")
            holder = context if isinstance(context, dict) else span
            session = get_id(span_attributes, "gen_ai.conversation.id", "session.id")
            trace = session or get_id(holder, "traceId", "trace_id") or place.stem
            time = str(first_present(span, "startTimeUnixNano", "start_time", "timestamp") or "")
            model = first_text(span_attributes, *MODELS)
            outer = span_attributes.get("gen_ai.operation.name") in AROUND_CALLS
            usage = {
                key.rpartition(".")[2]: int(value)  # OTLP writes integers as text
                for key, value in span_attributes.items()
                if key.startswith(USAGE) and str(value).isdecimal() and len(str(value)) < 20
            }
            call = (trace, session is not None, time, inputs, outputs, model, outer)
            numbers = (int(found[1]) for found in map(NUMBERED.match, span_attributes) if found)
            yield Generation(
                *call,
                usage={"usage": usage, "agent": span.get("agent")},
                lost=1 + max(numbers, default=-1) - len(inputs),
            )


def _spans(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    resources = value.get("resourceSpans", value.get("resource_spans"))
    if not isinstance(resources, list):
        return list(_flatten_spans(value)) if "spans" in value else [value]
    scopes = [
        scope
        for resource in resources
        if isinstance(resource, dict)
        for key in ("scopeSpans", "scope_spans")
        for scope in optional_list(resource, key, "resourceSpans")
        if isinstance(scope, dict)
    ]
    listed = [span for scope in scopes for span in optional_list(scope, "spans", "scopeSpans")]
    return [as_object(span, "scopeSpans.spans") for span in listed]


def _flatten_spans(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the spans of a tree, each with the agent that it is inside of."""
    roots = optional_list(value, "spans")
    waiting: list[tuple[Any, str | None]] = [(span, None) for span in roots]
    while waiting:
        given, agent = waiting.pop()
        span = as_object(given, "spans")
        attributes = _attributes(span.get(ATTRIBUTES))
        if attributes.get("openinference.span.kind") == "AGENT":
            agent = str(span.get("span_name") or "").removesuffix(".run") or agent
        yield {**span, "attributes": attributes, "agent": agent}
        waiting += [(child, agent) for child in optional_list(span, "child_spans", "span")]


def _attributes(value: Any) -> dict[str, Any]:
    """Return attributes as a dict, from an object or OTLP's list of keys and typed values."""
    if isinstance(value, dict):
        return value
    listed = [each for each in items(value) if isinstance(each, dict)]
    return {str(each.get("key")): _untype(each.get("value")) for each in listed}


def _untype(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "arrayValue" and isinstance(inner, dict):
        return [_untype(each) for each in items(inner.get("values"))]
    if kind == "kvlistValue" and isinstance(inner, dict):
        return _attributes(inner.get("values"))
    return inner if str(kind).endswith("Value") else value


def span_messages(
    span_attributes: Mapping[str, Any], events: list[Any]
) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Parse the input and output messages of a span, in any version of the conventions."""
    named = [each for each in events if isinstance(each, dict)]
    inside = [_attributes(each.get("attributes")) for each in named]
    for attributes in (span_attributes, *inside):
        system = attributes.get("gen_ai.system_instructions")
        inputs = attributes.get("gen_ai.input.messages")
        outputs = attributes.get("gen_ai.output.messages")
        if inputs is not None or outputs is not None:
            # Instructions are bare parts, of which only text matters.
            parts = try_json(system) if isinstance(system, str) else system
            if isinstance(parts, list):
                system = [each.get("content") for each in parts if isinstance(each, dict)]
            texts = [each.turn.text for each in messages_in(system, "system", "system")]
            first = [make_message("\n".join(texts), "system")] if texts else []
            return (
                first + list(messages_in(inputs, "user", "gen_ai.input.messages")),
                list(messages_in(outputs, "assistant", "gen_ai.output.messages")),
            )
    for input_prefix, output_prefix in (
        ("gen_ai.prompt.", "gen_ai.completion."),
        ("llm.input_messages.", "llm.output_messages."),
    ):
        flat = (
            _unflatten(span_attributes, input_prefix, "user"),
            _unflatten(span_attributes, output_prefix, "assistant"),
        )
        if any(flat):
            return flat
    inputs, outputs = [], []
    for event, attributes in zip(named, inside, strict=True):
        kind = str(event.get("name"))
        if kind == "gen_ai.choice":
            outputs.append(_event_message(attributes, "assistant"))
        elif kind.startswith("gen_ai.") and kind.endswith(".message"):
            inputs.append(_event_message(attributes, kind.split(".")[1]))
    return inputs, outputs


def _event_message(span_attributes: Mapping[str, Any], role: str) -> ChatMessage:
    inner: Any = span_attributes.get("gen_ai.event.content", span_attributes.get("message"))
    inner = try_json(inner) if isinstance(inner, str) else inner
    fields = dict(inner) if isinstance(inner, dict) else dict(span_attributes)
    if isinstance(fields.get("message"), dict):
        fields = fields["message"]
    calls = fields.get("tool_calls")
    calls = try_json(calls) if isinstance(calls, str) else calls
    kept = {key: fields.get(key) for key in ("content", "name") if key in fields}
    kept |= {"role": role, "tool_calls": calls, "tool_call_id": fields.get("id")}
    return parse_message(kept, role)


def _unflatten(span_attributes: Mapping[str, Any], prefix: str, role: str) -> list[ChatMessage]:
    """Rebuild messages from flat attributes such as `gen_ai.prompt.0.content`."""
    tree: dict[str, Any] = {}
    for key, value in span_attributes.items():
        if key.startswith(prefix):
            node = tree
            *path, last = key.removeprefix(prefix).split(".")
            for step in path[:MAX_LEVELS]:
                inner = node.setdefault(step, {})
                if not isinstance(inner, dict):
                    break
                node = inner
            else:
                node[last] = value
    messages = []
    inside = [(node.get("message"), node) for node in _by_number(tree)]
    nodes = [message if isinstance(message, dict) else node for message, node in inside]
    # A limit on attributes drops the first messages, and half of the one after them.
    is_cut = "role" not in nodes[0] and any("role" in node for node in nodes) if nodes else False
    for fields in nodes[is_cut:]:
        calls = [
            each.get("tool_call") if isinstance(each.get("tool_call"), dict) else each
            for each in _by_number(fields.get("tool_calls"))
        ]
        kept = {key: fields[key] for key in ("content", "tool_call_id", "name") if key in fields}
        kept |= {"role": fields.get("role") or role, "tool_calls": calls}
        messages.append(parse_message(kept, prefix.rstrip(".")))
    return messages


def _by_number(tree: Any) -> list[dict[str, Any]]:
    """Return the objects with numeric keys, in numeric order."""
    nodes = tree if isinstance(tree, dict) else {}
    known = [key for key in nodes if key.isdecimal() and len(key) < 9]
    return [nodes[key] for key in sorted(known, key=int) if isinstance(nodes[key], dict)]
