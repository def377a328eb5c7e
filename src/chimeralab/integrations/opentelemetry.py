"""A span processor for OpenTelemetry: events and metrics of conversations that loop."""

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import (
    GuardAction,
    Message,
    Watch,
    WatchSettings,
    without_refusals,
)
from chimeralab.readers.opentelemetry import span_messages

with explain_missing_extra():
    from opentelemetry._logs import SeverityNumber, get_logger
    from opentelemetry.metrics import get_meter
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

EVENT = "chimera.loop"
COUNT, TOKENS = "chimera.loop.count", "chimera.loop.tokens"
ID, MODEL = "gen_ai.conversation.id", "gen_ai.request.model"
USAGE = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
MAX_CONVERSATIONS = 1_000
LEVELS = {"nudge": SeverityNumber.WARN, "stop": SeverityNumber.ERROR}


class LoopEvents(SpanProcessor):
    """Emits a log record with the event name `chimera.loop` in the context of the looping span.

    A generative AI span includes the history, which identifies its conversation. One event is
    emitted where other guards would nudge, and one where they would stop. Metrics count loops, and
    the tokens that the spans inside them used, if the spans say.
    """

    def __init__(
        self,
        logger_provider: Any = None,
        meter_provider: Any = None,
        **settings: Unpack[WatchSettings],
    ) -> None:
        self._watch = Watch(**without_refusals(settings))
        self._logger = get_logger("chimeralab", logger_provider=logger_provider)
        meter = get_meter("chimeralab", meter_provider=meter_provider)
        self._count = meter.create_counter(
            COUNT, "{loop}", "Loops at which a guard would nudge, and those it would stop."
        )
        self._tokens = meter.create_counter(
            TOKENS, "{token}", "Tokens read and written by model calls inside a loop."
        )
        self._lock = Lock()
        # By conversation: which message each call wrote, and its tokens, until a loop has them.
        self._usage: OrderedDict[Any, list[tuple[int, int]]] = OrderedDict()

    def on_end(self, span: ReadableSpan) -> None:
        if not self._watch.enabled:
            return
        with self._watch.contain_errors():
            attributes = span.attributes or {}
            messages = list(_messages(span))
            key = attributes.get(ID) or span.get_span_context().trace_id
            used = sum(int(attributes.get(name) or 0) for name in USAGE)
            if used:
                self._keep(key, len(messages) + 1, used)
            if found := self._watch.follow_safely(messages):
                kind = {"chimera.loop.kind": found.loop.kind}
                kind |= {MODEL: attributes[MODEL]} if MODEL in attributes else {}
                if tokens := self._take(key, found.loop.began):
                    self._tokens.add(tokens, kind)
                if not found.again:
                    self._count.add(1, {**kind, "chimera.loop.action": found.action})
                    self._emit(span, found)

    def _emit(self, span: ReadableSpan, found: GuardAction) -> None:
        self._logger.emit(
            event_name=EVENT,
            context=set_span_in_context(NonRecordingSpan(span.get_span_context())),
            severity_number=LEVELS[found.action],
            body=found.message,
            attributes={
                ID: (span.attributes or {}).get(ID),
                "chimera.loop.action": found.action,
                "chimera.loop.kind": found.loop.kind,
                "chimera.loop.began": found.loop.began,
                "chimera.loop.excerpt": found.loop.excerpt,
            },
        )

    def _keep(self, key: Any, position: int, tokens: int) -> None:
        with self._lock:
            self._usage.setdefault(key, []).append((position, tokens))
            self._usage.move_to_end(key)
            if len(self._usage) > MAX_CONVERSATIONS:
                self._usage.popitem(last=False)

    def _take(self, key: Any, began: int) -> int:
        """The tokens of a conversation's calls since a message, each counted once."""
        with self._lock:
            calls = self._usage.pop(key, [])
        return sum(tokens for position, tokens in calls if position >= began)


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
