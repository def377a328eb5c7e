"""Spans of OpenTelemetry: every convention, any order, and each message once."""

import json
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.detection.seam import list_judged_turns

ASKED = {"role": "user", "parts": [{"type": "text", "content": "Hi."}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "Hello."}]}
AGAIN = {"role": "user", "parts": [{"type": "text", "content": "Bye."}]}
ENDED = {"role": "assistant", "parts": [{"type": "text", "content": "So long."}]}


def otlp(value: Any) -> Any:
    """A value as OTLP types it."""
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {"stringValue": value}


def attributes(told: dict[str, Any]) -> list[Any]:
    return [{"key": key, "value": otlp(value)} for key, value in told.items()]


def span(at: int, told: dict[str, Any], **fields: Any) -> Any:
    times = {"startTimeUnixNano": str(10**18 + at)}
    return {"traceId": "t", "spanId": f"{at}", "attributes": attributes(told)} | times | fields


def call(at: int, asked: list[Any], given: Any, **told: str) -> Any:
    messages = {"gen_ai.input.messages": asked, "gen_ai.output.messages": [given]}
    return span(at, {key: json.dumps(value) for key, value in messages.items()} | told)


def batch(*spans: Any) -> Any:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def texts(trajectory: Any) -> list[str]:
    return [turn.text for turn in trajectory.turns]


CALLS = (call(1, [ASKED], SAID), call(2, [ASKED, SAID, AGAIN], ENDED))


def test_last_span_of_a_chain_is_the_conversation_in_any_file_order(talk):
    for spans in (CALLS, CALLS[::-1]):
        assert texts(talk(batch(*spans))) == ["Hi.", "Hello.", "Bye.", "So long."]


def test_batches_in_lines_are_one_trace(talk):
    """As the collector's file exporter writes them."""
    first, second = CALLS
    assert len(talk(batch(second), batch(first)).turns) == 4


def test_messages_may_be_typed_values_instead_of_json(talk):
    told = {"gen_ai.input.messages": [ASKED], "gen_ai.output.messages": [SAID]}
    assert texts(talk(batch(span(1, told)))) == ["Hi.", "Hello."]


def test_span_around_calls_adds_no_messages(talk):
    """Otherwise a healthy conversation would seem to repeat itself."""
    around = call(0, [ASKED], ENDED, **{"gen_ai.operation.name": "invoke_agent"})
    assert texts(talk(batch(around, *CALLS))) == ["Hi.", "Hello.", "Bye.", "So long."]
    named = {"gen_ai.conversation.id": "c"}
    spans = [each | {"attributes": each["attributes"] + attributes(named)} for each in CALLS]
    around["attributes"] += attributes(named)
    assert texts(talk(batch(around, *spans))) == ["Hi.", "Hello.", "Bye.", "So long."]


def test_span_around_calls_counts_if_no_call_was_recorded(talk):
    around = call(0, [ASKED], ENDED, **{"gen_ai.operation.name": "invoke_agent"})
    assert texts(talk(batch(around))) == ["Hi.", "So long."]


def test_calls_of_one_conversation_are_joined_where_the_server_keeps_the_history(talk):
    named = {"gen_ai.conversation.id": "c"}
    read = talk(batch(call(1, [ASKED], SAID, **named), call(2, [AGAIN], ENDED, **named)))
    assert read.id == "c"
    assert texts(read) == ["Hi.", "Hello.", "Bye.", "So long."]


def test_other_agent_of_a_session_is_a_separate_conversation(write):
    named = {"gen_ai.conversation.id": "c"}
    title = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Name it."}])}
    spans = call(1, [ASKED], SAID, **named), call(2, [AGAIN], ENDED, **named, **title)
    first, second = readers.read(write(batch(*spans)))
    assert (texts(first), texts(second)) == (["Hi.", "Hello."], ["Name it.", "Bye.", "So long."])


def test_events_of_the_older_conventions_are_read(talk):
    def event(name: str, **told: Any) -> Any:
        return {"name": f"gen_ai.{name}", "attributes": attributes(told)}

    calls = json.dumps([{"id": "1", "function": {"name": "ls", "arguments": "{}"}}])
    events = [
        event("system.message", content="Be brief."),
        event("user.message", content="List."),
        event("assistant.message", tool_calls=calls),
        event("tool.message", id="1", content="a.txt"),
        event("choice", message={"content": "One file."}, finish_reason="stop"),
    ]
    read = talk(batch(span(1, {"gen_ai.system": "openai"}, events=events)))
    assert [(turn.role, turn.text) for turn in read.turns] == [
        ("system", "Be brief."),
        ("user", "List."),
        ("assistant", ""),
        ("tool", "a.txt"),
        ("assistant", "One file."),
    ]
    assert read.turns[2].calls[0].result == "a.txt"
    assert [turn.text for turn in list_judged_turns(read)] == ["One file."]


@pytest.mark.parametrize("name", ["gen_ai.client.inference.operation.details", "gen_ai.content"])
def test_messages_may_be_in_an_event_of_the_span(talk, name):
    told = {"gen_ai.input.messages": [ASKED], "gen_ai.output.messages": [SAID]}
    event = {"name": name, "attributes": attributes(told)}
    assert texts(talk(batch(span(1, {}, events=[event])))) == ["Hi.", "Hello."]


def test_spans_that_lost_their_first_messages_are_joined_to_those_before(talk):
    """An SDK keeps 128 attributes of a span; the first of them are dropped, half a message too."""

    def nested(at: int, kept: int) -> Any:
        said = [
            ("system", "Go."),
            ("user", "Hi."),
            *([("assistant", "Yes."), ("user", "No.")] * at),
        ]
        told = {
            f"llm.input_messages.{n}.message.{key}": value
            for n, message in enumerate(said)
            for key, value in zip(("role", "content"), message, strict=True)
        }
        inside = dict(list(told.items())[-kept:]) | {
            "llm.output_messages.0.message.content": "Yes."
        }
        return {"timestamp": f"{at}", "span_attributes": inside, "child_spans": []}

    found = talk({"trace_id": "t", "spans": [nested(0, 9), nested(1, 7), nested(2, 7)]})
    assert texts(found) == ["Go.", "Hi.", "Yes.", "No.", "Yes.", "No.", "Yes."]
    assert found.turns[0].role == "system"
