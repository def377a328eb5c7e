"""Events of Codex and Gemini CLI with all fields of their sources, and of our opencode plugin."""

import json
from pathlib import Path
from typing import Any

from chimeralab.integrations.command_hooks import CommandHook
from chimeralab.integrations.watch import MARK
from tests.integrations.scripted import Script

# What is common to the events of each program, with all fields of its source.
COMMON: dict[str, dict[str, Any]] = {
    "codex": {
        "session_id": "019a", "turn_id": "t1", "transcript_path": None, "cwd": "/work",
        "model": "gpt-5", "permission_mode": "default",
    },
    "gemini-cli": {
        "session_id": "5d1f", "transcript_path": "/tmp/chat.json", "cwd": "/work",
        "timestamp": "2026-08-21T16:16:56.000Z",
    },
    "opencode": {"sessionID": "ses_1"},
}  # fmt: skip
NAMES = {
    "codex": {"prompt": "UserPromptSubmit", "call": "PreToolUse", "result": "PostToolUse"},
    "gemini-cli": {"prompt": "BeforeAgent", "call": "BeforeTool", "result": "AfterTool"},
}


TOOLS = {"codex": "Bash", "gemini-cli": "run_shell_command", "opencode": "bash"}


def make_event(
    host: str,
    kind: str,
    *,
    result: str = "1 failed",
    command: str = "make",
    text: str = "continue",
    tool: str = "",
    arguments: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An event in the shape of the program's source; those of opencode are of our plugin."""
    given = dict(COMMON[host])
    tool, arguments = tool or TOOLS[host], arguments or {"command": command}
    if host == "opencode":
        given |= {"event": kind}
        return given | (
            {"text": text}
            if kind == "prompt"
            else {"tool": tool, "args": arguments, "text": result}
        )
    given |= {"hook_event_name": NAMES[host][kind]}
    if kind == "prompt":
        return {**given, "prompt": text}
    if host == "codex":
        call = {"tool_name": tool, "tool_input": arguments, "tool_use_id": "call_1"}
        return given | call | ({"tool_response": result} if kind == "result" else {})
    given |= {"tool_name": tool, "tool_input": arguments}
    answer = {"llmContent": result, "returnDisplay": result}
    return given | ({"tool_response": answer} if kind == "result" else {})


def read_reply(answer: dict[str, Any]) -> str | None:
    """What a reply does, in the words of the guard."""
    text = json.dumps(answer, ensure_ascii=False)
    if not answer:
        return None
    if answer.get("continue") is False or answer.get("action") == "stop":
        return "stop"
    if "deny" in text or answer.get("action") == "refuse":
        return "refuse"
    assert MARK in text
    return "nudge"


def run_hooked(host: str, folder: Path, script: Script, **settings: Any) -> bool:
    """Run a scripted agent with the hook of a program; return whether it came to its end.

    Each event has a new hook, as each has a process in the program.
    """
    seen: list[str] = []

    def ask(kind: str, **given: Any) -> str | None:
        reply = CommandHook(host, str(folder), **settings).answer(make_event(host, kind, **given))
        seen.append(json.dumps(reply, ensure_ascii=False))
        return read_reply(reply)

    ask("prompt", text="Find the row.")
    while (given := script.ask(seen)) is not None:
        call = {"tool": script.name, "arguments": given}
        refused = ask("call", **call)
        if not refused and ask("result", result=script.tool(**given), **call) == "stop":
            return False
    return True
