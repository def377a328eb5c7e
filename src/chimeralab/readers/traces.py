"""Traces as services export them: LangSmith, Langfuse, and OpenAI for its agents.

Each call of a model repeats what was said before it, so that the last call of a chain holds the
conversation.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.agents import is_langchain, langchain_message
from chimeralab.readers.chat import ChatMessage, join_turns, make_message, parse_message
from chimeralab.readers.providers import item_message
from chimeralab.readers.seam import (
    Place,
    Reader,
    Unreadable,
    as_object,
    embedded_json,
    get_id,
    get_path,
    items,
    optional_list,
    str_or_none,
    with_places,
)

HOLDERS = (
    "messages", "prompts", "input", "output", "choices", "generations", "message", "content",
    "prompt", "text",
)  # fmt: skip
MAX_LEVELS = 8


class Generation(NamedTuple):
    """One call of a model: what it was shown and what it gave.

    Calls of one `trace` belong together; in a `session`, even those that repeat no history.
    """

    trace: str
    session: bool
    time: str
    asked: list[ChatMessage]
    given: list[ChatMessage]
    model: str | None = None
    outer: bool = False
    """Whether it spans a whole run: then it counts only where none of the run's calls is known."""
    unfinished: bool = False


class SpanReader(Reader):
    """A format of spans: those that hold messages are rebuilt into conversations at the end."""

    whole = False
    no_messages: ClassVar[str] = ""
    """What to say of a trace in which no span holds any."""

    def __init__(self) -> None:
        self._spans: list[Generation] = []

    def generations(self, value: Any, place: Place) -> Iterator[Generation]:
        """The calls of a model that a value tells of."""
        raise NotImplementedError

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        self._spans += self.generations(value, place)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        traces: dict[str, list[Generation]] = {}
        for span in self._spans:
            if span.asked or span.given:
                traces.setdefault(span.trace, []).append(span)
        if self._spans and not traces and self.no_messages:
            raise Unreadable(self.no_messages)
        for trace, found in traces.items():
            calls = [call for call in found if not call.outer] or found
            models = [call.model for call in calls if call.model]
            for number, chain in enumerate(_chains(calls), 1):
                metadata: dict[str, Any] = {"trace": trace, "model": models[-1] if models else None}
                metadata |= {"unfinished": True} if chain[-1].unfinished else {}
                name = trace if number == 1 else f"{trace}#{number}"
                messages = [message for call in chain for message in call.asked + call.given]
                yield Trajectory(name, join_turns(messages), metadata, str(place))


def _chains(calls: Iterable[Generation]) -> list[list[Generation]]:
    """The calls of each conversation: the last that goes on from the ones before, or a session.

    In a session, a call without history belongs to the chain of the same instructions.
    """
    chains: list[list[Generation]] = []
    ends: dict[int, int] = {}
    for call in sorted(calls, key=lambda each: each.time):
        marks = _marks(call.asked)
        at = next((ends[m] for m in reversed(marks[:-1]) if m in ends), None)
        if at is not None:
            chains[at] = [call]
        else:
            told = [_instructions(chain[0]) for chain in chains] if call.session else []
            if (mine := _instructions(call)) in told:
                at = told.index(mine)
                chains[at].append(call)
            else:
                at = len(chains)
                chains.append([call])
        if marks:
            ends[marks[-1]] = at
    return chains


def _instructions(call: Generation) -> str | None:
    first = call.asked[0].turn if call.asked else None
    return first.text if first and first.role in ("system", "developer") else None


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
    if level > MAX_LEVELS or value is None:
        return
    if isinstance(value, str):
        inner = embedded_json(value)
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
    """What is one message in any dialect; None where it only holds some."""
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
    left_out = "chains and tools around the calls of the model, feedback, timing"

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
    left_out = "spans, events and tools around the calls of the model, scores, costs"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if ("traceId" in value or "trace_id" in value) and value.get("type") in LANGFUSE_KINDS:
            return True
        told = any(key in value for key in ("observations", "sessionId", "session_id", "projectId"))
        return "timestamp" in value and "input" in value and "output" in value and told

    def inner(self, value: Any) -> list[Any]:
        """What a page of Langfuse's own interface lists."""
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
            # In some exports they are ids alone.
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
    )


class OpenAITraces(SpanReader):
    """Spans of OpenAI's agents: those of generations hold messages, others only name them."""

    name = "openai-traces"
    keys = frozenset({"object"})
    recognised = "objects whose object is trace or trace.span"
    turns = "a message of the last generation or response span of a chain"
    left_out = "spans of agents, functions, handoffs and guardrails; answers named by id alone"
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
        given = data.get("output", data.get("response"))
        trace = get_id(fields, "trace_id") or place.stem
        said = {"input": data.get("input"), "output": given, "model": data.get("model")}
        times = {"timestamp": fields.get("started_at"), "ended_at": fields.get("ended_at")}
        yield _generation(said | times, trace, False)
