"""The encoder gives the vectors of sentence-transformers (made by make_minilm_reference.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

from chimeralab.detection.measure import cosines
from chimeralab.embedding.encoder import MiniLMEncoder

HERE = Path(__file__).parent
TEXTS = json.loads((HERE / "minilm_texts.json").read_text(encoding="utf-8"))
REFERENCE = np.load(HERE / "minilm_reference.npy")


@pytest.fixture(scope="module")
def encoder() -> MiniLMEncoder:
    return MiniLMEncoder()


def test_there_are_fifty_texts() -> None:
    assert REFERENCE.shape == (len(TEXTS), 384) == (50, 384)


def test_exact_vectors_are_those_of_the_reference(encoder: MiniLMEncoder) -> None:
    ours = encoder.encode_exactly(TEXTS).vectors
    assert np.abs(ours - REFERENCE).max() < 1e-6


def test_fast_vectors_stay_within_the_margin(encoder: MiniLMEncoder) -> None:
    """Every similarity between two texts, not only those of neighbours."""
    ours = encoder.encode(TEXTS).vectors
    rows, columns = np.triu_indices(len(TEXTS), k=1)
    fast = cosines(ours[rows], ours[columns])
    exact = cosines(REFERENCE[rows], REFERENCE[columns])
    assert np.abs(fast - exact).max() < encoder.margin


def test_truncated_texts_are_reported(encoder: MiniLMEncoder) -> None:
    truncated = encoder.encode(["word " * 254, "word " * 255]).truncated
    assert truncated.tolist() == [False, True]
