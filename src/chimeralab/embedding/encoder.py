"""Texts to vectors with MiniLM: fast in groups, exact where a verdict depends on it.

Vectors computed before are kept in a bounded memory, and in a file that outlives the run if asked.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from secrets import token_bytes
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab import weights
from chimeralab.core.errors import InputError
from chimeralab.core.text import readable
from chimeralab.embedding.kernel import Kernel, KernelUnusable
from chimeralab.embedding.memory import (
    FileMemory,
    Memory,
    RecentMemory,
    SealedMemory,
    Vector,
    text_key,
)
from chimeralab.embedding.minilm import WIDTH, MiniLM
from chimeralab.embedding.pieces import Pieces, WordPieces
from chimeralab.weights.tensors import Tensors, read_tensors

SECRET_BYTES = 32
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
# Vectors are remembered after so many texts, however many there are.
TEXTS_AT_ONCE = 1_024

Network = MiniLM | Kernel
Compute = Callable[[Sequence[Sequence[int]]], NDArray[np.float32]]


class Serving(NamedTuple):
    """The network that computes fast vectors here, and in words why it is this one."""

    network: Network
    why: str


def fastest(tensors: Tensors) -> Serving:
    """The fastest network that this machine runs."""
    try:
        kernel = Kernel(tensors)
    except KernelUnusable as unusable:
        return Serving(MiniLM(tensors), f"numpy, because {unusable}")
    return Serving(kernel, f"compiled C, with {kernel.name}")


class SplitTexts(NamedTuple):
    """Texts on their way to vectors: the key of each, and the pieces of each distinct one."""

    keys: list[bytes]
    pieces: dict[bytes, Pieces]


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
        cache_file: Path | None = None,
        secret: bytes = b"",
    ) -> None:
        folder = folder or weights.ensure("minilm")
        tensors = read_tensors(folder / "model.safetensors")
        self._words = WordPieces(folder / "tokenizer.json")
        self._fast, self.served_by = fastest(tensors)
        # Few texts are rechecked, and the compiled network has a copy of its own: 43 MB less.
        tensors.let_go()
        self._exact = MiniLM(tensors, after_layer=tensors.let_go)
        self.precision = self._fast.precision
        self.margin = self._fast.margin
        # One thread may encode while another rechecks what was encoded before.
        self._remembering = Lock()
        self._fast_memories = _memories(cache_file, self.precision, secret)
        self._exact_memories = _memories(cache_file, "numpy", secret)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors at the speed of this machine."""
        return self.encode_split(self.split(texts))

    def encode_exactly(self, texts: Sequence[str]) -> Encoded:
        """Vectors in f32 that do not depend on what else is being encoded."""
        return self._encode(self.split(texts), self._exact.one_by_one, self._exact_memories)

    def split(self, texts: Sequence[str]) -> SplitTexts:
        """The first half of `encode`, which holds Python's lock; the second mostly does not."""
        texts = [readable(text) for text in texts]
        keys = {text: text_key(text) for text in texts}
        pieces = zip(keys.values(), self._words.split(list(keys)), strict=True)
        return SplitTexts([keys[text] for text in texts], dict(pieces))

    def encode_split(self, texts: SplitTexts) -> Encoded:
        """The second half."""
        return self._encode(texts, self._fast, self._fast_memories)

    def describe(self) -> dict[str, str]:
        """The encoder as a verdict carries it."""
        return {"model": MODEL, "sha256": model_hash(), "precision": self.precision}

    @property
    def forged(self) -> int:
        """How many vectors of the cache file had not been put there by this machine."""
        memories = (*self._fast_memories, *self._exact_memories)
        return sum(each.forged for each in memories if isinstance(each, SealedMemory))

    def _encode(self, texts: SplitTexts, compute: Compute, memories: Sequence[Memory]) -> Encoded:
        keys, pieces = texts
        with self._remembering:
            vectors = _recall(memories, pieces.keys())
        missing = {key: each for key, each in pieces.items() if key not in vectors}
        for batch in _batches(missing):
            vectors |= self._compute(batch, compute, memories)
        return Encoded(
            np.stack([vectors[key] for key in keys]) if keys else _NO_VECTORS,
            np.array([pieces[key].truncated for key in keys], dtype=bool),
        )

    def _compute(
        self, batch: Mapping[bytes, Pieces], compute: Compute, memories: Sequence[Memory]
    ) -> dict[bytes, Vector]:
        vectors = dict(zip(batch, compute([each.ids for each in batch.values()]), strict=True))
        with self._remembering:
            for memory in memories:
                memory.remember(vectors)
        return vectors


def serving() -> Serving:
    """What computes vectors on this machine."""
    return fastest(read_tensors(weights.ensure("minilm") / "model.safetensors"))


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


def _recall(memories: Sequence[Memory], keys: Set[bytes]) -> dict[bytes, Vector]:
    found: dict[bytes, Vector] = {}
    for memory in memories:
        found |= memory.recall(keys - found.keys())
    return found


def _batches(pieces: Mapping[bytes, Pieces]) -> Iterator[dict[bytes, Pieces]]:
    items = iter(pieces.items())
    while batch := dict(islice(items, TEXTS_AT_ONCE)):
        yield batch
