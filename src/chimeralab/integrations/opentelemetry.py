"""A span processor for OpenTelemetry that emits an event when a conversation loops."""

from collections.abc import Iterator
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import Message, Watch, WatchSettings, without_refusals
from chimeralab.readers.opentelemetry import span_messages

with explain_missing_extra():
    from opentelemetry._logs import SeverityNumber, get_logger
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

EVENT = "chimera.loop"
LEVELS = {"nudge": SeverityNumber.WARN, "stop": SeverityNumber.ERROR}


class LoopEvents(SpanProcessor):
    """Emits a log record with the event name `chimera.loop` in the context of the looping span.

    A generative AI span includes the history, which identifies its conversation. One event is
    emitted where other guards would nudge, and one where they would stop.
    """

    def __init__(self, logger_provider: Any = None, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**without_refusals(settings))
        self._logger = get_logger("chimeralab", logger_provider=logger_provider)

    def on_end(self, span: ReadableSpan) -> None:
        found = self._watch.follow_safely(_messages(span))
        if found and not found.again:
            with self._watch.contain_errors():
                span_attributes = span.attributes or {}
                self._logger.emit(
                    event_name=EVENT,
                    context=set_span_in_context(NonRecordingSpan(span.get_span_context())),
                    severity_number=LEVELS[found.action],
                    body=found.message,
                    attributes={
                        "gen_ai.conversation.id": span_attributes.get("gen_ai.conversation.id"),
                        "chimera.loop.action": found.action,
                        "chimera.loop.kind": found.loop.kind,
                        "chimera.loop.began": found.loop.began,
                        "chimera.loop.excerpt": found.loop.excerpt,
                    },
                )


def _messages(span: ReadableSpan) -> Iterator[Message]:
    """Yield the model's input; its output is part of the next call's input."""
    events = [{"name": e.name, "attributes": dict(e.attributes or {})} for e in span.events]
    inputs, _ = span_messages(dict(span.attributes or {}), events)
    for turn, content in inputs:
        for call, text, failed in content.results:
            yield {"role": "tool", "tool_call_id": call, "content": text} | (
                {} if failed is None else {"error": failed}
            )
        if not content.results:
            calls = [
                {"id": name, "function": {"name": call.name, "arguments": call.arguments}}
                for name, call in content.calls
            ]
            yield {"role": turn.role, "content": turn.text, "tool_calls": calls}
