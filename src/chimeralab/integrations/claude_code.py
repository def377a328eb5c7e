"""The hook of Claude Code: reads the end of a session's transcript; answers with a nudge or a stop.

It runs as a process of its own at every call of a tool, so it imports little and reads little.
"""

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Unpack

from chimeralab.core.errors import InputError
from chimeralab.detection.guard import Tools
from chimeralab.integrations.watch import MARK, Message, Watch, WatchSettings

# How much of the transcript's end is read: mostly the first will do, but results can be large.
BYTES = (250_000, 2_000_000)
MESSAGES = 48  # enough for a loop to begin and go on in
CALLS = 16  # that are remembered until the transcript has them
BEFORE_AND_AFTER = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
TOLD = b'"hook_additional_context"'
NOT_SAID = ("isMeta", "isCompactSummary", "isApiErrorMessage")

Event = Mapping[str, Any]


class ClaudeCodeHook:
    """Answers the events of hooks: what to tell Claude, or that it shall stop.

    Claude Code writes its transcript some tenths of a second late, and quick tools are quicker. So
    a call and its result are taken from their event, and kept until the transcript has them.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._times: list[str] = []
        self._ended: deque[tuple[str, Event]] = deque(maxlen=CALLS)
        self._watch = Watch(place=self._time_of, **settings)

    def answer(self, event: Event) -> dict[str, Any]:
        """What to print for an event; nothing where all is well, or can't be known."""
        name = event.get("hook_event_name")
        found = self._watch.follow(self._messages(event))
        if found is None or (name == "Stop" and not event.get("stop_hook_active")):
            return {}
        if found.action == "stop":
            return {"continue": False, "stopReason": found.message}
        if name not in BEFORE_AND_AFTER:
            return {}
        told = {"hookEventName": name, "additionalContext": found.message}
        return {"hookSpecificOutput": told}

    def _messages(self, event: Event) -> Iterator[Message]:
        path, agent = str(event["transcript_path"]), event.get("agent_id")
        if agent:  # a subagent has a file of its own
            path = os.path.join(  # noqa: PTH118 - pathlib is slow to import
                path.removesuffix(".jsonl"), "subagents", f"agent-{agent}.jsonl"
            )
        if "tool_use_id" in event and _result_in(event) is not None:
            self._ended.append((path, event))
        ended = [each for where, each in self._ended if where == path]
        self._times = []
        for time, message in merge_messages(_read_tail(path), ended, aside=bool(agent)):
            self._times.append(time)
            yield message

    def _time_of(self, position: int) -> str:
        time = self._times[position - 1]
        return f"{time[11:16]} UTC" if time else f"message {position}"


def _read_tail(path: str) -> list[dict[str, Any]]:
    """The last lines that say something, in order; a line that is still being written is left."""
    found: list[dict[str, Any]] = []
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
        size = file.seek(0, os.SEEK_END)
        for most in BYTES:
            file.seek(max(0, size - most))
            lines = file.read().splitlines()
            values = map(_value, reversed(lines[1:] if size > most else lines))
            found = list(islice((value for value in values if value), MESSAGES))
            if len(found) == MESSAGES or size <= most:
                break
    return found[::-1]


def _value(line: bytes) -> dict[str, Any] | None:
    if b'"message"' not in line and TOLD not in line:
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    said = isinstance(value, dict) and value.get("type") in ("user", "assistant", "attachment")
    return value if said else None


def merge_messages(
    lines: Iterable[Mapping[str, Any]], ended: Sequence[Event] = (), *, aside: bool = False
) -> Iterator[tuple[str, Message]]:
    """Messages with their times: the lines of one message together, then what events add.

    ``ended`` are the latest calls that have ended, some of which may not be written yet.
    """
    by_id: dict[str, dict[str, Any]] = {}
    messages: list[tuple[str, Message]] = []
    for n, line in enumerate(lines):
        message = _message(line) if bool(line.get("isSidechain")) == aside else None
        name = str((line.get("message") or {}).get("id") or n)
        if name in by_id and message:
            by_id[name]["content"] += message["content"]
        elif message:
            by_id[name] = message
            messages.append((str(line.get("timestamp") or ""), message))
    contents = [each["content"] for _, each in messages if isinstance(each["content"], list)]
    asked = {part.get("id") for content in contents for part in content}
    answered = {part.get("tool_use_id") for content in contents for part in content}
    written = [n for n, event in enumerate(ended) if event["tool_use_id"] in answered]
    for event in ended[written[-1] + 1 if written else 0 :]:
        call = event["tool_use_id"]
        if call not in asked:
            given = {"name": event.get("tool_name"), "input": event.get("tool_input")}
            part = {"type": "tool_use", "id": call, **given}
            messages.append(("", {"role": "assistant", "content": [part]}))
        messages.append(("", _result(str(call), _result_in(event), "error" in event)))
    return iter(messages)


def _result_in(event: Event) -> Any:
    """What the call of an event brought; None where it has not ended."""
    return event.get("tool_response", event.get("error"))


def _message(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a line says: a message of the API, a nudge of ours, or nothing."""
    if line["type"] == "attachment":
        told = MARK in str(line.get("attachment"))
        return {"role": "system", "content": f"{MARK}nudge"} if told else None
    said = line.get("message") or {}
    content = said.get("content")
    if any(line.get(mark) for mark in NOT_SAID) or not content:
        return None
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    results = [part for part in parts if part.get("type") == "tool_result"]
    if len(results) == 1:
        brought = line.get("toolUseResult")
        brought = brought if isinstance(brought, dict) else results[0].get("content")
        name, failed = str(results[0].get("tool_use_id")), bool(results[0].get("is_error"))
        return _result(name, brought, failed)
    if line["type"] == "user" and not results:
        texts = [str(part.get("text")) for part in parts if part.get("type") == "text"]
        return {"role": "user", "content": "\n".join(texts)}
    return {"role": line["type"], "content": list(parts)}


def _result(call: str, brought: Any, failed: bool) -> dict[str, Any]:
    """What a tool gave back, as transcript and event both have it, without how long it took."""
    if isinstance(brought, dict):
        brought = {key: value for key, value in brought.items() if "duration" not in key.lower()}
        brought = json.dumps(brought, sort_keys=True)
    part = {"type": "tool_result", "tool_use_id": call, "content": brought, "is_error": failed}
    return {"role": "user", "content": [part]}


def tool_settings(ignore: Iterable[str], repeats: Iterable[str]) -> Tools:
    """Settings per tool from options: names to ignore, and NAME=N for repeats."""
    tools: dict[str, Any] = dict.fromkeys(ignore, "ignore")
    for each in repeats:
        name, _, number = each.rpartition("=")
        if not name or not number.isdecimal():
            raise InputError(f"--repeats takes TOOL=N, not {each!r}")
        tools[name] = {"repeats": int(number)}
    return tools


def main(options: list[str]) -> int:
    """Answer the event on standard input. Whatever goes wrong, Claude Code goes on."""
    try:
        named: dict[str, list[str]] = {"--ignore": [], "--repeats": []}
        for option, value in zip(options[::2], options[1::2], strict=True):
            named[option].append(value)
        hook = ClaudeCodeHook(tools=tool_settings(named["--ignore"], named["--repeats"]))
        answer = hook.answer(json.load(sys.stdin.buffer))
        if answer:
            print(json.dumps(answer))
    except Exception as error:
        print(f"chimera: the loop guard steps aside ({error})", file=sys.stderr)
        # Shown to the user and harmless; 2 would block the call.
        return 1 if isinstance(error, InputError | KeyError) else 0
    return 0
