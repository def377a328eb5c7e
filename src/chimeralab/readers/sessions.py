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
    annotate,
    join_turns,
    make_message,
    make_result,
    make_thought,
    make_trajectory,
    mark_unspoken,
    parse_call,
    parse_content,
    parse_messages,
    reasoning_text,
    result_text,
)
from chimeralab.readers.providers import gemini_message, item_message
from chimeralab.readers.seam import (
    COMMON,
    FITS,
    Place,
    Reader,
    Unreadable,
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
NOTICES = ("<task-notification>", "<local-command-stdout>", "<local-command-caveat>")
QUEUED = "queued_command"  # an attachment: what the user typed, or a program said, while it worked
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
    usage: Any = None


Message = list[SessionLine]
"""The lines of one message, in order."""


class ClaudeCode(Reader):
    """Sessions of Claude Code, whose lines form trees that are assembled at the end of the log."""

    name = "claude-code"
    keys = frozenset({"type"})
    recognised = "lines with a type, and a uuid or sessionId"
    turns = "the lines of one message.id, in the order of their parents; side chains are separate"
    left_out = "summaries, snapshots, system lines, branches that were rewound"
    whole = False

    def __init__(self) -> None:
        self._lines: list[SessionLine] = []

    def matches(self, value: Any) -> bool:
        kind = get_path(value, "type")
        return isinstance(kind, str) and (kind in NOTES or any(key in value for key in LINKS))

    def sureness(self, value: Any) -> float:
        if not self.matches(value):
            return 0.0
        own = value["type"] in TALK or "uuid" in value or "sessionId" in value
        return FITS if own else COMMON

    def says_something(self, value: Any) -> bool:
        return value["type"] in TALK

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        attachment = fields.get("attachment")
        queued = get_path(attachment, "type") == QUEUED
        has_message = fields.get("type") in TALK or queued
        message = as_object(fields.get("message"), "message") if has_message and not queued else {}
        if queued:
            message = {"role": "user", "content": get_path(attachment, "prompt")}
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
            aside=model == NO_MODEL
            or any(fields.get(key) for key in ASIDES)
            or (queued and get_path(attachment, "commandMode") not in (None, "prompt"))
            or (content is not None and content.text.startswith(NOTICES)),
            usage=message.get("usage"),
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
                parent = first.session if first.branch else None
                source = str(place.at(first.line))
                yield Trajectory(name, turns, metadata, source, parent=parent)


def _threads(lines: list[SessionLine], known: Container[str | None]) -> Iterator[list[Message]]:
    """Yield the messages of each conversation, along its latest branch.

    The results of calls made in parallel may lie on side branches, and so may lines of a message.
    """
    index: dict[str | None, int] = {line.uuid: n for n, line in enumerate(lines)}
    parents: list[int | None] = []
    for n, line in enumerate(lines):
        parent = index.get(line.parent)
        if parent is None and not line.begins and line.parent not in known:
            # The parent is missing: fall back to the order of the file.
            parent = n - 1 if n else None
        parents.append(parent)
    for path in threads(parents, [line.time if line.content else None for line in lines]):
        on_path = set(path)
        names = {lines[n].message for n in path if lines[n].message}
        off_path = [n for n, line in enumerate(lines) if n not in on_path and line.message in names]
        calls = {
            name for n in (*path, *off_path) if (told := lines[n].content) for name, _ in told.calls
        }
        for n, line in enumerate(lines):
            results = line.content.results if line.content else ()
            if n not in on_path and any(result.call in calls for result in results):
                off_path.append(n)
        by_message: dict[str, Message] = {}
        for n in insert_after_parents(path, off_path, parents):
            by_message.setdefault(lines[n].message or lines[n].uuid, []).append(lines[n])
        yield list(by_message.values())


def insert_after_parents(path: list[int], off_path: list[int], parents: "Parents") -> list[int]:
    """Put lines of side branches after their parents, those on the path in their order."""
    children: dict[int | None, list[int]] = defaultdict(list)
    for n in sorted(off_path):
        children[parents[n]].append(n)
    merged: list[int] = []
    waiting = list(reversed(path))
    while waiting:
        merged.append(waiting.pop())
        waiting += reversed(children.pop(merged[-1], []))
    return merged + [n for left in children.values() for n in left]


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
        "\n".join(part.reasoning for part in parts if part.reasoning),
    )
    message = make_message(whole, first.role, None, first.model)
    # Each line repeats the usage of its message; the last one is complete.
    about = {"usage": lines[-1].usage, "timestamp": first.time, "agent": first.branch}
    message = annotate(message, about)
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
    left_out = "event_msg lines (they repeat the items), instructions"
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
            self._line(kind, as_object(fields["payload"], "payload"), fields)
        elif kind == "thread.started":
            self._about["session"] = get_id(fields, "thread_id")
        elif kind in ("turn.started", "turn.completed", "turn.failed"):
            self._open = kind == "turn.started"
            self._count(fields)
        elif kind == "item.completed":
            message = _exec_message(as_object(fields.get("item"), "item"))
            self._messages += [message] if message else []
        return iter(())

    def _count(self, fields: Mapping[str, Any]) -> None:
        """Give the tokens of a model call to its last message."""
        given = fields.get("usage") or get_path(fields, "info", "last_token_usage")
        for at in range(len(self._messages) - 1, -1, -1):
            if self._messages[at].turn.role == "assistant":
                self._messages[at] = annotate(self._messages[at], {"usage": given})
                break

    def _line(self, kind: str, payload: Mapping[str, Any], line: Mapping[str, Any]) -> None:
        if kind == "session_meta":
            self._about["session"] = get_id(payload, "id")
        elif kind == "turn_context":
            self._about["model"] = optional_text(payload, "model", "payload")
        elif kind == "event_msg" and payload.get("type") in CODEX_TASKS:
            self._open = payload["type"] == "task_started"
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._count(payload)
        elif kind == "response_item" and (
            message := item_message(_strip_wrapper(payload), "payload")
        ):
            message = annotate(message, {"timestamp": line.get("timestamp")})
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
    if kind == "reasoning":
        return make_thought(reasoning_text(item))
    if kind in CODEX_CALLS:
        asked = first_present(item, "command", "arguments", "changes", "query")
        given = item.get("aggregated_output") or item.get("result") or item.get("error") or None
        failed = item.get("status") == "failed" or item.get("exit_code") not in (None, 0)
        name = str(item.get("tool") or kind)
        call = Call(name, asked, None if given is None else result_text(given), failed or None)
        turn = Turn("", "assistant", "assistant", spoken=False, calls=(call,))
        return ChatMessage(turn, Content("", tools=True))
    return None


PI_NOTES = ("model_change", "thinking_level_change", "custom", "custom_message", "todo_state")
PI_STARTS = ("session", "session_start")


class Pi(Reader):
    """Sessions of pi and Droid: lines with an id; of a tree of them, the latest branch counts."""

    name = "pi"
    keys = frozenset({"type"})
    recognised = "lines of type message with an id, a message, and a parentId or a timestamp"
    turns = "a message; its toolCall parts, with the toolResult message of the same id"
    left_out = "images, changes of model, notes of extensions, branches that were left"
    whole = False

    def __init__(self) -> None:
        self._lines: list[tuple[Mapping[str, Any], ChatMessage | None]] = []
        self._session: str | None = None

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or "sessionId" in value or "uuid" in value:
            return False
        kind = value.get("type")
        if kind in PI_STARTS:
            return "id" in value and "cwd" in value
        linked = "id" in value and ("parentId" in value or "timestamp" in value)
        return linked and (kind in PI_NOTES or isinstance(value.get("message"), dict))

    def says_something(self, value: Any) -> bool:
        return isinstance(value.get("message"), dict)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        if fields.get("type") in PI_STARTS:
            self._session = get_id(fields, "id")
        else:
            if "id" not in fields:
                raise Unreadable("the line has no id")
            message = fields.get("message")
            parsed = pi_message(message, fields) if isinstance(message, dict) else None
            self._lines.append((fields, parsed))
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        index = {str(fields["id"]): n for n, (fields, _) in enumerate(self._lines)}
        parents: list[int | None] = []
        for n, (fields, _) in enumerate(self._lines):
            # A session that was cut at its head begins with a parent that is missing.
            is_first = n == 0 or ("parentId" in fields and fields["parentId"] is None)
            missing = None if is_first else n - 1
            parents.append(index.get(str(fields.get("parentId")), missing))
        times = [str(f.get("timestamp") or "") if said else None for f, said in self._lines]
        for number, path in enumerate(threads(parents, times), 1):
            messages = [said for n in path if (said := self._lines[n][1])]
            name = self._session or place.stem
            yield make_trajectory(place, name if number == 1 else f"{name}#{number}", messages, {})


def pi_message(message: Mapping[str, Any], line: Mapping[str, Any]) -> ChatMessage:
    role, content = get_text(message, "role", "message"), message.get("content")
    parts = [part for part in items(content) if isinstance(part, dict)]
    text = parse_content({"content": content}, "message")
    if role == "toolResult":
        failed = message.get("isError") is True
        found = make_result(text.text, get_id(message, "toolCallId"), failed)
    else:
        made = tuple(parse_call(part) for part in parts if part.get("type") == "toolCall")
        model = optional_text(message, "model", "message")
        said = text._replace(tools=text.tools or bool(made), calls=(*text.calls, *made))
        found = make_message(said, normalize_role(role), None, model)
    about = {"usage": message.get("usage"), "timestamp": line.get("timestamp")}
    return annotate(found, about)


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
    left_out = "messages of type info, warning and error, rewound messages"
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
    thought = "\n".join(
        ": ".join(filter(None, (get_path(each, "subject"), get_path(each, "description"))))
        for each in items(fields.get("thoughts"))
    )
    if text.content.results:
        results = tuple(r._replace(text=_without_process(r.text)) for r in text.content.results)
        found = make_message(Content("", tools=True, results=results), "tool")
    elif calls:
        said = Content(text.turn.text, tools=True, reasoning=thought)
        turn, content = make_message(said, role, None, model)
        found = ChatMessage(replace(turn, calls=tuple(calls)), content)
    else:
        said = text.content._replace(reasoning=text.content.reasoning or thought)
        found = make_message(said, role, None, model)
        if role == "user" and found.turn.text.startswith(GEMINI_ASIDE):
            found = mark_unspoken(found)
    yield annotate(found, {"timestamp": fields.get("timestamp"), "tokens": fields.get("tokens")})


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
