"""A guard in front of any MCP server: it passes on what both sides say, and judges tool calls.

It speaks the protocol over standard input and output, one JSON message a line, and changes three
things only: a nudge is added to the result of a call, a repeated call is answered in place of the
server, and the list of tools gets one more, by which an agent can ask whether it is looping. A
server does not hear what the user says, so a pause begins a new conversation, and so does a prompt
that the user picks, an answer of the user, or that tool, when it is told that the user has spoken.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from threading import Lock, Thread
from typing import Any, BinaryIO, Unpack

from chimeralab.core.errors import InputError
from chimeralab.integrations.watch import Message, Watch, WatchSettings

Json = dict[str, Any]
PAUSE = 120.0  # seconds without a call after which a conversation is a new one
# Seconds from a result to the same call again in which no model can have read it: calls of one
# message that are made one by one, or of a program that a model wrote. They count once.
AT_ONCE = 0.05
MAX_DONE = 64
# Loops of ever other arguments are advised, but never refused: the user may have asked for them.
REWORDED = ("failure", "no-news")
TOOL = "check_progress"
SPOKE = "user_spoke"
DESCRIPTION = (
    "Tells whether you repeat yourself with the tools of this server: the same call, the same"
    " failure, or searches that find nothing new. Call it when you do not get on. If a call was not"
    f" made because it repeats others, and the user wants it, call this with {SPOKE} = true."
)
TOOL_ENTRY = {
    "name": TOOL,
    "description": DESCRIPTION,
    "inputSchema": {
        "type": "object",
        "properties": {
            SPOKE: {"type": "boolean", "description": "The user has spoken since the last call."}
        },
    },
    "annotations": {"readOnlyHint": True},
}
WAY_OUT = f"If the user wants this call, call {TOOL} with {SPOKE} = true first."
LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
# By these the user takes part: prompts are picked by users, and so are answers to a server.
PICKED = "prompts/get"
QUESTION = "elicitation/create"


class ToolGuard:
    """Judges the messages between one client and one server.

    >>> from itertools import count
    >>> guard = ToolGuard(clock=count().__next__)
    >>> call = {"id": 1, "method": "tools/call", "params": {"name": "rows", "arguments": {}}}
    >>> for step in range(1, 7):
    ...     refused = guard.ask(call)
    ...     result = {"content": [{"type": "text", "text": "none"}]}
    ...     said = refused or guard.pass_on({"id": 1, "result": result})
    ...     print(step, len(said["result"]["content"]), said["result"].get("isError", False))
    1 1 False
    2 1 False
    3 2 False
    4 1 False
    5 1 False
    6 1 True
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, **settings: Unpack[WatchSettings]
    ) -> None:
        settings["on_stop"] = "refuse"
        place = "call {}".format
        self.watch = Watch(place=lambda n: place((n + 1) // 2), **settings)
        self._clock, self._heard, self.talk, self._calls = clock, clock(), 0, 0
        self._asked: dict[Any, tuple[str, Any]] = {}  # calls under way, by the id of the request
        self._done: dict[str, float] = {}  # when the last calls had their results
        self._twins = set[Any]()  # calls that are made at once with others like them
        self._lists = set[Any]()  # requests for a list of tools
        self._questions = set[Any]()  # that the server has asked the user
        self._adds_tool = False

    def ask(self, request: Json) -> Json | None:
        """Take in a message of the client; return what to answer in place of the server, if so."""
        method, name = request.get("method"), request.get("id")
        if not self.watch.enabled:
            return None
        if method == PICKED or (method is None and name in self._questions):
            self._questions.discard(name)
            self._begin()
        elif method == "notifications/cancelled":
            cancelled = (request.get("params") or {}).get("requestId")
            self._asked.pop(cancelled, None)  # it will not be answered
            self._twins.discard(cancelled)
            self._lists.discard(cancelled)
        elif method == "tools/list":
            self._lists.add(name)
        elif method == "tools/call":
            params = request.get("params") or {}
            return self._ask_call(name, str(params.get("name")), params.get("arguments") or {})
        return None

    def pass_on(self, response: Json) -> Json:
        """Take in a message of the server; return it, perhaps with something added."""
        name = response.get("id")
        if "method" in response:
            if response["method"] == QUESTION:
                self._questions.add(name)
        elif name in self._lists:
            self._lists.discard(name)
            return self._add_tool(response)
        elif name in self._asked:
            call = self._asked.pop(name)
            self._heard = self._done[repr(call)] = self._clock()
            if len(self._done) > MAX_DONE:
                del self._done[next(iter(self._done))]
            if name in self._twins:
                self._twins.discard(name)
            else:
                return self._judge(call, response)
        return response

    def _begin(self) -> None:
        """Begin a new conversation."""
        self.talk, self._calls = self.talk + 1, 0

    def _ask_call(self, name: Any, tool: str, given: Any) -> Json | None:
        if tool == TOOL and self._adds_tool:
            if given.get(SPOKE):
                self._begin()
            warning = self.watch.warning(str(self.talk))
            counted = f"Nothing repeats now. Calls so far: {self._calls}."
            return _answer(name, warning.advice if warning else counted)
        if not self._asked and self._clock() - self._heard > PAUSE:
            self._begin()
        call, now = (tool, given), self._clock()
        if call in self._asked.values() or now - self._done.get(repr(call), -1) < AT_ONCE:
            self._twins.add(name)
        else:
            found = self.watch.check_call(None, tool, given, str(self.talk))
            if found and found.loop.kind not in REWORDED:
                self._heard = now
                return _answer(name, f"{found.message} {WAY_OUT}", failed=True)
        self._asked[name] = call
        return None

    def _judge(self, call: tuple[str, Any], response: Json) -> Json:
        """Judge a call with its result; a call that goes on elsewhere has none yet."""
        error: Any = response.get("error")
        result: Any = response.get("result")
        if isinstance(error, Mapping):
            text, failed = str(error.get("message")), True
        elif isinstance(result, Mapping) and isinstance(result.get("content"), list):
            text, failed = _read(result), bool(result.get("isError"))
        else:
            return response
        self._calls += 1
        key, function = str(self.talk), {"name": call[0], "arguments": call[1]}
        asks = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
        gets: Message = {"role": "tool", "tool_call_id": "c", "content": text}
        found = self.watch.update(asks, key)
        found = self.watch.update({**gets, "error": True} if failed else gets, key) or found
        if found is None:
            return response
        if isinstance(error, Mapping):
            return {**response, "error": {**error, "message": f"{text}\n\n{found.message}"}}
        content = [*result["content"], _text(found.message)]
        return {**response, "result": {**result, "content": content}}

    def _add_tool(self, response: Json) -> Json:
        result: Any = response.get("result")
        tools = result.get("tools") if isinstance(result, Mapping) else None
        if not isinstance(tools, list) or result.get("nextCursor"):
            return response
        if any(isinstance(each, Mapping) and each.get("name") == TOOL for each in tools):
            return response
        self._adds_tool = True
        return {**response, "result": {**result, "tools": [*tools, TOOL_ENTRY]}}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _answer(name: Any, text: str, *, failed: bool = False) -> Json:
    result = {"resultType": "complete", "content": [_text(text)], "isError": failed}
    return {"jsonrpc": "2.0", "id": name, "result": result}


def _read(result: Mapping[str, Any]) -> str:
    """The text of a result; an image, or anything else, by a digest."""
    said = list[str]()
    for block in result["content"]:
        if isinstance(block, Mapping) and block.get("type") == "text":
            said.append(str(block.get("text")))
        else:
            plain = json.dumps(block, sort_keys=True).encode()
            digest = blake2b(plain, digest_size=12).hexdigest()
            said.append(digest.translate(LETTERS))  # as digits, it would be taken for an id
    structured = result.get("structuredContent")
    return "\n".join(said) if said or structured is None else json.dumps(structured, sort_keys=True)


class Proxy:
    """Runs a server, and passes on the lines of its client and its own."""

    def __init__(
        self, command: Sequence[str], reads: BinaryIO, writes: BinaryIO, guard: ToolGuard
    ) -> None:
        program = shutil.which(command[0])
        if program is None:
            raise InputError(
                f"{command[0]!r} is not a program on this machine; expected the command that starts"
                " a server"
            )
        self.server = subprocess.Popen(
            [program, *command[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._client, self._writes, self._guard = reads, writes, guard
        self._lock = Lock()

    def run(self) -> int:
        """Pass on what is said until the server ends; return its exit code."""
        Thread(target=self._send, daemon=True).start()
        assert self.server.stdout
        for line in self.server.stdout:
            with self._lock:
                self._write(self._judge(line, self._guard.pass_on) or line)
        return self.server.wait()

    def _send(self) -> None:
        """Pass on what the client says; when it goes, the server hears that, too."""
        assert self.server.stdin
        with suppress(BrokenPipeError), self.server.stdin as server:  # if the server is gone
            for line in self._client:
                with self._lock:
                    answer = self._judge(line, self._guard.ask)
                    if answer:
                        self._write(answer)
                if not answer:
                    server.write(line)
                    server.flush()

    def _judge(self, line: bytes, judge: Callable[[Json], Json | None]) -> bytes | None:
        """What to write in place of a line; None if there is nothing to change."""
        with self._guard.watch.contain_errors():
            try:
                message = json.loads(line)
            except ValueError:
                return None
            found = judge(message) if isinstance(message, dict) else None
            if found is not None and found is not message:
                return json.dumps(found).encode() + b"\n"
        return None

    def _write(self, line: bytes) -> None:
        self._writes.write(line)
        self._writes.flush()


def main(command: Sequence[str], **settings: Unpack[WatchSettings]) -> int:
    """Guard a server that talks over standard input and output; return its exit code."""
    # Of its own, because Python can't end while a thread waits for `sys.stdin`.
    client = open(os.dup(sys.stdin.fileno()), "rb")  # noqa: PTH123, SIM115 - a descriptor
    proxy = Proxy(command, client, sys.stdout.buffer, ToolGuard(**settings))
    signal.signal(signal.SIGTERM, lambda *_: proxy.server.terminate())
    return proxy.run()
