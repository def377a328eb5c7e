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
from chimeralab.core.records import Detection, Trajectory, Turn, load_trajectory
from chimeralab.core.text import replace_surrogates
from chimeralab.detection.cost import Prices
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS
from chimeralab.detection.verdict import as_json, from_json
from chimeralab.report.listing import NO_LOOP, ConversationRow, make_row
from chimeralab.web.live import Feed, Patch, patch
from chimeralab.web.pages import ENCODING

# A field with more values than this gets a text box instead of a menu.
MAX_CHOICES = 30
MAX_FIELDS = 5
MAX_NOTES = 20
# Conversations are judged in batches of about this many turns; requests are served in between.
BATCH_TURNS = 200
SECONDS_BETWEEN_PATCHES = 0.25
SCHEMA = """
    CREATE TABLE conversations (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        source TEXT,
        messages INTEGER NOT NULL,
        parent TEXT,
        run TEXT NOT NULL,
        kind TEXT,
        period INTEGER,
        since INTEGER,
        until INTEGER,
        share REAL,
        strip TEXT,
        evidence TEXT,
        tokens INTEGER,
        estimated INTEGER,
        inside INTEGER,
        cost INTEGER,
        guessed INTEGER,
        money REAL
    );
    CREATE INDEX conversations_by_id ON conversations (id);
    CREATE INDEX conversations_by_run ON conversations (run);
    CREATE INDEX conversations_by_kind ON conversations (kind);
    CREATE TABLE fields (n INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
    CREATE INDEX fields_by_value ON fields (name, value, n);
    CREATE TABLE contents (n INTEGER PRIMARY KEY, trajectory BLOB NOT NULL, detection BLOB);
    CREATE VIRTUAL TABLE texts USING fts5 (text, content='');
"""
JUDGED = ("kind", "period", "since", "until", "share", "strip", "evidence", "tokens", "estimated")
ROW = ", ".join(("n", "id", "source", "messages", "parent", *JUDGED))
PAGE = 50
# Sort keys of the table, and their columns.
ORDERS = {
    "log": "n",
    "conversation": "id",
    "loop": "kind",
    "since": "since",
    "share": "share",
    "cost": "tokens",
}


@dataclass(frozen=True, slots=True)
class Query:
    """Filters, order and page of the table of conversations."""

    search: str = ""
    kind: str = ""
    fields: Mapping[str, str] | None = None
    sort: str = "cost"
    descending: bool = True
    page: int = 1


class LogIndex:
    """A temporary database of conversations and verdicts.

    Each thread has its own connection; only one thread writes.
    """

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
    def transaction(self) -> Iterator[None]:
        """Group writes into one transaction."""
        self._db.execute("BEGIN")
        yield
        self._db.execute("COMMIT")

    def find(self, query: Query) -> tuple[list[ConversationRow], int]:
        """Get a page of matching rows, and the number of all matches."""
        where, values = _where(query)
        db = self._db
        total = db.execute(f"SELECT count(*) FROM conversations {where}", values).fetchone()[0]  # noqa: S608
        page = min(max(query.page, 1), pages_of(total))
        rows = db.execute(
            f"SELECT {ROW} FROM conversations {where} {_order(query)} LIMIT ? OFFSET ?",  # noqa: S608 - fixed column names
            (*values, PAGE, (page - 1) * PAGE),
        )
        return [ConversationRow._make((f"/logs/{n}", *row, n)) for n, *row in rows], total

    def place(self, n: int, query: Query) -> tuple[int | None, int | None, int | None, int]:
        """Get the neighbours of a conversation in the table, its place, and the number of rows.

        One that doesn't match the query has its neighbours in the log, and no place.
        """
        where, values = _where(query)
        found = self._db.execute(f"SELECT n FROM conversations {where} {_order(query)}", values)  # noqa: S608
        rows = [row[0] for row in found]
        if n not in rows:
            last = self._db.execute("SELECT max(n) FROM conversations").fetchone()[0]
            return n - 1 or None, n + 1 if n < (last or 0) else None, None, len(rows)
        at = rows.index(n)
        after = rows[at + 1] if at + 1 < len(rows) else None
        return rows[at - 1] if at else None, after, at + 1, len(rows)

    def list_run(self, n: int) -> list[tuple[int, str, str | None]]:
        """Number, id and parent of the conversations of a run, which sub-agents belong to."""
        query = (
            "SELECT n, id, parent FROM conversations"
            " WHERE run = (SELECT run FROM conversations WHERE n = ?) ORDER BY n LIMIT 50"
        )
        return self._db.execute(query, [n]).fetchall()

    def kinds(self) -> dict[str, int]:
        """Count the conversations by kind of loop."""
        query = "SELECT kind, count(*) FROM conversations WHERE kind IS NOT NULL GROUP BY kind"
        found = dict(self._db.execute(query).fetchall())
        last = dict.fromkeys(NO_LOOP, 0)
        ordered = sorted(found, key=lambda kind: (kind in last, -found[kind]))
        return {kind: found[kind] for kind in ordered}

    def summary(self, query: Query) -> dict[str, Any]:
        """Add up the conversations that match a query, whatever their kind."""
        where, values = _where(replace(query, kind=""))
        sums = f"""
            SELECT count(*) AS conversations, total(looping) AS looping,
                total(messages) AS messages, total(inside) AS inside,
                total(tokens) FILTER (WHERE NOT guessed) AS lost,
                total(cost) FILTER (WHERE NOT guessed) AS spent,
                total(tokens) FILTER (WHERE guessed) AS lost_guessed,
                total(cost) FILTER (WHERE guessed) AS spent_guessed,
                total(money) AS money, total(looping AND until IS NULL) AS to_the_end
            FROM (SELECT *, kind IS NOT NULL AND kind NOT IN ({_NO_LOOP}) AS looping
                  FROM conversations {where})
        """  # noqa: S608 - fixed column names
        cursor = self._db.execute(sums, values)
        names = [column[0] for column in cursor.description]
        found = dict(zip(names, cursor.fetchone(), strict=True))
        query = replace(query, kind="loop")
        where, values = _where(query)
        half = int(found["looping"] - 1) // 2
        median = f"SELECT since FROM conversations {where} ORDER BY since LIMIT 1 OFFSET ?"  # noqa: S608
        row = self._db.execute(median, (*values, max(0, half))).fetchone()
        tokens = {
            False: (found["lost"], found["spent"]),
            True: (found["lost_guessed"], found["spent_guessed"]),
        }
        return {**found, "tokens": tokens, "median": row and row[0]}

    def rank(self, name: str, query: Query) -> list[tuple[str, int, int]]:
        """The values of a field with the number of their loops and of all, most loops first."""
        where, values = _where(replace(query, kind=""))
        found = self._db.execute(
            f"SELECT value, total(kind NOT IN ({_NO_LOOP})), count(*) FROM conversations"  # noqa: S608
            f" JOIN fields USING (n) {where + ' AND' if where else 'WHERE'} name = ?"
            " GROUP BY value ORDER BY 2 DESC, 3",
            (*values, name),
        )
        return [(value, int(looping), total) for value, looping, total in found]

    def get(self, n: int) -> tuple[Trajectory, Detection | None] | None:
        """Load a conversation with its verdict, if there is one yet."""
        query = "SELECT trajectory, detection FROM contents WHERE n = ?"
        row = self._db.execute(query, [n]).fetchone()
        if row is None:
            return None
        trajectory = load_trajectory(json.loads(zlib.decompress(row[0])))
        return trajectory, from_json(json.loads(zlib.decompress(row[1]))) if row[1] else None

    def insert(self, n: int, trajectory: Trajectory, fields: Mapping[str, str]) -> None:
        """Insert a conversation that is not judged yet."""
        db = self._db
        text = "\n".join([trajectory.id, *map(_words_of, trajectory.turns)])
        name = replace_surrogates(trajectory.id)
        parent = trajectory.parent and replace_surrogates(trajectory.parent)
        query = "SELECT run FROM conversations WHERE id = ? LIMIT 1"
        above = db.execute(query, [parent]).fetchone() if parent else None
        run = above[0] if above else parent or f"{n} {name}"
        db.execute(
            "INSERT INTO conversations (n, id, source, messages, parent, run)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (n, name, trajectory.source, len(trajectory.turns), parent, run),
        )
        if parent and not above:  # it came before the one that started it
            db.execute("UPDATE conversations SET run = ? WHERE id = ?", (run, parent))
        db.executemany("INSERT INTO fields VALUES (?, ?, ?)", [(n, *x) for x in fields.items()])
        db.execute("INSERT INTO contents VALUES (?, ?, NULL)", (n, _pack(trajectory.as_dict())))
        db.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (n, replace_surrogates(text)))

    def judge(self, n: int, messages: int, detection: Detection) -> ConversationRow:
        """Store the verdict on a conversation, and return its row."""
        row = make_row(detection, messages, f"/logs/{n}", key=n)
        whole, inside = detection.cost, detection.loop_cost
        values = {
            **{name: getattr(row, name) for name in JUDGED},
            "evidence": row.evidence and replace_surrogates(row.evidence),
            "inside": detection.looping_messages,
            "cost": whole and whole.tokens,
            "guessed": any(cost.estimated for cost in (whole, inside) if cost),
            "money": inside and inside.money,
        }
        fields = ", ".join(f"{name} = :{name}" for name in values)
        self._db.execute(f"UPDATE conversations SET {fields} WHERE n = :n", {**values, "n": n})  # noqa: S608
        packed = _pack(as_json(detection))
        self._db.execute("UPDATE contents SET detection = ? WHERE n = ?", (packed, n))
        return row


_NO_LOOP = ", ".join(map(repr, NO_LOOP))


def _where(query: Query) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    if query.kind == "loop":
        parts.append(f"kind NOT IN ({_NO_LOOP})")
    elif query.kind:
        parts.append("kind = ?")
        values.append(query.kind)
    for name, value in (query.fields or {}).items():
        parts.append("n IN (SELECT n FROM fields WHERE name = ? AND value = ?)")
        values += [name, value]
    if query.search.strip():
        parts.append("n IN (SELECT rowid FROM texts WHERE texts MATCH ?)")
        # A phrase whose last word is a prefix; quotes are doubled.
        values.append('"{}"*'.format(query.search.strip().replace('"', '""')))
    return ("WHERE " + " AND ".join(parts) if parts else ""), values


def pages_of(total: int) -> int:
    """Count the pages that a number of conversations fills."""
    return max(1, -(-total // PAGE))


def _order(query: Query) -> str:
    column, way = ORDERS.get(query.sort, "n"), "DESC" if query.descending else "ASC"
    if query.sort == "cost":  # the conversations of a run, with its sub-agents, stand together
        of_run = f"{'max' if query.descending else 'min'}(%s) OVER (PARTITION BY run) {way}"
        keys = f"coalesce(kind NOT IN ({_NO_LOOP}), 0)", "coalesce(tokens, 0)"
        whole = ", ".join(of_run % key for key in keys)  # what loops comes before what costs
        return f"ORDER BY {whole}, run, {column} {way}, n"
    return f"ORDER BY {column} IS NULL, {column} {way}, n"


def _words_of(turn: Turn) -> str:
    calls = (f"{call.name} {call.arguments or ''} {call.result or ''}" for call in turn.calls)
    return "\n".join([turn.speaker or "", turn.text, *calls])


def _pack(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode(), 1)


class LogScanner:
    """Read and judge logs in a background thread; pages may query it meanwhile."""

    def __init__(
        self,
        paths: Sequence[str],
        leave_out: Sequence[Path] = (),
        prices: Prices | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self.prices = prices
        self.feed = Feed()
        self.notes: list[str] = []
        self.state = "reading"
        self.read = self.judged = 0
        self.choices: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._leave_out = [path.resolve() for path in leave_out]
        self.index = LogIndex()
        self._last_sent = 0.0
        self._pending: list[Patch] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="judging", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Wait until everything is judged."""
        self._thread.join()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self.index.close()

    # For pages

    def fields(self) -> dict[str, Counter[str]]:
        """Get the fields to filter by, with counts of their values."""
        few = {name: dict(seen) for name, seen in list(self.choices.items())}
        useful = [name for name, seen in few.items() if 1 < len(seen) <= MAX_CHOICES]
        useful.sort(key=lambda name: (name != "model", name))  # the model is used most
        return {name: Counter(few[name]) for name in useful[:MAX_FIELDS]}

    def snapshot(self) -> Iterator[Patch]:
        """Report the progress as patches."""
        most = max(1, self.read)
        value = most if self.state == "done" else self.judged
        yield patch("progress", self.sentence(), value=value, most=most)
        if self.state != "reading":
            yield patch("unread", reload=True)
        if self.state == "done":
            yield patch("end")

    def sentence(self) -> str:
        """Describe the progress in words."""
        if self.state == "done" and self.judged == self.read:
            return f"{plural(self.read, 'conversation')}, all judged"
        if self.state == "done":
            return f"{plural(self.read, 'conversation')}, {self.judged:,} judged for collapse"
        if self.state == "reading":
            return f"reading: {self.read:,} conversations so far"
        return f"judged {self.judged:,} of {self.read:,} conversations"

    # The background thread

    def _work(self) -> None:
        try:
            self.read_all()
            self.state = "judging"
            self._judge_all()
        except (ChimeraError, OSError, MemoryError) as error:
            self.note(f"stopped: {error}")
        finally:
            self.state = "done"
            self._publish(at_once=True)

    def note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def read_all(self) -> None:
        """Read every conversation and detect the loops that words show."""
        words = Judge(None, LOOPS, prices=self.prices)
        for path in self.paths:
            try:
                for trajectory, detection in words.judge(self._read(path)):
                    if self._stopped.is_set():
                        return
                    self._enter(trajectory, detection)
            except InputError as error:
                # A folder of studies may contain no logs.
                if not any(Path(path).resolve() in folder.parents for folder in self._leave_out):
                    self.note(str(error))

    def _read(self, path: str) -> Iterator[Trajectory]:
        """Read the logs at a path, without those inside studies, which have their own pages."""
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
        with self.index.transaction():
            self.index.insert(self.read, trajectory, fields)
            self._judge(self.read, trajectory, detection)
        for name, value in fields.items():
            if len(self.choices[name]) <= MAX_CHOICES:
                self.choices[name][value] += 1
        self._publish()

    def _judge_all(self) -> None:
        """Add what needs vectors: collapse, similarities, and loops that words don't show."""
        try:
            judge = Judge(LOCKED, LOOPS, trace=True, prices=self.prices)
        except (ChimeraError, OSError) as error:
            self.note(f"no collapse verdicts and no similarities: {error}")
            return
        for batch in self._batches():
            if self._stopped.is_set():
                return
            with ENCODING:
                judged = list(judge.judge(batch))
            with self.index.transaction():
                for trajectory, detection in judged:
                    self.judged += 1
                    self._judge(self.judged, trajectory, detection)
            self._publish()

    def _batches(self) -> Iterator[list[Trajectory]]:
        """Load all conversations in batches."""
        group, turns = list[Trajectory](), 0
        for n in range(1, self.read + 1):
            stored = self.index.get(n)
            assert stored is not None
            group.append(stored[0])
            turns += len(stored[0].turns)
            if turns >= BATCH_TURNS:
                yield group
                group, turns = [], 0
        if group:
            yield group

    def _judge(self, n: int, trajectory: Trajectory, detection: Detection) -> None:
        self._pending += row_patches(self.index.judge(n, len(trajectory.turns), detection))

    def _publish(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._last_sent >= SECONDS_BETWEEN_PATCHES:
            self._last_sent = now
            pending, self._pending = self._pending, []
            self.feed.publish([*pending, *self.snapshot()])


def row_patches(row: ConversationRow) -> Iterator[Patch]:
    """Make the patches for a row once it is judged."""
    yield patch(f"{row.key}", look=row.look)
    cells = {
        "loop": row.loop,
        "since": row.since_text,
        "share": row.share_text,
        "cost": row.cost,
        "evidence": row.evidence or "",
    }
    for name, text in cells.items():
        yield patch(f"{row.key}-{name}", text)
    yield patch(f"{row.key}-strip", path=row.strip or "")
