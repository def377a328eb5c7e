"""Drives a library of the compiled encoder hard; run under sanitizers by test_kernel_sanitized.py.

python stress_kernel.py LIBRARY texts|threads|overflow|arguments [SEED]
"""

import ctypes
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from chimeralab import weights
from chimeralab.embedding.kernel import Kernel
from chimeralab.embedding.minilm import LAYERS, WIDTH
from chimeralab.weights.tensors import Tensors, read_tensors

PLAIN, AVX2 = 1, 2
WIDE = 4 * WIDTH
CALLS = 200
# Longer than the texts of a call: the library reads from `starts` how many pieces there are.
MAX_PIECES = 1_000
MAX_WORK = 24
EDGES = (-(2**31), -1, 0, 1, 2, 127, 128, 129, 255, 256, 257, 30_521, 30_522, 2**31 - 1)
ODD_WORDS = 7
ODD_NUMBERS = (0.0, -0.0, 1e-45, 1.0, -3e38, 3e38, float("inf"), float("nan"))


class Unchecked(Kernel):
    """A kernel without the check against stored vectors."""

    def _check(self) -> None:
        pass


def main() -> None:
    library, what = Path(sys.argv[1]), sys.argv[2]
    tensors = read_tensors(weights.ensure("minilm") / "model.safetensors")
    if what == "texts":
        lengths = [1, 5, 6, 7, 15, 16, 17, 47, 48, 49, 256, 512]
        work_on(Kernel(tensors, library, AVX2), lengths, threads=(1, 2, 7))
    elif what == "threads":
        work_on(Kernel(tensors, library, AVX2), [1, 6, 20, 49], threads=(2, 7))
    elif what == "arguments":
        kernel, seed = Kernel(tensors, library, AVX2), sys.argv[3]
        for number in range(CALLS):
            call(kernel, random.Random(f"{seed}.{number}"))
    else:
        for hostile in hostile_models(tensors, np.random.default_rng(1)):
            Unchecked(hostile, library, PLAIN).run_job([[101, 2_000, 30_521, 0, 7, 9, 102]], 1)
    print("done")


def work_on(kernel: Kernel, lengths: Sequence[int], threads: Sequence[int]) -> None:
    """Texts around the edges of a tile, and more threads than there is work for."""
    rng = random.Random(1)
    texts = [rng.choices(range(30_522), k=length) for length in lengths]
    for number in threads:
        kernel.run_job(texts, number)
        for text in texts:
            kernel.run_job([text], number)


def call(kernel: Kernel, rng: random.Random) -> None:
    """Begin a job, mostly with one argument that is at an edge or beyond, and do it if accepted."""
    library, words = kernel._library, kernel._words
    kind = rng.choice(["none", "ids", "starts", "threads", "kernel", "count", "words"])
    if kind == "words":
        words = np.full((ODD_WORDS, WIDTH), rng.choice(ODD_NUMBERS), dtype=np.float32)
        words[rng.randrange(ODD_WORDS)] = rng.choice(ODD_NUMBERS)
    lengths = rng.choices([1, 2, 3, 5, 17], [9, 4, 2, 1, 0.3], k=rng.randint(1, 4))
    starts = np.cumsum([0, *lengths], dtype=np.int32)
    ids = np.array(rng.choices(range(len(words)), k=MAX_PIECES), dtype=np.int32)
    count, threads, chosen = len(lengths), rng.randint(1, 4), rng.choice([PLAIN, AVX2, AVX2, AVX2])
    match kind:
        case "ids":
            ids[rng.randrange(int(starts[-1]))] = rng.choice(EDGES)
        case "starts":
            starts[rng.randrange(len(starts))] = rng.choice(EDGES)
        case "threads":
            threads = rng.choice(EDGES)
        case "kernel":
            chosen = rng.choice(EDGES)
        case "count":
            count = rng.choice([-(2**31), -1, 0])
    vectors = np.empty((len(lengths), WIDTH), dtype=np.float32)
    job = ctypes.c_void_p()
    status = library.minilm_begin(
        kernel._model.ctypes.data, words.ctypes.data, len(words), ids.ctypes.data,
        starts.ctypes.data, count, threads, chosen, vectors.ctypes.data, ctypes.byref(job),
    )  # fmt: skip
    assert (status == 0) == bool(job.value)
    if job.value:
        # Sanitized, a piece takes milliseconds; a job that is not worked on has to end as well.
        if starts[count] <= MAX_WORK or rng.random() < 0.02:
            library.minilm_work(job)
        library.minilm_end(job)


def hostile_models(tensors: Tensors, rng: np.random.Generator) -> Iterator[Tensors]:
    """Models in which every row of activations points along every weight row.

    Then the sums are as large as the lengths of the rows allow: Cauchy-Schwarz is an equation.
    """
    for narrow, wide in zip(patterns(WIDTH, rng), patterns(WIDE, rng), strict=True):
        changed = dict(tensors)
        for index in range(LAYERS):
            name = f"encoder.layer.{index}."
            for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
                changed[f"{name}{norm}.weight"] = np.zeros(WIDTH, dtype=np.float32)
                changed[f"{name}{norm}.bias"] = narrow
            for part, outputs in (("query", narrow), ("key", narrow), ("value", narrow)):
                changed[f"{name}attention.self.{part}.weight"] = along(outputs, narrow)
                changed[f"{name}attention.self.{part}.bias"] = np.zeros(WIDTH, dtype=np.float32)
            changed[f"{name}attention.output.dense.weight"] = along(narrow, narrow)
            # The nonlinearity leaves numbers above 4 as they are.
            changed[f"{name}intermediate.dense.weight"] = along(8 * np.abs(wide), narrow)
            changed[f"{name}intermediate.dense.bias"] = np.zeros(WIDE, dtype=np.float32)
            changed[f"{name}output.dense.weight"] = along(narrow, np.abs(wide))
        changed["embeddings.LayerNorm.weight"] = np.zeros(WIDTH, dtype=np.float32)
        changed["embeddings.LayerNorm.bias"] = narrow
        yield changed


def along(outputs: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Weights that map `inputs` to `outputs`, every row of them parallel to `inputs`."""
    scale = outputs / np.dot(inputs, inputs)
    scale[scale == 0] = 1
    rows: np.ndarray = np.outer(scale, inputs).astype(np.float32)
    return rows


def patterns(size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Even rows, random ones, one, two and three spikes, and a long decay."""
    signs = rng.choice([-1, 1], size)
    spikes = [np.zeros(size) for _ in range(3)]
    for count, spike in enumerate(spikes, 1):
        spike[:count] = 1
    for row in (
        np.ones(size),
        signs,
        rng.normal(size=size),
        *spikes,
        signs * 0.99 ** np.arange(size),
    ):
        yield row.astype(np.float32)


if __name__ == "__main__":
    main()
