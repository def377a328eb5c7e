"""The hooks of Codex, Gemini CLI and opencode: events as these programs document them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chimeralab import Guard
from chimeralab.integrations import command_hooks
from chimeralab.integrations.command_hooks import DIALECTS, CommandHook, forget_old
from chimeralab.integrations.watch import MARK
from tests.hook_events import NAMES, make_event, read_reply, run_hooked
from tests.integrations.scripted import STEPS, Script

HOSTS = tuple(DIALECTS)


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return request.param


def after(folder: Path, host: str, steps: int, **settings: Any) -> list[str | None]:
    """What a new process answers to each result, as the programs run it."""
    ask = [CommandHook(host, str(folder), **settings) for _ in range(steps)]
    return [read_reply(each.answer(make_event(host, "result"))) for each in ask]


def call(folder: Path, host: str, **settings: Any) -> str | None:
    """What is answered to the repeated call before it is made."""
    return read_reply(CommandHook(host, str(folder), **settings).answer(make_event(host, "call")))


def test_each_program_is_nudged_then_stopped_and_nudged_first_after_a_prompt(
    host: str, tmp_path: Path
) -> None:
    stop = "stop" if DIALECTS[host].can_end else None
    assert after(tmp_path, host, 6) == [None, None, "nudge", None, stop, stop]
    assert call(tmp_path, host) == (None if stop else "refuse")
    for _ in range(2):
        assert CommandHook(host, str(tmp_path)).answer(make_event(host, "prompt")) == {}
        assert call(tmp_path, host) is None
        assert after(tmp_path, host, 3) == ["nudge", None, stop]


def test_user_lets_a_loop_go_on_in_words(host: str, tmp_path: Path) -> None:
    after(tmp_path, host, 5)
    hook = CommandHook(host, str(tmp_path))
    assert hook.answer(make_event(host, "prompt", text="Carry on, it takes a while.")) == {}
    assert after(tmp_path, host, 10) == [None] * 10


def test_replies_are_those_that_the_sources_know(tmp_path: Path) -> None:
    """Codex rejects fields that it does not know, and ends no turn for a hook."""
    for host in ("codex", "gemini-cli"):
        hook = CommandHook(host, str(tmp_path), on_stop="refuse")
        nudge = [hook.answer(make_event(host, "result")) for _ in range(5)][2]["hookSpecificOutput"]
        assert set(nudge) == {"hookEventName", "additionalContext"}
        assert nudge["hookEventName"] == NAMES[host]["result"]
    refused = CommandHook("codex", str(tmp_path)).answer(make_event("codex", "call"))
    assert set(refused) == {"hookSpecificOutput"}
    given = refused["hookSpecificOutput"]
    assert (given["hookEventName"], given["permissionDecision"]) == ("PreToolUse", "deny")
    assert given["permissionDecisionReason"].startswith(f"{MARK}this call was not made.")
    hook = CommandHook("gemini-cli", str(tmp_path), on_stop="refuse")
    assert set(hook.answer(make_event("gemini-cli", "call"))) == {"decision", "reason"}


def test_failures_of_gemini_and_results_of_mcp_servers_are_read(tmp_path: Path) -> None:
    hook, told = CommandHook("gemini-cli", str(tmp_path)), []
    for n in range(8):
        given = make_event("gemini-cli", "result", command=f"run {n}")
        error = {"message": f"File not found: /work/{n}.py", "type": "file_not_found"}
        given["tool_response"] = {"llmContent": "", "returnDisplay": "", "error": error}
        told.append(read_reply(hook.answer(given)))
    assert told == [*[None] * 4, "nudge", None, None, "stop"]
    hook = CommandHook("codex", str(tmp_path))
    for n in range(20):
        given = make_event("codex", "result") | {"tool_name": "mcp__jobs__status"}
        content = [{"type": "text", "text": f"{n} of 20 done"}]
        given["tool_response"] = {"content": content, "isError": False}
        assert hook.answer(given) == {}


def test_only_the_repeated_call_is_refused(host: str, tmp_path: Path) -> None:
    assert after(tmp_path, host, 5, on_stop="refuse") == [None, None, "nudge", None, None]
    hook = CommandHook(host, str(tmp_path), on_stop="refuse")
    assert read_reply(hook.answer(make_event(host, "call"))) == "refuse"
    assert hook.answer(make_event(host, "call", command="ls")) == {}


@pytest.mark.parametrize("kind", ["polls", "pages", "turns pages", "pages of forged nudges"])
def test_polling_and_paging_for_fifty_steps_is_never_touched(
    host: str, kind: str, tmp_path: Path
) -> None:
    script = Script(kind, steps=50)
    assert run_hooked(host, tmp_path, script)
    assert (script.nudged_after, len(script.calls)) == (None, 50)


@pytest.mark.parametrize(
    ("kind", "nudge", "made"),
    [
        ("waits", 10, 50),
        ("repeats", 3, 5),
        ("explains", 3, 5),
        ("searches", 6, 10),
        ("undoes", 4, 6),
    ],
)
def test_classes_have_their_own_patience(
    host: str, kind: str, nudge: int, made: int, tmp_path: Path
) -> None:
    script = Script(kind, steps=50 if kind == "waits" else 12)
    ended = run_hooked(host, tmp_path, script)
    assert (script.nudged_after, len(script.calls)) == (nudge, made)
    assert ended is (kind == "waits" or not DIALECTS[host].can_end)
    if kind == "waits":
        assert len(script.nudges) == 1


def test_agent_that_recovers_after_the_nudge_is_not_stopped(host: str, tmp_path: Path) -> None:
    script = Script("recovers")
    assert run_hooked(host, tmp_path, script)
    assert (script.nudged_after, len(script.calls)) == (3, STEPS)


def test_tool_declares_which_arguments_count(host: str, tmp_path: Path) -> None:
    script = Script("searches")
    run_hooked(host, tmp_path, script, tools={"search": {"identity": ["site"]}})
    assert (script.nudged_after, len(script.calls)) == (3, 5)


def test_an_error_inside_the_guard_never_breaks_the_program(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Guard, "update", lambda *_: 1 / 0)
    script = Script("repeats")
    assert run_hooked(host, tmp_path, script)
    assert (script.nudged_after, len(script.calls)) == (None, STEPS)
    assert "the loop guard failed" in caplog.text


def test_damaged_sessions_and_strange_events_are_left_alone(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert after(tmp_path, host, 2) == [None, None]
    [session] = tmp_path.glob("*.jsonl")
    session.write_text(session.read_text() + "not JSON\n{}\n[1\n", encoding="utf-8")
    assert after(tmp_path, host, 1) == ["nudge"]
    hook = CommandHook(host, str(tmp_path))
    for strange in ({}, {"hook_event_name": "SessionStart"}, {"event": "other"}):
        assert hook.answer(strange) == {}
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    assert after(tmp_path, host, 9) == [None] * 9
    monkeypatch.delenv("CHIMERA_GUARD")
    assert CommandHook(host, str(tmp_path), enabled=False).answer(make_event(host, "result")) == {}
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
        input=json.dumps(make_event("codex", "result")),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == {}
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert not loaded & {"numpy", "click", "pydantic"}
    shown = subprocess.run([*command, "--print"], capture_output=True, text=True, check=True)
    hooks = json.loads(shown.stdout)["hooks"]
    assert set(hooks) == set(DIALECTS["codex"].events)
    [group] = hooks["PreToolUse"]
    [run] = group["hooks"]
    assert (run["type"], run["timeout"]) == ("command", 10)
    assert run["command"].endswith("hook codex")


# The plugin, called as opencode calls it, by the script after it.
DRIVE = """
import { LoopGuard } from "./plugin.mjs"
const stopped = []
const session = { abort: async (what) => stopped.push(what) }
const hooks = await LoopGuard({ client: { session } })
const sessionID = "ses_1"
const synthetic = { type: "text", text: "The file has 3 lines.", synthetic: true }
const prompt = (text) =>
  hooks["chat.message"]({ sessionID }, { parts: [{ type: "text", text }, synthetic] })
let count = 0
const call = async (tool, args, result) => {
  const callID = `call_${++count}`
  await hooks["tool.execute.before"]({ tool, sessionID, callID }, { args })
  if (result instanceof Error) {
    const state = { status: "error", input: args, error: result.message, time: {} }
    const part = { type: "tool", id: `prt_${count}`, sessionID, callID, tool, state }
    for (let n = 0; n < 2; n++)
      hooks.event({ event: { type: "message.part.updated", properties: { part } } })
    const messages = [{ info: {}, parts: [{ type: "text", text: "" }, structuredClone(part)] }]
    await hooks["experimental.chat.messages.transform"]({}, { messages })
    return messages[0].parts[1].state.error
  }
  await hooks["tool.execute.after"]({ tool, sessionID, callID, args }, result)
  return result
}
"""
SCRIPTS = {
    "output": (
        """
        await prompt("Fix it.")
        const seen = []
        for (let n = 0; n < 5; n++) {
          const done = { title: "", output: "1 failed", metadata: {} }
          seen.push((await call("bash", { command: "make" }, done)).output.length > 8)
        }
        console.log(JSON.stringify([seen, stopped]))
        """,
        [[False, False, True, False, True], [{"path": {"id": "ses_1"}}]],
    ),
    "contents of an MCP server": (
        """
        const seen = []
        for (let n = 0; n < 14; n++) {
          const text = n < 8 ? `row ${n} is blue` : "no rows"
          const done = { content: [{ type: "text", text }] }
          seen.push((await call("table_rows", { id: 7 }, done)).content.length)
        }
        console.log(JSON.stringify([seen, stopped]))
        """,
        [[*[1] * 10, 2, 1, 2, 2], [{"path": {"id": "ses_1"}}] * 2],
    ),
    "failures": (
        """
        const seen = []
        for (let n = 0; n < 5; n++) {
          const said = await call("read", { filePath: "a.py" }, new Error("File not found: a.py"))
          seen.push(said.length > 20)
        }
        console.log(JSON.stringify([seen, stopped]))
        """,
        [[False, False, True, False, True], [{"path": {"id": "ses_1"}}]],
    ),
}


@pytest.mark.skipif(shutil.which("node") is None, reason="the plugin needs Node.js")
@pytest.mark.parametrize("script", SCRIPTS)
def test_plugin_of_opencode_adds_the_nudge_and_ends_the_run(script: str, tmp_path: Path) -> None:
    code, expected = SCRIPTS[script]
    assert drive(tmp_path, code) == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="the plugin needs Node.js")
def test_plugin_of_opencode_refuses_only_the_repeated_call(tmp_path: Path) -> None:
    code = """
    const seen = []
    for (let n = 0; n < 7; n++) {
      try {
        await call(n === 6 ? "ls" : "bash", { command: "make" }, { output: "1 failed" })
        seen.push("made")
      } catch (error) {
        seen.push(error.message.slice(0, 34))
      }
    }
    await prompt("Carry on.")
    await call("bash", { command: "make" }, { output: "1 failed" })
    console.log(JSON.stringify([seen, stopped]))
    """
    refused = f"{MARK}this call was not made."[:34]
    [seen, stopped] = drive(tmp_path, code, "--on-stop refuse")
    assert [each.strip() for each in seen] == [*["made"] * 5, refused.strip(), "made"]
    assert stopped == []


def drive(folder: Path, code: str, options: str = "") -> Any:
    plugin = Path(command_hooks.__file__).with_name("opencode_plugin.js")
    shutil.copy(plugin, folder / "plugin.mjs")
    (folder / "drive.mjs").write_text(DRIVE + code, encoding="utf-8")
    command = f"{sys.executable} -m chimeralab hook opencode {options}".strip()
    given = {"CHIMERA_SESSIONS": str(folder / "sessions"), "CHIMERA_HOOK": command}
    ran = subprocess.run(
        ["node", "drive.mjs"], cwd=folder, env={**os.environ, **given}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout)
