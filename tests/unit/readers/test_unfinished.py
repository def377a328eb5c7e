"""Unfinished conversations are marked, and a question is not judged as an answer."""

import json
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.detection.seam import list_judged_turns
from tests.unit.readers.logs_of import LOGS, MADE

ASKED = {"role": "user", "content": "Hi."}
SAID = {"role": "assistant", "content": "Hel"}


def codex(*events: str) -> list[Any]:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    told = [("response_item", item), *(("event_msg", {"type": event}) for event in events)]
    return [{"timestamp": "t", "type": kind, "payload": payload} for kind, payload in told]


def openhands(state: str) -> list[Any]:
    said = {"source": "user", "action": "message", "args": {"content": "Hi."}}
    seen = {"source": "environment", "observation": "agent_state_changed", "content": ""}
    return [said, seen | {"extras": {"agent_state": state}}]


def sdk(status: str) -> list[Any]:
    said = {"kind": "MessageEvent", "source": "user", "llm_message": ASKED}
    state = {"kind": "ConversationStateUpdateEvent", "source": "environment"}
    return [said, state | {"key": "execution_status", "value": status}]


def chatgpt(status: str) -> Any:
    message = {"author": {"role": "user"}, "content": {"parts": ["Hi."]}, "status": status}
    return [{"mapping": {"a": {"message": message, "parent": None}}, "current_node": "a"}]


def langsmith(ended: str | None) -> Any:
    run = {"run_type": "llm", "id": "r", "inputs": {"messages": [ASKED]}, "end_time": ended}
    return [run | {"outputs": {"message": SAID} if ended else None}]


def generation(**fields: Any) -> Any:
    return [{"traceId": "t", "type": "GENERATION", "input": [ASKED]} | fields]


def span(ended: str | None) -> Any:
    data = {"type": "generation", "input": [ASKED], "output": [SAID] if ended else None}
    return [{"object": "trace.span", "trace_id": "t", "ended_at": ended, "span_data": data}]


def exec_events(*kinds: str) -> list[Any]:
    item = {"type": "agent_message", "text": "Hi."}
    return [{"type": "item.completed", "item": item}, *({"type": kind} for kind in kinds)]


def inspect(status: str) -> list[Any]:
    sample = {"id": 1, "epoch": 1, "messages": [ASKED]}
    return [{"status": status, "eval": {"task": "t", "model": "m"}, "samples": [sample]}]


def swe(**info: str) -> list[Any]:
    return [{"trajectory": [{"thought": "Hm.", "action": ""}], "history": [], "info": info}]


def tau(reason: str | None) -> list[Any]:
    return [{"task_id": "1", "messages": [ASKED, SAID], "termination_reason": reason}]


def gemini(reason: str) -> list[Any]:
    answer = {"role": "model", "parts": [{"text": "Hel"}]}
    return [{"contents": [], "candidates": [{"content": answer, "finishReason": reason}]}]


def choice(reason: str) -> list[Any]:
    return [{"messages": [ASKED], "choices": [{"message": SAID, "finish_reason": reason}]}]


def response(status: str) -> list[Any]:
    item = {"type": "message", "role": "assistant", "content": []}
    return [{"object": "response", "status": status, "output": [item], "input": "Hi."}]


BOTH = {
    "codex": (codex("task_started"), codex("task_started", "task_complete")),
    "codex aborted": (codex("task_started"), codex("task_started", "turn_aborted")),
    "codex exec": (exec_events("turn.started"), exec_events("turn.started", "turn.completed")),
    "openhands": (openhands("running"), openhands("finished")),
    "openhands sdk": (sdk("running"), sdk("finished")),
    "chatgpt": (chatgpt("in_progress"), chatgpt("finished_successfully")),
    "langsmith": (langsmith(None), langsmith("2026-01-01")),
    "langfuse": (generation(endTime=None), generation(endTime="2026-01-01", output=SAID)),
    "openai-traces": (span(None), span("2026-01-01")),
    "inspect": (inspect("started"), inspect("success")),
    "swe-agent": (swe(), swe(exit_status="submitted")),
    "tau2": (tau(None), tau("user_stop")),
    "gemini": (gemini("MAX_TOKENS"), gemini("STOP")),
    "openai": (choice("length"), choice("stop")),
    "responses": (response("in_progress"), response("completed")),
}
"""A log of each format that can say it, unfinished and finished."""


@pytest.mark.parametrize("kind", BOTH)
def test_an_unfinished_log_says_so_and_a_finished_one_does_not(talk, kind):
    goes_on, ended = BOTH[kind]
    assert talk(*goes_on).metadata.get("unfinished") is True
    assert "unfinished" not in talk(*ended).metadata


@pytest.mark.parametrize("kind", LOGS)
def test_the_logs_of_the_tools_are_finished(tmp_path, kind):
    log = tmp_path / "log"
    log.write_bytes(LOGS[kind].healthy)
    assert not any(talk.metadata.get("unfinished") for talk in readers.read(log))


FAILED: dict[str, Any] = {
    "inspect": inspect("error"),
    "openai": [{"messages": [ASKED], "response": {"error": {"message": "overloaded"}}}],
    "responses": [{"object": "response", "status": "failed", "output": [], "input": "Hi."}],
    "promptfoo": [{"prompt": {"raw": "Hi."}, "vars": {}, "error": "timed out", "response": {}}],
    "langsmith": [langsmith(None)[0] | {"error": "timed out", "end_time": "2026-01-01"}],
    "langfuse": generation(level="ERROR", endTime="2026-01-01", output=None),
    "openai-traces": span(None),
    "tau2": [{"task_id": "1", "messages": [ASKED], "termination_reason": "agent_error"}],
    "gemini": [{"contents": [{"role": "user", "parts": [{"text": "Hi."}]}], "error": {}}],
    "rows": [{"role": "user", "content": "Hi."}],
    "sharegpt": [{"conversations": [{"from": "human", "value": "Hi."}]}],
    "plain": [{"turns": [{"role": "user", "text": "Hi."}]}],
    "codex": codex("task_started", "turn_aborted"),
    "openhands": openhands("error"),
}


@pytest.mark.parametrize("kind", FAILED)
def test_unanswered_question_is_not_judged(talk, kind):
    asked = talk(*FAILED[kind])
    assert [turn.text for turn in asked.turns] == ["Hi."]
    assert list_judged_turns(asked) == []


def test_a_sample_that_failed_in_inspect_itself_is_not_judged_by_its_prompt():
    failed, answered = readers.read(MADE / "errored-inspect.eval")
    assert [turn.text for turn in failed.turns] == ["Which of our files is the largest?"]
    assert list_judged_turns(failed) == []
    assert len(list_judged_turns(answered)) == 1


def test_an_evaluation_that_was_killed_is_unfinished():
    (talk,) = readers.read(MADE / "killed-inspect.eval")
    assert talk.metadata["unfinished"] is True


def test_complete_lines_before_a_truncated_one_are_read(write):
    log = write(json.dumps({"messages": [ASKED, SAID]}).encode() + b'\n{"messages": [{"role": "us')
    heard: list[Exception] = []
    (whole,) = readers.read(log, on_bad=heard.append)
    assert len(whole.turns) == 2
    assert "is truncated" in str(heard[0])
