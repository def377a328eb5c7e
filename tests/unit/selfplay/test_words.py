"""Lexical measures of collapse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from chimeralab.core.records import Trajectory, Turn
from chimeralab.selfplay.robustness import (
    Lexical,
    co_detectors,
    measure_lexically,
    spearman,
    trigram_overlap,
    words,
)

WORDS = ["anchor", "bread", "cello", "desert", "engine", "forest", "garden", "harbour"]
FRESH = [f"Let us now talk about the {word} in my town number {n}." for n, word in enumerate(WORDS)]


def talk(texts: list[str]) -> Trajectory:
    return Trajectory("t", tuple(map(Turn, texts)))


def test_a_verbatim_loop_is_found_whatever_its_case_and_punctuation() -> None:
    loop = ["Thank you, and goodbye!", "THANK YOU -- and goodbye", "thank you and... Goodbye?"] * 2
    found = measure_lexically(talk(FRESH + loop))
    assert found.repeat_rate == pytest.approx(3 / 14)
    assert found.repeated_share == pytest.approx(5 / 14)


def test_fresh_talk_has_no_lexical_collapse() -> None:
    found = measure_lexically(
        talk([f"{a} {b} {a[::-1]}" for a, b in zip(WORDS, WORDS[::-1], strict=True)])
    )
    assert (found.repeat_rate, found.overlap_rate, found.overlap) == (0, 0, 0)


def test_a_loop_with_small_changes_is_found_by_ngrams_but_not_by_repeats() -> None:
    sentence = "I think that we should meet again at the old harbour on day"
    found = measure_lexically(talk([f"{sentence} {n}" for n in range(8)]))
    assert found.repeat_rate == 0
    assert found.overlap_rate == pytest.approx(4 / 8)


def test_a_repetitive_talk_compresses_better() -> None:
    loop, fresh = measure_lexically(talk(FRESH[:1] * 8)), measure_lexically(talk(FRESH))
    assert loop.compression_ratio < fresh.compression_ratio


def test_too_short_texts_are_null_with_a_reason() -> None:
    found = measure_lexically(talk(["Hi."]))
    assert (found.overlap, found.repeat_rate, found.compression_ratio) == (None, None, None)
    assert set(found.reasons) == {
        "repeated_share",
        "overlap",
        "repeat_rate",
        "overlap_rate",
        "compression_ratio",
    }


@given(st.text(max_size=60), st.text(max_size=60))
def test_shared_ngrams_are_symmetric_and_full_for_the_same_text(one: str, two: str) -> None:
    a, b = words(one), words(two)
    assert trigram_overlap(a, b) == trigram_overlap(b, a)
    assert trigram_overlap(a, a) == 1
    assert 0 <= trigram_overlap(a, b) <= 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=20))
def test_rank_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, dtype=float).T
    found = spearman(first, second)
    if found is None:
        assert len(set(first)) == 1 or len(set(second)) == 1
    else:
        assert found == pytest.approx(scipy_stats.spearmanr(first, second).statistic)


def test_co_detectors_count_who_found_a_collapse() -> None:
    rates = [(0.5, 0.4), (0.0, 0.2), (0.1, 0.0), (0.0, 0.0), (None, 0.1), (0.3, None)]
    talks = [Lexical("t", 9, None, None, rate, None, None) for rate, _ in rates]
    found = {each.name: each for each in co_detectors(talks, [rate for _, rate in rates])}
    repeats = found["repeat_rate"]
    assert repeats.conversations == 4
    counts = (repeats.both, repeats.only_lexical, repeats.only_embedding, repeats.neither)
    assert counts == (1, 1, 1, 1)
