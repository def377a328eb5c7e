"""SQLite stores of agents: checkpoints of LangGraph, sessions of OpenAI's Agents SDK and others.

A store is only ever read: it is opened as immutable, or as a copy if a write-ahead log lies next to
it. Nothing in it is executed: pickles are refused, and the types that msgpack names are not loaded.
"""

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain, groupby, starmap
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.agents import is_langchain, langchain_message
from chimeralab.readers.chat import annotate, make_trajectory, parse_message
from chimeralab.readers.providers import item_message
from chimeralab.readers.seam import (
    MAX_DEPTH,
    NO_OBJECTS,
    Damage,
    Place,
    Reader,
    Report,
    Unreadable,
    first_text,
    get_path,
    items,
    with_places,
)
from chimeralab.readers.streams import CHUNK, MAX_LINE, LogFile, parse_value

if TYPE_CHECKING:
    import sqlite3

NO_TALKS = (
    "an SQLite database without conversations of LangGraph, OpenAI's agents, opencode or Crush; "
    "export yours as JSON Lines or CSV"
)
STEPS = 10_000  # of SQLite's machine, between two looks at how many there were
FREE_STEPS = 50_000_000
STEPS_PER_BYTE = 50


class StoredTalk(NamedTuple):
    """A conversation of a store, with its messages as JSON values."""

    store: str
    id: str
    messages: list[Any]
    metadata: dict[str, Any]


def read_store(file: LogFile, place: Place, report: Report) -> Iterator[tuple[Any, Place]]:
    """Yield the conversations of an SQLite database."""
    import sqlite3  # noqa: PLC0415 - few logs are databases

    number = 0
    try:
        with open_store(file, place) as store:
            stores = (list_sessions, list_threads, list_opencode, list_crush)
            for talk in chain.from_iterable(found(store) for found in stores):
                number += 1
                inside = place.inside(f"conversation {number}")
                if isinstance(talk, Unreadable):
                    report(str(talk), inside)
                else:
                    yield talk, inside
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise Damage(f"the SQLite database is damaged or in use ({error})") from None
    if not number:
        raise Unreadable(NO_TALKS)


@contextmanager
def open_store(file: LogFile, place: Place) -> Iterator["sqlite3.Connection"]:
    """Open a database without writing to it, nor next to it."""
    import shutil  # noqa: PLC0415 - few logs are databases
    import sqlite3  # noqa: PLC0415
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        path, log = Path(place.file), Path(f"{place.file}-wal")
        is_file = path.is_file() and not file.is_decoded
        if is_file and log.is_file() and log.stat().st_size:
            # What was committed last is only in the log, and reading it writes an index.
            path = shutil.copyfile(path, Path(folder) / "store.db")
            shutil.copyfile(log, Path(folder) / "store.db-wal")
            address = path.as_uri()
        else:
            if not is_file:
                path = Path(folder) / "store.db"
                with path.open("wb") as copy:
                    shutil.copyfileobj(file.stream, copy, CHUNK)
            address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        steps, budget = 0, FREE_STEPS + STEPS_PER_BYTE * path.stat().st_size

        def stop() -> bool:
            nonlocal steps
            steps += STEPS
            return steps > budget  # pages that refer to each other never end

        with closing(sqlite3.connect(address, uri=True)) as store:
            store.text_factory = lambda raw: raw.decode("utf-8", "replace")
            store.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE)
            store.set_progress_handler(stop, STEPS)
            store.execute("PRAGMA trusted_schema = OFF")
            yield store


def find_tables(store: "sqlite3.Connection", *columns: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the tables that have all of these columns, quoted, and their columns."""
    names = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    for name in names:
        quoted = '"{}"'.format(str(name).replace('"', '""'))
        found = {row[1] for row in store.execute(f"PRAGMA table_info({quoted})")}
        if found.issuperset(columns):
            yield quoted, found


def list_sessions(store: "sqlite3.Connection") -> Iterator[StoredTalk | Unreadable]:
    """Yield the sessions of OpenAI's agents, whose tables may have any name."""
    for table, columns in find_tables(store, "session_id", "message_data", "id"):
        at = "created_at" if "created_at" in columns else "NULL"
        # The name of the table is quoted.
        query = f"SELECT session_id, message_data, {at} FROM {table} ORDER BY session_id, id"  # noqa: S608
        talks: dict[str, list[Any]] = {}
        for session, data, time in store.execute(query):
            try:
                item = parse_value(data.encode() if isinstance(data, str) else data or b"")
            except (Unreadable, AttributeError, TypeError) as problem:
                yield Unreadable(f"session {session}: {problem}")
                continue
            item = {**item, "created_at": time} if isinstance(item, dict) else item
            talks.setdefault(str(session), []).append(item)
        for session, messages in talks.items():
            yield StoredTalk(OpenAISessions.name, session, messages, {})


def list_threads(store: "sqlite3.Connection") -> Iterator[StoredTalk | Unreadable]:
    """Yield the last state of each thread of LangGraph, and of each subgraph in it."""
    for table, columns in find_tables(store, "thread_id", "checkpoint"):
        order = "checkpoint_id" if "checkpoint_id" in columns else "thread_ts"
        if order not in columns:
            continue
        graph = "checkpoint_ns" if "checkpoint_ns" in columns else "''"
        packed = "type" if "type" in columns else "NULL"
        query = (
            f"SELECT thread_id, {graph}, {packed}, checkpoint, max({order}) FROM {table} "  # noqa: S608
            "GROUP BY 1, 2 ORDER BY 5"
        )
        found: dict[tuple[str, str], list[Any]] = {}
        for thread, inside, kind, raw, _ in store.execute(query):
            try:
                state = parse_state(raw, kind)
            except Unreadable as problem:
                yield Unreadable(f"thread {thread}{'#' if inside else ''}{inside}: {problem}")
                continue
            channels = get_path(state, "channel_values")
            channels = channels if isinstance(channels, dict) else {}
            listed = map(items, [channels.get("messages"), *channels.values()])
            found[str(thread), inside] = next(
                (each for each in listed if each and is_langchain(each[0])), []
            )
        for (thread, inside), messages in found.items():
            above = found.get((thread, ""), []) if inside else []
            # The messages of a subgraph may all be in the graph that it is inside of.
            if message_ids(messages) - message_ids(above):
                name = f"{thread}#{inside}" if inside else thread
                about = {"parent": thread} if inside else {}
                yield StoredTalk(LangGraph.name, name, messages, about)


def message_ids(messages: list[Any]) -> set[str]:
    return {str(get_path(message, "id") or message) for message in messages}


# Ids are in order of time, but not those of all versions.
OPENCODE = (
    "SELECT m.session_id, m.id, m.data, p.data FROM message m LEFT JOIN part p "
    "ON p.message_id = m.id ORDER BY 1, m.time_created, 2, p.time_created, p.id"
)


def list_opencode(store: "sqlite3.Connection") -> Iterator[dict[str, Any] | Unreadable]:
    """Yield the sessions of opencode in the form in which it exports them."""
    tables = dict(find_tables(store, "time_created"))
    message, part = tables.get('"message"', set[str]()), tables.get('"part"', set[str]())
    if not ({"session_id", "data"} <= message and {"message_id", "data"} <= part):
        return
    about = {}
    if {"id", "parent_id", "title"} <= tables.get('"session"', set()):
        for name, parent, title in store.execute("SELECT id, parent_id, title FROM session"):
            about[name] = {"parentID": parent, "title": title}
    for session, rows in groupby(store.execute(OPENCODE), key=itemgetter(0)):
        messages: list[Any] = []
        try:
            for _, parts in groupby(rows, key=itemgetter(1)):
                found = list(parts)
                told = [parse_value(row[3].encode()) for row in found if row[3] is not None]
                messages.append({"info": parse_value(found[0][2].encode()), "parts": told})
        except (Unreadable, AttributeError) as problem:
            yield Unreadable(f"session {session}: {problem}")
            continue
        yield {"info": {"id": session, **about.get(session, {})}, "messages": messages}


CRUSH = (
    "SELECT session_id, role, parts, model, created_at FROM messages ORDER BY 1, created_at, rowid"
)


def list_crush(store: "sqlite3.Connection") -> Iterator[StoredTalk | Unreadable]:
    """Yield the sessions of Crush, and of the opencode that it was made from."""
    tables = dict(find_tables(store, "created_at"))
    if not tables.get('"messages"', set[str]()) >= {"session_id", "role", "parts", "model"}:
        return
    about = {}
    if {"id", "parent_session_id", "title"} <= tables.get('"sessions"', set()):
        for name, parent, title in store.execute(
            "SELECT id, parent_session_id, title FROM sessions"
        ):
            about[name] = {"title": title} | ({"parent": parent} if parent else {})
    for session, rows in groupby(store.execute(CRUSH), key=itemgetter(0)):
        messages: list[Any] = []
        try:
            for _, role, parts, model, at in rows:
                told = items(parse_value(parts.encode()))
                if said := [part for part in map(unwrap_part, told) if part]:
                    kept = {"role": role, "content": said, "model": model or None}
                    messages.append({**kept, "created_at": at})
        except (Unreadable, AttributeError) as problem:
            yield Unreadable(f"session {session}: {problem}")
            continue
        if messages:
            yield StoredTalk(Crush.name, session, messages, about.get(session, {}))


def unwrap_part(part: Any) -> dict[str, Any] | None:
    """Return a part of a message of Crush as in a chat; None for what says nothing.

    >>> unwrap_part({"type": "text", "data": {"text": "Hi."}})
    {'text': 'Hi.', 'type': 'text'}
    """
    data, kind = get_path(part, "data"), get_path(part, "type")
    if not isinstance(data, dict) or (kind == "finish" and data.get("reason") != "end_turn"):
        return None
    return {**data, "type": kind}


def parse_state(raw: Any, kind: Any) -> Any:
    if isinstance(raw, str):
        raw = raw.encode()
    if not isinstance(raw, bytes):
        raise Unreadable("has no checkpoint")
    if raw.lstrip().startswith(b"{"):
        return parse_value(raw)
    if kind not in ("msgpack", None):
        raise Unreadable(f"its checkpoint is packed as {str(kind)[:40]!r}, which is never loaded")
    try:
        value, end = unpack(raw, 0)
    except (struct.error, UnicodeError):
        end = -1
    if end != len(raw):
        raise Unreadable("its checkpoint is damaged")
    return value


# The first byte of a number, and how it is packed.
NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# The first byte of what has a length: its kind, and how the length is packed.
SIZED = {
    0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
    0xC7: ("type", ">B"), 0xC8: ("type", ">H"), 0xC9: ("type", ">I"),
    0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
    0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("object", ">H"), 0xDF: ("object", ">I"),
}  # fmt: skip
FIXED = (("object", 0x80, 0x8F), ("list", 0x90, 0x9F), ("text", 0xA0, 0xBF))


def unpack(raw: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    """Unpack a value of msgpack and return where it ends; a named type becomes its arguments.

    >>> unpack(bytes([0x82, 0xA1]) + b"a" + bytes([0x01, 0xA1]) + b"b" + bytes([0x91, 0xC3]), 0)
    ({'a': 1, 'b': [True]}, 8)
    """
    if depth > MAX_DEPTH:
        raise Unreadable("is nested too deeply")
    (first,) = struct.unpack_from(">B", raw, at)
    at += 1
    if first in CONSTANTS:
        return CONSTANTS[first], at
    if first < 0x80 or first >= 0xE0:
        return first - 0x100 * (first >= 0xE0), at
    if first in NUMBERS:
        (number,) = struct.unpack_from(NUMBERS[first], raw, at)
        return number if isfinite(number) else None, at + struct.calcsize(NUMBERS[first])
    kind, size = next(((k, first - low) for k, low, high in FIXED if low <= first <= high), ("", 0))
    if first in SIZED:
        kind, how = SIZED[first]
        (size,) = struct.unpack_from(how, raw, at)
        at += struct.calcsize(how)
    elif 0xD4 <= first <= 0xD8:
        kind, size = "type", 1 << (first - 0xD4)
    if size > len(raw) - at or not kind:
        raise Unreadable("its checkpoint is damaged")
    return _unpack_sized(kind, size, raw, at, depth + 1)


def _unpack_sized(kind: str, size: int, raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    match kind:
        case "text":
            return raw[at : at + size].decode("utf-8", "replace"), at + size
        case "bytes":
            return None, at + size
        case "type":
            # A module, a class, and what it is made from; the class itself is not loaded.
            (code,) = struct.unpack_from(">B", raw, at)
            inner = raw[at + 1 : at + 1 + size]
            made, _ = unpack(inner, 0, depth) if code < ARRAYS and inner else (None, 0)
            return made[2] if isinstance(made, list) and len(made) > 2 else None, at + 1 + size
    listed = []
    for _ in range(size * (2 if kind == "object" else 1)):
        value, at = unpack(raw, at, depth)
        listed.append(value)
    if kind == "list":
        return listed, at
    return dict(zip(map(str, listed[::2]), listed[1::2], strict=True)), at


ARRAYS = 6  # this type of LangGraph and those after it are not objects


class LangGraph(Reader):
    """Checkpoints of LangGraph: the messages in the last state of a thread."""

    name = "langgraph"
    keys = NO_OBJECTS
    recognised = "an SQLite database with a table that has thread_id and checkpoint"
    turns = "a LangChain message in the last state of a thread; a subgraph is a conversation"
    left_out = "earlier states, messages that the graph removed, pickled states"

    def matches(self, value: Any) -> bool:
        return isinstance(value, StoredTalk) and value.store == self.name

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        talk = as_talk(value)
        messages = (langchain_message(*each) for each in with_places(talk.messages, "messages"))
        yield make_trajectory(place, talk.id, messages, talk.metadata)


class OpenAISessions(Reader):
    """Sessions of OpenAI's Agents SDK, as its SQLiteSession keeps them."""

    name = "openai-sessions"
    keys = NO_OBJECTS
    recognised = "an SQLite database with a table that has session_id and message_data"
    turns = "an item of a session, as in OpenAI Responses"
    left_out = "branches of an advanced session, encrypted items"

    def matches(self, value: Any) -> bool:
        return isinstance(value, StoredTalk) and value.store == self.name

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        talk = as_talk(value)
        found = (
            (item_message(item, where), item)
            for item, where in with_places(talk.messages, "message_data")
        )
        messages = (annotate(message, item) for message, item in found if message)
        yield make_trajectory(place, talk.id, messages, talk.metadata)


class Crush(Reader):
    """Sessions of Crush, and of the opencode that it was made from."""

    name = "crush"
    keys = NO_OBJECTS
    recognised = "an SQLite database with a table messages that has session_id, role and parts"
    turns = "a message; its tool_call parts, with the tool_result parts of the same id"
    left_out = "versions of files, messages that were cancelled before they said anything"

    def matches(self, value: Any) -> bool:
        return isinstance(value, StoredTalk) and value.store == self.name

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        talk = as_talk(value)
        messages = starmap(parse_message, with_places(talk.messages, "messages"))
        found = make_trajectory(place, talk.id, messages, talk.metadata)
        yield replace(found, parent=first_text(talk.metadata, "parent"))


def as_talk(value: Any) -> StoredTalk:
    if isinstance(value, StoredTalk):
        return value
    raise Unreadable("is not an SQLite database")
