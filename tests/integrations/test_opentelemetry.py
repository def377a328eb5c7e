"""The OpenTelemetry span processor with the real SDK."""

import json
import logging
from typing import Any

import pytest

from chimeralab import Guard

pytestmark = pytest.mark.integrations
pytest.importorskip("opentelemetry.sdk", reason="`make test-integrations` brings it")


class Traced:
    """A tracer with the processor, and the list of emitted events."""

    def __init__(self, **settings: Any) -> None:
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import (
            InMemoryLogRecordExporter,
            SimpleLogRecordProcessor,
        )
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider

        from chimeralab.integrations.opentelemetry import LoopEvents

        self._kept = InMemoryLogRecordExporter()
        logs = LoggerProvider()
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._kept))
        self._metrics = InMemoryMetricReader()
        meters = MeterProvider([self._metrics])
        spans = TracerProvider()
        spans.add_span_processor(LoopEvents(logs, meters, **settings))
        self._tracer = spans.get_tracer("test")

    def chat(
        self, messages: list[dict[str, Any]], conversation: str = "c1", tokens: int = 0
    ) -> Any:
        with self._tracer.start_as_current_span("chat gpt") as span:
            span.set_attribute("gen_ai.operation.name", "chat")
            span.set_attribute("gen_ai.conversation.id", conversation)
            span.set_attribute("gen_ai.input.messages", json.dumps(messages))
            if tokens:
                span.set_attribute("gen_ai.request.model", "small")
                span.set_attribute("gen_ai.usage.input_tokens", tokens - 1)
                span.set_attribute("gen_ai.usage.output_tokens", 1)
        return span

    @property
    def events(self) -> list[Any]:
        return [each.log_record for each in self._kept.get_finished_logs()]

    def totals(self, name: str) -> dict[str, int]:
        """The points of a counter, by action or kind."""
        read = self._metrics.get_metrics_data()
        found = [
            point
            for resource in (read.resource_metrics if read else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        keys = ("chimera.loop.action", "chimera.loop.kind")
        return {next(p.attributes[k] for k in keys if k in p.attributes): p.value for p in found}


def step(n: int, result: str = "no rows") -> list[dict[str, Any]]:
    call = {"type": "tool_call", "id": f"t{n}", "name": "look", "arguments": {"page": 1}}
    answer = {"type": "tool_call_response", "id": f"t{n}", "response": result}
    return [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [answer]}]


def run(traced: Traced, results: list[str], conversation: str = "c1", tokens: int = 0) -> list[Any]:
    """A span per model call, each with the history so far, as the conventions have it."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"Go, {conversation}."}]}]
    spans = [traced.chat(messages, conversation, tokens)]
    for n, result in enumerate(results):
        messages += step(n, result)
        spans.append(traced.chat(messages, conversation, tokens))
    return spans


def test_a_looping_conversation_gives_a_warning_and_then_one_error() -> None:
    traced = Traced()
    spans = run(traced, ["no rows"] * 8)
    warning, error = traced.events
    assert warning.event_name == error.event_name == "chimera.loop"
    assert [each.attributes["chimera.loop.action"] for each in traced.events] == ["nudge", "stop"]
    assert (warning.severity_number.name, error.severity_number.name) == ("WARN", "ERROR")
    assert warning.attributes["gen_ai.conversation.id"] == "c1"
    assert warning.attributes["chimera.loop.kind"] == "tool"
    assert "3 times" in warning.body
    assert (warning.span_id, error.span_id) == tuple(spans[n].context.span_id for n in (3, 5))


def test_metrics_count_loops_and_the_tokens_of_calls_inside_them() -> None:
    traced = Traced()
    run(traced, ["no rows"] * 5, tokens=100)
    assert traced.totals("chimera.loop.count") == {"nudge": 1, "stop": 1}
    # Six calls: the first call of the loop wrote message 2, and each was told what came of it.
    assert traced.totals("chimera.loop.tokens") == {"tool": 600}


def test_metrics_leave_out_what_does_not_loop_or_does_not_say() -> None:
    traced = Traced()
    run(traced, [f"{n} % done" for n in range(9)], tokens=100)
    assert traced.totals("chimera.loop.tokens") == traced.totals("chimera.loop.count") == {}
    run(traced, ["no rows"] * 5, "c2")
    assert traced.totals("chimera.loop.count") == {"nudge": 1, "stop": 1}
    assert traced.totals("chimera.loop.tokens") == {}


def test_tokens_before_a_loop_are_not_its_own() -> None:
    traced = Traced()
    run(traced, ["1 row", "2 rows", "no rows", "no rows", "no rows"], tokens=100)
    assert traced.totals("chimera.loop.count") == {"nudge": 1}
    assert traced.totals("chimera.loop.tokens") == {"tool": 400}


def test_polling_and_other_spans_and_conversations_are_ignored() -> None:
    traced = Traced()
    run(traced, [f"{n} % done" for n in range(9)])
    for n in range(3):
        run(traced, ["no rows"] * 2, f"short {n}")
    assert traced.events == []


def test_an_error_inside_never_reaches_the_host(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Guard, "update", lambda *_: 1 / 0)
    traced = Traced()
    with caplog.at_level(logging.WARNING, "chimeralab"):
        run(traced, ["no rows"] * 8)
        traced._tracer.start_span("broken", attributes={"gen_ai.input.messages": "[3"}).end()
    assert traced.events == []
    assert len([each for each in caplog.records if "the loop guard failed" in each.message]) == 1


def test_environment_variable_turns_the_guard_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    traced = Traced()
    run(traced, ["no rows"] * 8)
    assert traced.events == []
