"""Vectors computed before: a bounded memory, and an optional file that outlives the run."""

import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError

Vector = NDArray[np.float32]


def text_key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


class Memory(Protocol):
    """Where an encoder looks before it computes."""

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]: ...

    def remember(self, vectors: Mapping[bytes, Vector]) -> None: ...


class RecentMemory:
    """The vectors computed last, in one block of memory: 4,096 of them take 6 MB."""

    def __init__(self, capacity: int = 4_096) -> None:
        self._block = np.empty((capacity, 384), dtype=np.float32)
        self._slots: dict[bytes, int] = {}
        self._keys: list[bytes | None] = [None] * capacity
        self._next = 0

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        # Copies: a slot may be written over while its vector is still in use.
        return {key: self._block[self._slots[key]].copy() for key in keys if key in self._slots}

    def remember(self, vectors: Mapping[bytes, Vector]) -> None:
        for key, vector in vectors.items():
            if key not in self._slots:
                self._take_slot(key)
            self._block[self._slots[key]] = vector

    def _take_slot(self, key: bytes) -> None:
        oldest = self._keys[self._next]
        if oldest is not None:
            del self._slots[oldest]
        self._keys[self._next] = key
        self._slots[key] = self._next
        self._next = (self._next + 1) % len(self._keys)


class FileMemory:
    """Vectors in a SQLite file, so that the next run need not compute them again.

    `space` keeps apart what must never be mixed: another model, another precision.
    """

    def __init__(self, path: Path, space: str) -> None:
        self._path = path
        self._space = space
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS vectors (space TEXT, key BLOB, vector BLOB,"
                " PRIMARY KEY (space, key)) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        query = "SELECT vector FROM vectors WHERE space = ? AND key = ?"
        found = {}
        try:
            for key in keys:
                row = self._db.execute(query, (self._space, key)).fetchone()
                if row is not None:
                    found[key] = np.frombuffer(row[0], dtype=np.float32)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return found

    def remember(self, vectors: Mapping[bytes, Vector]) -> None:
        rows = [(self._space, key, vector.tobytes()) for key, vector in vectors.items()]
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> InputError:
        return InputError(
            f"the vector cache {self._path} can't be used ({error});"
            " name a writable file with --cache, or leave --cache out"
        )
