"""The Claude Code hook: reads the end of a session's transcript, and replies with a nudge or stop.

It runs as a new process at every tool call, so it imports little and reads little.
"""

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Unpack

from chimeralab.core.errors import InputError
from chimeralab.detection.tools import parse_tools
from chimeralab.integrations.watch import GuardAction, Message, Watch, WatchSettings, find_signed

# How much of the transcript's end is read: the first is usually enough, but results can be large.
BYTES = (250_000, 2_000_000)
MESSAGES = 48  # enough to see a loop begin and continue
CALLS = 16  # kept until they are in the transcript
BEFORE_AND_AFTER = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
# Attachments that are read: what hooks said, and what the user typed while Claude worked.
NUDGE, QUEUED = "hook_additional_context", "queued_command"
UNSPOKEN = ("isMeta", "isCompactSummary", "isApiErrorMessage")
# What the program says in the name of the user, who does not step in by it.
NOTICES = ("<task-notification>", "<local-command-stdout>", "<local-command-caveat>")

MESSAGE_TYPES = ("user", "assistant", "attachment")

Event = Mapping[str, Any]


class ClaudeCodeHook:
    """Replies to hook events with context for Claude, or a stop.

    Claude Code writes its transcript a few tenths of a second late, when quick tools have finished.
    So a call and its result are taken from their event, and kept until they are in the transcript.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._times: list[str] = []
        self._ended: deque[tuple[str, Event]] = deque(maxlen=CALLS)
        self._watch = Watch(place=self._time_of, **settings)

    def answer(self, event: Event) -> dict[str, Any]:
        """Return the JSON to print for an event; empty if there is nothing to do."""
        name = event.get("hook_event_name")
        if name == "PreToolUse" and (refusal := self._refuse(event)):
            given = {"permissionDecision": "deny", "permissionDecisionReason": refusal.message}
            return {"hookSpecificOutput": {"hookEventName": name, **given}}
        found = self._watch.follow_safely(self._messages(event))
        if found is None or (name == "Stop" and not event.get("stop_hook_active")):
            return {}
        if found.action == "stop":
            return {"continue": False, "stopReason": found.message}
        if name not in BEFORE_AND_AFTER:
            return {}
        return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": found.message}}

    def _refuse(self, event: Event) -> GuardAction | None:
        found = None
        with self._watch.contain_errors():
            name, given = str(event.get("tool_name")), event.get("tool_input")
            found = self._watch.check_call(self._messages(event), name, given)
        return found  # noqa: RET504 - None after an error

    def _messages(self, event: Event) -> Iterator[Message]:
        path, agent = event.get("transcript_path"), event.get("agent_id")
        if not isinstance(path, str):
            path = ""  # there is nothing to read but the events
        if agent:  # a subagent has its own transcript
            path = os.path.join(  # noqa: PTH118 - pathlib is slow to import
                path.removesuffix(".jsonl"), "subagents", f"agent-{agent}.jsonl"
            )
        if "tool_use_id" in event and _result_in(event) is not None:
            self._ended.append((path, event))
        ended = [each for where, each in self._ended if where == path]
        self._times = []
        for time, message in merge_messages(_read_tail(path), ended, sidechain=bool(agent)):
            self._times.append(time)
            yield message

    def _time_of(self, position: int) -> str:
        time = self._times[position - 1]
        return f"{time[11:16]} UTC" if time else f"message {position}"


def _read_tail(path: str) -> list[dict[str, Any]]:
    """Return the last lines with messages, in order; a partly written line is skipped.

    There is no file yet at the beginning of a session.
    """
    found: list[dict[str, Any]] = []
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            size = file.seek(0, os.SEEK_END)
            for limit in BYTES:
                file.seek(max(0, size - limit))
                lines = file.read().splitlines()
                values = map(_value, reversed(lines[1:] if size > limit else lines))
                found = list(islice((value for value in values if value), MESSAGES))
                if len(found) == MESSAGES or size <= limit:
                    break
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:  # the latter for names that no file can have
        raise InputError(f"the transcript {path[:200]!r} can't be read: {error!s:.200}") from None
    return found[::-1]


def _value(line: bytes) -> dict[str, Any] | None:
    if not any(word in line for word in (b'"message"', NUDGE.encode(), QUEUED.encode())):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    has_message = isinstance(value, dict) and value.get("type") in MESSAGE_TYPES
    return value if has_message else None


def merge_messages(
    lines: Iterable[Mapping[str, Any]], ended: Sequence[Event] = (), *, sidechain: bool = False
) -> Iterator[tuple[str, Message]]:
    """Merge the lines of each message, and add calls that are not in the transcript yet.

    ``ended`` are the latest finished calls. Yields messages with their times.
    """
    by_id: dict[str, dict[str, Any]] = {}
    messages: list[tuple[str, Message]] = []
    for n, line in enumerate(lines):
        message = _message(line) if bool(line.get("isSidechain")) == sidechain else None
        said = line.get("message")
        name = str((said.get("id") if isinstance(said, dict) else None) or n)
        if message and isinstance(message["content"], list) and name in by_id:
            by_id[name]["content"] += message["content"]
        elif message:
            if isinstance(message["content"], list):
                by_id[name] = message
            messages.append((str(line.get("timestamp") or ""), message))
    contents = [each["content"] for _, each in messages if isinstance(each["content"], list)]
    asked = {str(part.get("id")) for content in contents for part in content}
    answered = {str(part.get("tool_use_id")) for content in contents for part in content}
    written = [n for n, event in enumerate(ended) if str(event["tool_use_id"]) in answered]
    for event in ended[written[-1] + 1 if written else 0 :]:
        call = str(event["tool_use_id"])
        if call not in asked:
            given = {"name": event.get("tool_name"), "input": event.get("tool_input")}
            part = {"type": "tool_use", "id": call, **given}
            messages.append(("", {"role": "assistant", "content": [part]}))
        messages.append(("", _result(call, _result_in(event), "error" in event)))
    return iter(messages)


def _result_in(event: Event) -> Any:
    """Return the result of an event's call; None if it has not finished."""
    return event.get("tool_response", event.get("error"))


def _message(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse the message of a line: one from the API, one of our nudges, or None."""
    if line["type"] == "attachment":
        return _read_attachment(line.get("attachment"))
    said = line.get("message")
    content = said.get("content") if isinstance(said, dict) else None
    if any(line.get(mark) for mark in UNSPOKEN) or not content:
        return None
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    parts = [part for part in parts if isinstance(part, dict)]
    results = [part for part in parts if part.get("type") == "tool_result"]
    if len(results) == 1:
        output = line.get("toolUseResult")
        output = output if isinstance(output, dict) else results[0].get("content")
        name, failed = str(results[0].get("tool_use_id")), bool(results[0].get("is_error"))
        return _result(name, output, failed)
    if line["type"] == "user" and not results:
        texts = [str(part.get("text")) for part in parts if part.get("type") == "text"]
        said = "\n".join(texts)
        return {"role": "system" if said.startswith(NOTICES) else "user", "content": said}
    return {"role": line["type"], "content": parts}


def _read_attachment(attachment: Any) -> dict[str, Any] | None:
    """Parse an attachment: one of our nudges, what the user typed, or None for any other."""
    fields = attachment if isinstance(attachment, dict) else {}
    if fields.get("type") == NUDGE:
        content = fields.get("content")
        texts = content if isinstance(content, list) else [content]
        nudges = [found[0] for text in texts for found in find_signed(str(text))]
        return {"role": "system", "content": nudges[-1]} if nudges else None
    prompt = fields.get("prompt") if fields.get("type") == QUEUED else None
    if not isinstance(prompt, str) or prompt.startswith(NOTICES):
        return None
    return {"role": "user", "content": prompt}


def _result(call: str, output: Any, failed: bool) -> dict[str, Any]:
    """Make a tool result, equal for transcript and event, and without durations."""
    if isinstance(output, dict):
        output = {key: value for key, value in output.items() if "duration" not in key.lower()}
        output = json.dumps(output, sort_keys=True)
    part = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
    return {"role": "user", "content": [part]}


def read_options(options: list[str]) -> dict[str, Any]:
    """Read the options of a hook's command, as settings of a guard."""
    named: dict[str, list[str]] = {"--ignore": [], "--repeats": [], "--on-stop": []}
    for option, value in zip(options[::2], options[1::2], strict=True):
        named[option].append(value)
    tools = parse_tools(named["--ignore"], named["--repeats"])
    return {"tools": tools, "on_stop": named["--on-stop"][-1] if named["--on-stop"] else None}


def main(options: list[str]) -> int:
    """Reply to the event on standard input. Claude Code continues whatever goes wrong."""
    try:
        settings = read_options(options)
        answer = ClaudeCodeHook(**settings).answer(json.load(sys.stdin.buffer))
        if answer:
            print(json.dumps(answer))
    except Exception as error:
        print(f"chimera: the loop guard failed ({error})", file=sys.stderr)
        # Exit code 1 is shown to the user; 2 would block the call.
        return 1 if isinstance(error, InputError | KeyError) else 0
    return 0
