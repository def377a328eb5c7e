"""The hooks of Codex, Gemini CLI and opencode: events as these programs document them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimeralab.integrations import command_hooks
from chimeralab.integrations.command_hooks import DIALECTS, CommandHook, forget_old
from chimeralab.integrations.watch import MARK

HOSTS = tuple(DIALECTS)


def event(host: str, kind: str, *, result: str = "1 failed", command: str = "make") -> Any:
    if host == "opencode":
        return {"event": kind, "sessionID": "s", "tool": "bash", "args": {"command": command},
                "text": "continue" if kind == "prompt" else result}  # fmt: skip
    names = {
        "codex": {"prompt": "UserPromptSubmit", "call": "PreToolUse", "result": "PostToolUse"},
        "gemini-cli": {"prompt": "BeforeAgent", "call": "BeforeTool", "result": "AfterTool"},
    }[host]
    given: dict[str, Any] = {"session_id": "s", "hook_event_name": names[kind]}
    if kind == "prompt":
        return {**given, "prompt": "continue"}
    given |= {"tool_name": "bash", "tool_input": {"command": command}}
    answer = {"llmContent": result} if host == "gemini-cli" else result
    return {**given, "tool_response": answer} if kind == "result" else given


def said(answer: dict[str, Any]) -> str | None:
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


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return request.param


def after(folder: Path, host: str, steps: int, **settings: Any) -> list[str | None]:
    """What a new process answers to each result, as the programs run it."""
    ask = [CommandHook(host, str(folder), **settings) for _ in range(steps)]
    return [said(each.answer(event(host, "result"))) for each in ask]


def test_each_program_is_nudged_then_stopped_and_nudged_first_after_a_prompt(
    host: str, tmp_path: Path
) -> None:
    assert after(tmp_path, host, 6) == [None, None, "nudge", None, "stop", "stop"]
    assert CommandHook(host, str(tmp_path)).answer(event(host, "prompt")) == {}
    assert after(tmp_path, host, 3) == ["nudge", None, "stop"]


def test_only_the_repeated_call_is_refused(host: str, tmp_path: Path) -> None:
    assert after(tmp_path, host, 5, on_stop="refuse") == [None, None, "nudge", None, None]
    hook = CommandHook(host, str(tmp_path), on_stop="refuse")
    assert said(hook.answer(event(host, "call"))) == "refuse"
    assert hook.answer(event(host, "call", command="ls")) == {}


def test_paging_and_polling_are_never_touched(host: str, tmp_path: Path) -> None:
    hook = CommandHook(host, str(tmp_path))
    for n in range(15):
        assert hook.answer(event(host, "result", result=f"{n} % done")) == {}
        paged = event(host, "result", command=f"page {n}", result=f"rows {n}0 to {n}9")
        assert hook.answer(paged) == {}


def test_unchanged_polling_is_advised_once(host: str, tmp_path: Path) -> None:
    told = []
    hook = CommandHook(host, str(tmp_path))
    for _ in range(14):
        told.append(said(hook.answer(event(host, "result", command="sleep 30", result="wait"))))
    assert told == [*[None] * 9, "nudge", *[None] * 4]


def test_damaged_sessions_and_strange_events_are_left_alone(host: str, tmp_path: Path) -> None:
    assert after(tmp_path, host, 2) == [None, None]
    [session] = tmp_path.glob("*.jsonl")
    session.write_text(session.read_text() + "not JSON\n{}\n[1\n", encoding="utf-8")
    assert after(tmp_path, host, 1) == ["nudge"]
    hook = CommandHook(host, str(tmp_path))
    for strange in ({}, {"hook_event_name": "SessionStart"}, {"event": "other"}):
        assert hook.answer(strange) == {}
    assert CommandHook(host, str(tmp_path), enabled=False).answer(event(host, "result")) == {}
    assert session.stat().st_mode & 0o077 == 0 or os.name == "nt"


def test_old_sessions_are_forgotten(tmp_path: Path) -> None:
    after(tmp_path, "codex", 1)
    [session] = tmp_path.iterdir()
    forget_old(str(tmp_path), before=session.stat().st_mtime - 1)
    assert session.exists()
    forget_old(str(tmp_path), before=session.stat().st_mtime + 1)
    assert not session.exists()


def test_command_answers_without_numpy_and_prints_what_sets_it_up(tmp_path: Path) -> None:
    environment = {**os.environ, "CHIMERA_SESSIONS": str(tmp_path)}
    command = [sys.executable, "-X", "importtime", "-m", "chimeralab", "hook", "codex"]
    ran = subprocess.run(
        command,
        input=json.dumps(event("codex", "result")),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == {}
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert not loaded & {"numpy", "click", "pydantic"}
    shown = subprocess.run([*command, "--print"], capture_output=True, text=True, check=True)
    assert set(json.loads(shown.stdout)["hooks"]) == set(DIALECTS["codex"].events)


DRIVE = """
import { LoopGuard } from "./plugin.mjs"
const stopped = []
const session = { abort: async (what) => stopped.push(what) }
const hooks = await LoopGuard({ client: { session } })
const seen = []
await hooks["chat.message"]({ sessionID: "s" }, { parts: [{ type: "text", text: "Fix it." }] })
for (let n = 0; n < 5; n++) {
  const args = { command: "make" }
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s" }, { args })
  const result = { output: "1 failed" }
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s", args }, result)
  seen.push(result.output.length > 8)
}
console.log(JSON.stringify([seen, stopped]))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="the plugin needs Node.js")
def test_plugin_of_opencode_adds_the_nudge_and_ends_the_run(tmp_path: Path) -> None:
    plugin = Path(command_hooks.__file__).with_name("opencode_plugin.js")
    shutil.copy(plugin, tmp_path / "plugin.mjs")
    (tmp_path / "drive.mjs").write_text(DRIVE, encoding="utf-8")
    command = f"{sys.executable} -m chimeralab hook opencode"
    given = {"CHIMERA_SESSIONS": str(tmp_path / "sessions"), "CHIMERA_HOOK": command}
    ran = subprocess.run(
        ["node", "drive.mjs"], cwd=tmp_path, env={**os.environ, **given}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    seen, stopped = json.loads(ran.stdout)
    assert seen == [False, False, True, False, True]
    assert stopped == [{"path": {"id": "s"}}]
