"""Traces exported by LangSmith, Langfuse and OpenAI.

Each model call repeats the history, so the last call of a chain is the conversation.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.agents import is_langchain, langchain_message
from chimeralab.readers.chat import (
    ChatMessage,
    annotate,
    make_message,
    make_trajectory,
    parse_message,
    parse_time,
)
from chimeralab.readers.providers import item_message
from chimeralab.readers.seam import (
    WRAPS,
    Place,
    Reader,
    Unreadable,
    as_object,
    first_present,
    get_id,
    get_path,
    items,
    optional_list,
    str_or_none,
    try_json,
    with_places,
)

HOLDERS = (
    "messages", "prompts", "input", "output", "choices", "generations", "message", "content",
    "prompt", "text",
)  # fmt: skip
MAX_LEVELS = 8
END_OF_CODE = "<end_code>"  # smolagents adds it to an answer when it repeats it


class Generation(NamedTuple):
    """One model call: its input and output messages.

    Calls of one `trace` belong together; in a `session`, even those without shared history.
    """

    trace: str
    session: bool
    time: str
    inputs: list[ChatMessage]
    outputs: list[ChatMessage]
    model: str | None = None
    outer: bool = False
    """Whether it spans a whole run; such a span counts only if the run has no recorded calls."""
    unfinished: bool = False
    usage: Mapping[str, Any] = {}
    """The tokens and the cost of the call, as `annotate` takes them."""
    lost: int = 0
    """Inputs at the head that a limit on the attributes of a span dropped."""


class SpanReader(Reader):
    """A format of spans, from which conversations are rebuilt at the end of the log."""

    whole = False
    no_messages: ClassVar[str] = ""
    """The error for a trace in which no span has messages."""

    def __init__(self) -> None:
        self._spans: list[Generation] = []

    def sureness(self, value: Any) -> float:
        return WRAPS if self.matches(value) else 0.0

    def generations(self, value: Any, place: Place) -> Iterator[Generation]:
        """Yield the model calls recorded in a value."""
        raise NotImplementedError

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        self._spans += self.generations(value, place)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        traces: dict[str, list[Generation]] = {}
        for span in self._spans:
            if span.inputs or span.outputs:
                traces.setdefault(span.trace, []).append(span)
        if self._spans and not traces and self.no_messages:
            raise Unreadable(self.no_messages)
        for trace, found in traces.items():
            calls = [call for call in found if not call.outer] or found
            models = [call.model for call in calls if call.model]
            answers = annotate_answers(calls)
            for number, chain in enumerate(_chains(calls), 1):
                metadata = {"trace": trace, "model": models[-1] if models else None}
                name = trace if number == 1 else f"{trace}#{number}"
                messages = [
                    (answers.get(_marks([message])[0]) or [message]).pop(0)
                    for call in chain
                    for message in call.inputs + call.outputs
                ]
                unfinished = chain[-1].unfinished
                yield make_trajectory(place, name, messages, metadata, unfinished=unfinished)


def annotate_answers(calls: Iterable[Generation]) -> dict[int, list[ChatMessage]]:
    """Return the answers of all calls with their time and usage, by what they say.

    Later calls repeat them without either.
    """
    answers: dict[int, list[ChatMessage]] = {}
    for call in sorted(calls, key=lambda each: each.time):
        about = {**call.usage, "time": parse_time(call.time)}
        for message in call.outputs:
            mark = _marks([message])[0]
            answers.setdefault(mark, []).append(annotate(message, about))
    return answers


def _chains(calls: Iterable[Generation]) -> list[list[Generation]]:
    """Group calls by conversation: the last call of a shared history, or the calls of a session.

    In a session, a call without history joins the chain with the same instructions.
    """
    chains: list[list[Generation]] = []
    ends: dict[int, int] = {}
    for call in map(partial(_restore, chains), sorted(calls, key=lambda each: each.time)):
        marks = _marks(call.inputs)
        at = next((ends[m] for m in reversed(marks[:-1]) if m in ends), None)
        if at is not None:
            chains[at] = [call]
        else:
            known = [_instructions(chain[0]) for chain in chains] if call.session else []
            if (instructions := _instructions(call)) in known:
                at = known.index(instructions)
                chains[at].append(call)
            else:
                at = len(chains)
                chains.append([call])
        if marks:
            ends[marks[-1]] = at
    return chains


def _restore(chains: list[list[Generation]], call: Generation) -> Generation:
    """Add the inputs that a span lost, from the call before it in its chain."""
    known = (chain[-1].inputs for chain in reversed(chains) if call.lost > 0 and call.inputs)
    for inputs in known:
        if inputs[call.lost :][:1] == call.inputs[:1]:
            return call._replace(inputs=inputs[: call.lost] + call.inputs, lost=0)
    return call


def _instructions(call: Generation) -> str | None:
    first = call.inputs[0].turn if call.inputs else None
    return first.text if first and first.role in ("system", "developer") else None


def _marks(messages: list[ChatMessage]) -> list[int]:
    """Hash every prefix of a list of messages."""
    marks, mark = [], 0
    for turn, content in messages:
        calls = tuple((call.name, str(call.arguments)) for _, call in content.calls)
        mark = hash((mark, turn.role, turn.text.removesuffix(END_OF_CODE), calls))
        marks.append(mark)
    return marks


def messages_in(value: Any, role: str, place: str, level: int = 0) -> Iterator[ChatMessage]:
    """Yield the messages in the input or output of a call, however they are wrapped."""
    if level > MAX_LEVELS or value is None:
        return
    if isinstance(value, str):
        inner = try_json(value)
        if isinstance(inner, dict | list):
            yield from messages_in(inner, role, place, level + 1)
        else:
            yield make_message(value, role)
    elif isinstance(value, list):
        for each, where in with_places(value, place):
            yield from messages_in(each, role, where, level + 1)
    elif isinstance(value, dict):
        message = _one_message(value, role, place)
        holder = next((key for key in HOLDERS if value.get(key) is not None), None)
        if message is not None:
            yield message
        elif holder is not None:
            yield from messages_in(value[holder], role, f"{place}.{holder}", level + 1)


def _one_message(fields: Mapping[str, Any], role: str, place: str) -> ChatMessage | None:
    """Parse one message of any dialect; None if the object only contains messages."""
    if is_langchain(fields):
        return langchain_message(fields, place)
    if isinstance(fields.get("parts"), list):
        # OpenTelemetry's conventions, whose parts have a type and content.
        parts = [
            {"type": "tool_result", "tool_use_id": part.get("id")}
            | {"content": part.get("response", part.get("result"))}
            if get_path(part, "type") == "tool_call_response"
            else part
            for part in fields["parts"]
        ]
        named = {"role": fields.get("role", role), "name": fields.get("name")}
        return parse_message(named | {"content": parts}, place)
    if "role" in fields:
        return parse_message(fields, place)
    is_call = isinstance(fields.get("type"), str) and "call" in fields["type"]
    return item_message(fields, place) if is_call else None


class LangSmith(SpanReader):
    """Runs as LangSmith exports them: with a run_type, inputs and outputs."""

    name = "langsmith"
    keys = frozenset({"run_type"})
    recognised = "objects with run_type and inputs"
    turns = "a message of the last llm run of a chain; without one, of the root run"
    left_out = "chains and tools around model calls, feedback"

    def matches(self, value: Any) -> bool:
        return isinstance(get_path(value, "run_type"), str) and "inputs" in value

    def generations(self, value: Any, place: Place) -> Iterator[Generation]:
        waiting = [as_object(value, "the run")]
        while waiting:
            run = waiting.pop()
            waiting += [as_object(each, "child_runs") for each in optional_list(run, "child_runs")]
            calls_model = run.get("run_type") in ("llm", "chat_model")
            if calls_model or run.get("parent_run_id") is None:
                about = get_path(run, "extra", "metadata")
                about = about if isinstance(about, dict) else {}
                session = get_id(about, "thread_id", "session_id", "conversation_id")
                yield Generation(
                    session or get_id(run, "trace_id", "id") or place.stem,
                    session is not None,
                    str(run.get("dotted_order") or run.get("start_time") or ""),
                    list(messages_in(run.get("inputs"), "user", "inputs")),
                    list(messages_in(run.get("outputs"), "assistant", "outputs")),
                    str_or_none(about.get("ls_model_name")),
                    outer=not calls_model,
                    unfinished=run.get("outputs") is None and run.get("end_time") is None,
                    usage={"usage": dict(run), "cost": run.get("total_cost")},
                )


LANGFUSE_KINDS = (
    "GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING",
    "GUARDRAIL",
)  # fmt: skip


class Langfuse(SpanReader):
    """Observations and traces as Langfuse exports them."""

    name = "langfuse"
    keys = frozenset({"traceId", "trace_id", "timestamp", "data"})
    recognised = "observations with a traceId and a type such as GENERATION, or traces of them"
    turns = "a message of the last generation of a chain; without one, of the trace"
    left_out = "spans, events and tools around model calls, scores"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if ("traceId" in value or "trace_id" in value) and value.get("type") in LANGFUSE_KINDS:
            return True
        marks = ("observations", "sessionId", "session_id", "projectId")
        is_trace = all(key in value for key in ("timestamp", "input", "output"))
        return is_trace and any(key in value for key in marks)

    def inner(self, value: Any) -> list[Any]:
        """List the entries of a page of Langfuse's API."""
        listed = items(get_path(value, "data"))
        return listed if listed and self.matches(listed[0]) else []

    def generations(self, value: Any, place: Place) -> Iterator[Generation]:
        fields = as_object(value, "the line")
        session = get_id(fields, "sessionId", "session_id")
        if fields.get("type") in LANGFUSE_KINDS:
            trace = session or get_id(fields, "traceId", "trace_id") or place.stem
            outer = fields["type"] != "GENERATION"
            if not outer or fields.get("isRootObservation"):
                yield _generation(fields, trace, session is not None, outer=outer)
            return
        trace = session or get_id(fields, "id") or place.stem
        yield _generation(fields, trace, session is not None, outer=True)
        for each in items(fields.get("observations")):
            # Some exports only have their ids.
            if get_path(each, "type") == "GENERATION":
                yield _generation(each, trace, session is not None)


def _generation(
    fields: Mapping[str, Any], trace: str, session: bool, *, outer: bool = False
) -> Generation:
    started = ("startTime", "start_time", "timestamp")
    ended = [fields[key] for key in ("endTime", "end_time", "ended_at") if key in fields]
    return Generation(
        trace,
        session,
        next((str(fields[key]) for key in started if fields.get(key)), ""),
        list(messages_in(fields.get("input"), "user", "input")),
        list(messages_in(fields.get("output"), "assistant", "output")),
        str_or_none(fields.get("model")),
        outer,
        unfinished=ended == [None] and fields.get("output") is None,
        usage={
            "usage": first_present(fields, "usageDetails", "usage"),
            "cost": first_present(fields, "calculatedTotalCost", "totalCost", "total_cost"),
        },
    )


class OpenAITraces(SpanReader):
    """Spans of OpenAI's agents; generation spans have messages, response spans may not."""

    name = "openai-traces"
    keys = frozenset({"object"})
    recognised = "objects whose object is trace or trace.span"
    turns = "a message of the last generation or response span of a chain"
    left_out = "spans of agents, functions, handoffs and guardrails; responses given only by id"
    no_messages = (
        "is an OpenAI trace that only names its responses; save the responses themselves, "
        "or the result's to_input_list()"
    )

    def matches(self, value: Any) -> bool:
        return get_path(value, "object") in ("trace", "trace.span")

    def says_something(self, value: Any) -> bool:
        return bool(value.get("object") == "trace.span")

    def generations(self, value: Any, place: Place) -> Iterator[Generation]:
        fields = as_object(value, "the line")
        data = fields.get("span_data")
        if not isinstance(data, dict) or data.get("type") not in ("generation", "response"):
            return
        outputs = data.get("output", data.get("response"))
        trace = get_id(fields, "trace_id") or place.stem
        text = {key: data.get(key) for key in ("input", "model", "usage")} | {"output": outputs}
        times = {"timestamp": fields.get("started_at"), "ended_at": fields.get("ended_at")}
        yield _generation(text | times, trace, False)
