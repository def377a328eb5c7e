"""The interface of encoders, and MiniLM: fast in batches, exact where it matters.

Vectors are cached in bounded memory and, on request, in a file.
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
PAPERS = "sbert", "minilm"  # what a report cites: the training and the network
SECRET_BYTES = 32
SEAL_FLOATS = 4  # the size of a seal after its vector
BATCH_TEXTS = 1_024  # after which vectors are cached
CACHED_TEXTS = 4_096

Compute = Callable[[Sequence[Sequence[int]]], Floats]
Split = tuple[list[bytes], dict[bytes, tuple[list[int], bool]]]
"""Tokenised texts: the key of each, and by key its pieces and whether it was truncated."""


class Embeddings(NamedTuple):
    """Vectors of texts, a row each, and which texts were truncated at the encoder's limit."""

    vectors: Floats
    truncated: NDArray[np.bool_]


class Encoder(Protocol):
    """Turns texts into vectors whose cosines measure similarity.

    A subclass has to define ``encode`` only. ``margin`` is the largest error of a similarity
    against ``encode_exactly``; similarities that close to a threshold are recomputed.
    """

    model: str = "an encoder without a name"
    sha256: str | None = None
    precision: str = "f32"
    served_by: str = "code of others"
    margin: float = 0.0

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Vectors, as fast as possible."""
        ...

    def encode_exactly(self, texts: Sequence[str]) -> Embeddings:
        """Vectors that depend on nothing but each text; by default computed one by one."""
        alone = [self.encode([text]) for text in texts] or [self.encode([])]
        vectors, truncated = zip(*alone, strict=True)
        return Embeddings(np.concatenate(vectors), np.concatenate(truncated))

    def split(self, texts: Sequence[str]) -> Any:
        """Tokenise, the half of `encode` that holds the GIL."""
        return texts

    def encode_split(self, texts: Any) -> Embeddings:
        """Encode tokenised texts, the half that mostly releases the GIL."""
        return self.encode(texts)

    def describe(self) -> dict[str, str | None]:
        """The encoder as it is recorded in a verdict."""
        return {"model": self.model, "sha256": self.sha256, "precision": self.precision}

    @property
    def forged_count(self) -> int:
        """The number of cached vectors that this machine had not written."""
        return 0


def pick_network(tensors: Tensors) -> tuple[MiniLM | Kernel, str]:
    """The fastest network that this machine runs, and the reason for the choice."""
    try:
        kernel = Kernel(tensors)
    except KernelUnusable as unusable:
        return MiniLM(tensors), f"numpy, because {unusable}"
    return kernel, f"compiled C, with {kernel.name}"


class MiniLMEncoder(Encoder):
    """Embeds each distinct text once.

    `encode_exactly` computes in f32, each text by itself, so that a vector depends on nothing but
    its text. With a `secret`, the vectors in the cache file are sealed.
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
        self._fast, self.served_by = pick_network(tensors)
        # Few texts are rechecked and the compiled network has its own copy: this saves 43 MB.
        tensors.release_pages()
        self._exact = MiniLM(tensors, after_layer=tensors.release_pages)
        self.precision = self._fast.precision
        self.margin = self._fast.margin
        # One thread may encode while another rechecks.
        self._cache_lock = Lock()
        self._recent: dict[str, RecentVectors] = {}
        self._kept: dict[str, VectorFile] = {}
        for kind in (self.precision, "numpy"):
            self._recent[kind] = RecentVectors()
            if cache_file is not None:
                self._kept[kind] = VectorFile(cache_file, f"{self.sha256}/{kind}", secret)

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
        with self._cache_lock:
            vectors = self._recent[kind].recall(pieces.keys())
            if kind in self._kept:
                vectors |= self._kept[kind].recall(pieces.keys() - vectors.keys())
        missing = [key for key in pieces if key not in vectors]
        for start in range(0, len(missing), BATCH_TEXTS):
            batch = {key: pieces[key][0] for key in missing[start : start + BATCH_TEXTS]}
            vectors |= self._compute(batch, compute, kind)
        return Embeddings(
            np.stack([vectors[key] for key in keys]) if keys else _NO_VECTORS,
            np.array([pieces[key][1] for key in keys], dtype=bool),
        )

    def _compute(
        self, batch: Mapping[bytes, list[int]], compute: Compute, kind: str
    ) -> dict[bytes, Floats]:
        vectors = dict(zip(batch, compute(list(batch.values())), strict=True))
        with self._cache_lock:
            self._recent[kind].remember(vectors)
            if kind in self._kept:
                self._kept[kind].remember(vectors)
        return vectors


_NO_VECTORS = np.empty((0, WIDTH), dtype=np.float32)


def open_encoder(cache_file: Path | None = None) -> Encoder:
    """An encoder with the weights from the user's cache, and optionally a file of vectors."""
    return MiniLMEncoder(cache_file=cache_file)


@cache
def default_encoder() -> Encoder:
    """The encoder shared by a process."""
    return open_encoder()


def study_encoder() -> Encoder:
    """The encoder of a study's verdicts, whose weights are hashed on every call.

    Its vectors are cached outside of any study, sealed, so that `verify` need not compute them.
    """
    check_weights()
    cache = vector_cache()
    try:
        return MiniLMEncoder(cache_file=cache, secret=_load_secret(cache.with_suffix(".key")))
    except (InputError, OSError):  # work without a cache
        return MiniLMEncoder()


class TokenEncoder:
    """MiniLM without pooling: unit vectors of the pieces, without [CLS] and [SEP].

    Texts are computed one by one, so that a vector depends on nothing but its text.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or weights.ensure(weights.ENCODER)
        self._words = WordPieces(folder / "tokenizer.json")
        self._model = MiniLM(read_tensors(folder / "model.safetensors"))
        self.encode = lru_cache(CACHED_TEXTS)(self._encode)

    def _encode(self, text: str) -> Floats:
        [(pieces, _)] = self._words.split([replace_surrogates(text)])
        return unit(self._model.encode_pieces(pieces)[1:-1])


@cache
def default_token_encoder() -> TokenEncoder:
    """The token encoder shared by a process."""
    return TokenEncoder()


def describe_network() -> tuple[str, str]:
    """The precision of vectors on this machine, and what computes them."""
    folder = weights.ensure(weights.ENCODER)
    network, why = pick_network(read_tensors(folder / "model.safetensors"))
    return network.precision, why


def check_weights() -> None:
    """Hash the encoder's files and refuse changed ones, whatever their size and date."""
    name = weights.ENCODER
    for file, state in weights.verify(name).items():
        if state == "damaged":
            raise InputError(
                f"{weights.model_folder(name) / file.name} is not the encoder's file: its SHA-256 "
                f"is not {file.sha256}; `chimera models pull {name}` fetches it again"
            )


def model_hash() -> str:
    """The SHA-256 of the weights, which identifies the vector space."""
    files = {file.name: file.sha256 for file in weights.MODELS[weights.ENCODER].files}
    return files["model.safetensors"]


def vector_cache() -> Path:
    """The file that caches vectors of studies."""
    return weights.cache_root() / "vectors.db"


def _load_secret(path: Path) -> bytes:
    """Load this machine's key for seals; it is created on first use."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(token_bytes(SECRET_BYTES))
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise InputError(f"{path} is not a key file; remove it")
    return secret


def text_key(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


class RecentVectors:
    """The vectors computed last: 4,096 of them take 6 MB."""

    def __init__(self, capacity: int = CACHED_TEXTS) -> None:
        self._capacity = capacity
        self._vectors: dict[bytes, Floats] = {}

    def recall(self, keys: Iterable[bytes]) -> dict[bytes, Floats]:
        return {key: self._vectors[key] for key in keys if key in self._vectors}

    def remember(self, vectors: Mapping[bytes, Floats]) -> None:
        for key, vector in vectors.items():
            self._vectors[key] = vector.copy()  # a row would keep its whole batch alive
            if len(self._vectors) > self._capacity:
                del self._vectors[next(iter(self._vectors))]


class VectorFile:
    """A cache of vectors in a SQLite file.

    `space` separates models and precisions. With a `secret`, each vector has a seal, a MAC over the
    space, the text's key and the vector; one with a wrong seal is counted and not used.
    """

    def __init__(self, path: Path, space: str, secret: bytes = b"") -> None:
        self._path = path
        self._space = f"{space}/sealed" if secret else space
        self._sealed_space, self._secret = space.encode(), secret
        self.forged_count = 0
        if not path.parent.is_dir():  # a mistyped path must not create folders
            raise self._unusable(f"there is no folder {path.parent}")
        try:
            # The encoder's lock serialises the threads.
            self._db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            # Vectors lost in a power cut are computed again.
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
                    if len(kept) != 4 * WIDTH or not compare_digest(seal, self._seal(key, kept)):
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
        # A study does without a cache that can't be written.
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
            " pass a writable file with --cache, or leave --cache out"
        )
