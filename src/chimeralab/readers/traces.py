"""Traces of model calls: OpenTelemetry, LangSmith, Langfuse, and those of OpenAI's agents.

Each call repeats what was said before it, so that the last call of a chain holds the conversation.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.agents import is_langchain, langchain_message
from chimeralab.readers.chat import ChatMessage, Content, message_of, spoken, turns_of
from chimeralab.readers.evaluations import json_inside
from chimeralab.readers.fields import Unreadable, identity, listing_if_any, mapping
from chimeralab.readers.providers import item_message
from chimeralab.readers.seam import Place, Reader

HOLDERS = ("messages", "input", "output", "choices", "generations", "message", "content", "text")
MOST_LEVELS = 8


class Generation(NamedTuple):
    """One call of a model: what it was shown and what it gave.

    Calls of one `trace` belong together; in a `session`, even those that repeat no history.
    """

    trace: str
    session: bool
    time: str
    asked: list[ChatMessage]
    given: list[ChatMessage]
    model: str | None


def rebuilt(generations: Iterable[Generation], place: Place) -> Iterator[Trajectory]:
    """The conversations of a trace, each from the last call that goes on from the ones before."""
    traces: dict[str, list[Generation]] = {}
    for each in generations:
        if each.asked or each.given:
            traces.setdefault(each.trace, []).append(each)
    for trace, calls in traces.items():
        chains: list[list[ChatMessage]] = []
        ends: dict[int, int] = {}
        for call in sorted(calls, key=lambda each: each.time):
            marks = _marks(call.asked)
            before = next((ends[m] for m in reversed(marks[:-1]) if m in ends), None)
            if before is not None:
                chains[before] = call.asked + call.given
            elif call.session and chains:
                before = 0
                chains[0] += call.asked + call.given
            else:
                before = len(chains)
                chains.append(call.asked + call.given)
            if marks:
                ends[marks[-1]] = before
        models = [call.model for call in calls if call.model]
        metadata = {"trace": trace, "model": models[-1] if models else None}
        for number, messages in enumerate(chains, 1):
            name = trace if number == 1 else f"{trace}#{number}"
            yield Trajectory(name, turns_of(messages), metadata, str(place))


def _marks(messages: list[ChatMessage]) -> list[int]:
    """A number for every beginning of a list of messages, the same for the same beginning."""
    marks, mark = [], 0
    for turn, content in messages:
        calls = tuple((call.name, str(call.arguments)) for _, call in content.calls)
        mark = hash((mark, turn.role, turn.text, calls))
        marks.append(mark)
    return marks


def messages_in(value: Any, role: str, place: str, level: int = 0) -> Iterator[ChatMessage]:
    """The messages that an input or output of a call holds, however it wraps them."""
    if level > MOST_LEVELS or value is None:
        return
    if isinstance(value, str):
        inner = json_inside(value)
        if isinstance(inner, dict | list):
            yield from messages_in(inner, role, place, level + 1)
        else:
            yield spoken(Content(value), role)
    elif isinstance(value, list):
        for n, each in enumerate(value):
            yield from messages_in(each, role, f"{place}[{n}]", level + 1)
    elif isinstance(value, dict):
        message = _one_message(value, role, place)
        holder = next((key for key in HOLDERS if value.get(key) is not None), None)
        if message is not None:
            yield message
        elif holder is not None:
            yield from messages_in(value[holder], role, f"{place}.{holder}", level + 1)


def _one_message(fields: Mapping[str, Any], role: str, place: str) -> ChatMessage | None:
    """What is one message in any dialect; None where it only holds some."""
    if is_langchain(fields):
        return langchain_message(fields, place)
    if isinstance(fields.get("parts"), list):
        return parts_message(fields, place, role)
    if "role" in fields:
        return message_of(fields, place)
    is_call = isinstance(fields.get("type"), str) and "call" in fields["type"]
    return item_message(fields, place) if is_call else None


def parts_message(fields: Mapping[str, Any], place: str, role: str = "user") -> ChatMessage:
    """A message of OpenTelemetry's conventions, whose parts have a type and content."""
    parts = [
        {"type": "tool_result", "tool_use_id": part.get("id")}
        | {"content": part.get("response", part.get("result"))}
        if isinstance(part, dict) and part.get("type") == "tool_call_response"
        else part
        for part in fields["parts"]
    ]
    named = fields.get("role", role)
    return message_of({"role": named, "content": parts, "name": fields.get("name")}, place)


class SpanReader(Reader):
    """A format of spans: those that hold messages are rebuilt into conversations at the end."""

    whole = False
    no_messages: ClassVar[str]
    """What to say of a trace in which no span holds any."""

    def __init__(self) -> None:
        self._found: list[Generation] = []
        self._silent = 0

    def keep(self, call: Generation) -> None:
        if call.asked or call.given:
            self._found.append(call)
        else:
            self._silent += 1

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._silent and not self._found:
            raise Unreadable(self.no_messages)
        yield from rebuilt(self._found, place)


class OpenTelemetry(SpanReader):
    """Spans with the attributes of generative AI: OTLP as JSON, or as the SDK prints them."""

    name = "opentelemetry"
    recognised = "an object with resourceSpans, or spans with a trace id and attributes"
    turns = "a message of the last span of a chain, as each span repeats the history"
    left_out = "spans without messages, reasoning, token counts, timing"
    no_messages = (
        "is an OpenTelemetry trace without messages; let your instrumentation record them "
        "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true)"
    )

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if isinstance(value.get("resourceSpans", value.get("resource_spans")), list):
            return True
        context = value.get("context")
        traced = "traceId" in value or (isinstance(context, dict) and "trace_id" in context)
        return traced and isinstance(value.get("attributes"), dict | list)

    def says_something(self, value: Any) -> bool:
        told = (_attributes(span.get("attributes")) for span in _spans(value))
        return any(key.startswith(("gen_ai.", "llm.")) for each in told for key in each)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        for span in _spans(mapping(value, "the line")):
            told = _attributes(span.get("attributes"))
            asked, given = _span_messages(told, listing_if_any(span, "events", "span"))
            context = span.get("context")
            holder = context if isinstance(context, dict) else span
            session = identity(told, "gen_ai.conversation.id", "session.id")
            trace = session or identity(holder, "traceId", "trace_id") or place.stem
            time = str(span.get("startTimeUnixNano") or span.get("start_time") or "")
            model = told.get("gen_ai.response.model") or told.get("gen_ai.request.model")
            model = model if isinstance(model, str) else None
            self.keep(Generation(trace, session is not None, time, asked, given, model))
        return iter(())


def _spans(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    resources = value.get("resourceSpans", value.get("resource_spans"))
    if not isinstance(resources, list):
        return [value]
    scopes = [
        scope
        for resource in resources
        if isinstance(resource, dict)
        for key in ("scopeSpans", "scope_spans")
        for scope in listing_if_any(resource, key, "resourceSpans")
        if isinstance(scope, dict)
    ]
    listed = [span for scope in scopes for span in listing_if_any(scope, "spans", "scopeSpans")]
    return [mapping(span, "scopeSpans.spans") for span in listed]


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes by name, whether an object or OTLP's list of keys and typed values."""
    if isinstance(value, dict):
        return value
    listed = [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
    return {str(each.get("key")): _untyped(each.get("value")) for each in listed}


def _untyped(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if kind == "arrayValue" and isinstance(inner, dict):
        listed = inner.get("values")
        return [_untyped(each) for each in listed] if isinstance(listed, list) else []
    if kind == "kvlistValue" and isinstance(inner, dict):
        return _attributes(inner.get("values"))
    return inner if str(kind).endswith("Value") else value


class SpanMessages(NamedTuple):
    """What a span says that a model was shown, and what it gave."""

    asked: list[ChatMessage]
    given: list[ChatMessage]


def _span_messages(told: Mapping[str, Any], events: list[Any]) -> SpanMessages:
    """The messages of a span, in the conventions of today or of yesterday."""
    named = [each for each in events if isinstance(each, dict)]
    inside = [_attributes(each.get("attributes")) for each in named]
    for attributes in (told, *inside):
        system = attributes.get("gen_ai.system_instructions")
        asked = attributes.get("gen_ai.input.messages")
        given = attributes.get("gen_ai.output.messages")
        if asked is not None or given is not None:
            texts = [
                each.turn.text for each in messages_in(_as_content(system), "system", "system")
            ]
            first = [spoken(Content("\n".join(texts)), "system")] if texts else []
            return SpanMessages(
                first + list(messages_in(asked, "user", "gen_ai.input.messages")),
                list(messages_in(given, "assistant", "gen_ai.output.messages")),
            )
    for asked_by, given_by in (
        ("gen_ai.prompt.", "gen_ai.completion."),
        ("llm.input_messages.", "llm.output_messages."),
    ):
        flat = [_numbered(told, asked_by, "user"), _numbered(told, given_by, "assistant")]
        if any(flat):
            return SpanMessages(*flat)
    asked, given = [], []
    for event, attributes in zip(named, inside, strict=True):
        kind = str(event.get("name"))
        if kind == "gen_ai.choice":
            given += _event_message(attributes, "assistant")
        elif kind.startswith("gen_ai.") and kind.endswith(".message"):
            asked += _event_message(attributes, kind.split(".")[1])
    return SpanMessages(asked, given)


def _as_content(system: Any) -> Any:
    """Instructions are bare parts, and parts of text are all that matters of them."""
    listed = json_inside(system) if isinstance(system, str) else system
    if isinstance(listed, list):
        return [each.get("content") for each in listed if isinstance(each, dict)]
    return system


def _event_message(told: Mapping[str, Any], role: str) -> Iterator[ChatMessage]:
    inner: Any = told.get("gen_ai.event.content", told.get("message"))
    inner = json_inside(inner) if isinstance(inner, str) else inner
    fields = dict(inner) if isinstance(inner, dict) else dict(told)
    if isinstance(fields.get("message"), dict):
        fields = fields["message"]
    calls = fields.get("tool_calls")
    calls = json_inside(calls) if isinstance(calls, str) else calls
    kept = {key: fields.get(key) for key in ("content", "name") if key in fields}
    yield message_of(
        kept | {"role": role, "tool_calls": calls, "tool_call_id": fields.get("id")}, role
    )


def _numbered(told: Mapping[str, Any], prefix: str, role: str) -> list[ChatMessage]:
    """Messages spelled out as attributes: `gen_ai.prompt.0.content` and the like."""
    tree: dict[str, Any] = {}
    for key, value in told.items():
        if key.startswith(prefix):
            node = tree
            *path, last = key.removeprefix(prefix).split(".")
            for step in path[:MOST_LEVELS]:
                inner = node.setdefault(step, {})
                if not isinstance(inner, dict):
                    break
                node = inner
            else:
                node[last] = value
    messages = []
    for _, node in _in_order(tree):
        inner = node.get("message")
        fields = inner if isinstance(inner, dict) else node
        listed = fields.get("tool_calls")
        calls = [
            each.get("tool_call") if isinstance(each.get("tool_call"), dict) else each
            for _, each in _in_order(listed if isinstance(listed, dict) else {})
        ]
        kept = {key: fields[key] for key in ("content", "tool_call_id", "name") if key in fields}
        kept |= {"role": fields.get("role") or role, "tool_calls": calls}
        messages.append(message_of(kept, prefix.rstrip(".")))
    return messages


def _in_order(tree: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    numbered = [(key, node) for key, node in tree.items() if isinstance(node, dict)]
    known = [(int(key), node) for key, node in numbered if key.isdecimal() and len(key) < 9]
    return sorted(known, key=lambda pair: pair[0])


class LangSmith(Reader):
    """Runs as LangSmith exports them: with a run_type, inputs and outputs."""

    name = "langsmith"
    recognised = "objects with run_type and inputs"
    turns = "a message of the last llm run of a chain; without one, of the root run"
    left_out = "chains and tools around the calls of the model, feedback, timing"
    whole = False

    def __init__(self) -> None:
        self._calls: list[Generation] = []
        self._roots: list[Generation] = []

    def matches(self, value: Any) -> bool:
        return (
            isinstance(value, dict) and isinstance(value.get("run_type"), str) and "inputs" in value
        )

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        waiting = [mapping(value, "the run")]
        while waiting:
            run = waiting.pop()
            waiting += [mapping(each, "child_runs") for each in listing_if_any(run, "child_runs")]
            root = run.get("parent_run_id") is None
            if run.get("run_type") == "llm" or root:
                session = _thread(run)
                trace = session or identity(run, "trace_id", "id") or place.stem
                asked = list(messages_in(run.get("inputs"), "user", "inputs"))
                given = list(messages_in(run.get("outputs"), "assistant", "outputs"))
                time = str(run.get("dotted_order") or run.get("start_time") or "")
                call = Generation(trace, session is not None, time, asked, given, _run_model(run))
                (self._calls if run.get("run_type") == "llm" else self._roots).append(call)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        called = {call.trace for call in self._calls}
        roots = [root for root in self._roots if root.trace not in called]
        yield from rebuilt(
            [each for each in self._calls + roots if each.asked or each.given], place
        )


def _extra(run: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = run.get("extra")
    inner = extra.get("metadata") if isinstance(extra, dict) else None
    return inner if isinstance(inner, dict) else {}


def _thread(run: Mapping[str, Any]) -> str | None:
    return identity(_extra(run), "thread_id", "session_id", "conversation_id")


def _run_model(run: Mapping[str, Any]) -> str | None:
    model = _extra(run).get("ls_model_name")
    return model if isinstance(model, str) else None


LANGFUSE_KINDS = [
    "GENERATION",
    "SPAN",
    "EVENT",
    "AGENT",
    "TOOL",
    "CHAIN",
    "RETRIEVER",
    "EVALUATOR",
    "EMBEDDING",
    "GUARDRAIL",
]


class Langfuse(Reader):
    """Observations and traces as Langfuse exports them."""

    name = "langfuse"
    recognised = "observations with a traceId and a type such as GENERATION, or traces of them"
    turns = "a message of the last generation of a chain; without one, of the trace"
    left_out = "spans, events and tools around the calls of the model, scores, costs"
    whole = False

    def __init__(self) -> None:
        self._calls: list[Generation] = []
        self._traces: list[Generation] = []

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if ("traceId" in value or "trace_id" in value) and value.get("type") in LANGFUSE_KINDS:
            return True
        told = any(key in value for key in ("observations", "sessionId", "session_id", "projectId"))
        return "timestamp" in value and "input" in value and "output" in value and told

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        if fields.get("type") not in LANGFUSE_KINDS:
            session = identity(fields, "sessionId", "session_id")
            trace = session or identity(fields, "id") or place.stem
            self._traces.append(_generation(fields, trace, session is not None))
            observed = fields.get("observations")
            for each in observed if isinstance(observed, list) else ():
                # In some exports they are ids alone.
                if isinstance(each, dict) and each.get("type") == "GENERATION":
                    self._calls.append(_generation(each, trace, session is not None))
        elif fields["type"] == "GENERATION":
            trace = identity(fields, "traceId", "trace_id") or place.stem
            self._calls.append(_generation(fields, trace, False))
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        called = {call.trace for call in self._calls if call.asked or call.given}
        rest = [trace for trace in self._traces if trace.trace not in called]
        yield from rebuilt(self._calls + rest, place)


def _generation(fields: Mapping[str, Any], trace: str, session: bool) -> Generation:
    keys = ("startTime", "start_time", "timestamp")
    model = fields.get("model")
    return Generation(
        trace,
        session,
        next((str(fields[key]) for key in keys if fields.get(key)), ""),
        list(messages_in(fields.get("input"), "user", "input")),
        list(messages_in(fields.get("output"), "assistant", "output")),
        model if isinstance(model, str) else None,
    )


class OpenAITraces(SpanReader):
    """Spans of OpenAI's agents: those of generations hold messages, others only name them."""

    name = "openai-traces"
    recognised = "objects whose object is trace or trace.span"
    turns = "a message of the last generation or response span of a chain"
    left_out = "spans of agents, functions, handoffs and guardrails; answers named by id alone"
    no_messages = (
        "is an OpenAI trace that only names its responses; save the responses themselves, "
        "or the result's to_input_list()"
    )

    def matches(self, value: Any) -> bool:
        return isinstance(value, dict) and value.get("object") in ("trace", "trace.span")

    def says_something(self, value: Any) -> bool:
        return bool(value.get("object") == "trace.span")

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        data = fields.get("span_data")
        if not isinstance(data, dict) or data.get("type") not in ("generation", "response"):
            return iter(())
        given = data.get("output", data.get("response"))
        trace = identity(fields, "trace_id") or place.stem
        said = {"input": data.get("input"), "output": given, "model": data.get("model")}
        started = {"timestamp": fields.get("started_at")}
        self.keep(_generation(said | started, trace, False))
        return iter(())
