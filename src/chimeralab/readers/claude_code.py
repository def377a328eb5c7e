"""Claude Code sessions: lines linked by their parents, several lines to a message."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chimeralab.core.records import Trajectory, role_of
from chimeralab.readers.chat import ChatMessage, Content, content_of, spoken, turns_of
from chimeralab.readers.fields import mapping, text_or_none
from chimeralab.readers.seam import Place, Reader

TALK = ("user", "assistant")
NOTES = ("summary", "file-history-snapshot", "queue-operation")
LINKS = ("uuid", "sessionId", "session_id")
ASIDES = ("isMeta", "isCompactSummary", "isApiErrorMessage")
NO_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """What one line says; an aside is the program's own text in someone's name."""

    role: str
    content: Content
    model: str | None
    message: str | None
    aside: bool


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One line of a session: a link in the chain, and what it says if anything."""

    line: int
    uuid: str
    parent: str | None
    begins: bool
    session: str
    branch: str | None
    time: str
    said: SessionMessage | None


Message = list[SessionLine]
"""The lines that make up one message, in order."""


class ClaudeCode(Reader):
    """Sessions of Claude Code: their lines mean nothing alone, and wait for the end of the log."""

    name = "claude-code"
    recognised = "lines with a type, and a uuid or sessionId"
    turns = "the lines of one message.id, in the order of their parents; side chains apart"
    left_out = "summaries, snapshots, system lines, thoughts, branches that were rewound"
    whole = False

    def __init__(self) -> None:
        self._lines: list[SessionLine] = []

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return False
        return value["type"] in NOTES or any(key in value for key in LINKS)

    def says_something(self, value: Any) -> bool:
        return value["type"] in TALK

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        line = session_line(value, place)
        if line is not None:
            self._lines.append(line)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        """Every session and every side chain, each along its latest branch."""
        # A resumed session may repeat lines.
        lines = {line.uuid: line for line in self._lines}
        chains: dict[tuple[str, str | None], list[SessionLine]] = defaultdict(list)
        for line in lines.values():
            chains[line.session, line.branch].append(line)
        for chain in chains.values():
            for number, thread in enumerate(_threads(chain, lines), 1):
                yield _trajectory(thread, number, place)


def session_line(value: Any, place: Place) -> SessionLine | None:
    """A line as a link; None for a note that stands outside the chain."""
    fields = mapping(value, "the line")
    said = _said(fields) if fields.get("type") in TALK else None
    uuid = text_or_none(fields, "uuid")
    if uuid is None and said is None:
        return None
    parent = text_or_none(fields, "parentUuid") or text_or_none(fields, "logicalParentUuid")
    session = text_or_none(fields, "sessionId") or text_or_none(fields, "session_id")
    return SessionLine(
        line=place.line or 1,
        uuid=uuid or str(place),
        parent=parent,
        begins="parentUuid" in fields and parent is None,
        session=session or place.stem,
        branch=(text_or_none(fields, "agentId") or "side") if fields.get("isSidechain") else None,
        time=text_or_none(fields, "timestamp") or "",
        said=said,
    )


def _said(fields: Mapping[str, Any]) -> SessionMessage:
    message = mapping(fields.get("message"), "message")
    model = text_or_none(message, "model", "message")
    return SessionMessage(
        role=role_of(text_or_none(message, "role", "message") or fields["type"]),
        content=content_of(message, "message"),
        model=model,
        message=text_or_none(message, "id", "message"),
        aside=model == NO_MODEL or any(fields.get(key) for key in ASIDES),
    )


def _threads(chain: list[SessionLine], known: Container[str | None]) -> Iterator[list[Message]]:
    by_message: dict[str, Message] = defaultdict(list)
    for line in chain:
        by_message[(line.said and line.said.message) or line.uuid].append(line)
    messages = list(by_message.values())
    home: dict[str | None, int]
    home = {line.uuid: n for n, message in enumerate(messages) for line in message}
    parents = [_parent(n, message, home, known) for n, message in enumerate(messages)]
    times = [
        max(line.time for line in message) if message[0].said else None for message in messages
    ]
    for path in threads(parents, times):
        yield [messages[n] for n in path]


def _parent(
    number: int, message: Message, home: Mapping[str | None, int], known: Container[str | None]
) -> int | None:
    homes = (home.get(line.parent) for line in message)
    parent = next((home for home in homes if home is not None and home != number), None)
    if parent is not None or message[0].begins or message[0].parent in known:
        return parent
    # A link to a line that is not there: the file was written in order, so follow that.
    return number - 1 if number else None


def _trajectory(thread: list[Message], number: int, place: Place) -> Trajectory:
    first = thread[0][0]
    turns = turns_of(said for message in thread for said in _message(message))
    models = [turn.model for turn in turns if turn.model and turn.spoken]
    metadata = {
        "session": first.session,
        "model": models[0] if models else None,
        "side_chain": first.branch is not None,
    }
    marks = [first.branch, str(number) if number > 1 else None]
    suffix = "-".join(mark for mark in marks if mark)
    name = f"{first.session}#{suffix}" if suffix else first.session
    return Trajectory(name, turns, metadata, str(place.at(first.line)))


def _message(lines: Message) -> Iterator[ChatMessage]:
    said = [line.said for line in lines if line.said]
    if said:
        parts = [part.content for part in said]
        whole = Content(
            "\n".join(part.text for part in parts if part.text),
            any(part.tools for part in parts),
            tuple(call for part in parts for call in part.calls),
            tuple(result for part in parts for result in part.results),
        )
        turn, _ = spoken(whole, said[0].role, None, said[0].model)
        yield ChatMessage(replace(turn, spoken=turn.spoken and not said[0].aside), whole)


Parents = Sequence[int | None]
"""For every message, the index of the one it answers; None begins a conversation."""


def threads(parents: Parents, times: Sequence[str | None]) -> list[list[int]]:
    """The path to the latest message below each root; messages without a time end no path.

    Where a conversation was taken back and went on differently, the later ending counts.

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
