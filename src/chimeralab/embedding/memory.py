"""Vectors that were computed before: a bounded memory, and a file that outlives the run."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError
from chimeralab.embedding.minilm import WIDTH

Vector = NDArray[np.float32]

# A seal takes the place of this many numbers after its vector.
SEAL_FLOATS = 4


def text_key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


class Memory(Protocol):
    """Where an encoder looks before it computes."""

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]: ...

    def remember(self, vectors: Mapping[bytes, Vector]) -> None: ...


class RecentMemory:
    """The vectors computed last, in one block of memory: 4,096 of them take 6 MB."""

    def __init__(self, capacity: int = 4_096) -> None:
        self._block = np.empty((capacity, WIDTH), dtype=np.float32)
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
        if not path.parent.is_dir():  # a mistyped name must not leave folders behind
            raise self._unusable(f"there is no folder {path.parent}")
        try:
            # Several threads may use it; whoever owns the memory sees that they take turns.
            self._db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            # What a power cut takes is computed again: no vector is worth waiting for the disk.
            self._db.execute("PRAGMA synchronous = NORMAL")
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
                if row is not None and len(row[0]) % 4 == 0:
                    found[key] = np.frombuffer(row[0], dtype=np.float32)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return found

    def remember(self, vectors: Mapping[bytes, Vector]) -> None:
        rows = [(self._space, key, vector.tobytes()) for key, vector in vectors.items()]
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise self._unusable(error) from error

    def _unusable(self, error: Exception | str) -> InputError:
        return InputError(
            f"the vector cache {self._path} can't be used ({error});"
            " name a writable file with --cache, or leave --cache out"
        )


class SealedMemory:
    """Vectors in a file, each under a seal that takes this machine's key to make.

    A vector that was put there by anyone else is counted and not used. The seal covers the text's
    key and the space, so that no vector can stand in for another.
    """

    def __init__(self, path: Path, space: str, secret: bytes) -> None:
        self._file = FileMemory(path, f"{space}/sealed")
        self._space = space.encode()
        self._secret = secret
        self.forged = 0

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        found = {}
        for key, sealed in self._file.recall(keys).items():
            vector, seal = sealed[:-SEAL_FLOATS], sealed[-SEAL_FLOATS:].tobytes()
            if len(vector) == WIDTH and compare_digest(seal, self._seal(key, vector)):
                found[key] = vector
            else:
                self.forged += 1
        return found

    def remember(self, vectors: Mapping[bytes, Vector]) -> None:
        sealed = {
            key: np.frombuffer(vector.tobytes() + self._seal(key, vector), dtype=np.float32)
            for key, vector in vectors.items()
        }
        # What can't be kept is computed again another time.
        with suppress(InputError):
            self._file.remember(sealed)

    def _seal(self, key: bytes, vector: Vector) -> bytes:
        covered = self._space + b"\0" + key + vector.tobytes()
        return blake2b(covered, key=self._secret, digest_size=4 * SEAL_FLOATS).digest()
