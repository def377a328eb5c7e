"""Regression tests for findings of fuzzing."""

import json
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.records import Call


def test_conversations_with_a_role_are_not_messages(write):
    log = write(json.dumps([{"turns": ["Hi."], "role": "host"}]).encode())
    (read,) = readers.read(log)
    assert read.metadata == {"role": "host"}


def test_empty_list_is_rejected_in_a_forced_format(reason):
    assert reason(b"[null]", form="plain") == "conversation 1: the line is null, not an object"


def test_number_beyond_float_range_does_not_become_infinity(talk):
    assert talk(b'{"turns": ["Hi."], "n": [1e400]}').metadata == {"n": [None]}


def test_trace_whose_spans_are_not_a_list_is_rejected(reason):
    log = {"resourceSpans": [{"scopeSpans": True}]}
    assert reason(log) == "resourceSpans.scopeSpans is true or false, not a list"


def test_line_of_a_pi_session_without_an_id_is_rejected(reason):
    line = {"type": "message", "parentId": "a", "message": {"role": "user", "content": "Hi."}}
    assert reason(line, form="pi") == "the line has no id"


@pytest.mark.parametrize("results", ["none", 1, True, [], None])
def test_copilot_calls_without_an_object_of_results_have_none(talk, results):
    calls = [{"id": "c", "name": "ls", "arguments": "{}"}]
    about = {"toolCallRounds": [{"toolCalls": calls}], "toolCallResults": results}
    shown = {"kind": "toolInvocationSerialized", "toolId": "ls", "toolCallId": "c"}
    request = {"message": {"text": "Hi."}, "response": [shown], "result": {"metadata": about}}
    assert talk({"requests": [request]}).turns[1].calls == (Call("ls", "{}"),)


def test_copilot_response_whose_part_is_a_list_is_rejected(reason):
    log = {"requests": [{"message": {"text": "Hi."}, "response": [["Hello."]]}]}
    assert reason(log) == "a part of a response is a list, not an object"


def test_copilot_call_that_is_a_text_is_rejected(reason):
    about = {"toolCallRounds": [{"toolCalls": ["ls"]}]}
    request = {"message": {"text": "Hi."}, "response": [], "result": {"metadata": about}}
    assert reason({"requests": [request]}) == "a call is text, not an object"


@pytest.mark.parametrize("spent", ["1..6k sent, 3 received.", "2k sent, 3 received. Cost: $0.0.1."])
def test_figures_of_aider_that_cannot_be_numbers_are_left_alone(talk, spent):
    started = "# aider chat started at 2025-01-31 12:00:00"
    log = f"{started}\n\n#### Hi.  \n\nHello.\n\n> Tokens: {spent}  \n"
    texts = [turn.text for turn in talk(log.encode()).turns]
    assert texts == ["Hi.", "Hello.", f"Tokens: {spent}"]


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**4000])
@pytest.mark.parametrize("key", ["cost", "timestamp", "usage"])
def test_number_with_more_digits_than_a_float_is_left_out(talk, key, number):
    said: dict[str, Any] = {"role": "assistant", "content": "Hi."}
    said[key] = {"input_tokens": number} if key == "usage" else number
    turn = talk({"messages": [said]}).turns[0]
    assert (turn.text, turn.at, turn.tokens) == ("Hi.", None, None)


def test_trajectory_of_a_web_agent_without_steps_is_its_intent(talk):
    turns = talk({"trajectory": [], "intent": "Buy tea."}, form="webarena").turns
    assert [turn.text for turn in turns] == ["Buy tea."]
