"""Conversations on a shelf: a temporary database that finds, sorts and filters them quickly.

However many there are, memory stays small, and a page of the table is one query.
"""

import json
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.records import Call, Detection, Trajectory, Turn
from chimeralab.core.text import readable
from chimeralab.detection.verdict import as_json, from_json
from chimeralab.report.listing import NO_LOOP, FoundInTalk, ListedConversation, found_in

SCHEMA = """
    CREATE TABLE conversations (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        source TEXT,
        messages INTEGER NOT NULL,
        judged TEXT,
        kind TEXT,
        since INTEGER,
        share REAL,
        strip TEXT,
        evidence TEXT
    );
    CREATE INDEX conversations_by_kind ON conversations (kind);
    CREATE TABLE fields (n INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
    CREATE INDEX fields_by_value ON fields (name, value, n);
    CREATE TABLE contents (n INTEGER PRIMARY KEY, trajectory BLOB NOT NULL, detection BLOB);
    CREATE VIRTUAL TABLE texts USING fts5 (text, content='');
"""
PAGE = 50
# How a table may be sorted, and by what.
ORDERS = {
    "log": "n",
    "conversation": "id",
    "messages": "messages",
    "judged": "judged",
    "loop": "kind",
    "since": "since",
    "share": "share",
}


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows of the table are wanted, and in which order."""

    search: str = ""
    kind: str = ""
    fields: Mapping[str, str] | None = None
    sort: str = "log"
    descending: bool = False
    page: int = 1


class Found(NamedTuple):
    """A page of rows, how many there are in all, and how many pages."""

    rows: Sequence[ListedConversation]
    total: int
    pages: int


class TablePlace(NamedTuple):
    """The neighbours of a conversation in the table, and the page that it is on."""

    before: int | None
    after: int | None
    page: int


class Kept(NamedTuple):
    """A conversation with its verdict, as far as it was judged."""

    trajectory: Trajectory
    detection: Detection | None


class Shelf:
    """Each thread has a connection of its own; one of them writes. It goes when it is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chimera-view-")
        self.path = Path(self._folder.name) / "conversations.db"
        self._local = threading.local()
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._folder.cleanup()

    @property
    def _db(self) -> sqlite3.Connection:
        """The connection of this thread."""
        found: sqlite3.Connection | None = getattr(self._local, "db", None)
        if found is None:
            found = self._local.db = sqlite3.connect(self.path, isolation_level=None)
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = OFF")
        return found

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write several things at once."""
        self._db.execute("BEGIN")
        yield
        self._db.execute("COMMIT")

    def find(self, query: Query) -> Found:
        """A page of the rows that are wanted."""
        where, values = _where(query)
        db = self._db
        total = db.execute(f"SELECT count(*) FROM conversations {where}", values).fetchone()[0]  # noqa: S608
        pages = max(1, -(-total // PAGE))
        rows = db.execute(
            f"SELECT * FROM conversations {where} {_order(query)} LIMIT ? OFFSET ?",  # noqa: S608 - names of our own alone
            (*values, PAGE, (min(max(query.page, 1), pages) - 1) * PAGE),
        )
        return Found([_listed(*row) for row in rows], total, pages)

    def place(self, n: int, query: Query) -> TablePlace:
        """Where a conversation stands among those that are wanted; else, where in the log."""
        where, values = _where(query)
        found = self._db.execute(f"SELECT n FROM conversations {where} {_order(query)}", values)  # noqa: S608
        rows = [row[0] for row in found]
        if n not in rows:
            return TablePlace(n - 1 or None, n + 1 if self._has(n + 1) else None, 1)
        at = rows.index(n)
        after = rows[at + 1] if at + 1 < len(rows) else None
        return TablePlace(rows[at - 1] if at else None, after, at // PAGE + 1)

    def _has(self, n: int) -> bool:
        found = self._db.execute("SELECT 1 FROM conversations WHERE n = ?", [n]).fetchone()
        return found is not None

    def kinds(self) -> dict[str, int]:
        """What was found, by kind, with how often."""
        query = "SELECT kind, count(*) FROM conversations WHERE kind IS NOT NULL GROUP BY kind"
        found = dict(self._db.execute(query).fetchall())
        last = dict.fromkeys(NO_LOOP, 0)
        ordered = sorted(found, key=lambda kind: (kind in last, -found[kind]))
        return {kind: found[kind] for kind in ordered}

    def keep(self, n: int) -> Kept | None:
        """A conversation, whole."""
        query = "SELECT trajectory, detection FROM contents WHERE n = ?"
        row = self._db.execute(query, [n]).fetchone()
        if row is None:
            return None
        return Kept(_unpacked(row[0]), from_json(_loaded(row[1])) if row[1] else None)

    def enter(self, n: int, trajectory: Trajectory, fields: Mapping[str, str]) -> None:
        """Take in a conversation, which nobody has judged yet."""
        db = self._db
        text = "\n".join([trajectory.id, *map(_words_of, trajectory.turns)])
        db.execute(
            "INSERT INTO conversations (n, id, source, messages) VALUES (?, ?, ?, ?)",
            (n, readable(trajectory.id), trajectory.source, len(trajectory.turns)),
        )
        db.executemany("INSERT INTO fields VALUES (?, ?, ?)", [(n, *x) for x in fields.items()])
        db.execute("INSERT INTO contents VALUES (?, ?, NULL)", (n, _packed(trajectory.as_dict())))
        db.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (n, readable(text)))

    def judge(self, n: int, detection: Detection) -> FoundInTalk:
        """Put a verdict beside a conversation."""
        found = found_in(detection)
        self._db.execute(
            "UPDATE conversations SET judged = ?, kind = ?, since = ?, share = ?, strip = ?, "
            "evidence = ? WHERE n = ?",
            (*found[:-1], found.evidence and readable(found.evidence), n),
        )
        packed = _packed(as_json(detection))
        self._db.execute("UPDATE contents SET detection = ? WHERE n = ?", (packed, n))
        return found


def _listed(
    n: int, name: str, source: str | None, messages: int, *found: Any
) -> ListedConversation:
    return ListedConversation(f"/logs/{n}", name, source, messages, FoundInTalk(*found), key=n)


def _where(query: Query) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    if query.kind == "loop":
        parts.append(f"kind NOT IN ({', '.join('?' * len(NO_LOOP))})")
        values += NO_LOOP
    elif query.kind:
        parts.append("kind = ?")
        values.append(query.kind)
    for name, value in (query.fields or {}).items():
        parts.append("n IN (SELECT n FROM fields WHERE name = ? AND value = ?)")
        values += [name, value]
    if query.search.strip():
        parts.append("n IN (SELECT rowid FROM texts WHERE texts MATCH ?)")
        # As one phrase, whose last word may go on; a quote in it is doubled.
        values.append('"{}"*'.format(query.search.strip().replace('"', '""')))
    return ("WHERE " + " AND ".join(parts) if parts else ""), values


def _order(query: Query) -> str:
    column = ORDERS.get(query.sort, "n")
    return f"ORDER BY {column} IS NULL, {column} {'DESC' if query.descending else 'ASC'}, n"


def _words_of(turn: Turn) -> str:
    calls = (f"{call.name} {call.arguments or ''} {call.result or ''}" for call in turn.calls)
    return "\n".join([turn.speaker or "", turn.text, *calls])


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


def _loaded(packed: bytes) -> Any:
    return json.loads(zlib.decompress(packed))


def _unpacked(packed: bytes) -> Trajectory:
    row = _loaded(packed)
    turns = (
        Turn(**{**turn, "calls": tuple(Call(**call) for call in turn["calls"])})
        for turn in row["turns"]
    )
    return Trajectory(row["id"], tuple(turns), row["metadata"], row["source"])
