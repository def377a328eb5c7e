"""The compiled encoder: a vector depends on its text alone, and an unusable library says why."""

import os
import platform
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.embedding import build, workers
from chimeralab.embedding.encoder import MiniLMEncoder
from chimeralab.embedding.kernel import Kernel, KernelUnusable
from chimeralab.embedding.minilm import MARGINS, MiniLM
from chimeralab.weights.tensors import Tensors

VOCABULARY = 30_522
texts_of_pieces = st.lists(
    st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=70), min_size=1, max_size=8
)


@settings(max_examples=25)
@given(texts_of_pieces, st.randoms(use_true_random=False), st.integers(1, 5))
def test_vector_depends_on_its_text_alone(
    kernel: Kernel, texts: list[list[int]], rng: random.Random, threads: int
) -> None:
    alone = [kernel.run_job([text], 1)[0] for text in texts]
    order = rng.sample(range(len(texts)), len(texts))
    together = kernel.run_job([texts[index] for index in order], threads)
    for place, index in enumerate(order):
        np.testing.assert_array_equal(together[place], alone[index])


def test_batched_vectors_equal_single_ones(kernel: Kernel) -> None:
    rng = random.Random(1)
    texts = [rng.choices(range(VOCABULARY), k=rng.randint(1, 256)) for _ in range(12)]
    for text, row in zip(texts, kernel(texts), strict=True):
        np.testing.assert_array_equal(row, kernel.run_job([text], 3)[0])


def test_vectors_are_near_the_exact_ones(kernel: Kernel, tensors: Tensors) -> None:
    rng = random.Random(2)
    texts = [rng.choices(range(1_000, 12_000), k=length) for length in (1, 2, 5, 48, 49, 130)]
    fast, exact = kernel(texts), MiniLM(tensors)(texts)
    assert np.abs(fast @ fast.T - exact @ exact.T).max() < MARGINS["int16"]


def test_every_kernel_gives_the_same_bits(library: Path, tensors: Tensors, kernel: Kernel) -> None:
    """The plain one is the definition; AVX2 must equal it."""
    texts = [list(range(1_000, 1_000 + length)) for length in (3, 20)]
    plain = Kernel(tensors, library, 1)
    np.testing.assert_array_equal(plain(texts), kernel(texts))


def test_concurrent_callers_all_get_their_vectors(kernel: Kernel) -> None:
    """Each asks for more threads than there are, from threads that are all busy asking."""
    text = list(range(2_000, 2_100))
    expected = kernel.run_job([text], 1)
    with ThreadPoolExecutor(6) as callers:
        found = list(callers.map(lambda _: kernel.run_job([text], 4), range(12)))
    for rows in found:
        np.testing.assert_array_equal(rows, expected)


def test_call_from_within_the_pool_does_not_wait_for_itself(kernel: Kernel) -> None:
    text = list(range(2_000, 2_100))
    jobs = [workers.pool().submit(kernel.run_job, [text], 4) for _ in range(2 * workers.cores())]
    for job in jobs:
        np.testing.assert_array_equal(job.result(), kernel.run_job([text], 1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_process_has_threads_of_its_own(kernel: Kernel) -> None:
    texts = [[101, 2_000 + n, 102] * 100 for n in range(4)]
    expected = kernel(texts)
    child = os.fork()
    if not child:
        same = np.array_equal(kernel(texts), expected)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("text", [[], [VOCABULARY], [-1], [101] * 513])
def test_unknown_pieces_are_rejected(kernel: Kernel, text: list[int]) -> None:
    with pytest.raises(ValueError, match="no pieces, too many pieces, or unknown pieces"):
        kernel.run_job([[101, 102], text], 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_weight_that_is_nan_is_an_error(library: Path, tensors: Tensors, value: float) -> None:
    name = "encoder.layer.3.output.dense.weight"
    broken = tensors[name].copy()
    broken[7, 11] = value
    with pytest.raises(KernelUnusable, match="not finite"):
        Kernel({**tensors, name: broken}, library)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_overflow_inside_the_network_is_an_error(
    library: Path, tensors: Tensors, value: float
) -> None:
    """Norms and embeddings are not packed, so it shows while computing: never as zeros."""
    name = "encoder.layer.2.output.LayerNorm.bias"
    broken = tensors[name].copy()
    broken[5] = value
    with pytest.raises(KernelUnusable, match="not finite"):
        Kernel({**tensors, name: broken}, library)


def test_other_weights_fail_the_check_against_stored_vectors(
    library: Path, tensors: Tensors
) -> None:
    name = "encoder.layer.5.output.LayerNorm.bias"
    with pytest.raises(KernelUnusable, match="its vectors differ from the stored ones"):
        Kernel({**tensors, name: tensors[name] + np.float32(0.1)}, library)


@pytest.mark.parametrize("content", [b"", b"PK damaged"])
def test_kernel_is_unusable_without_its_stored_vectors(
    library: Path, tensors: Tensors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    stored = tmp_path / "check.npz"
    stored.write_bytes(content)
    monkeypatch.setattr("chimeralab.embedding.kernel.STORED_VECTORS", stored)
    with pytest.raises(KernelUnusable, match=r"check\.npz can't be read"):
        Kernel(tensors, library)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def pretend_newer(path: Path) -> None:
    assert build.compile_library(path, "-Dminilm_version=minilm_elsewhere") is None


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (Path.unlink, "this install has no compiled encoder"),
        (damage, "is damaged; reinstall Chimera Lab"),
        (lambda path: path.write_bytes(b""), "is damaged"),
        (lambda path: path.with_name(f"{path.name}.sha256").unlink(), "has no compiled encoder"),
        (pretend_newer, "can't be loaded"),
    ],
)
def test_without_a_valid_library_numpy_is_used_and_the_reason_given(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm, why: str
) -> None:
    copy = tmp_path / library.name
    for suffix in ("", ".sha256"):
        shutil.copy(f"{library}{suffix}", f"{copy}{suffix}")
    harm(copy)
    monkeypatch.setattr("chimeralab.embedding.kernel.LIBRARY", copy)
    encoder = MiniLMEncoder()
    assert (encoder.precision, encoder.margin) == ("f32", 1e-5)
    assert encoder.served_by.startswith("numpy, because ")
    assert why in encoder.served_by
    assert np.isfinite(encoder.encode(["it works"]).vectors).all()


def test_compiler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("nothing is compiled for this CPU")
    monkeypatch.setenv("CC", "/bin/false")
    assert build.compile_library(tmp_path / "lib.so") == "/bin/false failed: exit code 1"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "no-such-compiler failed" in str(build.compile_library(tmp_path / "lib.so"))
    assert not list(tmp_path.iterdir())
