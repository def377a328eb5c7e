"""Texts to vectors with MiniLM: fast in batches, exact where a verdict depends on it.

Vectors computed before are kept in a bounded memory, and in a file that outlives the run if asked.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chimeralab import weights
from chimeralab.core.errors import InputError
from chimeralab.core.text import readable
from chimeralab.embedding.pieces import Pieces, WordPieces

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

    def _unusable(self, error: Exception) -> InputError:
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


# A seal takes the place of this many numbers after its vector.
SEAL_FLOATS = 4
SECRET_BYTES = 32
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
WIDTH = 384
# Batches above this many pieces run no faster and fall out of the CPU's caches.
TOKEN_BUDGET = 2_048

# How far a similarity from the fast vectors may lie from the exact one. bf16: the largest error
# seen over 41,801 real lag similarities was 0.0034. f32: rounding changes with the batch.
MARGINS = {"bf16": 0.005, "f32": 1e-5}


class Encoded(NamedTuple):
    """Vectors of texts, row by row, and which texts were cut at the encoder's limit."""

    vectors: NDArray[np.float32]
    truncated: NDArray[np.bool_]


class Encoder:
    """Embeds texts, each distinct one once.

    `encode` is the fast way. `encode_exactly` computes in f32, each text by itself, so that the
    result depends on nothing but the text. With a `secret`, what the cache file holds is sealed.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        precision: str | None = None,
        cache_file: Path | None = None,
        secret: bytes = b"",
    ) -> None:
        from chimeralab.embedding import minilm  # noqa: PLC0415 - importing OpenVINO is slow

        folder = folder or weights.ensure("minilm")
        self._words = WordPieces(folder / "tokenizer.json")
        self._compile = partial(minilm.compile_minilm, folder / "model.safetensors")
        self._models: dict[str, Any] = {}
        self.precision = precision or minilm.fastest_precision()
        self.margin = MARGINS[self.precision]
        self._fast = _memories(cache_file, self.precision, secret)
        self._exact = _memories(cache_file, "exact", secret)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors at the speed of this machine."""
        return self._encode(texts, self.precision, self._fast, TOKEN_BUDGET)

    def encode_exactly(self, texts: Sequence[str]) -> Encoded:
        """Vectors in f32 that do not depend on what else is being encoded."""
        return self._encode(texts, "f32", self._exact, 0)

    @property
    def forged(self) -> int:
        """How many vectors of the cache file had not been put there by this machine."""
        sealed = (each for each in (*self._fast, *self._exact) if isinstance(each, SealedMemory))
        return sum(each.forged for each in sealed)

    def _encode(
        self, texts: Sequence[str], precision: str, memories: Sequence[Memory], budget: int
    ) -> Encoded:
        texts = [readable(text) for text in texts]
        distinct = list(dict.fromkeys(texts))
        pieces = dict(zip(distinct, self._words.split(distinct), strict=True))
        vectors = _recall(memories, {text_key(text) for text in distinct})
        missing = {text_key(text): pieces[text] for text in distinct}
        missing = {key: value for key, value in missing.items() if key not in vectors}
        for batch in _batches(missing, budget):
            vectors |= self._compute(batch, precision, memories)
        return Encoded(
            np.stack([vectors[text_key(text)] for text in texts]) if texts else _NO_VECTORS,
            np.array([pieces[text].truncated for text in texts], dtype=bool),
        )

    def _compute(
        self, batch: Mapping[bytes, Pieces], precision: str, memories: Sequence[Memory]
    ) -> dict[bytes, Vector]:
        if precision not in self._models:
            self._models[precision] = self._compile(precision)
        rows = self._models[precision](_padded([p.ids for p in batch.values()]))[0]
        vectors = dict(zip(batch, rows, strict=True))
        for memory in memories:
            memory.remember(vectors)
        return vectors


@cache
def default_encoder() -> Encoder:
    """The encoder that a process shares, with the weights from the user's cache."""
    return Encoder()


def study_encoder() -> Encoder:
    """The encoder behind a study's verdicts: its file is hashed each time it is asked for.

    Its vectors are kept outside of any study, sealed, so that verifying need not compute them.
    """
    refuse_changed_weights()
    cache = vector_cache()
    try:
        return Encoder(cache_file=cache, secret=_secret(cache.with_suffix(".key")))
    except (InputError, OSError):  # a cache that can't be written is done without
        return Encoder()


def refuse_changed_weights() -> None:
    """Hash the encoder's files again, whatever their size and date say."""
    changed = [check for check in weights.verify("minilm") if check.state == "damaged"]
    if changed:
        raise InputError(
            f"{changed[0].path} is not the encoder's file: its SHA-256 is not "
            f"{changed[0].file.sha256}; `chimera models pull minilm` fetches it again"
        )


def vector_cache() -> Path:
    """Where the vectors of studies are kept."""
    return weights.cache_root() / "vectors.db"


def _secret(path: Path) -> bytes:
    """The key of this machine's seals, made when it is first needed."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "wb") as file:
                file.write(token_bytes(SECRET_BYTES))
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise InputError(f"{path} does not hold a key; remove it")
    return secret


def model_hash() -> str:
    """The SHA-256 of the weights, which names the vector space."""
    files = {file.name: file.sha256 for file in weights.MODELS["minilm"].files}
    return files["model.safetensors"]


_NO_VECTORS = np.empty((0, WIDTH), dtype=np.float32)


def _memories(cache_file: Path | None, kind: str, secret: bytes) -> list[Memory]:
    recent, space = RecentMemory(), f"{model_hash()}/{kind}"
    if cache_file is None:
        return [recent]
    kept = SealedMemory(cache_file, space, secret) if secret else FileMemory(cache_file, space)
    return [recent, kept]


def _recall(memories: Sequence[Memory], keys: set[bytes]) -> dict[bytes, Vector]:
    found: dict[bytes, Vector] = {}
    for memory in memories:
        found |= memory.recall(keys - found.keys())
    return found


def _batches(pieces: Mapping[bytes, Pieces], budget: int) -> Iterator[dict[bytes, Pieces]]:
    """Texts of like length together, as many as the token budget holds and at least one."""
    longest_first = sorted(pieces, key=lambda key: -len(pieces[key].ids))
    while longest_first:
        fits = max(1, budget // len(pieces[longest_first[0]].ids))
        batch, longest_first = longest_first[:fits], longest_first[fits:]
        yield {key: pieces[key] for key in batch}


def _padded(ids: Sequence[Sequence[int]]) -> list[NDArray[Any]]:
    shape = (len(ids), max(map(len, ids)))
    table, mask = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.float32)
    for row, values in enumerate(ids):
        table[row, : len(values)] = values
        mask[row, : len(values)] = 1
    return [table, mask]
