"""Claude Code sessions: lines linked by their parents, several lines to a message."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers.expect import mapping, text_or_none
from chimeralab.readers.messages import Content, content_of, role_of, spoken_turn
from chimeralab.readers.places import Place
from chimeralab.readers.threads import threads

TALK = ("user", "assistant")
NOTES = ("summary", "file-history-snapshot", "queue-operation")
LINKS = ("uuid", "sessionId", "session_id")
ASIDES = ("isMeta", "isCompactSummary", "isApiErrorMessage")
NO_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True)
class Said:
    """What one line says; an aside is the program's own text in someone's name."""

    role: str
    content: Content
    model: str | None
    message: str | None
    aside: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a session: a link in the chain, and what it says if anything."""

    line: int
    uuid: str
    parent: str | None
    begins: bool
    session: str
    branch: str | None
    time: str
    said: Said | None


Message = list[Entry]
"""The lines that make up one message, in order."""


def matches(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    return value["type"] in NOTES or any(key in value for key in LINKS)


def is_note(value: Any) -> bool:
    """Whether a line says nothing, and so makes no conversation by itself."""
    return matches(value) and value["type"] not in TALK


def entry(value: Any, place: Place) -> Entry | None:
    """A line as a link; None for a note that stands outside the chain."""
    fields = mapping(value, "the line")
    said = _said(fields) if fields.get("type") in TALK else None
    uuid = text_or_none(fields, "uuid")
    if uuid is None and said is None:
        return None
    parent = text_or_none(fields, "parentUuid") or text_or_none(fields, "logicalParentUuid")
    session = text_or_none(fields, "sessionId") or text_or_none(fields, "session_id")
    return Entry(
        line=place.line or 1,
        uuid=uuid or str(place),
        parent=parent,
        begins="parentUuid" in fields and parent is None,
        session=session or place.stem,
        branch=_branch(fields),
        time=text_or_none(fields, "timestamp") or "",
        said=said,
    )


def _branch(fields: Mapping[str, Any]) -> str | None:
    if not fields.get("isSidechain"):
        return None
    return text_or_none(fields, "agentId") or "side"


def _said(fields: Mapping[str, Any]) -> Said:
    message = mapping(fields.get("message"), "message")
    model = text_or_none(message, "model", "message")
    return Said(
        role=role_of(text_or_none(message, "role", "message") or fields["type"]),
        content=content_of(message, "message"),
        model=model,
        message=text_or_none(message, "id", "message"),
        aside=model == NO_MODEL or any(fields.get(key) for key in ASIDES),
    )


def conversations(entries: Iterable[Entry], place: Place) -> Iterator[Trajectory]:
    """Every session and every side chain, each along its latest branch."""
    # A resumed session may repeat lines.
    lines = {entry.uuid: entry for entry in entries}
    chains: dict[tuple[str, str | None], list[Entry]] = defaultdict(list)
    for line in lines.values():
        chains[line.session, line.branch].append(line)
    for chain in chains.values():
        for number, thread in enumerate(_threads(chain, lines), 1):
            yield _trajectory(thread, number, place)


def _threads(chain: list[Entry], known: Container[str | None]) -> Iterator[list[Message]]:
    messages = _messages(chain)
    home: dict[str | None, int]
    home = {line.uuid: n for n, message in enumerate(messages) for line in message}
    parents = [_parent(n, message, home, known) for n, message in enumerate(messages)]
    times = [
        max(line.time for line in message) if message[0].said else None for message in messages
    ]
    for path in threads(parents, times):
        yield [messages[n] for n in path]


def _messages(chain: list[Entry]) -> list[Message]:
    messages: dict[str, Message] = defaultdict(list)
    for line in chain:
        messages[(line.said and line.said.message) or line.uuid].append(line)
    return list(messages.values())


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
    turns = tuple(turn for message in thread for turn in _turn(message))
    models = [turn.model for turn in turns if turn.model and turn.spoken]
    metadata = {
        "session": first.session,
        "model": models[0] if models else None,
        "side_chain": first.branch is not None,
    }
    return Trajectory(_name(first, number), turns, metadata, str(place.at(first.line)))


def _name(first: Entry, number: int) -> str:
    marks = [first.branch, str(number) if number > 1 else None]
    suffix = "-".join(mark for mark in marks if mark)
    return f"{first.session}#{suffix}" if suffix else first.session


def _turn(message: Message) -> Iterator[Turn]:
    said = [line.said for line in message if line.said]
    if said:
        whole = Content(
            "\n".join(part.content.text for part in said if part.content.text),
            any(part.content.tools for part in said),
        )
        turn = spoken_turn(whole, said[0].role, None, said[0].model)
        yield replace(turn, spoken=turn.spoken and not said[0].aside)
