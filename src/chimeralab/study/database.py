"""The SQLite file of a study: opened safely, brought up to date, its errors in plain words."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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
    with plainly(path):
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
    with plainly(path):
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
    with plainly(path):
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
    with plainly(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


@contextmanager
def plainly(path: Path) -> Iterator[None]:
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
