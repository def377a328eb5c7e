"""The network in numpy: its parts against plain formulas, and single texts against batches."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab import weights
from chimeralab.embedding import workers
from chimeralab.embedding.encoder import TokenEncoder
from chimeralab.embedding.minilm import MiniLM, gelu, group_by_length
from chimeralab.weights.tensors import read_tensors

pieces = st.lists(st.integers(0, 30_521), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM(read_tensors(weights.ensure("minilm") / "model.safetensors"))


def test_gelu_is_that_of_the_error_function() -> None:
    x = np.linspace(-8, 8, 20_001, dtype=np.float32)
    expected = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x.tolist()]
    assert np.abs(gelu(x) - np.array(expected)).max() < 2e-6


@settings(max_examples=10)
@given(st.lists(pieces, min_size=1, max_size=6))
def test_batch_changes_only_rounding(minilm: MiniLM, texts: list[list[int]]) -> None:
    together = minilm(texts)
    for text, row in zip(texts, together, strict=True):
        assert np.abs(row - minilm.one_by_one([text])[0]).max() < 1e-6


def test_threads_change_nothing_if_blas_is_single_threaded(
    minilm: MiniLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [list(range(n, 2 * n)) for n in range(1, 40, 3)]
    in_turn = minilm.one_by_one(texts)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(workers, "cores", lambda: 3)
    np.testing.assert_allclose(minilm.one_by_one(texts), in_turn, atol=1e-6)


@given(st.lists(st.integers(1, 256), max_size=60), st.integers(0, 600))
def test_groups_have_every_text_once_and_respect_the_limit(lengths: list[int], limit: int) -> None:
    groups = group_by_length([range(length) for length in lengths], limit)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or sum(lengths[index] for index in group) <= limit


def test_pieces_have_unit_vectors_without_the_special_tokens() -> None:
    rows = TokenEncoder().encode("the ferry leaves")
    assert rows.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert TokenEncoder().encode("").shape == (0, 384)
