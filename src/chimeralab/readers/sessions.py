"""Session files of coding assistants: Claude Code, Codex and Gemini CLI."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chimeralab.core.records import Call, Trajectory, Turn, normalize_role
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    join_turns,
    make_message,
    make_trajectory,
    mark_unspoken,
    parse_content,
    parse_messages,
    result_text,
)
from chimeralab.readers.providers import gemini_message, item_message
from chimeralab.readers.seam import (
    Place,
    Reader,
    as_object,
    first_present,
    get_id,
    get_list,
    get_path,
    get_text,
    items,
    optional_list,
    optional_text,
    other_scalars,
    try_json,
    with_places,
)

TALK = ("user", "assistant")
NOTES = ("summary", "file-history-snapshot", "queue-operation")
LINKS = ("uuid", "sessionId", "session_id")
ASIDES = ("isMeta", "isCompactSummary", "isApiErrorMessage")
NO_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One line of a session: its links to others, and its content if it has any."""

    line: int
    uuid: str
    parent: str | None
    begins: bool
    session: str
    branch: str | None
    time: str
    message: str | None
    """The id of the message that the line is part of."""
    role: str
    content: Content | None
    model: str | None
    aside: bool
    """Whether the program wrote it in someone's name."""


Message = list[SessionLine]
"""The lines of one message, in order."""


class ClaudeCode(Reader):
    """Sessions of Claude Code, whose lines form trees that are assembled at the end of the log."""

    name = "claude-code"
    keys = frozenset({"type"})
    recognised = "lines with a type, and a uuid or sessionId"
    turns = "the lines of one message.id, in the order of their parents; side chains are separate"
    left_out = "summaries, snapshots, system lines, thoughts, branches that were rewound"
    whole = False

    def __init__(self) -> None:
        self._lines: list[SessionLine] = []

    def matches(self, value: Any) -> bool:
        kind = get_path(value, "type")
        return isinstance(kind, str) and (kind in NOTES or any(key in value for key in LINKS))

    def says_something(self, value: Any) -> bool:
        return value["type"] in TALK

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        has_message = fields.get("type") in TALK
        message = as_object(fields.get("message"), "message") if has_message else {}
        model = optional_text(message, "model", "message")
        role = optional_text(message, "role", "message") or str(fields.get("type"))
        content = parse_content(message, "message") if has_message else None
        part_of = optional_text(message, "id", "message")
        uuid = optional_text(fields, "uuid")
        if uuid is None and not has_message:
            return iter(())  # a note outside the tree
        parent = optional_text(fields, "parentUuid") or optional_text(fields, "logicalParentUuid")
        session = optional_text(fields, "sessionId") or optional_text(fields, "session_id")
        side = (optional_text(fields, "agentId") or "side") if fields.get("isSidechain") else None
        line = SessionLine(
            line=place.line or 1,
            uuid=uuid or str(place),
            parent=parent,
            begins="parentUuid" in fields and parent is None,
            session=session or place.stem,
            branch=side,
            time=optional_text(fields, "timestamp") or "",
            message=part_of,
            role=normalize_role(role),
            content=content,
            model=model,
            aside=model == NO_MODEL or any(fields.get(key) for key in ASIDES),
        )
        self._lines.append(line)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        """Yield every session and side chain, each along its latest branch."""
        # A resumed session may repeat lines.
        lines = {line.uuid: line for line in self._lines}
        chains: dict[tuple[str, str | None], list[SessionLine]] = defaultdict(list)
        for line in lines.values():
            chains[line.session, line.branch].append(line)
        for links in chains.values():
            for number, thread in enumerate(_threads(links, lines), 1):
                first = thread[0][0]
                turns = join_turns(filter(None, map(_message, thread)))
                models = [turn.model for turn in turns if turn.model and turn.spoken]
                metadata = {
                    "session": first.session,
                    "model": models[0] if models else None,
                    "side_chain": first.branch is not None,
                }
                marks = [first.branch, str(number) if number > 1 else None]
                suffix = "-".join(mark for mark in marks if mark)
                name = f"{first.session}#{suffix}" if suffix else first.session
                yield Trajectory(name, turns, metadata, str(place.at(first.line)))


def _threads(links: list[SessionLine], known: Container[str | None]) -> Iterator[list[Message]]:
    by_message: dict[str, Message] = defaultdict(list)
    for line in links:
        by_message[line.message or line.uuid].append(line)
    messages = list(by_message.values())
    index: dict[str | None, int]
    index = {line.uuid: n for n, message in enumerate(messages) for line in message}
    parents: list[int | None] = []
    for n, message in enumerate(messages):
        indices = (index.get(line.parent) for line in message)
        parent = next((at for at in indices if at not in (None, n)), None)
        if parent is None and not message[0].begins and message[0].parent not in known:
            # The parent is missing: fall back to the order of the file.
            parent = n - 1 if n else None
        parents.append(parent)
    times = [max(each.time for each in m) if m[0].content else None for m in messages]
    for path in threads(parents, times):
        yield [messages[n] for n in path]


def _message(lines: Message) -> ChatMessage | None:
    """Merge the lines of one message; its role is that of the first line with content."""
    parts = [line.content for line in lines if line.content]
    first = next((line for line in lines if line.content), None)
    if first is None:
        return None
    whole = Content(
        "\n".join(part.text for part in parts if part.text),
        any(part.tools for part in parts),
        tuple(call for part in parts for call in part.calls),
        tuple(result for part in parts for result in part.results),
    )
    message = make_message(whole, first.role, None, first.model)
    return mark_unspoken(message) if first.aside else message


Parents = Sequence[int | None]
"""For every message, the index of its parent; None for the first of a conversation."""


def threads(parents: Parents, times: Sequence[str | None]) -> list[list[int]]:
    """Return the path from each root to its latest leaf; a leaf must have a time.

    If a conversation was rewound and continued differently, the later branch counts.

    >>> threads([None, 0, 0, 2, None], ["1", "2", "3", "4", "5"])
    [[0, 2, 3], [4]]
    """
    answered: set[int] = set()
    for node, time in enumerate(times):
        before = parents[node] if time is not None else None
        while before is not None and before not in answered:
            answered.add(before)
            before = parents[before]
    latest: dict[int, tuple[bool, str, int]] = {}
    for node, (root, time) in enumerate(zip(_roots(parents), times, strict=True)):
        if time is not None:
            rank = (node not in answered, time, node)
            latest[root] = max(latest.get(root, rank), rank)
    paths = []
    for _, (_, _, leaf) in sorted(latest.items()):
        path: dict[int, None] = {}
        at: int | None = leaf
        while at is not None and at not in path:
            path[at] = None
            at = parents[at]
        paths.append(list(reversed(path)))
    return paths


def _roots(parents: Parents) -> list[int]:
    roots: dict[int, int] = {}
    for node in range(len(parents)):
        path: dict[int, None] = {}
        at = node
        while at not in roots and at not in path and (parent := parents[at]) is not None:
            path[at] = None
            at = parent
        roots |= dict.fromkeys([*path, at], roots.get(at, at))
    return [roots[node] for node in range(len(parents))]


CODEX_TASKS = ("task_started", "task_complete", "turn_aborted")
CODEX_EVENTS = ("thread.", "turn.", "item.")
CODEX_CALLS = ("command_execution", "mcp_tool_call", "file_change", "web_search")
# What Codex writes in the user's name before the first prompt.
CODEX_ASIDES = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions")


class Codex(Reader):
    """Sessions of Codex: the rollout files it keeps, or the events of `codex exec --json`."""

    name = "codex"
    keys = frozenset({"type"})
    recognised = "lines with a timestamp, a type such as response_item and a payload, or events"
    turns = "a response_item, as in OpenAI Responses, or an event with a completed item"
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
        fields = as_object(value, "the line")
        kind = get_text(fields, "type")
        if "payload" in fields:
            self._line(kind, as_object(fields["payload"], "payload"))
        elif kind == "thread.started":
            self._about["session"] = get_id(fields, "thread_id")
        elif kind in ("turn.started", "turn.completed", "turn.failed"):
            self._open = kind == "turn.started"
        elif kind == "item.completed":
            message = _exec_message(as_object(fields.get("item"), "item"))
            self._messages += [message] if message else []
        return iter(())

    def _line(self, kind: str, payload: Mapping[str, Any]) -> None:
        if kind == "session_meta":
            self._about["session"] = get_id(payload, "id")
        elif kind == "turn_context":
            self._about["model"] = optional_text(payload, "model", "payload")
        elif kind == "event_msg" and payload.get("type") in CODEX_TASKS:
            self._open = payload["type"] == "task_started"
        elif kind == "response_item" and (
            message := item_message(_strip_wrapper(payload), "payload")
        ):
            aside = message.turn.text.startswith(CODEX_ASIDES)
            self._messages.append(mark_unspoken(message) if aside else message)

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            name = self._about.get("session") or place.stem
            header, messages = self._about, self._messages
            yield make_trajectory(place, name, messages, header, unfinished=self._open)


# The header above a command's output, which differs between equal runs (wall time, chunk id).
CODEX_ABOUT = re.compile(
    r"(?:(?:Chunk ID|Exit code|Wall time|Process|Session ID|Total|Original)\b[^\n]*\n)+Output:\n"
)
EXIT_CODE = re.compile(r"(?:Exit code:|exited with code) (-?\d+)")


def _strip_wrapper(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Reduce an item's output to what the command printed, without Codex's header."""
    output = payload.get("output")
    if not isinstance(output, str):
        return payload
    if header := CODEX_ABOUT.match(output):
        code = EXIT_CODE.search(header[0])
        failed = code is not None and code[1] != "0"
        return {**payload, "output": output[header.end() :], "error": failed}
    inner = try_json(output)
    if isinstance(inner, dict) and isinstance(inner.get("metadata"), dict) and "output" in inner:
        failed = inner["metadata"].get("exit_code") not in (None, 0)
        return {**payload, "output": inner["output"], "error": failed}
    return payload


def _exec_message(item: Mapping[str, Any]) -> ChatMessage | None:
    kind = item.get("type") or item.get("item_type")
    if kind in ("agent_message", "assistant_message", "user_message"):
        role = "user" if kind == "user_message" else "assistant"
        return make_message(get_text(item, "text", "item"), role)
    if kind in CODEX_CALLS:
        asked = first_present(item, "command", "arguments", "changes", "query")
        given = item.get("aggregated_output") or item.get("result") or item.get("error") or None
        failed = item.get("status") == "failed" or item.get("exit_code") not in (None, 0)
        name = str(item.get("tool") or kind)
        call = Call(name, asked, None if given is None else result_text(given), failed or None)
        turn = Turn("", "assistant", "assistant", spoken=False, calls=(call,))
        return ChatMessage(turn, Content("", tools=True))
    return None


GEMINI_KINDS = ("user", "gemini", "info", "warning", "error")
# What Gemini CLI writes in the user's name before the first prompt.
GEMINI_ASIDE = "<session_context>"
GEMINI_ABOUT = re.compile(r"</?untrusted_context>\n?|^Process Group PGID: \d+\n?", re.MULTILINE)


class GeminiCLI(Reader):
    """Sessions of Gemini CLI: messages of type user or gemini, with their tool calls.

    A session is one object, or lines: a header, then each message, repeated whenever it changes.
    `$set` replaces all messages, and `$rewindTo` drops those from one message on.
    """

    name = "gemini-cli"
    keys = frozenset({"$set", "$rewindTo", "sessionId", "timestamp"})
    recognised = "a sessionId and messages of a type such as gemini, in one object or as lines"
    turns = "a message of the user or of gemini; its toolCalls, with their results"
    left_out = "thoughts, messages of type info, warning and error, rewound messages"
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
            first = next(iter(items(listed)), None)
            return isinstance(listed, list) and not (isinstance(first, dict) and "role" in first)
        return _is_cli_message(value)

    def says_something(self, value: Any) -> bool:
        return bool(_is_cli_message(value) or value.get("messages"))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        if "messages" in fields:
            yield _cli_session(get_list(fields, "messages"), fields, place)
        elif "$rewindTo" in fields:
            names = list(self._messages)
            ids = [name for name, _ in names]
            at = ids.index(fields["$rewindTo"]) if fields["$rewindTo"] in ids else 0
            self._messages = {name: self._messages[name] for name in names[:at]}
        elif "$set" in fields:
            changed = as_object(fields["$set"], "$set")
            if "messages" in changed:
                self._messages = {}
                for each in with_places(get_list(changed, "messages", "$set"), "$set.messages"):
                    self._keep(as_object(*each))
        elif "type" in fields:
            self._keep(fields)
        else:
            self._session = dict(fields)

    def _keep(self, message: Mapping[str, Any]) -> None:
        # Parse now, so that errors are reported at their own line.
        list(_cli_messages(message, "the message"))
        # In a resumed session, a call and its result share an id but not a type.
        name = get_id(message, "id") or str(len(self._messages))
        self._messages[name, get_text(message, "type", "the message")] = message

    def finish(self, place: Place) -> Iterator[Trajectory]:
        if self._messages:
            yield _cli_session(self._messages.values(), self._session, place)


def _is_cli_message(value: Mapping[str, Any]) -> bool:
    complete = all(key in value for key in ("id", "timestamp", "content"))
    other_format = any(key in value for key in ("sessionId", "uuid", "source", "parent_id", "role"))
    return complete and not other_format and value.get("type") in GEMINI_KINDS


def _cli_session(listed: Iterable[Any], session: Mapping[str, Any], place: Place) -> Trajectory:
    messages = parse_messages(_cli_messages, listed, "messages")
    name = get_id(session, "sessionId") or place.stem
    return make_trajectory(place, name, messages, other_scalars(session, exclude={"sessionId"}))


def _cli_messages(message: Any, place: str) -> Iterator[ChatMessage]:
    fields = as_object(message, place)
    kind = get_text(fields, "type", place)
    if kind not in ("user", "gemini"):
        return
    role = "user" if kind == "user" else "assistant"
    content = fields.get("content")
    parts = content if isinstance(content, list) else [content or ""]
    text = gemini_message({"role": role, "parts": parts}, f"{place}.content")
    model = optional_text(fields, "model", place)
    calls = [
        _cli_call(as_object(each, f"{place}.toolCalls"), f"{place}.toolCalls")
        for each in optional_list(fields, "toolCalls", place)
    ]
    if text.content.results:
        results = tuple(r._replace(text=_without_process(r.text)) for r in text.content.results)
        yield make_message(Content("", tools=True, results=results), "tool")
    elif calls:
        turn, content = make_message(Content(text.turn.text, tools=True), role, None, model)
        yield ChatMessage(replace(turn, calls=tuple(calls)), content)
    else:
        found = make_message(text.content, role, None, model)
        aside = role == "user" and found.turn.text.startswith(GEMINI_ASIDE)
        yield mark_unspoken(found) if aside else found


def _cli_call(fields: Mapping[str, Any], place: str) -> Call:
    # Prefer what the user saw over what the model was sent.
    shown, results = fields.get("resultDisplay"), fields.get("result")
    if not isinstance(shown, str):
        answer = gemini_message({"parts": results}, place) if results else None
        shown = _without_process(answer.turn.text) if answer else None
    failed = fields.get("status") in ("error", "cancelled")
    return Call(str(fields.get("name") or ""), fields.get("args"), shown, failed or None)


def _without_process(result: str) -> str:
    """Remove the process id from a command's output, since it differs between equal runs."""
    return GEMINI_ABOUT.sub("", result).removeprefix("Output: ").strip("\n")
