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
from chimeralab.study import chain

# Marks the file as ours, for anyone who looks at it from outside: "chim" in ASCII.
APPLICATION_ID = 0x6368696D
# Marks a copy for others, which nobody writes to any more: "chib".
COPY_ID = 0x63686962
BUSY_MS = 30_000
# After a kill, all that a copy without the WAL can lack: 256 kB, a few dozen turns.
PAGES_IN_WAL = 64

# Each step brings a database one version up; the version is kept in PRAGMA user_version. A step
# that has been released is never edited: later tables are added by later steps.
MIGRATIONS = ((files("chimeralab.study") / "schema.sql").read_text(encoding="utf-8"),)
# Versions of the format up to this one were never released.
UNRELEASED = 9
# How many steps a database needs to be read without writing to it.
READABLE = 1


class StoreError(InputError):
    """The database of a study can't be used: names the file and the way out."""


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open or make the database, check that it is whole, and bring it up to date."""
    with explain_errors(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            if connection.execute("PRAGMA application_id").fetchone()[0] == COPY_ID:
                raise StoreError(
                    f"{path} is the copy in a bundle, which stays as it is; "
                    "work on the study that it was made from"
                )
            # WAL lets others read while a run writes; FULL makes a commit outlive a power cut.
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
    """Open the database for reading only; a run may go on meanwhile."""
    if not path.is_file():
        raise StoreError(f"{path} does not exist; `chimera run` creates it")
    with explain_errors(path):
        # On a medium that can't be written, SQLite must not look for a WAL.
        settled = not path.with_name(path.name + "-wal").exists()
        fixed = "&immutable=1" if settled and not os.access(path.parent, os.W_OK) else ""
        address = f"{path.resolve().as_uri()}?mode=ro{fixed}"
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            if _version(connection, path) < READABLE:
                raise StoreError(
                    f"{path} is older than this chimera-lab; `chimera run` brings it up to date"
                )
        except BaseException:
            connection.close()
            raise
    return connection


def checkpoint(connection: sqlite3.Connection, path: Path) -> None:
    """Bring what stands in the WAL into the database itself, as far as no reader is in the way."""
    with explain_errors(path):
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply the steps that a database does not have yet, each wholly or not at all."""
    version = _version(connection, path)
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE; {step}; PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {UNRELEASED + number};"
            )
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """All that is written inside is on disk at the end, or none of it."""
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
    """Say what SQLite complains about, and what to do."""
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
        return "another process holds it; try again when that is done"
    if "not a database" in complaint or "malformed" in complaint:
        return f"the file is damaged ({complaint}); restore a copy, or move it away to start over"
    return complaint


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """How many steps a database has behind it."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > UNRELEASED + len(MIGRATIONS):
        raise StoreError(f"{path} was written by a later version of chimera-lab; install that one")
    if 0 < version <= UNRELEASED:
        raise StoreError(
            f"{path} was written before the first release of chimera-lab, whose format has changed "
            "since; run its plan again in a new folder"
        )
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version == 0 and tables:
        raise StoreError(f"{path} is a database of something else; move it away")
    return max(version - UNRELEASED, 0)


# The file is written over in place, so that every content has to have the same length.
WIDTH = 20


def tally_path(store: Path) -> Path:
    return store.with_suffix(".count")


def read_tally(store: Path) -> int:
    """What the file beside a database says; 0 before anything is stored."""
    try:
        return int(tally_path(store).read_bytes())
    except (OSError, ValueError):
        return 0


def write_tally(store: Path, stored: int) -> None:
    """Put down what is safe in the database by now: after a kill, at most a commit too few."""
    path = tally_path(store)
    with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
        file.write(f"{stored:<{WIDTH}}\n".encode("ascii"))


def shortfall(store: Path, found: int) -> str | None:
    """What is missing in a database that holds less than was stored in it; None if nothing is.

    >>> shortfall(Path("nowhere/study.db"), 3)
    """
    kept = read_tally(store)
    if found >= kept:
        return None
    lacks = f"lacks the last {kept - found:,} of {kept:,}" if found else f"has none of the {kept:,}"
    return (
        f"{lacks} turns, replies to probes and starts of runs that were stored in it: "
        f"{store.name}-wal is missing or cut"
    )


class GroupCommit:
    """Gathers steps, each whole or not there, and commits all of them together.

    Outside an event loop a step is on disk at its end. Inside one it is when `flush` returns,
    or soon after if nobody waits. `then` is called after each commit. With `patience`, a commit
    waits so many times as long as the last one took before it follows, so that waiting for the
    disk leaves the loop that share of its time, by `clock`.
    """

    patience = 0.0

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        then: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._path = path
        self._then = then
        self._clock = clock
        self._next: asyncio.Future[None] | None = None
        self._took = self._ended = 0.0

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
                # A full disk ends the transaction, and with it what others had gathered.
                self._next.set_exception(error)
                self._next = None
            raise
        self._commit_soon()

    async def flush(self) -> None:
        """Wait until all steps so far are on disk."""
        if self._next is not None:
            await asyncio.shield(self._next)  # others wait for it, too

    def commit(self) -> None:
        """Put what was gathered on disk now, and tell whoever waits for it."""
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
        self._then()
        self._ended = self._clock()
        self._took = self._ended - started

    def _commit_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.commit()
            return
        if self._next is None or self._next.get_loop() is not loop:
            self._next = loop.create_future()
            wait = self._ended + self.patience * self._took - self._clock()
            loop.call_later(max(0.0, wait), self._commit_for_all, self._next)

    def _commit_for_all(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            with suppress(Exception):  # whoever waits for it is told
                self.commit()
