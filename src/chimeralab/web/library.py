"""The conversations of logs, judged in the background and kept where a page finds them quickly.

They lie in a temporary database: however many there are, memory stays small, and a page of the
table is one query. It goes when the server stops; the logs themselves are only read.
"""

import json
import sqlite3
import tempfile
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab import readers
from chimeralab.core.errors import ChimeraError, InputError, LogError
from chimeralab.core.records import Call, Detection, Trajectory, Turn
from chimeralab.core.text import readable
from chimeralab.detection.detectors import LOCKED, LOOPS
from chimeralab.detection.measure import measurer_for
from chimeralab.detection.verdict import as_json, from_json, verdict
from chimeralab.report.listing import NO_LOOP, FoundInTalk, ListedConversation, found_in
from chimeralab.web.conversation import ENCODING
from chimeralab.web.live import Feed, Patch, patch

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
# A field with more different values than this is searched by typing one.
MOST_CHOICES = 30
MOST_FIELDS = 5
MOST_NOTES = 20
# Conversations are judged together until so many turns are at hand; a page may be opened between.
TURNS_AT_ONCE = 200
SECONDS_BETWEEN_NEWS = 0.25
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


class Library:
    """Conversations of logs. `start` reads and judges them; all else may be asked meanwhile."""

    def __init__(self, paths: Sequence[str], leave_out: Sequence[Path] = ()) -> None:
        self.paths = tuple(paths)
        self.feed = Feed()
        self.notes: list[str] = []
        self.state = "reading"
        self.read = self.judged = 0
        self.choices: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._leave_out = [path.resolve() for path in leave_out]
        self._folder = tempfile.TemporaryDirectory(prefix="chimera-view-")
        self._file = Path(self._folder.name) / "conversations.db"
        self._local = threading.local()
        self._last_news = 0.0
        self._news: list[Patch] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="judging", daemon=True)
        self._db.executescript(SCHEMA)

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether all was judged within this time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._folder.cleanup()

    @property
    def _db(self) -> sqlite3.Connection:
        """The connection of this thread."""
        found: sqlite3.Connection | None = getattr(self._local, "db", None)
        if found is None:
            found = self._local.db = sqlite3.connect(self._file, isolation_level=None)
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = OFF")
        return found

    # What pages ask for

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
            return TablePlace(n - 1 or None, n + 1 if n < self.read else None, 1)
        at = rows.index(n)
        after = rows[at + 1] if at + 1 < len(rows) else None
        return TablePlace(rows[at - 1] if at else None, after, at // PAGE + 1)

    def kinds(self) -> dict[str, int]:
        """What was found, by kind, with how often."""
        query = "SELECT kind, count(*) FROM conversations WHERE kind IS NOT NULL GROUP BY kind"
        found = dict(self._db.execute(query).fetchall())
        last = dict.fromkeys(NO_LOOP, 0)
        ordered = sorted(found, key=lambda kind: (kind in last, -found[kind]))
        return {kind: found[kind] for kind in ordered}

    def fields(self) -> dict[str, Counter[str]]:
        """The fields that one may choose a value of."""
        few = {name: dict(seen) for name, seen in list(self.choices.items())}
        telling = [name for name, seen in few.items() if 1 < len(seen) <= MOST_CHOICES]
        # A model is asked for most.
        telling.sort(key=lambda name: (name != "model", name))
        return {name: Counter(few[name]) for name in telling[:MOST_FIELDS]}

    def keep(self, n: int) -> Kept | None:
        """A conversation, whole."""
        query = "SELECT trajectory, detection FROM contents WHERE n = ?"
        row = self._db.execute(query, [n]).fetchone()
        if row is None:
            return None
        return Kept(_unpacked(row[0]), from_json(_loaded(row[1])) if row[1] else None)

    def standing(self) -> Iterator[Patch]:
        """How far the judging has come."""
        yield patch("progress", self.sentence(), value=self.judged, most=max(1, self.read))
        if self.state != "reading":
            yield patch("unread", reload=True)
        if self.state == "done":
            yield patch("end")

    def sentence(self) -> str:
        """How far the judging has come, in words."""
        if self.state == "done":
            return f"{self.read:,} conversations, all judged"
        if self.state == "reading":
            return f"reading: {self.read:,} conversations so far"
        return f"judged {self.judged:,} of {self.read:,} conversations"

    # The work behind

    def _work(self) -> None:
        try:
            self.read_all()
            self.state = "judging"
            self._judge_all()
        except (ChimeraError, OSError, MemoryError) as error:
            self.note(f"stopped: {error}")
        finally:
            self.state = "done"
            self._tell(at_once=True)

    def note(self, text: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes.append(text)

    def read_all(self) -> None:
        """Take in every conversation; words alone say at once whether it loops."""
        words = measurer_for(None, _no_encoder)
        for path in self.paths:
            try:
                for measured in words.measure(self._wanted(path)):
                    if self._stopped.is_set():
                        return
                    detection = verdict(measured, None, None, loops=LOOPS)
                    self._enter(measured.trajectory, detection)
            except InputError as error:
                # A folder of studies need not hold logs as well.
                if not any(Path(path).resolve() in folder.parents for folder in self._leave_out):
                    self.note(str(error))

    def _bad(self, error: LogError) -> None:
        self.note(f"skipped {error}")

    def _wanted(self, path: str) -> Iterator[Trajectory]:
        """All but what lies in a study, which has a page of its own."""
        for trajectory in readers.read_all([path], on_bad=self._bad):
            place = Path(trajectory.source or "").resolve()
            if not any(folder in place.parents for folder in self._leave_out):
                yield trajectory

    def _enter(self, trajectory: Trajectory, detection: Detection) -> None:
        self.read += 1
        n, db = self.read, self._db
        fields = {
            readable(k): readable(str(v))
            for k, v in detection.metadata.items()
            if v not in ("", None)
        }
        models = sorted({turn.model for turn in trajectory.turns if turn.model})
        if models:
            fields.setdefault("model", "+".join(models))
        text = "\n".join([trajectory.id, *map(_words_of, trajectory.turns)])
        db.execute("BEGIN")
        db.execute(
            "INSERT INTO conversations (n, id, source, messages) VALUES (?, ?, ?, ?)",
            (n, readable(trajectory.id), trajectory.source, len(trajectory.turns)),
        )
        db.executemany("INSERT INTO fields VALUES (?, ?, ?)", [(n, *x) for x in fields.items()])
        db.execute("INSERT INTO contents VALUES (?, ?, NULL)", (n, _packed(trajectory.as_dict())))
        db.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (n, readable(text)))
        self._store(n, detection)
        db.execute("COMMIT")
        for name, value in fields.items():
            if len(self.choices[name]) <= MOST_CHOICES:
                self.choices[name][value] += 1
        self._tell()

    def _judge_all(self) -> None:
        """Add the verdict on collapse and the similarities, which need vectors."""
        from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - slow to import

        try:
            encoder = default_encoder()
        except (ChimeraError, OSError) as error:
            self.note(f"no verdicts on collapse and no similarities: {error}")
            self.judged = self.read
            return
        measurer = measurer_for(LOCKED, lambda: encoder)
        for group in self._handfuls():
            if self._stopped.is_set():
                return
            with ENCODING:
                measured = list(measurer.measure([kept.trajectory for kept in group.values()]))
            self._db.execute("BEGIN")
            for (n, kept), each in zip(group.items(), measured, strict=True):
                new = verdict(each, LOCKED, encoder, loops=None, trace=True)
                self._store(n, _with_loops(new, kept.detection))
                self.judged += 1
            self._db.execute("COMMIT")
            self._tell()

    def _handfuls(self) -> Iterator[dict[int, Kept]]:
        group: dict[int, Kept] = {}
        for n in range(1, self.read + 1):
            kept = self.keep(n)
            assert kept is not None
            group[n] = kept
            if sum(len(each.trajectory.turns) for each in group.values()) >= TURNS_AT_ONCE:
                yield group
                group = {}
        if group:
            yield group

    def _store(self, n: int, detection: Detection) -> None:
        found = found_in(detection)
        self._db.execute(
            "UPDATE conversations SET judged = ?, kind = ?, since = ?, share = ?, strip = ?, "
            "evidence = ? WHERE n = ?",
            (*found[:-1], found.evidence and readable(found.evidence), n),
        )
        packed = _packed(as_json(detection))
        self._db.execute("UPDATE contents SET detection = ? WHERE n = ?", (packed, n))
        self._news += row_patches(n, found)

    def _tell(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._last_news >= SECONDS_BETWEEN_NEWS:
            self._last_news = now
            news, self._news = self._news, []
            self.feed.publish([*news, *self.standing()])


def row_patches(key: int, found: FoundInTalk) -> Iterator[Patch]:
    """What changes in a row of the table once it is judged."""
    yield patch(f"{key}", look=found.look)
    cells = {
        "judged": found.who,
        "loop": found.loop,
        "since": "" if found.since is None else found.since,
        "share": found.share_in_words,
        "evidence": found.evidence or "",
    }
    for name, text in cells.items():
        yield patch(f"{key}-{name}", text)
    if found.strip is not None:
        for looping, name in ((False, "calm"), (True, "stuck")):
            yield patch(f"{key}-{name}", path=found.bars(looping=looping))


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


def _with_loops(new: Detection, words: Detection | None) -> Detection:
    """A verdict on collapse, with what the words have said already."""
    if words is None:
        return new
    return replace(
        new,
        steps=words.steps,
        looping=words.looping,
        loops=words.loops,
        loop_score=words.loop_score,
        loop_detector=words.loop_detector,
    )


def _no_encoder() -> Any:
    raise AssertionError("words need no encoder")


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
