"""The guard in front of an MCP server, message by message, by a clock of its own."""

import io
import json
import subprocess
import sys
from typing import Any

from chimeralab.integrations.mcp_proxy import AT_ONCE, PAUSE, Proxy, ToolGuard
from chimeralab.integrations.watch import MARK

SLOWLY = 5.0  # seconds between a result and the next call


class Client:
    """A client and a server with a guard between them; time passes when it is said."""

    def __init__(self, **settings: Any) -> None:
        self.now, self.number = 0.0, 0
        self.guard = ToolGuard(clock=lambda: self.now, **settings)
        self.list_tools()

    def list_tools(self, **more: Any) -> list[str]:
        assert self.guard.ask({"id": "list", "method": "tools/list"}) is None
        result = {"tools": [{"name": "rows"}], **more}
        return [
            t["name"]
            for t in self.guard.pass_on({"id": "list", "result": result})["result"]["tools"]
        ]

    def ask(self, tool: str = "rows", **arguments: Any) -> dict[str, Any] | None:
        self.number += 1
        params = {"name": tool, "arguments": arguments}
        return self.guard.ask({"id": self.number, "method": "tools/call", "params": params})

    def answer(self, number: int, *content: Any, **more: Any) -> str:
        """The whole answer of the server, as the client gets it, as JSON."""
        result = {"content": list(content) or [{"type": "text", "text": "none"}], **more}
        return json.dumps(self.guard.pass_on({"id": number, "result": result}))

    def call(
        self, tool: str = "rows", *content: Any, wait: float = SLOWLY, **arguments: Any
    ) -> str:
        """Say what becomes of a call: made, nudged or refused."""
        self.now += wait
        if refused := self.ask(tool, **arguments):
            assert "this call was not made" in json.dumps(refused)
            return "refused"
        return "nudged" if MARK in self.answer(self.number, *content) else "made"

    def check(self, **arguments: Any) -> str:
        said = self.ask("check_progress", **arguments)
        assert said
        return said["result"]["content"][0]["text"]


LOOP = ["made", "made", "nudged", "made", "made", "refused", "refused"]


def test_repeated_call_is_nudged_then_refused_and_others_are_made() -> None:
    client = Client()
    assert [client.call() for _ in LOOP] == LOOP
    assert client.call(page=2) == "made"
    assert [client.call(wait=0.9 * PAUSE) for _ in range(3)] == ["refused"] * 3


def test_after_a_pause_or_a_word_of_the_user_everything_is_new() -> None:
    client = Client()
    assert [client.call() for _ in LOOP] == LOOP
    assert client.call(wait=PAUSE + 1) == "made"
    for _ in range(4):
        client.call()
    assert client.call() == "refused"
    assert "5 times with the same outcome since call 1" in client.check()
    assert client.check(user_spoke=True) == "Nothing repeats now. Calls so far: 0."
    assert [client.call() for _ in LOOP] == LOOP
    client.guard.ask({"id": 99, "method": "prompts/get"})
    assert [client.call() for _ in LOOP] == LOOP
    client.guard.pass_on({"id": 7, "method": "elicitation/create"})
    client.guard.ask({"id": 7, "result": {"action": "accept"}})
    assert [client.call() for _ in LOOP] == LOOP


def test_call_that_takes_long_is_not_a_pause() -> None:
    client = Client()
    for expected in LOOP[:6]:
        client.now += SLOWLY
        refused = client.ask()
        client.now += 10 * PAUSE
        said = "refused" if refused else client.answer(client.number)
        assert (MARK in said or said == "refused") is (expected != "made")


def test_calls_at_once_count_once() -> None:
    """Under way together, or one after the other faster than a model can read a result."""
    client = Client()
    for expected in ("made", "made", "nudged"):
        client.now += SLOWLY
        assert [client.ask(), client.ask()] == [None, None]
        said = [client.answer(client.number - 1), client.answer(client.number)]
        assert [MARK in each for each in said] == [expected == "nudged", False]
        assert client.call(wait=AT_ONCE / 2) == "made"
    client = Client()
    assert [client.call(wait=AT_ONCE / 2) for _ in range(50)] == ["made"] * 50


def test_searches_and_failures_with_other_arguments_are_advised_and_never_refused() -> None:
    client = Client()
    found = [client.call("search", query=f"words about {n}") for n in range(30)]
    assert found == ["made"] * 5 + ["nudged"] + ["made"] * 24
    client = Client()
    error = {"code": -32602, "message": "no such table"}
    told = list[bool]()
    for n in range(20):
        client.now += SLOWLY
        assert client.ask(table=n) is None
        said = client.guard.pass_on({"id": client.number, "error": error})
        told.append(MARK in said["error"]["message"])
    assert told == [n == 4 for n in range(20)]


def test_images_and_structured_results_are_compared_whole() -> None:
    client = Client()
    for n in range(20):
        image = {"type": "image", "data": "A" * 100 + str(n), "mimeType": "image/png"}
        assert client.call("screenshot", image) == "made"
    for n in range(20):
        client.now += SLOWLY
        client.ask("state")
        result = {"content": [], "structuredContent": {"row": f"{chr(97 + n)}"}}
        assert client.guard.pass_on({"id": client.number, "result": result})["result"] is result


def test_answer_without_a_result_yet_is_passed_on() -> None:
    client = Client()
    for result in ({"resultType": "input_required"}, {"task": {"taskId": "t"}}) * 10:
        client.now += SLOWLY
        assert client.ask() is None
        answer = {"id": client.number, "result": result}
        assert client.guard.pass_on(answer) is answer
    for _ in range(20):
        client.now += SLOWLY
        assert client.ask() is None
        params = {"requestId": client.number}
        client.guard.ask({"method": "notifications/cancelled", "params": params})
    assert client.call() == "made"


def test_tool_is_added_at_the_end_of_the_list_unless_the_server_has_it() -> None:
    client = Client()
    assert client.list_tools() == ["rows", "check_progress"]
    assert client.list_tools(nextCursor="2") == ["rows"]
    own = ToolGuard()
    assert own.ask({"id": 1, "method": "tools/list"}) is None
    listed = {"id": 1, "result": {"tools": [{"name": "check_progress"}]}}
    assert own.pass_on(listed) is listed
    call = {"id": 2, "method": "tools/call", "params": {"name": "check_progress"}}
    assert own.ask(call) is None, "it is the server's"


SERVER = """
import json, sys
print("starting up", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    text = {"type": "text", "text": "none"}
    print(json.dumps({"id": message["id"], "result": {"content": [text]}}), flush=True)
sys.exit(3)
"""


def test_proxy_passes_on_lines_and_the_exit_code_of_its_server() -> None:
    call = {"method": "tools/call", "params": {"name": "rows", "arguments": {}}}
    sent = [json.dumps({"id": n, **call}).encode() + b"\n" for n in range(9)]
    reads, writes = io.BytesIO(b"".join(sent)), io.BytesIO()
    proxy = Proxy([sys.executable, "-c", SERVER], reads, writes, ToolGuard())
    assert proxy.run() == 3
    first, *answers = writes.getvalue().splitlines()
    assert first.startswith(b"starting up")
    assert sorted(json.loads(each)["id"] for each in answers) == list(range(9))


def test_command_runs_a_server_with_its_options_and_names_an_unknown_one() -> None:
    command = [sys.executable, "-m", "chimeralab", "hook", "mcp", "--ignore", "rows"]
    call = {"method": "tools/call", "params": {"name": "rows", "arguments": {}}}
    sent = "".join(json.dumps({"id": n, **call}) + "\n" for n in range(9))
    server = [sys.executable, "-c", SERVER]
    ran = subprocess.run(
        [*command, *server], input=sent, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (3, "")
    assert MARK not in ran.stdout
    assert len(ran.stdout.splitlines()) == 10
    ran = subprocess.run([*command, "no-such-server"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == (
        "chimera: 'no-such-server' is not a program on this machine; expected the command that"
        " starts a server\n"
    )
