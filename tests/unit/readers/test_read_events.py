"""Event streams: kinds of events, deltas, restarts."""

import json
from pathlib import Path
from typing import Any

from chimeralab import readers
from chimeralab.core.records import Tokens, Trajectory
from tests.unit.readers.by_schema import managed_agent, stream_json
from tests.unit.readers.talks import HEALTHY

PROMPT = {"type": "message", "role": "user", "content": "Build the page."}
INIT = {"type": "init", "session_id": "s", "model": "m", "timestamp": "2026-01-01T00:00:00Z"}
END = {"type": "result", "status": "success", "stats": {"input_tokens": 42, "output_tokens": 5}}


def delta(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def read(folder: Path, *events: Any) -> Trajectory:
    log = folder / "transcript.jsonl"
    log.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    (talk,) = readers.read(log)
    return talk


def texts(talk: Trajectory) -> list[str]:
    return [turn.text for turn in talk.turns]


def test_deltas_of_an_answer_are_one_turn(tmp_path: Path) -> None:
    talk = read(tmp_path, INIT, PROMPT, delta("I have "), delta("built "), delta("it."), END)
    assert texts(talk) == ["Build the page.", "I have built it."]
    assert talk.tokens == Tokens(42, 5, 47)


def test_a_whole_answer_after_deltas_is_a_turn_of_its_own(tmp_path: Path) -> None:
    whole = {key: value for key, value in delta("Done.").items() if key != "delta"}
    talk = read(tmp_path, INIT, PROMPT, delta("I have "), delta("built it."), whole)
    assert texts(talk)[1:] == ["I have built it.", "Done."]


def test_a_prompt_logged_again_after_a_restart_is_one_turn(tmp_path: Path) -> None:
    wrapped = PROMPT | {"content": "You are an engineer. Build the page."}
    run = [PROMPT, INIT, wrapped]
    talk = read(tmp_path, *run, delta("Starting."), END, *run, delta("Starting over."), END)
    assert texts(talk) == [
        "Build the page.",
        "You are an engineer. Build the page.",
        "Starting.",
        "Starting over.",
    ]


def test_a_user_may_say_the_same_twice(tmp_path: Path) -> None:
    more = PROMPT | {"content": "Continue."}
    talk = read(tmp_path, INIT, PROMPT, delta("One."), more, delta("Two."), more, delta("Three."))
    assert texts(talk) == ["Build the page.", "One.", "Continue.", "Two.", "Continue.", "Three."]


def test_a_failed_tool_is_an_error(tmp_path: Path) -> None:
    call = {"type": "tool_use", "tool_name": "read", "tool_id": "1", "parameters": {"path": "a"}}
    result = {"type": "tool_result", "tool_id": "1", "status": "error", "output": "not found"}
    (made,) = read(tmp_path, INIT, PROMPT, call, result).turns[1].calls
    assert (made.name, made.arguments, made.result, made.error) == (
        "read",
        {"path": "a"},
        "not found",
        True,
    )


def test_events_without_content_are_not_damage(tmp_path: Path) -> None:
    for name, write in (("a", stream_json), ("b", managed_agent)):
        log = tmp_path / name
        log.write_bytes(write(HEALTHY))
        (talk,) = readers.read(log)  # raises at the first value that can't be read
        assert all(turn.text or turn.calls for turn in talk.turns)


def test_the_usage_of_a_model_call_is_that_of_its_last_message(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(managed_agent(HEALTHY))
    (talk,) = readers.read(log)
    assert {turn.tokens for turn in talk.turns if turn.role == "assistant"} == {Tokens(42, 5, 47)}
    assert talk.metadata["agent"] == "auditor"
