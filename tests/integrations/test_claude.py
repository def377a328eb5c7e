"""Claude Code with a scripted model on loopback: by a command hook, and by its SDK."""

import asyncio
import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab import Guard
from chimeralab.cli.hook import with_hook
from chimeralab.integrations.watch import MARK
from tests.integrations.claude_server import scripted_claude
from tests.integrations.scripted import STEPS, Script

pytestmark = pytest.mark.integrations
sdk = pytest.importorskip("claude_agent_sdk", reason="`make test-integrations` brings it")
CLAUDE = Path(sdk.__file__).parent / "_bundled" / "claude"
HOOK = [sys.executable, "-m", "chimeralab", "hook", "claude-code"]
# The same, with a guard that fails.
BROKEN = (
    "import sys; from chimeralab.detection.guard import Guard; Guard.update = lambda *_: 1 / 0;"
    "from chimeralab.integrations.claude_code import main; sys.exit(main([]))"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and an environment without other servers."""
    if not CLAUDE.exists():
        pytest.skip("this wheel of claude-agent-sdk brings no Claude Code")
    for name in os.environ:
        if name.startswith(("ANTHROPIC", "CLAUDE")):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
    monkeypatch.setenv("DISABLE_AUTOUPDATER", "1")
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def by_command(project: Path, script: Script, command: list[str], *more: str) -> str:
    settings = project / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps(with_hook({}, shlex.join(command))))
    with scripted_claude(script, project) as address:
        subprocess.run(
            [
                CLAUDE,
                "-p",
                "Find the row.",
                "--allowedTools",
                "Bash",
                "--model",
                "claude-sonnet-4-5",
                *more,
            ],
            cwd=project,
            env={**os.environ, "ANTHROPIC_BASE_URL": address},
            capture_output=True,
            check=True,
            timeout=200,
        )
    [transcript] = (project.parent / "home" / ".claude" / "projects").rglob("*.jsonl")
    return transcript.read_text(encoding="utf-8")


def by_sdk(project: Path, script: Script, **settings: Any) -> str:
    from chimeralab.integrations.claude_agent_sdk import loop_guard

    async def run(address: str) -> None:
        options = sdk.ClaudeAgentOptions(
            hooks=loop_guard(**settings),
            allowed_tools=["Bash"],
            model="claude-sonnet-4-5",
            cwd=project,
            env={"ANTHROPIC_BASE_URL": address},
        )
        async for _ in sdk.query(prompt="Find the row.", options=options):
            pass

    with scripted_claude(script, project) as address:
        asyncio.run(run(address))
    [transcript] = (project.parent / "home" / ".claude" / "projects").rglob("*.jsonl")
    return transcript.read_text(encoding="utf-8")


@pytest.fixture(params=["command", "sdk"])
def run(request: pytest.FixtureRequest, project: Path) -> Callable[[Script], str]:
    if request.param == "sdk":
        return lambda script: by_sdk(project, script)
    return lambda script: by_command(project, script, HOOK)


def test_claude_is_nudged_after_the_third_call_and_stopped_after_the_fifth(run) -> None:
    script = Script("repeats")
    transcript = run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, 5, False)
    assert f"{MARK}stopped. You have called “Bash" in transcript


@pytest.mark.parametrize(("kind", "steps"), [("polls", STEPS), ("pages", 50)])
def test_claude_is_left_alone_when_it_polls_or_pages(run, kind: str, steps: int) -> None:
    script = Script(kind, steps)
    transcript = run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (None, steps, True)
    assert MARK not in transcript


def test_claude_is_nudged_first_after_every_message_of_the_user(project: Path) -> None:
    script = Script("repeats", steps=40)
    for n in range(3):
        by_command(project, script, HOOK, *["--continue"] * (n > 0))
    steps = list(script.nudges.values())
    assert len(steps) == 3
    assert script.asked - steps[-1] == 2


@pytest.mark.parametrize("host", ["command", "sdk"])
def test_only_the_repeated_call_of_claude_is_refused(project: Path, host: str) -> None:
    script = Script("repeats")
    if host == "sdk":
        transcript = by_sdk(project, script, on_stop="refuse")
    else:
        transcript = by_command(project, script, [*HOOK, "--on-stop", "refuse"])
    assert (script.nudged_after, script.asked, script.ended) == (3, STEPS, True)
    lines = [json.loads(line) for line in transcript.splitlines()]
    results = [str(line) for line in lines if "toolUseResult" in line]
    refused = ["this call was not made. You have called" in result for result in results]
    assert refused == [False] * 5 + [True] * (STEPS - 5)


def test_claude_is_not_stopped_when_it_recovers(run) -> None:
    script = Script("recovers")
    run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, STEPS, True)


def test_an_error_inside_the_hook_never_breaks_claude_code(project: Path) -> None:
    script = Script("repeats")
    transcript = by_command(project, script, [sys.executable, "-c", BROKEN])
    assert (len(script.calls), script.ended) == (STEPS, True)
    assert MARK not in transcript


def test_an_error_inside_the_guard_never_breaks_the_sdk(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Guard, "update", lambda *_: 1 / 0)
    script = Script("repeats")
    with caplog.at_level(logging.WARNING, "chimeralab"):
        by_sdk(project, script)
    assert (len(script.calls), script.ended) == (STEPS, True)
    assert len([each for each in caplog.records if "the loop guard failed" in each.message]) == 1


def test_a_tool_can_be_ignored(project: Path) -> None:
    script = Script("repeats")
    by_command(project, script, [*HOOK, "--ignore", "Bash"])
    assert (len(script.calls), script.ended) == (STEPS, True)
