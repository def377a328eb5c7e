"""The logs that a server shows, read and judged in the background.

Conversations go into a temporary SQLite index that is deleted when the server stops: memory stays
small however many there are, and a page of the table is one query. The logs are only read.
"""

import json
import sqlite3
import tempfile
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chimeralab import readers
from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Call, Detection, Trajectory, Turn
from chimeralab.core.text import replace_surrogates
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS
from chimeralab.detection.verdict import as_json, from_json
from chimeralab.report.listing import NO_LOOP, ConversationRow, make_row
from chimeralab.web.live import Feed, Patch, patch
from chimeralab.web.pages import ENCODING

# A field with more different values than this is searched by typing one.
MOST_CHOICES = 30
MOST_FIELDS = 5
MOST_NOTES = 20
# Conversations are judged together until so many turns are at hand; a page may be opened between.
TURNS_AT_ONCE = 200
SECONDS_BETWEEN_NEWS = 0.25
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


class LogIndex:
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

    def find(self, query: Query) -> tuple[list[ConversationRow], int]:
        """A page of the rows that are wanted, and how many there are in all."""
        where, values = _where(query)
        db = self._db
        total = db.execute(f"SELECT count(*) FROM conversations {where}", values).fetchone()[0]  # noqa: S608
        page = min(max(query.page, 1), pages_of(total))
        rows = db.execute(
            f"SELECT * FROM conversations {where} {_order(query)} LIMIT ? OFFSET ?",  # noqa: S608 - names of our own alone
            (*values, PAGE, (page - 1) * PAGE),
        )
        return [ConversationRow._make((f"/logs/{n}", *row, n)) for n, *row in rows], total

    def place(self, n: int, query: Query) -> tuple[int | None, int | None, int]:
        """The neighbours of a conversation among those that are wanted, and the page it is on.

        One that is not among them has the neighbours of its log.
        """
        where, values = _where(query)
        found = self._db.execute(f"SELECT n FROM conversations {where} {_order(query)}", values)  # noqa: S608
        rows = [row[0] for row in found]
        if n not in rows:
            last = self._db.execute("SELECT max(n) FROM conversations").fetchone()[0]
            return n - 1 or None, n + 1 if n < (last or 0) else None, 1
        at = rows.index(n)
        after = rows[at + 1] if at + 1 < len(rows) else None
        return rows[at - 1] if at else None, after, at // PAGE + 1

    def kinds(self) -> dict[str, int]:
        """What was found, by kind, with how often."""
        query = "SELECT kind, count(*) FROM conversations WHERE kind IS NOT NULL GROUP BY kind"
        found = dict(self._db.execute(query).fetchall())
        last = dict.fromkeys(NO_LOOP, 0)
        ordered = sorted(found, key=lambda kind: (kind in last, -found[kind]))
        return {kind: found[kind] for kind in ordered}

    def get(self, n: int) -> tuple[Trajectory, Detection | None] | None:
        """A conversation, whole, with its verdict as far as it was judged."""
        query = "SELECT trajectory, detection FROM contents WHERE n = ?"
        row = self._db.execute(query, [n]).fetchone()
        if row is None:
            return None
        talk = json.loads(zlib.decompress(row[0]))
        turns = (
            Turn(**{**turn, "calls": tuple(Call(**call) for call in turn["calls"])})
            for turn in talk["turns"]
        )
        trajectory = Trajectory(talk["id"], tuple(turns), talk["metadata"], talk["source"])
        return trajectory, from_json(json.loads(zlib.decompress(row[1]))) if row[1] else None

    def enter(self, n: int, trajectory: Trajectory, fields: Mapping[str, str]) -> None:
        """Take in a conversation, which nobody has judged yet."""
        db = self._db
        text = "\n".join([trajectory.id, *map(_words_of, trajectory.turns)])
        db.execute(
            "INSERT INTO conversations (n, id, source, messages) VALUES (?, ?, ?, ?)",
            (n, replace_surrogates(trajectory.id), trajectory.source, len(trajectory.turns)),
        )
        db.executemany("INSERT INTO fields VALUES (?, ?, ?)", [(n, *x) for x in fields.items()])
        db.execute("INSERT INTO contents VALUES (?, ?, NULL)", (n, _packed(trajectory.as_dict())))
        db.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (n, replace_surrogates(text)))

    def judge(self, n: int, messages: int, detection: Detection) -> ConversationRow:
        """Put a verdict beside a conversation, and give its row."""
        row = make_row(detection, messages, f"/logs/{n}", key=n)
        self._db.execute(
            "UPDATE conversations SET judged = ?, kind = ?, since = ?, share = ?, strip = ?, "
            "evidence = ? WHERE n = ?",
            (
                row.judged,
                row.kind,
                row.since,
                row.share,
                row.strip,
                row.evidence and replace_surrogates(row.evidence),
                n,
            ),
        )
        packed = _packed(as_json(detection))
        self._db.execute("UPDATE contents SET detection = ? WHERE n = ?", (packed, n))
        return row


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


def pages_of(total: int) -> int:
    """How many pages of the table so many conversations fill."""
    return max(1, -(-total // PAGE))


def _order(query: Query) -> str:
    column = ORDERS.get(query.sort, "n")
    return f"ORDER BY {column} IS NULL, {column} {'DESC' if query.descending else 'ASC'}, n"


def _words_of(turn: Turn) -> str:
    calls = (f"{call.name} {call.arguments or ''} {call.result or ''}" for call in turn.calls)
    return "\n".join([turn.speaker or "", turn.text, *calls])


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


class LogScanner:
    """Conversations of logs. `start` reads and judges them; all else may be asked meanwhile."""

    def __init__(self, paths: Sequence[str], leave_out: Sequence[Path] = ()) -> None:
        self.paths = tuple(paths)
        self.feed = Feed()
        self.notes: list[str] = []
        self.state = "reading"
        self.read = self.judged = 0
        self.choices: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._leave_out = [path.resolve() for path in leave_out]
        self.index = LogIndex()
        self._last_news = 0.0
        self._news: list[Patch] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="judging", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Wait until all is judged."""
        self._thread.join()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self.index.close()

    # What pages ask for

    def fields(self) -> dict[str, Counter[str]]:
        """The fields that one may choose a value of."""
        few = {name: dict(seen) for name, seen in list(self.choices.items())}
        telling = [name for name, seen in few.items() if 1 < len(seen) <= MOST_CHOICES]
        # A model is asked for most.
        telling.sort(key=lambda name: (name != "model", name))
        return {name: Counter(few[name]) for name in telling[:MOST_FIELDS]}

    def snapshot(self) -> Iterator[Patch]:
        """How far the judging has come."""
        most = max(1, self.read)
        value = most if self.state == "done" else self.judged
        yield patch("progress", self.sentence(), value=value, most=most)
        if self.state != "reading":
            yield patch("unread", reload=True)
        if self.state == "done":
            yield patch("end")

    def sentence(self) -> str:
        """How far the judging has come, in words."""
        if self.state == "done" and self.judged == self.read:
            return f"{plural(self.read, 'conversation')}, all judged"
        if self.state == "done":
            return f"{plural(self.read, 'conversation')}, {self.judged:,} judged for collapse"
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
        words = Judge(None, LOOPS)
        for path in self.paths:
            try:
                for trajectory, detection in words.judge(self._wanted(path)):
                    if self._stopped.is_set():
                        return
                    self._enter(trajectory, detection)
            except InputError as error:
                # A folder of studies need not hold logs as well.
                if not any(Path(path).resolve() in folder.parents for folder in self._leave_out):
                    self.note(str(error))

    def _wanted(self, path: str) -> Iterator[Trajectory]:
        """All but what lies in a study, which has a page of its own."""
        for trajectory in readers.read_all(
            [path], on_bad=lambda error: self.note(f"skipped {error}")
        ):
            place = Path(trajectory.source or "").resolve()
            if not any(folder in place.parents for folder in self._leave_out):
                yield trajectory

    def _enter(self, trajectory: Trajectory, detection: Detection) -> None:
        self.read += 1
        fields = {
            replace_surrogates(k): replace_surrogates(str(v))
            for k, v in detection.metadata.items()
            if v not in ("", None)
        }
        models = sorted({turn.model for turn in trajectory.turns if turn.model})
        if models:
            fields.setdefault("model", "+".join(models))
        with self.index.writing():
            self.index.enter(self.read, trajectory, fields)
            self._judge(self.read, trajectory, detection)
        for name, value in fields.items():
            if len(self.choices[name]) <= MOST_CHOICES:
                self.choices[name][value] += 1
        self._tell()

    def _judge_all(self) -> None:
        """Add the verdict on collapse and the similarities, which need vectors."""
        try:
            judge = Judge(LOCKED, None, trace=True)
        except (ChimeraError, OSError) as error:
            self.note(f"no verdicts on collapse and no similarities: {error}")
            return
        for group in self._handfuls():
            if self._stopped.is_set():
                return
            with ENCODING:
                judged = list(judge.judge(trajectory for _, trajectory, _ in group))
            with self.index.writing():
                for (n, trajectory, words), (_, new) in zip(group, judged, strict=True):
                    self._judge(n, trajectory, _with_loops(new, words))
                    self.judged += 1
            self._tell()

    def _handfuls(self) -> Iterator[list[tuple[int, Trajectory, Detection | None]]]:
        """The conversations, as many at a time as are judged together."""
        group, turns = [], 0
        for n in range(1, self.read + 1):
            kept = self.index.get(n)
            assert kept is not None
            group.append((n, *kept))
            turns += len(kept[0].turns)
            if turns >= TURNS_AT_ONCE:
                yield group
                group, turns = [], 0
        if group:
            yield group

    def _judge(self, n: int, trajectory: Trajectory, detection: Detection) -> None:
        self._news += row_patches(self.index.judge(n, len(trajectory.turns), detection))

    def _tell(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._last_news >= SECONDS_BETWEEN_NEWS:
            self._last_news = now
            news, self._news = self._news, []
            self.feed.publish([*news, *self.snapshot()])


def row_patches(row: ConversationRow) -> Iterator[Patch]:
    """What changes in a row of the table once it is judged."""
    yield patch(f"{row.key}", look=row.look)
    cells = {
        "judged": row.who,
        "loop": row.loop,
        "since": "" if row.since is None else row.since,
        "share": row.share_in_words,
        "evidence": row.evidence or "",
    }
    for name, text in cells.items():
        yield patch(f"{row.key}-{name}", text)
    if row.strip is not None:
        for looping, name in ((False, "calm"), (True, "stuck")):
            yield patch(f"{row.key}-{name}", path=row.bars(looping=looping))


def _with_loops(new: Detection, words: Detection | None) -> Detection:
    """A verdict on collapse, with what the words have said already."""
    names = ("steps", "looping", "loops", "loop_score", "loop_detector")
    return replace(new, **{name: getattr(words, name) for name in names}) if words else new
