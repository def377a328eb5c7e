"""The encoder computes each distinct text once and gives the rows back in order."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chimeralab.embedding.encoder import Encoder

TEXTS = ["The tide is out.", "A longer line about the harbour, its boats and its gulls.", "No."]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder()


def test_rows_come_back_in_order(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS).vectors
    for row, text in zip(together, TEXTS, strict=True):
        np.testing.assert_allclose(row, encoder.encode([text]).vectors[0], atol=1e-6)


def test_equal_texts_have_equal_vectors(encoder: Encoder) -> None:
    vectors = encoder.encode([TEXTS[0], TEXTS[1], TEXTS[0]]).vectors
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_each_distinct_text_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder()
    computed: list[int] = []
    compute = encoder._compute

    def counted(batch: Any, *rest: Any) -> Any:
        computed.append(len(batch))
        return compute(batch, *rest)

    monkeypatch.setattr(encoder, "_compute", counted)
    encoder.encode(TEXTS * 10)
    encoder.encode(TEXTS)
    assert sum(computed) == len(TEXTS)


def test_exact_vectors_do_not_depend_on_company(encoder: Encoder) -> None:
    alone = Encoder().encode_exactly([TEXTS[0]]).vectors[0]
    np.testing.assert_array_equal(alone, Encoder().encode_exactly(TEXTS).vectors[0])


def test_no_texts_give_no_vectors(encoder: Encoder) -> None:
    assert encoder.encode([]).vectors.shape == (0, 384)


def test_lone_surrogates_and_nulls_are_encoded(encoder: Encoder) -> None:
    assert np.isfinite(encoder.encode(["half \ud83d a pair", "nul \x00 inside"]).vectors).all()


def test_threads_may_share_an_encoder_and_its_file(encoder: Encoder, tmp_path: Path) -> None:
    shared = Encoder(cache_file=tmp_path / "v.db")
    texts = [f"Line {number}." for number in range(24)]
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(lambda text: shared.encode([text]).vectors[0], texts)
        # One by one: in a batch of numpy's, the last bits differ.
        alone = [encoder.encode([text]).vectors[0] for text in texts]
        np.testing.assert_array_equal(list(found), alone)


def test_a_cache_file_spares_the_second_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Encoder(cache_file=tmp_path / "v.db").encode(TEXTS).vectors
    again = Encoder(cache_file=tmp_path / "v.db")
    monkeypatch.setattr(again, "_compute", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(first, again.encode(TEXTS).vectors)
