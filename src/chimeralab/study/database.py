"""The SQLite file of a study: opened safely, brought up to date, its errors in plain words."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
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
MIGRATIONS = (
    """
    CREATE TABLE study (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        pid INTEGER NOT NULL,
        host TEXT NOT NULL,
        version TEXT NOT NULL,
        lock TEXT,
        settings TEXT NOT NULL,
        started TEXT NOT NULL,
        ended TEXT,
        reason TEXT
    );
    CREATE TABLE trajectories (
        id TEXT PRIMARY KEY,
        position INTEGER NOT NULL,
        condition TEXT NOT NULL,
        prompt TEXT NOT NULL,
        bucket TEXT NOT NULL,
        prompt_text TEXT NOT NULL,
        repeat INTEGER NOT NULL,
        opening TEXT NOT NULL,
        outcome TEXT,
        reason TEXT,
        ended TEXT,
        turns INTEGER,
        closing TEXT
    ) WITHOUT ROWID;
    CREATE TABLE attempts (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES runs (id),
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        turn INTEGER NOT NULL,
        model TEXT NOT NULL,
        seed INTEGER,
        temperature REAL NOT NULL,
        top_p REAL NOT NULL,
        max_tokens INTEGER NOT NULL,
        started TEXT NOT NULL,
        ended TEXT,
        outcome TEXT,
        reason TEXT,
        rejected_text TEXT,
        prompt_tokens INTEGER,
        completion_tokens INTEGER,
        reported_model TEXT,
        cost REAL,
        seconds REAL
    );
    CREATE INDEX attempts_of_turn ON attempts (trajectory, turn);
    CREATE TABLE turns (
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        turn INTEGER NOT NULL,
        speaker TEXT NOT NULL,
        model TEXT NOT NULL,
        text TEXT NOT NULL,
        finish TEXT NOT NULL,
        attempt INTEGER NOT NULL UNIQUE REFERENCES attempts (id),
        hash TEXT NOT NULL,
        PRIMARY KEY (trajectory, turn)
    ) WITHOUT ROWID;
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        turn INTEGER NOT NULL,
        kind TEXT NOT NULL,
        detail TEXT NOT NULL,
        at TEXT NOT NULL
    );
    CREATE INDEX events_of_trajectory ON events (trajectory);
    CREATE TABLE detections (
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        detector TEXT NOT NULL,
        detection TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (trajectory, detector)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE attempts ADD COLUMN probe TEXT NOT NULL DEFAULT '';
    CREATE TABLE probes (
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        turn INTEGER NOT NULL,
        probe TEXT NOT NULL,
        text TEXT NOT NULL,
        attempt INTEGER NOT NULL UNIQUE REFERENCES attempts (id),
        PRIMARY KEY (trajectory, turn, probe)
    ) WITHOUT ROWID;
    CREATE TABLE trials (
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        trial INTEGER NOT NULL,
        item TEXT NOT NULL,
        kind TEXT NOT NULL,
        options INTEGER NOT NULL,
        response TEXT,
        truth TEXT NOT NULL,
        correct INTEGER,
        confidence REAL,
        weight REAL,
        novel INTEGER,
        bias INTEGER NOT NULL,
        signal TEXT,
        pair TEXT,
        frame TEXT,
        phase TEXT,
        round INTEGER NOT NULL,
        consensus TEXT,
        needs TEXT NOT NULL,
        lag INTEGER,
        disturbed INTEGER NOT NULL,
        alone TEXT,
        belief REAL,
        recall_lag INTEGER,
        recall_options INTEGER,
        recall_response TEXT,
        recall_truth TEXT,
        recall_correct INTEGER,
        intrusion INTEGER,
        asked INTEGER NOT NULL,
        unread INTEGER NOT NULL,
        PRIMARY KEY (trajectory, trial)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE raters (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        identity TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE ratings (
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        rater TEXT NOT NULL REFERENCES raters (id),
        label INTEGER CHECK (label IN (0, 1)),
        reason TEXT NOT NULL,
        turns TEXT NOT NULL,
        step TEXT,
        kinds TEXT NOT NULL,
        noted TEXT NOT NULL,
        attempts TEXT NOT NULL,
        text_sha256 TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (trajectory, rater)
    ) WITHOUT ROWID;
    CREATE TABLE samples (
        name TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('calibration', 'gate')),
        sample TEXT NOT NULL,
        drawn_by TEXT NOT NULL,
        drawn TEXT NOT NULL,
        used TEXT,
        labels_sha256 TEXT,
        passed INTEGER
    ) WITHOUT ROWID;
    CREATE TRIGGER a_gate_sample_is_used_once BEFORE UPDATE ON samples
    WHEN old.used IS NOT NULL OR new.kind != old.kind OR new.sample != old.sample
    BEGIN SELECT RAISE(ABORT, 'a gate sample is used once'); END;
    CREATE TABLE packets (
        name TEXT PRIMARY KEY,
        packet TEXT NOT NULL,
        made TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE trials ADD COLUMN noticed INTEGER;
    ALTER TABLE trials ADD COLUMN states TEXT;
    ALTER TABLE trials ADD COLUMN recall_states TEXT;
    ALTER TABLE trials ADD COLUMN claim TEXT;
    """,
    """
    ALTER TABLE probes ADD COLUMN hash TEXT;
    """,
    """
    CREATE TABLE chain (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        change TEXT NOT NULL,
        key TEXT NOT NULL,
        row BLOB NOT NULL,
        head BLOB NOT NULL
    );
    """,
    """
    ALTER TABLE trials ADD COLUMN evidence TEXT;
    """,
    """
    CREATE TABLE invitations (
        rater TEXT NOT NULL,
        packet TEXT NOT NULL,
        task TEXT NOT NULL CHECK (task IN ('rate', 'adjudicate')),
        sample TEXT,
        token_sha256 TEXT NOT NULL UNIQUE,
        invited TEXT NOT NULL,
        handed_in TEXT,
        PRIMARY KEY (rater, packet)
    ) WITHOUT ROWID;
    CREATE TABLE drafts (
        id INTEGER PRIMARY KEY,
        packet TEXT NOT NULL,
        sheet TEXT NOT NULL,
        label TEXT NOT NULL,
        turns TEXT NOT NULL,
        reason TEXT NOT NULL,
        at TEXT NOT NULL
    );
    CREATE INDEX drafts_of_packet ON drafts (packet, id);
    CREATE TABLE adjudications (
        trajectory TEXT NOT NULL REFERENCES trajectories (id),
        sample TEXT NOT NULL REFERENCES samples (name),
        label INTEGER CHECK (label IN (0, 1)),
        reason TEXT NOT NULL,
        turns TEXT NOT NULL,
        adjudicator TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (trajectory, sample)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE trials ADD COLUMN stands INTEGER;
    ALTER TABLE trials ADD COLUMN gone INTEGER;
    """,
)
# The step that brings the chain, and the earliest version that can be read without writing to it.
CHAINED = 6
READABLE = 5


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
                f"PRAGMA user_version = {number};"
            )
            if number == CHAINED:
                chain.adopt(connection)
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
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise StoreError(f"{path} was written by a later version of chimera-lab; install that one")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if version == 0 and tables:
        raise StoreError(f"{path} is a database of something else; move it away")
    return version
