"""`chimera mcp`, driven by the official client."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integrations, pytest.mark.anyio]
pytest.importorskip("mcp", reason="`make test-integrations` brings it")
EXAMPLES = Path(__file__).parents[2] / "examples"
AGAIN = [{"role": "assistant", "content": "Let me check that again."}] * 6


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder in which a session of Claude Code loops."""
    session = tmp_path / ".claude" / "projects" / "mine" / "s1.jsonl"
    session.parent.mkdir(parents=True)
    rows = (
        {"type": "assistant", "sessionId": "s1", "cwd": "/mine", "uuid": str(n),
         "message": {"role": "assistant", "content": each["content"]}}
        for n, each in enumerate(AGAIN)
    )  # fmt: skip
    session.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return tmp_path


async def ask(home: Path, tool: str, /, **arguments: Any) -> Any:
    from mcp import Client, StdioServerParameters, stdio_client

    kept = {name: value for name, value in os.environ.items() if "CLAUDE" not in name}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "chimeralab", "mcp"],
        env=kept | {"HOME": str(home), "USERPROFILE": str(home)},
        cwd=str(home),
    )
    async with Client(stdio_client(server)) as client:
        return await client.call_tool(tool, arguments)


async def test_messages_are_judged(home: Path) -> None:
    found = (await ask(home, "detect", messages=AGAIN)).structured_content
    assert (found["conversations"], found["looping"]) == (1, 1)
    [verdict] = found["verdicts"]
    assert verdict["loops"][0]["kind"] == "verbatim"
    assert "Let me check that again." in verdict["findings"][0]


async def test_a_log_is_judged_and_its_costliest_loop_comes_first(home: Path) -> None:
    found = (await ask(home, "detect", path=str(EXAMPLES))).structured_content
    assert (found["conversations"], found["looping"]) == (10, 7)
    assert found["verdicts"][0]["id"] == "looping-agent"


async def test_a_message_is_explained(home: Path) -> None:
    log = str(EXAMPLES / "agent-chat.jsonl")
    answer = await ask(home, "explain", path=log, id="looping-agent", message=11)
    [row] = answer.structured_content["messages"]
    assert row["evidence"][0]["compared"] == [5, 9]


async def test_a_recent_session_is_listed_and_can_be_judged(home: Path) -> None:
    listed = (await ask(home, "recent_sessions", since="1h")).structured_content
    [session] = listed["sessions"]
    assert (session["tool"], session["project"]) == ("claude-code", "/mine")
    found = (await ask(home, "detect", path=session["file"])).structured_content
    assert found["looping"] == 1


async def test_the_configuration_of_a_project_is_in_force(home: Path) -> None:
    (home / "chimera.toml").write_text('ignore = ["run"]\n', encoding="utf-8")
    found = (await ask(home, "detect", path=str(EXAMPLES / "agent-chat.jsonl"))).structured_content
    assert [loop["kind"] for row in found["verdicts"] for loop in row["loops"]].count("tool") == 0


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("detect", {}, "give either messages or path"),
        ("detect", {"path": "-"}, "standard input carries the protocol"),
        ("detect", {"path": "nowhere.jsonl"}, "nowhere.jsonl"),
        ("explain", {"path": str(EXAMPLES)}, "name one of 10 conversations as id, such as "),
        ("explain", {"messages": AGAIN, "message": 9}, "there is no message 9"),
        ("recent_sessions", {"since": "soon"}, "'soon' is neither a date"),
        ("recent_sessions", {"tool": "claude"}, "did you mean 'claude-code'?"),
    ],
)
async def test_a_wrong_request_gets_a_sentence(
    home: Path, tool: str, arguments: dict[str, Any], sentence: str
) -> None:
    answer = await ask(home, tool, **arguments)
    assert answer.is_error
    assert sentence in answer.content[0].text
    assert "Traceback" not in answer.content[0].text


async def test_tools_describe_themselves(home: Path) -> None:
    from mcp import Client

    from chimeralab.integrations.mcp_server import build_server

    async with Client(build_server(lambda since, tool: [])) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["detect", "explain", "recent_sessions"]
    for tool in tools:
        assert tool.description
        assert all(each["description"] for each in tool.input_schema["properties"].values())
