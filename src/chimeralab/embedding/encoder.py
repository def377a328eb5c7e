"""The seam for encoders, and the one that is ours: MiniLM, fast in groups, exact where it matters.

Vectors computed before are kept in a bounded memory, and in a file that outlives the run if asked.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, lru_cache
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chimeralab import weights
from chimeralab.core.errors import InputError
from chimeralab.core.text import replace_surrogates
from chimeralab.embedding.kernel import Kernel, KernelUnusable
from chimeralab.embedding.minilm import MARGINS as MARGINS  # noqa: PLC0414 - for reports
from chimeralab.embedding.minilm import WIDTH, Floats, MiniLM, WordPieces, unit
from chimeralab.weights.tensors import Tensors, read_tensors

MODEL = weights.MODELS[weights.ENCODER].hub
PAPERS = "sbert", "minilm"  # what a report cites: how the encoder was trained, and its network
SECRET_BYTES = 32
# A seal takes the place of this many numbers after its vector.
SEAL_FLOATS = 4
# Vectors are remembered after so many texts, however many there are.
TEXTS_AT_ONCE = 1_024
REMEMBERED_TEXTS = 4_096

Compute = Callable[[Sequence[Sequence[int]]], Floats]
Split = tuple[list[bytes], dict[bytes, tuple[list[int], bool]]]
"""Texts on their way to vectors: the key of each, and of each distinct one its pieces."""


class Embeddings(NamedTuple):
    """Vectors of texts, row by row, and which texts were cut at the encoder's limit."""

    vectors: Floats
    truncated: NDArray[np.bool_]


class Encoder(Protocol):
    """Turns texts into vectors whose cosines say how alike they are.

    ``encode`` is all that an encoder has to write when it inherits from this class. The rest says
    how it is spoken of and how exact it is. ``margin`` is how far a similarity may lie from that of
    ``encode_exactly``; what lies so near a threshold is computed again.
    """

    model: str = "an encoder without a name"
    sha256: str | None = None
    precision: str = "f32"
    served_by: str = "code of others"
    margin: float = 0.0

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Vectors at the speed of this machine."""
        ...

    def encode_exactly(self, texts: Sequence[str]) -> Embeddings:
        """Vectors that do not depend on what else is being encoded; by default one by one."""
        alone = [self.encode([text]) for text in texts] or [self.encode([])]
        vectors, truncated = zip(*alone, strict=True)
        return Embeddings(np.concatenate(vectors), np.concatenate(truncated))

    def split(self, texts: Sequence[str]) -> Any:
        """The first half of `encode`, which holds Python's lock; the second mostly does not."""
        return texts

    def encode_split(self, texts: Any) -> Embeddings:
        """The second half."""
        return self.encode(texts)

    def describe(self) -> dict[str, str | None]:
        """The encoder as a verdict carries it."""
        return {"model": self.model, "sha256": self.sha256, "precision": self.precision}

    @property
    def forged_count(self) -> int:
        """How many vectors of a cache file had not been put there by this machine."""
        return 0


def fastest(tensors: Tensors) -> tuple[MiniLM | Kernel, str]:
    """The fastest network that this machine runs, and in words why it is this one."""
    try:
        kernel = Kernel(tensors)
    except KernelUnusable as unusable:
        return MiniLM(tensors), f"numpy, because {unusable}"
    return kernel, f"compiled C, with {kernel.name}"


class MiniLMEncoder(Encoder):
    """Embeds texts, each distinct one once.

    `encode` is the fast way. `encode_exactly` computes in f32, each text by itself, so that the
    result depends on nothing but the text. With a `secret`, what the cache file holds is sealed.
    """

    model = MODEL

    def __init__(
        self,
        folder: Path | None = None,
        *,
        cache_file: Path | None = None,
        secret: bytes = b"",
    ) -> None:
        folder = folder or weights.ensure(weights.ENCODER)
        tensors = read_tensors(folder / "model.safetensors")
        self.sha256 = model_hash()
        self._words = WordPieces(folder / "tokenizer.json")
        self._fast, self.served_by = fastest(tensors)
        # Few texts are rechecked, and the compiled network has a copy of its own: 43 MB less.
        tensors.release_pages()
        self._exact = MiniLM(tensors, after_layer=tensors.release_pages)
        self.precision = self._fast.precision
        self.margin = self._fast.margin
        # One thread may encode while another rechecks what was encoded before.
        self._remembering = Lock()
        self._recent: dict[str, RecentMemory] = {}
        self._kept: dict[str, FileMemory] = {}
        for kind in (self.precision, "numpy"):
            self._recent[kind] = RecentMemory()
            if cache_file is not None:
                self._kept[kind] = FileMemory(cache_file, f"{self.sha256}/{kind}", secret)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        return self.encode_split(self.split(texts))

    def encode_exactly(self, texts: Sequence[str]) -> Embeddings:
        return self._encode(self.split(texts), self._exact.one_by_one, "numpy")

    def split(self, texts: Sequence[str]) -> Split:
        texts = [replace_surrogates(text) for text in texts]
        keys = {text: text_key(text) for text in texts}
        pieces = zip(keys.values(), self._words.split(list(keys)), strict=True)
        return [keys[text] for text in texts], dict(pieces)

    def encode_split(self, texts: Split) -> Embeddings:
        return self._encode(texts, self._fast, self.precision)

    @property
    def forged_count(self) -> int:
        return sum(memory.forged_count for memory in self._kept.values())

    def _encode(self, texts: Split, compute: Compute, kind: str) -> Embeddings:
        keys, pieces = texts
        with self._remembering:
            vectors = self._recent[kind].recall(pieces.keys())
            if kind in self._kept:
                vectors |= self._kept[kind].recall(pieces.keys() - vectors.keys())
        missing = [key for key in pieces if key not in vectors]
        for start in range(0, len(missing), TEXTS_AT_ONCE):
            batch = {key: pieces[key][0] for key in missing[start : start + TEXTS_AT_ONCE]}
            vectors |= self._compute(batch, compute, kind)
        return Embeddings(
            np.stack([vectors[key] for key in keys]) if keys else _NO_VECTORS,
            np.array([pieces[key][1] for key in keys], dtype=bool),
        )

    def _compute(
        self, batch: Mapping[bytes, list[int]], compute: Compute, kind: str
    ) -> dict[bytes, Floats]:
        vectors = dict(zip(batch, compute(list(batch.values())), strict=True))
        with self._remembering:
            self._recent[kind].remember(vectors)
            if kind in self._kept:
                self._kept[kind].remember(vectors)
        return vectors


_NO_VECTORS = np.empty((0, WIDTH), dtype=np.float32)


def open_encoder(cache_file: Path | None = None) -> Encoder:
    """An encoder with the weights from the user's cache, which keeps vectors in a file if asked."""
    return MiniLMEncoder(cache_file=cache_file)


@cache
def default_encoder() -> Encoder:
    """The encoder that a process shares."""
    return open_encoder()


def study_encoder() -> Encoder:
    """The encoder behind a study's verdicts: its file is hashed each time it is asked for.

    Its vectors are kept outside of any study, sealed, so that verifying need not compute them.
    """
    refuse_changed_weights()
    cache = vector_cache()
    try:
        return MiniLMEncoder(cache_file=cache, secret=_secret(cache.with_suffix(".key")))
    except (InputError, OSError):  # a cache that can't be written is done without
        return MiniLMEncoder()


class TokenEncoder:
    """MiniLM before it pools: unit vectors of the pieces, without [CLS] and [SEP].

    Texts are computed one by one, so that a vector depends on nothing but its text.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or weights.ensure(weights.ENCODER)
        self._words = WordPieces(folder / "tokenizer.json")
        self._model = MiniLM(read_tensors(folder / "model.safetensors"))
        self.encode = lru_cache(REMEMBERED_TEXTS)(self._encode)

    def _encode(self, text: str) -> Floats:
        [(pieces, _)] = self._words.split([replace_surrogates(text)])
        return unit(self._model.hidden(pieces)[1:-1])


@cache
def default_token_encoder() -> TokenEncoder:
    """The one that a process shares, with the weights from the user's cache."""
    return TokenEncoder()


def serving() -> tuple[str, str]:
    """The precision in which vectors are computed on this machine, and by what."""
    folder = weights.ensure(weights.ENCODER)
    network, why = fastest(read_tensors(folder / "model.safetensors"))
    return network.precision, why


def refuse_changed_weights() -> None:
    """Hash the encoder's files again, whatever their size and date say."""
    name = weights.ENCODER
    for file, state in weights.verify(name).items():
        if state == "damaged":
            raise InputError(
                f"{weights.model_folder(name) / file.name} is not the encoder's file: its SHA-256 "
                f"is not {file.sha256}; `chimera models pull {name}` fetches it again"
            )


def model_hash() -> str:
    """The SHA-256 of the weights, which names the vector space."""
    files = {file.name: file.sha256 for file in weights.MODELS[weights.ENCODER].files}
    return files["model.safetensors"]


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


def text_key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


class RecentMemory:
    """The vectors computed last, in one block of memory: 4,096 of them take 6 MB."""

    def __init__(self, capacity: int = 4_096) -> None:
        self._block = np.empty((capacity, WIDTH), dtype=np.float32)
        self._slots: dict[bytes, int] = {}
        self._keys: list[bytes | None] = [None] * capacity
        self._next = 0

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        # Copies: a slot may be written over while its vector is still in use.
        return {key: self._block[self._slots[key]].copy() for key in keys if key in self._slots}

    def remember(self, vectors: Mapping[bytes, Floats]) -> None:
        for key, vector in vectors.items():
            if key not in self._slots:
                oldest, self._keys[self._next] = self._keys[self._next], key
                if oldest is not None:
                    del self._slots[oldest]
                self._slots[key] = self._next
                self._next = (self._next + 1) % len(self._keys)
            self._block[self._slots[key]] = vector


class FileMemory:
    """Vectors in a SQLite file, so that the next run need not compute them again.

    `space` keeps apart what must never be mixed: another model, another precision. With a `secret`,
    each vector is under a seal that takes this machine's key to make; one that was put there by
    anyone else is counted and not used. The seal covers the text's key and the space, so that no
    vector can stand in for another.
    """

    def __init__(self, path: Path, space: str, secret: bytes = b"") -> None:
        self._path = path
        self._space = f"{space}/sealed" if secret else space
        self._sealed_space, self._secret = space.encode(), secret
        self.forged_count = 0
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

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        query = "SELECT vector FROM vectors WHERE space = ? AND key = ?"
        found = {}
        try:
            for key in keys:
                row = self._db.execute(query, (self._space, key)).fetchone()
                if row is None or len(row[0]) % 4:
                    continue
                kept = row[0]
                if self._secret:
                    kept, seal = kept[: -4 * SEAL_FLOATS], kept[-4 * SEAL_FLOATS :]
                    sound = compare_digest(seal, self._seal(key, kept))
                    if len(kept) != 4 * WIDTH or not sound:
                        self.forged_count += 1
                        continue
                found[key] = np.frombuffer(kept, dtype=np.float32)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return found

    def remember(self, vectors: Mapping[bytes, Floats]) -> None:
        rows = []
        for key, vector in vectors.items():
            kept = vector.tobytes()
            seal = self._seal(key, kept) if self._secret else b""
            rows.append((self._space, key, kept + seal))
        # What can't be kept of a study is computed again another time.
        with suppress(InputError) if self._secret else nullcontext():
            try:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise self._unusable(error) from error

    def _seal(self, key: bytes, vector: bytes) -> bytes:
        covered = self._sealed_space + b"\0" + key + vector
        return blake2b(covered, key=self._secret, digest_size=4 * SEAL_FLOATS).digest()

    def _unusable(self, error: Exception | str) -> InputError:
        return InputError(
            f"the vector cache {self._path} can't be used ({error});"
            " name a writable file with --cache, or leave --cache out"
        )
