"""The SQLite database of a study: open it, migrate it, group its commits, explain its errors.

A durable commit takes a disk some milliseconds. Thousands of conversations that each waited for
their own would wait for nothing else, so they share commits.

After a kill, the last turns are in `study.db-wal` alone. A copy of the folder without that file is
a sound database that holds less, and no hash inside it can show that. So each turn, probe reply and
start of a run is counted twice: in the database and in `study.count`.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from chimeralab.core.errors import InputError
from chimeralab.core.schema import FIRST_SCHEMA, SCHEMA, check_schema
from chimeralab.study import chain

# The `application_id` of the file: "chim" in ASCII.
APPLICATION_ID = 0x6368696D
# That of the read-only copy in a bundle: "chib".
COPY_ID = 0x63686962
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
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StoreError(f"{path}: {_advice(f'malformed: {found}')}")
            migrate(connection, path)
            checkpoint(connection, path)
            chain.record_writes(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the database read-only; a run may be writing to it."""
    if not path.is_file():
        raise StoreError(f"{path} does not exist; `chimera run` creates it")
    with explain_errors(path):
        # In a read-only folder, SQLite must not try to create a WAL.
        has_wal = path.with_name(path.name + "-wal").exists()
        immutable = "" if has_wal or os.access(path.parent, os.W_OK) else "&immutable=1"
        address = f"{path.resolve().as_uri()}?mode=ro{immutable}"
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            schema = _read_schema(connection, path)
            if schema == 0:
                raise StoreError(f"{path} is still empty; try again once `chimera run` has started")
            if schema < SCHEMA:
                raise StoreError(
                    f"{path} has schema {schema} and this chimera-lab reads {SCHEMA}; "
                    "`chimera run` migrates it"
                )
        except BaseException:
            connection.close()
            raise
    return connection


def checkpoint(connection: sqlite3.Connection, path: Path) -> None:
    """Move the WAL into the database, as far as readers allow."""
    with explain_errors(path):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply the missing migrations, each in one transaction."""
    schema = _read_schema(connection, path)
    for number in range(max(schema + 1, FIRST_SCHEMA), SCHEMA + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE; {MIGRATIONS[number - FIRST_SCHEMA]}; "
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number};"
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


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a `StoreError` that says what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path}: {_advice(str(error))}") from error


def _advice(complaint: str) -> str:
    if "disk is full" in complaint:
        return "the disk is full; free some space and run again, nothing stored is lost"
    if "readonly" in complaint or "unable to open" in complaint:
        return f"it can't be written here ({complaint}); check the folder and its permissions"
    if "locked" in complaint:
        return "another process is using it; try again later"
    if "not a database" in complaint or "malformed" in complaint:
        return f"the file is damaged ({complaint}); restore a copy, or move it away to start over"
    return complaint


def _read_schema(connection: sqlite3.Connection, path: Path) -> int:
    """The schema number of a database that this version can use; 0 for an empty one."""
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if schema:
        check_schema(schema, str(path), "run its plan again in a new folder", StoreError)
    elif connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{path} is a database of another program; move it away")
    return schema


# The file is overwritten in place, so every content has the same length.
WIDTH = 20


def tally_path(store: Path) -> Path:
    return store.with_suffix(".count")


def read_tally(store: Path) -> int:
    """Read the count next to a database; 0 before anything is stored."""
    try:
        return int(tally_path(store).read_bytes())
    except (OSError, ValueError):
        return 0


def write_tally(store: Path, stored: int) -> None:
    """Write how much is committed; after a kill it is at most one commit behind."""
    path = tally_path(store)
    with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
        file.write(f"{stored:<{WIDTH}}\n".encode("ascii"))


def shortfall(store: Path, found: int) -> str | None:
    """Say what a database lacks of what was stored in it; None if nothing.

    >>> shortfall(Path("nowhere/study.db"), 3)
    """
    tally = read_tally(store)
    if found >= tally:
        return None
    if found:
        lacks = f"lacks the last {tally - found:,} of {tally:,}"
    else:
        lacks = f"has none of the {tally:,}"
    return (
        f"{lacks} turns, probe replies and run starts that were stored in it: "
        f"{store.name}-wal is missing or truncated"
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
