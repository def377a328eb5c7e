"""The SQLite database of a study: open it, migrate it, check its cells, group its commits.

A durable commit takes a disk some milliseconds. Thousands of conversations that each waited for
their own would wait for nothing else, so they share commits.

After a kill, the last turns are in `study.db-wal` alone. A copy of the folder without that file is
a sound database that holds less, and so is one whose last rows were deleted with their records; no
hash inside it can show that. So the length of the chain and its head are in `study.count`, too.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import read_regular
from chimeralab.core.parts import validate
from chimeralab.core.schema import FIRST_SCHEMA, SCHEMA, check_schema
from chimeralab.study import chain

# The `application_id` of the file: "chim" in ASCII.
APPLICATION_ID = 0x6368696D
# That of the read-only copy in a bundle ("chib"), and the file that a bundle has next to it.
COPY_ID = 0x63686962
MANIFEST = "manifest-sha256.txt"
# What a copy has more, and what it lacks: invitations and unsubmitted drafts are private.
WITHHELD = "CREATE TABLE withheld (kind TEXT NOT NULL, key TEXT NOT NULL)"
PRIVATE = ("invitations", "drafts")
BUSY_MS = 30_000
# The most that a copy without the WAL can lack after a kill: 256 kB, a few dozen turns.
PAGES_IN_WAL = 64

# One script for each schema number from the first on. A released script is never edited: later
# tables are added by later scripts.
MIGRATIONS = ((files("chimeralab.study") / "schema.sql").read_text(encoding="utf-8"),)


class StoreError(InputError):
    """The database of a study can't be used."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open or create the database, check its integrity, and migrate it."""
    with explain_errors(path):
        refuse_special(path)
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            if connection.execute("PRAGMA application_id").fetchone()[0] == COPY_ID:
                raise StoreError(
                    f"{path} is the read-only copy in a bundle; use the study it was made from"
                )
            # WAL allows reading during a run; FULL makes commits survive a power cut.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_IN_WAL}")
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            for (found,) in connection.execute("PRAGMA quick_check"):
                if is_file_damage(found):
                    raise StoreError(f"{path}: {advise(f'malformed: {found}')}")
            migrate(connection, path)
            refuse_impostors(connection, path)
            refuse_damage(
                {"schema": list(find_foreign(connection))} | find_damage(connection), path
            )
            if missing := find_shortfall(connection, path, read_tally(path)):
                raise StoreError(
                    f"{path} {missing}; restore it, or move {tally_path(path).name} away to go on "
                    "without them, and to request and pay for turns among them again"
                )
            checkpoint(connection, path)
            chain.record_writes(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def refuse_special(path: Path) -> None:
    """Refuse pipes and devices among the files of a database: SQLite would wait for their bytes."""
    for ending in ("", "-wal", "-shm", "-journal"):
        found = path.with_name(path.name + ending)
        if found.exists() and not found.is_file():
            raise StoreError(f"{found} is not a regular file; move it away")


def is_empty(path: Path) -> bool:
    """Whether a database has no tables yet."""
    with explain_errors(path), closing(_connect_to_read(path)) as connection:
        return _read_schema(connection, path) == 0


def _connect_to_read(path: Path) -> sqlite3.Connection:
    refuse_special(path)
    # In a read-only folder, SQLite must not try to create a WAL.
    has_wal = path.with_name(path.name + "-wal").exists()
    immutable = "" if has_wal or os.access(path.parent, os.W_OK) else "&immutable=1"
    address = f"{path.resolve().as_uri()}?mode=ro{immutable}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    return connection


def open_to_read(path: Path, *, any_schema: bool = False) -> sqlite3.Connection:
    """Open the database read-only; a run may be writing to it.

    With `any_schema`, it may be one that still has to be migrated.
    """
    if not path.is_file():
        raise StoreError(f"{path} does not exist; `chimera run` creates it")
    with explain_errors(path):
        connection = _connect_to_read(path)
        try:
            schema = _read_schema(connection, path)
            if schema == 0:
                raise StoreError(f"{path} is still empty; try again once `chimera run` has started")
            if schema < SCHEMA and not any_schema:
                raise StoreError(
                    f"{path} has schema {schema} and this chimera-lab reads {SCHEMA}; "
                    "`chimera run` migrates it"
                )
            refuse_impostors(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def checkpoint(connection: sqlite3.Connection, path: Path) -> None:
    """Move the WAL into the database, as far as readers allow."""
    with explain_errors(path):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply the missing migrations in one transaction.

    So readers see a new database either empty or complete, never as an older one.
    """
    missing = MIGRATIONS[max(_read_schema(connection, path) + 1 - FIRST_SCHEMA, 0) :]
    if not missing:
        return
    if not tally_path(path).exists():  # before the first record, so that it is never missing
        write_tally(path, 0, "")
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE; {'; '.join(missing)}; "
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA};"
        )
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Commit at the end of the block; roll back on an error."""
    with explain_errors(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        update_tally(connection, path)


def is_file_damage(complaint: str) -> bool:
    """Whether an integrity check found more than a cell, which `find_damage` names."""
    return complaint != "ok" and not complaint.startswith(("NULL value", "CHECK constraint"))


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a `StoreError` that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {advise(str(error))}") from error
    except UnicodeDecodeError as error:  # SQLite's own message quotes a damaged schema
        raise StoreError(f"{path}: {advise('malformed: text that is not UTF-8')}") from error


def advise(complaint: str) -> str:
    """Say what to do about an error of SQLite."""
    if "disk is full" in complaint:
        return "the disk is full; free some space and run again, nothing stored is lost"
    if "readonly" in complaint or "unable to open" in complaint:
        return (
            f"it can't be written here ({complaint}), which a database with a WAL needs; check the "
            "folder and its permissions, or copy the study"
        )
    if "locked" in complaint:
        return "another process is using it; try again later"
    if any(each in complaint for each in ("not a database", "malformed", "no such", "UTF-8")):
        return (
            f"the file is damaged ({complaint}); restore a copy, use the bundle of the study, or "
            "rescue what is left: `sqlite3 study.db .recover | sqlite3 rescued.db`"
        )
    return complaint


def _read_schema(connection: sqlite3.Connection, path: Path) -> int:
    """The schema number of a database that this version can use; 0 for an empty one."""
    # One query: a writer may create the tables between two.
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    schema, tables = connection.execute(query).fetchone()
    if schema:
        check_schema(schema, str(path), "run its plan again in a new folder", StoreError)
    elif tables:
        raise StoreError(f"{path} is a database of another program; move it away")
    return int(schema)


# What a cell holds, in words and as SQL.
Content = tuple[str, str]
_JSON = (
    "typeof({0}) = 'text' AND "
    "CASE WHEN json_valid({0}) THEN json_type({0}) ELSE json_kind(CAST({0} AS BLOB)) END"
)
HASH = ("a hash", "length({0}) = 64 AND {0} NOT GLOB '*[^0-9a-f]*'")
TIME = ("a time", "{0} GLOB '????-??-??T*' AND julianday({0}) IS NOT NULL")
OBJECT = ("a JSON object", f"{_JSON} = 'object'")
LIST = ("a JSON list", f"{_JSON} = 'array'")
TYPES: Mapping[str, Content] = {
    "TEXT": ("text", "typeof({0}) = 'text'"),
    "INTEGER": ("a whole number", "typeof({0}) = 'integer'"),
    "REAL": ("a number", "typeof({0}) = 'real' AND abs({0}) < 1e300"),
    "BLOB": ("bytes", "typeof({0}) = 'blob'"),
}
# The columns that hold more than their type says.
CONTENT: Mapping[str, Content] = {
    "study.value": (
        "the value of this note",
        "typeof({0}) = 'text' AND CASE WHEN key = 'resolved' OR key GLOB '* of rater *' "
        "OR key GLOB 'revision *' "
        f"THEN {OBJECT[1]} ELSE true END",
    ),
    "runs.settings": OBJECT,
    "runs.started": TIME,
    "events.detail": OBJECT,
    "detections.detection": ("a JSON object or list", f"{_JSON} IN ('object', 'array')"),
    "detections.detector": HASH,
    "detections.at": TIME,
    # No hash covers these tables, so their form is checked.
    "invitations.task": ("a task", "{0} IN ('rate', 'adjudicate')"),
    "invitations.token_sha256": HASH,
    "invitations.invited": TIME,
    "invitations.handed_in": TIME,
    "drafts.label": ("a label", "{0} IN ('', '0', '1', 'u')"),
    "drafts.at": TIME,
    "raters.identity": OBJECT,
    "ratings.label": ("0 or 1", "{0} IN (0, 1)"),
    "ratings.turns": LIST,
    "ratings.kinds": LIST,
    "ratings.noted": LIST,
    "ratings.attempts": LIST,
    "samples.kind": ("the purpose of a sample", "{0} IN ('calibration', 'gate')"),
    "samples.sample": OBJECT,
    "samples.drawn_by": OBJECT,
    "packets.packet": OBJECT,
    "chain.kind": ("the name of a table", f"{{0}} IN {tuple(chain.OBSERVED)}"),
    "chain.row": ("a hash", "typeof({0}) = 'blob' AND length({0}) = 32"),
    "chain.head": ("a hash", "typeof({0}) = 'blob' AND length({0}) = 32"),
    "chain.key": ("the key of a row", f"{LIST[1]} AND {{0}} != '[]'"),
    "adjudications.label": ("0 or 1", "{0} IN (0, 1)"),
}
ROWS_NAMED = 5


@cache
def _tables() -> dict[str, tuple[tuple[str, ...], dict[str, Content], str]]:
    """For each table its key, what its columns hold, and the SQL of a row that is sound."""
    found = {}
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(";".join(MIGRATIONS))
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for table in names:
            columns, texts = {}, []
            rows = db.execute(f"PRAGMA table_info({table})").fetchall()
            for _, name, kind, required, _, key in rows:
                words, sound = CONTENT.get(f"{table}.{name}", TYPES[kind])
                absent = "" if required or key else f"{name} IS NULL OR "
                columns[name] = words, f"({absent}coalesce({sound.format(name)}, false))"
                texts += [f"CAST({name} AS BLOB)"] if kind == "TEXT" else []
            keys = tuple(row[1] for row in rows if row[5])
            sound_cells = " AND ".join(sound for _, sound in columns.values())
            found[table] = keys, columns, f"{sound_cells} AND is_utf8({', '.join(texts)})"
    return found


def _is_utf8(*cells: bytes | None) -> bool:
    try:
        return all(cell is None or cell.decode("utf-8") is not None for cell in cells)
    except UnicodeDecodeError:
        return False


def _json_kind(text: bytes) -> str | None:
    """The type of JSON that Python can read and SQLite can't, such as that with NaN."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return "object" if isinstance(found, dict) else "array" if isinstance(found, list) else None
    return None


def find_damage(db: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    """Find the cells that hold something else than they should, as place and problem by table."""
    _add_functions(db)
    strict, db.text_factory = db.text_factory, lambda raw: raw.decode("utf-8", "surrogateescape")
    found = {}
    try:
        for table in _tables():
            try:
                if damage := list(_find_in_table(db, table)):
                    found[table] = damage
            except sqlite3.Error as error:
                found[table] = [(f"table {table}", advise(f"malformed: {error}"))]
    finally:
        db.text_factory = strict
    return found


def refuse_impostors(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a view under the name of a table: it may give rows without end."""
    rows = db.execute("SELECT type, name FROM sqlite_master WHERE sql NOT LIKE 'CREATE TABLE%'")
    for kind, name in rows:
        if name in _tables():
            what = "virtual table" if kind == "table" else kind
            raise StoreError(f"{path}: {name} is a {what} in place of the table; restore a copy")


def find_foreign(db: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Find what a schema has that is not ours, or lacks, as place and problem.

    A trigger or a view could change what is written or read.
    """
    query = "SELECT type, name, sql FROM main.sqlite_master WHERE sql IS NOT NULL"
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(";".join(MIGRATIONS))
        ours = {row[:2]: row[2] for row in fresh.execute(query)}
    if db.execute("PRAGMA application_id").fetchone()[0] == COPY_ID:
        ours[("table", "withheld")] = WITHHELD
        ours = {each: sql for each, sql in ours.items() if not each[1].startswith(PRIVATE)}
    found = {tuple(row)[:2]: row[2] for row in db.execute(query)}
    for kind, name in sorted(ours.keys() | found.keys()):
        known, sql = ours.get((kind, name)), found.get((kind, name))
        if known is None:
            yield f"{kind} {name}", "it is not part of the schema: added from outside"
        elif sql is None:
            yield f"{kind} {name}", "it is part of the schema, but no longer there"
        elif sql != known:
            yield f"{kind} {name}", "it is not as the schema declares it: changed from outside"


def _add_functions(db: sqlite3.Connection) -> None:
    db.create_function("is_utf8", -1, _is_utf8, deterministic=True)
    db.create_function("json_kind", 1, _json_kind, deterministic=True)


def _find_in_table(db: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    _, columns, sound_row = _tables()[table]
    present = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
    if not present:  # a bundle has no drafts; a query says which table is missing
        return
    if missing := columns.keys() - present:
        yield f"table {table}", f"it has no column {', '.join(sorted(missing))}"
        return
    damaged: dict[str, list[Mapping[str, Any]]] = {}
    checks = ", ".join(sound for _, sound in columns.values())
    query = f"SELECT {', '.join(columns)}, {checks} FROM {table} WHERE NOT ({sound_row})"  # noqa: S608
    for row in db.execute(query):
        cells = dict(zip(columns, row, strict=False))
        for (name, cell), is_sound in zip(cells.items(), row[len(columns) :], strict=True):
            raw = cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else None
            if not (is_sound and _is_utf8(raw)):
                damaged.setdefault(name, []).append(cells)
    for column, rows in damaged.items():
        names = ", ".join(name_row(table, cells) for cells in rows[:ROWS_NAMED])
        more = f" and {len(rows) - ROWS_NAMED:,} more" if len(rows) > ROWS_NAMED else ""
        place = f"table {table}, row{'s' if len(rows) > 1 else ''} {names}{more}"
        shown = _shorten(rows[0][column])
        yield place, f"column {column} holds {shown}, which is not {columns[column][0]}"


def _shorten(cell: Any) -> str:
    return "nothing" if cell is None else json.dumps(cell, default=str)[:60]


def name_row(table: str, row: Mapping[str, Any]) -> str:
    """Name a row by its key, as far as it was read."""
    parts = (str(row[name]) for name in _tables()[table][0] if name in row)
    return " ".join(part if len(part) <= 40 else part[:12] + "…" for part in parts)


def refuse_damage(damage: Mapping[str, list[tuple[str, str]]], path: Path) -> None:
    """Raise an error that names the first damaged cell."""
    for place, problem in (each for cells in damage.values() for each in cells):
        raise StoreError(
            f"{path}: {place}: {problem}; restore a copy, or use the bundle of the study "
            f"(`chimera verify {path.parent}` lists everything that is damaged)"
        )


def hide_damage(db: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Hide the damaged rows of tables behind views, so that the others can be read.

    `main.TABLE` still has them, with broken characters as lone surrogates.
    """
    _add_functions(db)
    for table in tables:
        db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        sound_row = _tables()[table][2]
        db.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE {sound_row}")  # noqa: S608


@contextmanager
def name_cell(table: str, row: Mapping[str, Any], column: str = "") -> Iterator[None]:
    """Turn errors in what a cell or row contains into a `StoreError` that names it."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        what = f"column {column} holds {_shorten(row[column])}, which" if column else "it"
        why = " ".join(str(error).split())[:100]
        raise StoreError(
            f"table {table}, row {name_row(table, row)}: {what} can't be read ({why}); restore a "
            "copy of the study, or use its bundle"
        ) from error


def decode(kind: Any, table: str, row: Mapping[str, Any], column: str) -> Any:
    """Decode a JSON cell as a value of a type; an error names the cell."""
    with name_cell(table, row, column):
        return validate(kind, json.loads(row[column]))


# The file is overwritten in place, so every content has the same length.
TALLY = "{:<20}{:<64}\n"


def tally_path(store: Path) -> Path:
    return store.with_suffix(".count")


def read_tally(store: Path) -> tuple[int, str] | None:
    """Read the chain's length and head next to a database; None if they can't be read."""
    try:
        records, *head = read_regular(tally_path(store)).decode("ascii").split()
        return int(records), "".join(head)
    except (OSError, ValueError):
        return None


def write_tally(store: Path, records: int, head: str) -> None:
    """Write how much is committed; after a kill it is at most one commit behind."""
    path = tally_path(store)
    is_new = not path.exists()
    try:
        with path.open("wb" if is_new else "r+b", buffering=0) as file:
            file.write(TALLY.format(records, head).encode("ascii"))
            if is_new:
                os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} can't be written ({error.strerror})") from error


def update_tally(db: sqlite3.Connection, store: Path) -> None:
    """Write how much is committed, unless another process has written that more is."""
    query = "SELECT id, lower(hex(head)) FROM chain ORDER BY id DESC LIMIT 1"
    last = db.execute(query).fetchone()
    if last and last[0] > (read_tally(store) or (0, ""))[0]:
        write_tally(store, *last)


def find_shortfall(
    db: sqlite3.Connection, store: Path, tally: tuple[int, str] | None
) -> str | None:
    """Say which records a database lacks of those that were stored in it; None if none."""
    records, head = tally or (0, "")
    query = "SELECT (SELECT max(id) FROM chain), (SELECT lower(hex(head)) FROM chain WHERE id = ?)"
    found, then = tuple(db.execute(query, [records]).fetchone())
    if not records or then == head:
        return None
    if found is None:
        lacks = f"has none of the {records:,}"
    elif found < records:
        lacks = f"lacks the last {records - found:,} of {records:,}"
    else:
        return (
            f"does not continue the {records:,} records that were stored in it: the end of its "
            "chain was replaced"
        )
    return (
        f"{lacks} records that were stored in it: {store.name}-wal is missing or truncated, or the "
        "end of its chain was cut off"
    )


class GroupCommit:
    """Collects atomic steps and commits them together.

    Outside an event loop, a step is durable when it ends; inside one, when `flush` returns, or
    shortly after. `on_commit` is called after each commit. With a `patience` of n, the next commit
    waits for n times the duration of the last one, so that the disk blocks the event loop for a
    limited share of the time.
    """

    patience = 0.0

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        on_commit: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._path = path
        self._on_commit = on_commit
        self._clock = clock
        self._next: asyncio.Future[None] | None = None
        self._duration = self._ended = 0.0  # of the last commit

    @contextmanager
    def step(self) -> Iterator[sqlite3.Connection]:
        try:
            with explain_errors(self._path):
                if not self._db.in_transaction:
                    self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("SAVEPOINT step")
                try:
                    yield self._db
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK TO step")
                    raise
                finally:
                    if self._db.in_transaction:
                        self._db.execute("RELEASE step")
        except Exception as error:
            if self._next and not self._db.in_transaction:
                # A full disk rolls back the whole transaction, with the steps of others.
                self._next.set_exception(error)
                self._next = None
            raise
        self._commit_soon()

    async def flush(self) -> None:
        """Wait until all steps so far are durable."""
        if self._next is not None:
            await asyncio.shield(self._next)  # others wait for it as well

    def commit(self) -> None:
        """Commit now, and wake those who wait for it."""
        waiting, self._next = self._next, None
        try:
            if self._db.in_transaction:
                self._commit()
        except Exception as error:
            if waiting is not None:
                waiting.set_exception(error)
            raise
        if waiting is not None:
            waiting.set_result(None)

    def _commit(self) -> None:
        started = self._clock()
        with explain_errors(self._path):
            try:
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        self._on_commit()
        self._ended = self._clock()
        self._duration = self._ended - started

    def _commit_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.commit()
            return
        if self._next is None or self._next.get_loop() is not loop:
            self._next = loop.create_future()
            wait = self._ended + self.patience * self._duration - self._clock()
            loop.call_later(max(0.0, wait), self._commit_for_all, self._next)

    def _commit_for_all(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            with suppress(Exception):  # the waiting futures have it
                self.commit()
