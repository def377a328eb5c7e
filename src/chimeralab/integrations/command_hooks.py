"""Hooks of Codex, Gemini CLI and opencode: commands that get one event and print one reply.

Their transcripts differ and change, so what the events say is kept in a file per session, and the
end of that is judged as any conversation. Like the hook of Claude Code, a new process runs at each
event, and whatever goes wrong, the agent goes on. Fields, replies and limits are those of the
programs' sources: Codex at 343074d, Gemini CLI at 5411f11, opencode at d545d8f (August 2026).
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, Unpack

from chimeralab.core.errors import InputError
from chimeralab.integrations.claude_code import MESSAGES, read_options
from chimeralab.integrations.watch import GuardAction, Message, Watch, WatchSettings

Event = Mapping[str, Any]
KEPT = 20_000  # characters of a result that are kept
OLD = 7 * 24 * 3600.0  # seconds after which a session is forgotten


class HostEvent(NamedTuple):
    """What an event is about: a prompt of the user, a call that is asked for, or its result."""

    kind: str
    text: str = ""
    tool: str = ""
    arguments: Any = None
    failed: bool | None = None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def read_codex(event: Event) -> HostEvent | None:
    name, tool = event.get("hook_event_name"), str(event.get("tool_name"))
    if name == "UserPromptSubmit":
        return HostEvent("prompt", _text(event.get("prompt")))
    if name == "PreToolUse":
        return HostEvent("call", "", tool, event.get("tool_input"))
    if name == "PostToolUse":
        return HostEvent("result", _text(event.get("tool_response")), tool, event.get("tool_input"))
    return None


def reply_codex(event: Event, found: GuardAction) -> dict[str, Any]:
    name, given = event.get("hook_event_name"), {"additionalContext": found.message}
    if found.action == "refuse":
        given = {"permissionDecision": "deny", "permissionDecisionReason": found.message}
    return {"hookSpecificOutput": {"hookEventName": name, **given}}


def read_gemini(event: Event) -> HostEvent | None:
    name, tool = event.get("hook_event_name"), str(event.get("tool_name"))
    if name == "BeforeAgent":
        return HostEvent("prompt", _text(event.get("prompt")))
    if name == "BeforeTool":
        return HostEvent("call", "", tool, event.get("tool_input"))
    given = event.get("tool_response")
    answer = given if isinstance(given, dict) else {"llmContent": given}
    if name == "AfterTool":
        failed = True if answer.get("error") else None
        text = _text(answer.get("error") or answer.get("llmContent"))
        return HostEvent("result", text, tool, event.get("tool_input"), failed)
    return None


def reply_gemini(event: Event, found: GuardAction) -> dict[str, Any]:
    if found.action == "refuse":
        return {"decision": "deny", "reason": found.message}
    if found.action == "stop":
        return {"continue": False, "stopReason": found.message}
    return reply_codex(event, found)


def read_opencode(event: Event) -> HostEvent | None:
    """Read an event of our plugin for opencode, which is in `opencode_plugin.js`."""
    kind, text = str(event.get("event")), _text(event.get("text") or "")
    if kind not in ("prompt", "call", "result"):
        return None
    failed = True if event.get("failed") else None
    return HostEvent(kind, text, str(event.get("tool")), event.get("args"), failed)


def reply_opencode(event: Event, found: GuardAction) -> dict[str, Any]:
    return {"action": found.action, "message": found.message}


class Dialect(NamedTuple):
    """How a program words its events and reads replies, and the field that names the session.

    ``timeout`` is in the unit of its settings. Where no hook can end a turn (after `continue:
    false`, Codex goes on with the reason as the result of the call), repeated calls are refused.
    """

    read: Callable[[Event], HostEvent | None]
    reply: Callable[[Event, GuardAction], dict[str, Any]]
    events: tuple[str, ...] = ()
    session: str = "session_id"
    timeout: int = 0
    can_end: bool = True


DIALECTS = {
    "codex": Dialect(
        read_codex,
        reply_codex,
        ("UserPromptSubmit", "PreToolUse", "PostToolUse"),
        timeout=10,
        can_end=False,
    ),
    "gemini-cli": Dialect(
        read_gemini, reply_gemini, ("BeforeAgent", "BeforeTool", "AfterTool"), timeout=10_000
    ),
    "opencode": Dialect(read_opencode, reply_opencode, session="sessionID"),
}


class CommandHook:
    """Replies to the events of one program."""

    def __init__(self, host: str, folder: str | None = None, **settings: Unpack[WatchSettings]):
        self._dialect, self._host = DIALECTS[host], host
        self._folder = folder or _sessions_folder()
        self._times: list[float] = []
        if not self._dialect.can_end:
            settings["on_stop"] = "refuse"
        self._watch = Watch(place=self._place, time_of=lambda n: self._times[n - 1], **settings)

    def answer(self, event: Event) -> dict[str, Any]:
        """Return the JSON to print for an event; empty if there is nothing to do."""
        happened = self._dialect.read(event) if self._watch.enabled else None
        if happened is None:
            return {}
        names = [self._host, *(event.get(key) for key in (self._dialect.session, "agent_id"))]
        name = blake2b(json.dumps(names, default=str).encode(), digest_size=12).hexdigest()
        path = os.path.join(self._folder, f"{name}.jsonl")  # noqa: PTH118 - pathlib is slow
        if happened.kind == "call":
            with self._watch.contain_errors():
                asked = happened.tool, happened.arguments
                refusal = self._watch.check_call(self._read(path), *asked)
                return self._dialect.reply(event, refusal) if refusal else {}
        with self._watch.contain_errors():
            self._append(path, *_messages(happened))
            found = None if happened.kind == "prompt" else self._watch.follow(self._read(path))
            if found:
                if found.action == "nudge":
                    self._append(path, {"role": "system", "content": found.message})
                return self._dialect.reply(event, found)
        return {}

    def _place(self, position: int) -> str:
        return f"{time.strftime('%H:%M', time.gmtime(self._times[position - 1]))} UTC"

    def _read(self, path: str) -> list[Message]:
        """The last messages of a session, and when they came; a partly written line is skipped."""
        self._times, messages = [], list[Message]()
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow
                lines = file.readlines()[-2 * MESSAGES :]
        except FileNotFoundError:
            return []
        for line in lines:
            try:
                at, message = json.loads(line)
            except ValueError:
                continue
            self._times.append(at)
            messages.append(message)
        return messages

    def _append(self, path: str, *messages: Message) -> None:
        """Keep messages for the next event, for nobody else to read."""
        if not os.path.exists(path):  # noqa: PTH110 - pathlib is slow
            os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            forget_old(self._folder, time.time() - OLD)
        lines = [json.dumps([time.time(), each], default=str) + "\n" for each in messages]
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.writelines(lines)


def _messages(happened: HostEvent) -> Iterator[Message]:
    if happened.kind == "prompt":
        yield {"role": "user", "content": happened.text}
        return
    function = {"name": happened.tool, "arguments": happened.arguments}
    yield {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}
    failed = {} if happened.failed is None else {"error": happened.failed}
    yield {"role": "tool", "tool_call_id": "c", "content": happened.text[:KEPT], **failed}


def forget_old(folder: str, before: float) -> None:
    """Delete the sessions that were last written before a time."""
    for entry in os.scandir(folder):
        if entry.name.endswith(".jsonl") and entry.stat().st_mtime < before:
            os.unlink(entry.path)  # noqa: PTH108 - pathlib is slow


def _sessions_folder() -> str:
    """The folder of sessions: in the user's cache, or where CHIMERA_SESSIONS says."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    home = os.path.expanduser("~/.cache")  # noqa: PTH111 - pathlib is slow
    default = os.path.join(cache or home, "chimera-lab", "sessions")  # noqa: PTH118
    return os.environ.get("CHIMERA_SESSIONS") or default


def main(host: str, options: list[str]) -> int:
    """Reply to the event on standard input. The agent goes on whatever goes wrong."""
    try:
        settings = read_options(options)
        answer = CommandHook(host, **settings).answer(json.load(sys.stdin.buffer))
        print(json.dumps(answer))
    except Exception as error:
        print(f"chimera: the loop guard failed ({error})", file=sys.stderr)
        return 1 if isinstance(error, InputError | KeyError) else 0
    return 0
