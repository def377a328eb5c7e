"""Tool calls keep their name, arguments, result and error, whatever the format of the log."""

import json
from pathlib import Path
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.records import Call, Turn
from chimeralab.readers import plain

ASK = {"role": "user", "content": "How warm is it in Oslo?"}
OPENAI = [
    ASK,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "warm", "arguments": '{"c": 1}'}},
            {"id": "2", "type": "function", "function": {"name": "wind", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "2", "content": "Error: no wind"},
    {"role": "tool", "tool_call_id": "1", "content": "12"},
]
OLD_OPENAI = [
    ASK,
    {"role": "assistant", "content": "", "function_call": {"name": "warm", "arguments": "{}"}},
    {"role": "function", "name": "warm", "content": "12"},
]
ANTHROPIC = [
    ASK,
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "a", "name": "warm", "input": {"c": 1}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "a",
                "is_error": True,
                "content": [{"type": "text", "text": "no such town"}],
            }
        ],
    },
]
SHAREGPT = [
    {"from": "human", "value": "How warm is it?"},
    {"from": "function_call", "value": '{"name": "warm", "arguments": {"c": 1}}'},
    {"from": "observation", "value": "12"},
]


def read(tmp_path: Path, *values: Any) -> tuple[Turn, ...]:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    (trajectory,) = readers.read(path)
    return trajectory.turns


def test_openai_calls_are_joined_to_results_by_id(tmp_path: Path) -> None:
    turns = read(tmp_path, {"messages": OPENAI})
    assert turns[1].calls == (
        Call("warm", '{"c": 1}', "12"),
        Call("wind", "{}", "Error: no wind"),
    )
    assert not turns[1].spoken


def test_older_function_calls_are_joined_to_results_in_order(tmp_path: Path) -> None:
    assert read(tmp_path, {"messages": OLD_OPENAI})[1].calls == (Call("warm", "{}", "12"),)


def test_anthropic_blocks_say_whether_a_result_is_an_error(tmp_path: Path) -> None:
    turns = read(tmp_path, {"messages": ANTHROPIC})
    assert turns[1].calls == (Call("warm", {"c": 1}, "no such town", error=True),)
    assert turns[1].spoken
    assert not turns[2].spoken


def test_sharegpt_tool_roles_are_calls_and_results(tmp_path: Path) -> None:
    turns = read(tmp_path, {"conversations": SHAREGPT})
    assert turns[1].calls == (Call("warm", {"c": 1}, "12"),)
    assert [turn.spoken for turn in turns] == [True, False, False]


def test_inspect_calls_have_their_errors(tmp_path: Path) -> None:
    messages = [
        ASK,
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "x", "function": "warm", "arguments": {"c": 1}}],
        },
        {
            "role": "tool",
            "tool_call_id": "x",
            "content": "",
            "function": "warm",
            "error": {"type": "timeout", "message": "took too long"},
        },
    ]
    log = {
        "status": "success",
        "eval": {"task": "t", "model": "m"},
        "samples": [{"id": 1, "epoch": 1, "messages": messages}],
    }
    turns = read(tmp_path, log)
    assert turns[1].calls == (Call("warm", {"c": 1}, "took too long", error=True),)


def test_claude_code_calls_are_joined_to_results(tmp_path: Path) -> None:
    def line(number: int, kind: str, content: Any) -> dict[str, Any]:
        parent = str(number - 1) if number > 1 else None
        message = {"role": kind, "content": content}
        return {"type": kind, "uuid": str(number), "parentUuid": parent, "sessionId": "s"} | {
            "message": message
        }

    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}
    turns = read(
        tmp_path, line(1, "user", "List."), line(2, "assistant", [call]), line(3, "user", [back])
    )
    assert turns[1].calls == (Call("Bash", {"command": "ls"}, "a.txt"),)


def test_calls_survive_a_round_trip_through_plain_logs(tmp_path: Path) -> None:
    calls = [
        {"name": "run", "arguments": {"n": 1}, "result": "ok"},
        {"name": "run", "error": "broke"},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"id": "a", "turns": [{"speaker": "bot", "calls": calls}]}))
    (talk,) = readers.read(path)
    assert talk.turns[0].calls == (Call("run", {"n": 1}, "ok"), Call("run", None, "broke", True))
    assert not talk.turns[0].spoken
    path.write_text(plain.dumps(talk))
    assert next(iter(readers.read(path))).turns == talk.turns


@pytest.mark.parametrize(
    "messages",
    [
        [OPENAI[2], OPENAI[0], OPENAI[1]],
        [ASK, {"role": "assistant", "content": "x", "tool_calls": "none"}],
        [ASK, {"role": "assistant", "content": "x", "tool_calls": [7, None, {}]}],
        [ASK, {"role": "tool", "content": "12", "tool_call_id": 7}],
        [ASK, {"role": "assistant", "content": [{"type": "tool_use", "input": [[[]]]}]}],
        [ASK, {"role": "user", "content": [{"type": "tool_result", "content": 3}]}],
    ],
)
def test_odd_calls_are_read_and_not_lost(tmp_path: Path, messages: list[Any]) -> None:
    assert len(read(tmp_path, {"messages": messages})) == len(messages)
