"""Sessions that assistants keep themselves: Codex, Gemini CLI, and the export of ChatGPT."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chimeralab.core.records import Call, Trajectory, Turn
from chimeralab.readers.chat import ChatMessage, Content, brought, result_text, spoken, turns_of
from chimeralab.readers.evaluations import json_inside
from chimeralab.readers.fields import (
    identity,
    listing,
    listing_if_any,
    mapping,
    scalars,
    text,
    text_or_none,
)
from chimeralab.readers.providers import gemini_message, item_message
from chimeralab.readers.seam import Place, Reader

CODEX_TASKS = ("task_started", "task_complete", "turn_aborted")
CODEX_EVENTS = ("thread.", "turn.", "item.")
CODEX_CALLS = ("command_execution", "mcp_tool_call", "file_change", "web_search")
# What Codex writes in the user's name before the first question.
CODEX_ASIDES = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")


class Codex(Reader):
    """Sessions of Codex: the rollout files it keeps, or the events of `codex exec --json`."""

    name = "codex"
    recognised = "lines with a timestamp, a type such as response_item and a payload, or events"
    turns = "a response_item, as in OpenAI Responses; of the events, completed items"
    left_out = "reasoning, event_msg lines (they repeat the items), instructions, token counts"
    whole = False

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._about: dict[str, Any] = {}
        self._open = False

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return False
        if isinstance(value.get("payload"), dict):
            return "timestamp" in value
        return value["type"].startswith(CODEX_EVENTS) and "uuid" not in value

    def says_something(self, value: Any) -> bool:
        return value.get("type") in ("response_item", "item.completed")

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        named = text(fields, "type")
        if "payload" in fields:
            self._line(named, mapping(fields["payload"], "payload"))
        elif named == "thread.started":
            self._about["session"] = identity(fields, "thread_id")
        elif named in ("turn.started", "turn.completed", "turn.failed"):
            self._open = named == "turn.started"
        elif named == "item.completed":
            self._messages += _exec_messages(mapping(fields.get("item"), "item"))
        return iter(())

    def _line(self, named: str, payload: Mapping[str, Any]) -> None:
        if named == "session_meta":
            self._about["session"] = identity(payload, "id")
        elif named == "turn_context":
            self._about["model"] = text_or_none(payload, "model", "payload")
        elif named == "event_msg" and payload.get("type") in CODEX_TASKS:
            self._open = payload["type"] == "task_started"
        elif named == "response_item" and (message := item_message(_unwrapped(payload), "payload")):
            aside = message.turn.text.startswith(CODEX_ASIDES)
            self._messages.append(
                ChatMessage(replace(message.turn, spoken=False), message.content)
                if aside
                else message
            )

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            metadata = self._about | ({"unfinished": True} if self._open else {})
            name = self._about.get("session") or place.stem
            yield Trajectory(name, turns_of(self._messages), metadata, str(place))


# What Codex writes above the output of a command: how long it took is never the same twice.
CODEX_ABOUT = re.compile(
    r"(?:(?:Chunk ID|Exit code|Wall time|Process|Session ID|Total|Original)\b[^\n]*\n)+Output:\n"
)
EXIT_CODE = re.compile(r"(?:Exit code:|exited with code) (-?\d+)")


def _unwrapped(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """An item whose output is what the command gave, without what Codex says of the running."""
    output = payload.get("output")
    if not isinstance(output, str):
        return payload
    if about := CODEX_ABOUT.match(output):
        code = EXIT_CODE.search(about[0])
        failed = code is not None and code[1] != "0"
        return {**payload, "output": output[about.end() :], "error": failed}
    told = json_inside(output)
    if isinstance(told, dict) and isinstance(told.get("metadata"), dict) and "output" in told:
        failed = told["metadata"].get("exit_code") not in (None, 0)
        return {**payload, "output": told["output"], "error": failed}
    return payload


def _exec_messages(item: Mapping[str, Any]) -> Iterator[ChatMessage]:
    named = item.get("type") or item.get("item_type")
    if named in ("agent_message", "assistant_message", "user_message"):
        role = "user" if named == "user_message" else "assistant"
        yield spoken(Content(text(item, "text", "item")), role)
    elif named in CODEX_CALLS:
        keys = ("command", "arguments", "changes", "query")
        asked = next((item[key] for key in keys if item.get(key) is not None), None)
        given = next(
            (item[k] for k in ("aggregated_output", "result", "error") if item.get(k)), None
        )
        failed = item.get("status") == "failed" or item.get("exit_code") not in (None, 0)
        name = str(item.get("tool") or named)
        call = Call(name, asked, None if given is None else result_text(given), failed or None)
        yield ChatMessage(
            Turn("", "assistant", "assistant", spoken=False, calls=(call,)), Content("", tools=True)
        )


GEMINI_KINDS = ("user", "gemini", "info", "warning", "error")
# What Gemini CLI writes in the user's name before the first question.
GEMINI_ASIDE = "<session_context>"
GEMINI_ABOUT = re.compile(r"</?untrusted_context>\n?|^Process Group PGID: \d+\n?", re.MULTILINE)


class GeminiCLI(Reader):
    """Sessions that Gemini CLI records: messages of type user or gemini, with their tool calls.

    Today a session is a file of lines: what it is, then every message, again whenever it changed;
    `$set` replaces the list of them, and `$rewindTo` takes back all from one message on.
    """

    name = "gemini-cli"
    recognised = "a sessionId and messages of a type such as gemini, in one object or as lines"
    turns = "a message of the user or of gemini; its toolCalls, with their results"
    left_out = "thoughts, messages of type info, warning and error, those that were taken back"
    whole = False

    def __init__(self) -> None:
        self._session: dict[str, Any] = {}
        self._messages: dict[tuple[str, str], Mapping[str, Any]] = {}

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or "role" in value:
            return False
        if "$set" in value or "$rewindTo" in value:
            return True
        if "sessionId" in value and "type" not in value:
            listed = value.get("messages", [] if "projectHash" in value else None)
            return isinstance(listed, list) and not (
                listed and isinstance(listed[0], dict) and "role" in listed[0]
            )
        return _is_cli_message(value)

    def says_something(self, value: Any) -> bool:
        return bool(_is_cli_message(value) or value.get("messages"))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        if "messages" in fields:
            listed = enumerate(listing(fields, "messages"))
            yield _cli_session(
                [mapping(each, f"messages[{n}]") for n, each in listed], fields, place
            )
        elif "$rewindTo" in fields:
            names = list(self._messages)
            ids = [name for name, _ in names]
            at = ids.index(fields["$rewindTo"]) if fields["$rewindTo"] in ids else 0
            self._messages = {name: self._messages[name] for name in names[:at]}
        elif "$set" in fields:
            changed = mapping(fields["$set"], "$set")
            if "messages" in changed:
                self._messages = {}
                for n, each in enumerate(listing(changed, "messages", "$set")):
                    self._keep(mapping(each, f"$set.messages[{n}]"))
        elif "type" in fields:
            self._keep(fields)
        else:
            self._session = dict(fields)

    def _keep(self, message: Mapping[str, Any]) -> None:
        # Checked where it stands: at the end of the log nobody could say where it was.
        list(_cli_messages(message, "the message"))
        # A resumed session gives a call and its result one id, but not one type.
        name = identity(message, "id") or str(len(self._messages))
        self._messages[name, text(message, "type", "the message")] = message

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            yield _cli_session(list(self._messages.values()), self._session, place)


def _is_cli_message(value: Mapping[str, Any]) -> bool:
    told = all(key in value for key in ("id", "timestamp", "content"))
    others = any(key in value for key in ("sessionId", "uuid", "source", "parent_id", "role"))
    return told and not others and value.get("type") in GEMINI_KINDS


def _cli_session(
    listed: list[Mapping[str, Any]], session: Mapping[str, Any], place: Place
) -> Trajectory:
    messages = [
        message
        for n, each in enumerate(listed)
        for message in _cli_messages(each, f"messages[{n}]")
    ]
    name = identity(session, "sessionId") or place.stem
    return Trajectory(name, turns_of(messages), scalars(session, but={"sessionId"}), str(place))


def _cli_messages(fields: Mapping[str, Any], place: str) -> Iterator[ChatMessage]:
    named = text(fields, "type", place)
    if named not in ("user", "gemini"):
        return
    role = "user" if named == "user" else "assistant"
    content = fields.get("content")
    parts = content if isinstance(content, list) else [content or ""]
    said = gemini_message({"role": role, "parts": parts}, f"{place}.content")
    model = text_or_none(fields, "model", place)
    calls = [
        _cli_call(mapping(each, f"{place}.toolCalls"), f"{place}.toolCalls")
        for each in listing_if_any(fields, "toolCalls", place)
    ]
    if said.content.results:
        results = tuple(r._replace(text=_without_process(r.text)) for r in said.content.results)
        yield spoken(Content("", tools=True, results=results), "tool")
    elif calls:
        turn, content = spoken(Content(said.turn.text, tools=True), role, None, model)
        yield ChatMessage(replace(turn, calls=tuple(calls)), content)
    else:
        turn, content = spoken(said.content, role, None, model)
        aside = role == "user" and turn.text.startswith(GEMINI_ASIDE)
        yield ChatMessage(replace(turn, spoken=turn.spoken and not aside), content)


def _cli_call(fields: Mapping[str, Any], place: str) -> Call:
    # What the user saw; without it, what the model was given.
    shown, results = fields.get("resultDisplay"), fields.get("result")
    if not isinstance(shown, str):
        answer = gemini_message({"parts": results}, place) if results else None
        shown = _without_process(answer.turn.text) if answer else None
    failed = fields.get("status") in ("error", "cancelled")
    return Call(str(fields.get("name") or ""), fields.get("args"), shown, failed or None)


def _without_process(result: str) -> str:
    """What a command gave, without the number of its process, which is a new one every time."""
    return GEMINI_ABOUT.sub("", result).removeprefix("Output: ").strip("\n")


class ChatGPT(Reader):
    """The export of ChatGPT: a tree of messages, of which the current branch was the talk."""

    name = "chatgpt"
    recognised = "an object with a mapping of nodes that have a message, a parent and children"
    turns = "a message on the branch that ends in current_node; code sent to a tool is a call"
    left_out = "other branches, hidden messages, thoughts, images"

    def matches(self, value: Any) -> bool:
        nodes = value.get("mapping") if isinstance(value, dict) else None
        if not isinstance(nodes, dict):
            return False
        first = next(iter(nodes.values()), None)
        return isinstance(first, dict) and ("parent" in first or "children" in first)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = mapping(value, "the line")
        branch = _branch(mapping(fields.get("mapping"), "mapping"), fields)
        messages = [
            message
            for key, node in branch
            for message in _chatgpt_messages(node, f"mapping.{key}.message")
        ]
        metadata = scalars(fields, but={"id", "conversation_id"})
        last = branch[-1][1] if branch else None
        if isinstance(last, dict) and last.get("status") == "in_progress":
            metadata["unfinished"] = True
        models = [message.turn.model for message in messages if message.turn.model]
        metadata |= {"model": models[-1]} if models else {}
        name = identity(fields, "conversation_id", "id") or place.default_id()
        yield Trajectory(name, turns_of(messages), metadata, str(place))


def _branch(nodes: Mapping[str, Any], fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The nodes from the root to the current one; without one, to the last in the file."""
    at = text_or_none(fields, "current_node")
    if at is None:
        at = next(reversed(list(nodes)), None)
    path: dict[str, Any] = {}
    while at is not None and at not in path:
        node = mapping(nodes.get(at), f"mapping.{at}")
        path[at] = node.get("message")
        at = text_or_none(node, "parent", f"mapping.{at}")
    return list(reversed(path.items()))


def _chatgpt_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    if message is None:
        return
    fields = mapping(message, place)
    about = fields.get("metadata") if isinstance(fields.get("metadata"), dict) else {}
    assert isinstance(about, dict)
    content = mapping(fields.get("content") or {}, f"{place}.content")
    role = text(mapping(fields.get("author"), f"{place}.author"), "role", f"{place}.author")
    if about.get("is_visually_hidden_from_conversation"):
        return
    named = content.get("content_type")
    if named in ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"):
        return
    parts = content.get("parts")
    said = [part for part in parts if isinstance(part, str)] if isinstance(parts, list) else []
    if isinstance(content.get("text"), str):
        said.append(content["text"])
    whole = "\n".join(said)
    recipient = fields.get("recipient")
    if role == "tool":
        yield brought(whole)
    elif isinstance(recipient, str) and recipient not in ("all", ""):
        yield spoken(Content("", True, ((None, Call(recipient, whole)),)), role)
    else:
        yield spoken(Content(whole), role, None, text_or_none(about, "model_slug", place))
