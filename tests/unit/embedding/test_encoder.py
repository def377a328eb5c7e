"""The encoder computes each distinct text once and gives the rows back in order."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chimeralab import Guard, detect
from chimeralab.embedding.encoder import Embeddings, Encoder, MiniLMEncoder

TEXTS = ["The tide is out.", "A longer line about the harbour, its boats and its gulls.", "No."]


@pytest.fixture(scope="module")
def encoder() -> MiniLMEncoder:
    return MiniLMEncoder()


def test_rows_come_back_in_order(encoder: MiniLMEncoder) -> None:
    together = encoder.encode(TEXTS).vectors
    for row, text in zip(together, TEXTS, strict=True):
        np.testing.assert_allclose(row, encoder.encode([text]).vectors[0], atol=1e-6)


def test_equal_texts_have_equal_vectors(encoder: MiniLMEncoder) -> None:
    vectors = encoder.encode([TEXTS[0], TEXTS[1], TEXTS[0]]).vectors
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_each_distinct_text_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = MiniLMEncoder()
    computed: list[int] = []
    compute = encoder._compute

    def counted(batch: Any, *rest: Any) -> Any:
        computed.append(len(batch))
        return compute(batch, *rest)

    monkeypatch.setattr(encoder, "_compute", counted)
    encoder.encode(TEXTS * 10)
    encoder.encode(TEXTS)
    assert sum(computed) == len(TEXTS)


def test_exact_vectors_do_not_depend_on_the_batch(encoder: MiniLMEncoder) -> None:
    alone = MiniLMEncoder().encode_exactly([TEXTS[0]]).vectors[0]
    np.testing.assert_array_equal(alone, MiniLMEncoder().encode_exactly(TEXTS).vectors[0])


def test_no_texts_give_no_vectors(encoder: MiniLMEncoder) -> None:
    assert encoder.encode([]).vectors.shape == (0, 384)


def test_lone_surrogates_and_nulls_are_encoded(encoder: MiniLMEncoder) -> None:
    assert np.isfinite(encoder.encode(["half \ud83d a pair", "nul \x00 inside"]).vectors).all()


def test_threads_may_share_an_encoder_and_its_file(encoder: MiniLMEncoder, tmp_path: Path) -> None:
    shared = MiniLMEncoder(cache_file=tmp_path / "v.db")
    texts = [f"Line {number}." for number in range(24)]
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda text: shared.encode([text]).vectors[0], texts)
        # One by one: in a batch of numpy's, the last bits differ.
        alone = [encoder.encode([text]).vectors[0] for text in texts]
        np.testing.assert_array_equal(list(found), alone)


def test_cache_file_is_used_by_the_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = MiniLMEncoder(cache_file=tmp_path / "v.db").encode(TEXTS).vectors
    again = MiniLMEncoder(cache_file=tmp_path / "v.db")
    monkeypatch.setattr(again, "_compute", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(first, again.encode(TEXTS).vectors)


class Letters(Encoder):
    """Counts letters: a minimal encoder."""

    def encode(self, texts: Sequence[str]) -> Embeddings:
        rows = [[text.count(letter) for letter in "abcdefghij"] for text in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, 10) + 1
        return Embeddings(vectors, np.zeros(len(texts), dtype=bool))


def test_custom_encoder_needs_one_method() -> None:
    found = detect(["cab"] * 6, encoder=Letters())
    assert found.collapsed == (5, 6)
    assert found.encoder["model"] == "an encoder without a name"
    guard = Guard(encoder=Letters())
    assert [guard.update("cab").collapsed for _ in range(6)] == [False] * 4 + [True] * 2


def test_exact_vectors_are_computed_one_by_one_by_default() -> None:
    np.testing.assert_array_equal(
        Letters().encode_exactly(TEXTS).vectors, Letters().encode(TEXTS).vectors
    )
    assert Letters().encode_exactly([]).vectors.shape == (0, 10)
