"""Traces as services export them: LangSmith, Langfuse, and OpenAI for its agents."""

from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.core.records import Trajectory
from chimeralab.readers.fields import identity, listing_if_any, mapping
from chimeralab.readers.model_calls import Generation, SpanReader, messages_in, rebuilt
from chimeralab.readers.seam import Place, Reader


class LangSmith(Reader):
    """Runs as LangSmith exports them: with a run_type, inputs and outputs."""

    name = "langsmith"
    recognised = "objects with run_type and inputs"
    turns = "a message of the last llm run of a chain; without one, of the root run"
    left_out = "chains and tools around the calls of the model, feedback, timing"
    whole = False

    def __init__(self) -> None:
        self._found: list[Generation] = []

    def matches(self, value: Any) -> bool:
        return (
            isinstance(value, dict) and isinstance(value.get("run_type"), str) and "inputs" in value
        )

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        waiting = [mapping(value, "the run")]
        while waiting:
            run = waiting.pop()
            waiting += [mapping(each, "child_runs") for each in listing_if_any(run, "child_runs")]
            calls_model = run.get("run_type") in ("llm", "chat_model")
            if calls_model or run.get("parent_run_id") is None:
                session = _thread(run)
                call = Generation(
                    session or identity(run, "trace_id", "id") or place.stem,
                    session is not None,
                    str(run.get("dotted_order") or run.get("start_time") or ""),
                    list(messages_in(run.get("inputs"), "user", "inputs")),
                    list(messages_in(run.get("outputs"), "assistant", "outputs")),
                    _run_model(run),
                    outer=not calls_model,
                    unfinished=run.get("outputs") is None and run.get("end_time") is None,
                )
                self._found.append(call)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        yield from rebuilt(self._found, place)


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
        self._found: list[Generation] = []

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        if ("traceId" in value or "trace_id" in value) and value.get("type") in LANGFUSE_KINDS:
            return True
        told = any(key in value for key in ("observations", "sessionId", "session_id", "projectId"))
        return "timestamp" in value and "input" in value and "output" in value and told

    def inner(self, value: Any) -> list[Any]:
        """What a page of Langfuse's own interface lists."""
        listed = value.get("data") if isinstance(value, dict) else None
        if isinstance(listed, list) and listed and self.matches(listed[0]):
            return listed
        return []

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        session = identity(fields, "sessionId", "session_id")
        if fields.get("type") in LANGFUSE_KINDS:
            trace = session or identity(fields, "traceId", "trace_id") or place.stem
            outer = fields["type"] != "GENERATION"
            if not outer or fields.get("isRootObservation"):
                self._found.append(_generation(fields, trace, session is not None, outer=outer))
            return iter(())
        trace = session or identity(fields, "id") or place.stem
        self._found.append(_generation(fields, trace, session is not None, outer=True))
        observed = fields.get("observations")
        for each in observed if isinstance(observed, list) else ():
            # In some exports they are ids alone.
            if isinstance(each, dict) and each.get("type") == "GENERATION":
                self._found.append(_generation(each, trace, session is not None))
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        yield from rebuilt(self._found, place)


def _generation(
    fields: Mapping[str, Any], trace: str, session: bool, *, outer: bool = False
) -> Generation:
    started = ("startTime", "start_time", "timestamp")
    ended = [fields[key] for key in ("endTime", "end_time", "ended_at") if key in fields]
    model = fields.get("model")
    return Generation(
        trace,
        session,
        next((str(fields[key]) for key in started if fields.get(key)), ""),
        list(messages_in(fields.get("input"), "user", "input")),
        list(messages_in(fields.get("output"), "assistant", "output")),
        model if isinstance(model, str) else None,
        outer,
        unfinished=ended == [None] and fields.get("output") is None,
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
        times = {"timestamp": fields.get("started_at"), "ended_at": fields.get("ended_at")}
        self.keep(_generation(said | times, trace, False))
        return iter(())
