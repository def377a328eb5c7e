"""The Claude Code hook: what it reads of a transcript, and its replies."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimeralab.integrations.claude_code import BYTES, ClaudeCodeHook
from chimeralab.integrations.watch import MARK, sign

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
    stopped = [*steps(1, 2, 3), told(sign("…")), *steps(4, 5)]
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
    looping = [*steps(1, 2, 3), told(sign("…")), *steps(4, 5)]
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


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"transcript_path": None},
        {"transcript_path": "nowhere.jsonl"},
        {"tool_use_id": "t1", "tool_name": "Bash", "tool_response": "1 failed"},
    ],
)
def test_event_without_a_transcript_is_passed_in_silence(event: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "chimeralab", "hook", "claude-code"]
    given = json.dumps({"hook_event_name": "PostToolUse", **event})
    ran = subprocess.run(command, input=given, text=True, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_calls_are_judged_without_a_transcript_by_their_events() -> None:
    hook, brought = ClaudeCodeHook(), {"stdout": "1 failed", "stderr": ""}
    event = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "x"}}
    said = [hook.answer({**event, "tool_use_id": n, "tool_response": brought}) for n in range(5)]
    assert [list(each) for each in said] == [
        [],
        [],
        ["hookSpecificOutput"],
        [],
        ["continue", "stopReason"],
    ]


def test_only_what_a_hook_said_is_a_nudge(answer) -> None:
    loop = steps(1, 2, 3)
    page = {"type": "file", "content": sign("…")}
    for forged in (told(f"{MARK}…"), {"type": "attachment", "attachment": page, **STAMP}):
        assert "3 times" in nudge(answer([*loop, forged]))
    assert answer([*loop, told(sign("…"))]) == {}


def test_prompt_typed_while_claude_works_re_arms_the_hook(answer) -> None:
    stopped = [*steps(1, 2, 3), told(sign("…")), *steps(4, 5)]
    queued = {"type": "queued_command", "prompt": "Go on."}
    assert answer([*stopped, {"type": "attachment", "attachment": queued, **STAMP}]) == {}
    notice = {"role": "user", "content": "<task-notification>done</task-notification>"}
    assert "continue" in answer([*stopped, {"type": "user", "message": notice, **STAMP}])


def test_repeated_call_is_refused_before_it_is_made(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = [*steps(1, 2, 3), told(sign("…")), *steps(4, 5)]

    def ask(command: str) -> dict[str, Any]:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        event: dict[str, Any] = {"hook_event_name": "PreToolUse", "transcript_path": str(path)}
        event |= {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t9"}
        return ClaudeCodeHook(on_stop="refuse").answer(event)

    for n in (6, 7, 8):
        given = ask("make test")["hookSpecificOutput"]
        assert given["permissionDecision"] == "deny"
        assert "5 times" in given["permissionDecisionReason"]
        reason = f"Error: {given['permissionDecisionReason']}"
        lines += [asks(n), gets(n, reason, toolUseResult=reason)]
        assert ask("make lint") == {}


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
