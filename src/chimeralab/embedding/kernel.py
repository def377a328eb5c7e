"""The fast encoder: MiniLM in int16, compiled from `minilm.c`, which runs without the GIL.

It is used if it was built, the CPU has AVX2, and it reproduces the vectors stored with it.
"""

import ctypes
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import ChimeraError
from chimeralab.embedding.build import LIBRARY
from chimeralab.embedding.minilm import LAYERS, MARGINS, WIDTH, group_by_length, position_embeddings
from chimeralab.embedding.workers import cores, on_all_cores, pool
from chimeralab.weights.tensors import Tensors

STORED_VECTORS = Path(__file__).with_name("minilm_check.npz")
VERSION = 4
KERNELS = {1: "plain C", 2: "AVX2"}
BAD_INPUT, NO_MEMORY = 1, 2
ALIGNMENT = 64
# Enough rows to amortise fetching the weights, few enough that the last group ends soon; a thread
# needs 11 kB a row.
GROUP_PIECES = 256
# Largest distance of a vector from the stored one; the largest on fifty texts was 0.0016.
MAX_DISTANCE = 0.003

PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)


class KernelUnusable(ChimeraError):
    """The compiled encoder can't be used here; numpy is used instead."""


class Kernel:
    """The network with packed weights; C functions begin a job and work on it."""

    precision = "int16"
    margin = MARGINS[precision]

    def __init__(
        self, tensors: Tensors, library: Path | None = None, limit: int = max(KERNELS)
    ) -> None:
        self._library = open_library(library or LIBRARY)
        self._kernel = self._library.minilm_kernel(limit)
        if not self._kernel:
            raise KernelUnusable("this CPU has no AVX2, or gives wrong sums with it")
        self.name = KERNELS[self._kernel]
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._model = _pack_weights(self._library, tensors)
        self._check()

    def __call__(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """One unit vector per text.

        Each group has one thread, and the last groups all of them, so that none is idle at the end.
        """
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        groups = group_by_length(texts, GROUP_PIECES)

        def fill(place: int) -> None:
            threads = cores() if place >= len(groups) - cores() else 1
            group = groups[place]
            vectors[group] = self.run_job([texts[index] for index in group], threads)

        on_all_cores(fill, range(len(groups)))
        return vectors

    def run_job(self, texts: Sequence[Sequence[int]], threads: int) -> NDArray[np.float32]:
        """Compute the vectors of one job, without waiting for busy threads."""
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        ids = np.concatenate([np.asarray(text, dtype=np.int32) for text in texts])
        starts = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        job, work = ctypes.c_void_p(), self._library.minilm_work
        _check_status(
            self._library.minilm_begin(
                self._model.ctypes.data,
                self._words.ctypes.data,
                len(self._words),
                ids.ctypes.data,
                starts.ctypes.data,
                len(texts),
                threads,
                self._kernel,
                vectors.ctypes.data,
                ctypes.byref(job),
            )
        )
        others = [pool().submit(work, job) for _ in range(threads - 1)]
        try:
            _check_status(work(job))
        finally:
            # Threads that have started must finish before the job is freed.
            for other in others:
                if not other.cancel():
                    other.result()
            self._library.minilm_end(job)
        return vectors

    def _check(self) -> None:
        """Compare the vectors of two texts with those of sentence-transformers."""
        try:
            with np.load(STORED_VECTORS) as stored:
                texts = [each.tolist() for each in np.split(stored["ids"], stored["ends"][:-1])]
                expected = stored["vectors"]
        except (OSError, EOFError, ValueError, KeyError, BadZipFile) as error:
            raise KernelUnusable(f"{STORED_VECTORS} can't be read ({error})") from error
        off = np.linalg.norm(self.run_job(texts, 1) - expected, axis=1).max()
        if not off < MAX_DISTANCE:
            raise KernelUnusable(f"its vectors differ from the stored ones by {off:.2g}")


@cache
def open_library(path: Path) -> ctypes.CDLL:
    """Load the library after checking its hash; a damaged one could crash the process."""
    try:
        built = path.with_name(f"{path.name}.sha256").read_text(encoding="ascii").strip()
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        raise KernelUnusable("this install has no compiled encoder") from None
    if found != built:
        raise KernelUnusable(f"{path} is damaged; reinstall Chimera Lab")
    try:
        library = ctypes.CDLL(str(path))
        version = library.minilm_version()
    except (OSError, AttributeError) as error:
        raise KernelUnusable(f"{path} can't be loaded ({error})") from error
    if version != VERSION:
        raise KernelUnusable(f"{path} was built from different source code; reinstall Chimera Lab")
    number, address = ctypes.c_int, ctypes.c_void_p
    if library.minilm_kernel(max(KERNELS)):
        library.minilm_size.restype = ctypes.c_size_t
        library.minilm_pack.argtypes = [address, address]
        library.minilm_begin.argtypes = [
            *(address, address, number, address, address),
            *(number, number, number, address, address),
        ]
        library.minilm_work.argtypes = [address]
        library.minilm_end.argtypes = [address]
        library.minilm_end.restype = None
    return library


def _pack_weights(library: ctypes.CDLL, tensors: Tensors) -> NDArray[np.uint8]:
    """The weights in the library's layout: 24 MB, aligned."""
    names = ["embeddings.LayerNorm"]
    names += [f"encoder.layer.{index}.{part}" for index in range(LAYERS) for part in PARTS]
    arrays = [position_embeddings(tensors)]
    arrays += [tensors[f"{name}.{kind}"] for name in names for kind in ("weight", "bias")]
    arrays = [np.require(each, np.float32, ["C_CONTIGUOUS", "ALIGNED"]) for each in arrays]
    block = np.empty(library.minilm_size() + ALIGNMENT, dtype=np.uint8)
    model = block[-block.ctypes.data % ALIGNMENT :]
    addresses = (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
    _check_status(library.minilm_pack(addresses, model.ctypes.data))
    return model


def _check_status(status: Any) -> None:
    if status == BAD_INPUT:
        raise ValueError("no pieces, too many pieces, or unknown pieces")
    if status == NO_MEMORY:
        raise MemoryError
    if status:
        raise KernelUnusable("the compiled encoder computed a number that is not finite")
