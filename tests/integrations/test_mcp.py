"""The guard in front of an MCP server, with the official package as client and as server."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from chimeralab.integrations.mcp_proxy import AT_ONCE
from chimeralab.integrations.watch import MARK
from tests.integrations.scripted import STEPS, Script

pytestmark = pytest.mark.integrations
mcp = pytest.importorskip("mcp", reason="`make test-integrations` brings it")
PROXY = [sys.executable, "-m", "chimeralab", "hook", "mcp"]
REFUSED = f"{MARK}this call was not made. You have called"
# The same, with a guard that fails.
BROKEN = (
    "import sys; from chimeralab.detection.guard import Guard; Guard.update = lambda *_: 1 / 0;"
    "from chimeralab.integrations.mcp_proxy import main; sys.exit(main(sys.argv[1:]))"
)
ROOT = Path(__file__).parents[2]


class Agent:
    """A scripted agent with one server behind the guard; it sees the results of its calls."""

    mode = "legacy"

    def __init__(self, log: Path) -> None:
        self.log = log
        self.results: list[str] = []
        self.tools: list[str] = []
        self.said: list[str] = []

    def run(self, script: Script, *options: str, asks: tuple[Any, ...] = (), **env: str) -> None:
        """Call the tool as the script says, then `check_progress` with each of the arguments."""
        asyncio.run(self._run(script, [*PROXY, *options], asks, env))

    def run_broken(self, script: Script) -> None:
        asyncio.run(self._run(script, [sys.executable, "-c", BROKEN], (), {}))

    async def _run(self, script: Script, proxy: list[str], asks: Any, env: Any) -> None:
        server = [sys.executable, "-m", "tests.integrations.mcp_server", script.kind, str(self.log)]
        command, *arguments = [*proxy, *server]
        env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        started = mcp.StdioServerParameters(command=command, args=arguments, env=env, cwd=ROOT)
        async with mcp.Client(started, mode=self.mode) as client:
            self.tools = [tool.name for tool in (await client.list_tools()).tools]
            while (given := script.ask(self.results)) is not None:
                result = await client.call_tool(script.name, given)
                self.results.append("\n".join(part.text for part in result.content))
                await asyncio.sleep(1.2 * AT_ONCE)  # as no model is faster
            for given in asks:
                result = await client.call_tool("check_progress", given)
                self.said.append(result.content[0].text)
        script.calls = self.log.read_text(encoding="utf-8").split()


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path / "calls")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_repeated_call_is_nudged_then_refused(agent: Agent, mode: str) -> None:
    """In both ways to connect: since 2026, and with the handshake of before."""
    script, agent.mode = Script("repeats"), mode
    agent.run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, 5, True)
    assert [REFUSED in each for each in agent.results] == [False] * 5 + [True] * (STEPS - 5)
    assert "3 times with the same outcome since call 1. It began when" in agent.results[2]
    assert agent.tools == ["look", "check_progress"]


@pytest.mark.parametrize("kind", ["polls", "pages", "turns pages", "pages of forged nudges"])
def test_polling_and_paging_for_fifty_steps_is_never_touched(agent: Agent, kind: str) -> None:
    script = Script(kind, steps=50)
    agent.run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (None, 50, True)
    assert len({*agent.results}) == 50


def test_unchanged_polling_for_fifty_steps_is_advised_once_and_never_refused(agent: Agent) -> None:
    script = Script("waits", steps=50)
    agent.run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (10, 50, True)
    assert len(script.nudges) == 1


@pytest.mark.parametrize(
    ("kind", "nudge", "made"),
    [("searches", 6, 50), ("fails", 5, 50), ("explains", 3, 5), ("undoes", 4, 6)],
)
def test_classes_have_their_own_patience(agent: Agent, kind: str, nudge: int, made: int) -> None:
    script = Script(kind, steps=50)
    agent.run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (nudge, made, True)


def test_agent_asks_whether_it_loops_and_says_that_the_user_has_spoken(agent: Agent) -> None:
    script = Script("repeats", steps=6)
    agent.run(script, asks=({}, {"user_spoke": True}, {}))
    assert agent.said[0].startswith("You have called “look")
    assert "5 times with the same outcome since call 1." in agent.said[0]
    assert agent.said[1:] == ["Nothing repeats now. Calls so far: 0."] * 2


def test_agent_that_recovers_after_the_nudge_is_not_refused(agent: Agent) -> None:
    script = Script("recovers")
    agent.run(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, STEPS, True)
    assert not any(REFUSED in each for each in agent.results)


def test_settings_per_tool_and_the_switch(agent: Agent) -> None:
    for options, env in ((("--ignore", "look"), {}), ((), {"CHIMERA_GUARD": "off"})):
        agent.log.unlink(missing_ok=True)
        script = Script("repeats")
        agent.run(script, *options, **env)
        assert (script.nudged_after, len(script.calls), script.ended) == (None, STEPS, True)
    assert agent.tools == ["look"]


def test_an_error_inside_the_guard_never_breaks_the_server(agent: Agent) -> None:
    script = Script("repeats")
    agent.run_broken(script)
    assert (script.nudged_after, len(script.calls), script.ended) == (None, STEPS, True)
