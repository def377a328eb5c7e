"""The Claude Code hook: what it reads of a transcript, and its replies."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimeralab.integrations.claude_code import BYTES, ClaudeCodeHook
from chimeralab.integrations.watch import MARK

STAMP = {"isSidechain": False, "sessionId": "s", "timestamp": "2026-01-01T12:34:56.000Z"}


def asks(number: int, command: str = "make test", message: str | None = None) -> dict[str, Any]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
    said = {"id": message or f"m{number}", "role": "assistant", "content": [call]}
    return {"type": "assistant", "message": said, **STAMP}


def gets(number: int, result: str = "1 failed", **more: Any) -> dict[str, Any]:
    part = {"type": "tool_result", "tool_use_id": f"t{number}", "content": result}
    brought = {"stdout": result, "stderr": "", "durationMs": number}
    said = {"role": "user", "content": [part]}
    return {"type": "user", "message": said, "toolUseResult": brought, **STAMP, **more}


def told(message: str) -> dict[str, Any]:
    context = {"type": "hook_additional_context", "content": [message]}
    return {"type": "attachment", "attachment": context, **STAMP}


def steps(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [line for n in numbers for line in (asks(n), gets(n, **more))]


@pytest.fixture
def answer(tmp_path: Path):
    def ask(lines: list[dict[str, Any]], event: str = "PreToolUse", **more: Any) -> dict[str, Any]:
        path = tmp_path / "session.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        given = {"hook_event_name": event, "transcript_path": str(path), **more}
        return ClaudeCodeHook(tools={"Wait": "ignore"}).answer(given)

    return ask


def nudge(answer: dict[str, Any]) -> str:
    return answer["hookSpecificOutput"]["additionalContext"]


def test_claude_is_nudged_after_the_third_call_and_stopped_after_the_fifth(answer) -> None:
    assert answer(steps(1, 2)) == {}
    first = nudge(answer(steps(1, 2, 3)))
    assert "3 times with the same outcome since 12:34 UTC" in first
    after = [*steps(1, 2, 3), told(first)]
    assert answer([*after, *steps(4)]) == {}
    stop = answer([*after, *steps(4, 5)])
    assert stop["continue"] is False
    assert stop["stopReason"].startswith(f"{MARK}stopped. You have called “Bash")
    assert "5 times" in stop["stopReason"]


def test_result_is_taken_from_the_event(answer) -> None:
    brought = {"stdout": "1 failed", "stderr": "", "durationMs": 77}
    event = {"tool_use_id": "t3", "tool_response": brought}
    assert "3 times" in nudge(answer([*steps(1, 2), asks(3)], "PostToolUse", **event))
    assert answer([*steps(1, 2), asks(3)], "PreToolUse", tool_use_id="t3") == {}


@pytest.mark.parametrize("lines_late", range(6))
def test_late_transcript_delays_nothing(tmp_path: Path, lines_late: int) -> None:
    path = tmp_path / "session.jsonl"
    hook = ClaudeCodeHook()
    lines: list[dict[str, Any]] = []
    answers: dict[tuple[str, int], dict[str, Any]] = {}
    for n in range(1, 6):
        for event, line in (("PreToolUse", asks(n)), ("PostToolUse", gets(n))):
            # At the event its line is not written in any case, nor those just before it.
            written = lines[: max(0, len(lines) - lines_late)]
            path.write_text("".join(json.dumps(each) + "\n" for each in written), encoding="utf-8")
            given: dict[str, Any] = {"hook_event_name": event, "transcript_path": str(path)}
            given |= {"tool_use_id": f"t{n}", "tool_name": "Bash"}
            given |= {"tool_input": {"command": "make test"}}
            if event == "PostToolUse":
                given["tool_response"] = {"stdout": "1 failed", "stderr": "", "durationMs": 7}
            answers[event, n] = said = hook.answer(given)
            lines += [line, told(nudge(said))] if "hookSpecificOutput" in said else [line]
    spoken = [at for at, said in answers.items() if said]
    assert spoken == [("PostToolUse", 3), ("PostToolUse", 5)]
    assert answers["PostToolUse", 5]["continue"] is False


def test_call_not_in_the_transcript_is_taken_from_the_event(answer) -> None:
    event = {
        "tool_use_id": "t3",
        "tool_name": "Bash",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "1 failed", "stderr": ""},
    }
    assert "3 times" in nudge(answer(steps(1, 2), "PostToolUse", **event))
    other = {**event, "tool_input": {"command": "make lint"}}
    assert answer(steps(1, 2), "PostToolUse", **other) == {}


def test_lines_of_one_message_are_one_message(answer) -> None:
    parallel = []
    for n in range(1, 7, 2):
        parallel += [
            asks(n, "ls a", f"m{n}"),
            asks(n + 1, "ls b", f"m{n}"),
            gets(n, "x"),
            gets(n + 1, "y"),
        ]
    assert "3 times" in nudge(answer(parallel))


def test_polling_and_new_user_messages_are_ignored(answer) -> None:
    polling = [line for n in range(9) for line in (asks(n), gets(n, f"{n}0 % done"))]
    assert answer(polling) == {}
    says = {"type": "user", "message": {"role": "user", "content": "Try the other one."}, **STAMP}
    stopped = [*steps(1, 2, 3), told(f"{MARK}…"), *steps(4, 5)]
    assert "continue" in answer(stopped)
    assert "continue" not in answer([*stopped, says])


def test_side_chains_have_their_own_transcripts(answer, tmp_path: Path) -> None:
    aside = [{**line, "isSidechain": True} for line in steps(1, 2, 3)]
    assert answer([*steps(1), *aside]) == {}
    own = tmp_path / "session" / "subagents" / "agent-a7.jsonl"
    own.parent.mkdir(parents=True)
    own.write_text("".join(json.dumps(line) + "\n" for line in aside), encoding="utf-8")
    assert "3 times" in nudge(answer(steps(1), agent_id="a7"))


def test_stop_event_is_ignored_unless_another_hook_is_active(answer) -> None:
    looping = [*steps(1, 2, 3), told(f"{MARK}…"), *steps(4, 5)]
    assert answer(looping, "Stop", stop_hook_active=False) == {}
    assert answer(looping, "Stop", stop_hook_active=True)["continue"] is False
    assert answer(steps(1, 2, 3), "Stop", stop_hook_active=True) == {}


def test_only_the_end_of_a_long_transcript_is_read(answer, tmp_path: Path) -> None:
    large = "x" * (BYTES[0] // 2)
    lines = [asks(0, large)] * 4 + steps(1, 2, 3, result=large)
    assert "3 times" in nudge(answer(lines))
    path = tmp_path / "session.jsonl"
    with path.open("rb+") as file:
        file.write(b"\xff" * 1000)  # what is far back is never looked at
    event = {"hook_event_name": "PreToolUse", "transcript_path": str(path)}
    assert "3 times" in nudge(ClaudeCodeHook().answer(event))


@pytest.mark.parametrize(
    ("given", "options", "code"),
    [
        ("", [], 0),
        ("{", [], 0),
        ("[1]", [], 0),
        ("{}", [], 0),
        ('{"transcript_path": "nowhere.jsonl"}', [], 0),
        ('{"transcript_path": "."}', [], 0),
        ("{}", ["--repeats", "Bash"], 1),
        ("{}", ["--bogus", "1"], 1),
        ("{}", ["--ignore"], 0),
    ],
)
def test_bad_input_never_blocks_claude_code(given: str, options: list[str], code: int) -> None:
    command = [sys.executable, "-m", "chimeralab", "hook", "claude-code", *options]
    ran = subprocess.run(command, input=given, text=True, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert "the loop guard failed" in ran.stderr
    assert "Traceback" not in ran.stderr


ODD_LINES: list[Any] = [
    {"type": "assistant", "message": "text"},
    {"type": "assistant", "message": ["text"]},
    {"type": "assistant", "message": {"id": {}, "content": ["text", None, {"type": []}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": {}}]}},
    {"type": "user", "message": {"id": "m1", "content": "in the message of another"}},
    {"type": {}, "message": {}},
    ["message"],
]


def test_odd_lines_of_a_transcript_are_skipped(answer, tmp_path: Path) -> None:
    assert "3 times" in nudge(answer([*ODD_LINES, *steps(1, 2, 3), *ODD_LINES[:3]]))
    path = tmp_path / "session.jsonl"
    deep = '{"type": "assistant", "message": ' + "[" * 100_000
    path.write_text(deep + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    event = {"hook_event_name": "PreToolUse", "transcript_path": str(path)}
    assert "3 times" in nudge(ClaudeCodeHook().answer(event))


@pytest.mark.parametrize("call", [{}, [], None, 3])
def test_event_with_an_odd_id_is_answered(answer, call: Any) -> None:
    assert answer(steps(1, 2), "PostToolUse", tool_use_id=call, tool_response="x") == {}


def test_options_and_the_switch_reach_the_hook(
    answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(steps(1, 2, 3))
    path = str(tmp_path / "session.jsonl")
    event = json.dumps({"hook_event_name": "PreToolUse", "transcript_path": path})

    def said(*options: str) -> str:
        command = [sys.executable, "-m", "chimeralab", "hook", "claude-code", *options]
        return subprocess.run(
            command, input=event, text=True, capture_output=True, check=True
        ).stdout

    assert "3 times" in said()
    assert "3 times" in said("--ignore", "Read")
    assert said("--ignore", "Bash") == said("--repeats", "Bash=5") == ""
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    assert said() == ""


def test_the_hook_loads_neither_numpy_nor_click_nor_formats(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in steps(1, 2, 3)), encoding="utf-8")
    event = json.dumps({"hook_event_name": "PreToolUse", "transcript_path": str(path)})
    code = (
        "import sys; sys.argv[1:] = ['hook', 'claude-code']\n"
        "from chimeralab.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'click', 'rich', 'pydantic', 'logging', 'chimeralab.readers.formats'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    python = [sys.executable, "-c", code]
    ran = subprocess.run(python, input=event, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "3 times" in ran.stdout
