"""Long conversations are made small without a false number."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from chimeralab.report.charts.timeline import SimilarPair, TurnSpan, blocks, compare, peaks

SEEDS = st.integers(0, 2**32 - 1)


def vectors(turns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(turns, 8)).astype(np.float32)


@settings(deadline=None)
@given(st.integers(2, 30), SEEDS)
def test_short_conversation_is_compared_turn_by_turn(turns: int, seed: int) -> None:
    pairs = compare(vectors(turns, seed))
    expected = cosine_similarity(vectors(turns, seed))
    np.fill_diagonal(expected, np.nan)
    assert pairs.block == 1
    np.testing.assert_allclose(pairs.values, expected, atol=1e-5)


@settings(deadline=None)
@given(st.integers(2, 60), st.integers(1, 12), SEEDS)
def test_block_is_the_mean_over_its_pairs_of_different_turns(
    turns: int, most: int, seed: int
) -> None:
    pairs = compare(vectors(turns, seed), most)
    alone = cosine_similarity(vectors(turns, seed))
    np.fill_diagonal(alone, np.nan)
    for i, a in enumerate(pairs.spans):
        for j, b in enumerate(pairs.spans):
            part = alone[a.start - 1 : a.end, b.start - 1 : b.end]
            known = part[~np.isnan(part)]
            expected = known.mean() if known.size else np.nan
            np.testing.assert_allclose(pairs.values[i, j], expected, atol=1e-5)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 500))
def test_blocks_hold_every_turn_once(turns: int, most: int) -> None:
    spans = blocks(turns, most)
    assert len(spans) <= most
    assert [t for span in spans for t in range(span.start, span.end + 1)] == list(
        range(1, turns + 1)
    )


def test_most_alike_are_named_from_the_top_and_equals_from_the_start() -> None:
    a, b = np.eye(2, dtype=np.float32)
    named = compare(np.stack([a, b, a, b])).most_alike(3)
    assert named[:2] == [
        SimilarPair(TurnSpan(1, 1), TurnSpan(3, 3), 1.0),
        SimilarPair(TurnSpan(2, 2), TurnSpan(4, 4), 1.0),
    ]
    assert named[2].similarity == 0


def test_most_alike_names_no_pair_that_is_not_there() -> None:
    assert len(compare(vectors(2, 1)).most_alike(5)) == 1


def test_no_turn_is_lost_in_a_conversation_of_a_hundred_thousand() -> None:
    pairs = compare(vectors(100_000, 1))
    assert len(pairs.spans) <= 120
    assert pairs.spans[-1].end == 100_000


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(-1, 1), max_size=50), st.integers(1, 60))
def test_peaks_keep_the_highest_value(values: list[float | None], most: int) -> None:
    found = peaks(values, most)
    known = [value for value in values if value is not None]
    shown = [value for value in found.values if value is not None]
    assert len(found.turns) == len(found.values) <= most
    assert max(shown, default=None) == max(known, default=None)


def test_short_series_stays_as_it_is() -> None:
    assert peaks([None, 0.5, 0.25]) == ([1, 2, 3], [None, 0.5, 0.25])


def test_parallel_vectors_are_never_more_than_alike() -> None:
    same = np.full((50, 8), 0.1, dtype=np.float32)
    assert compare(same).most_alike(1)[0].similarity == pytest.approx(1, abs=1e-6)
    assert np.nanmax(compare(same).values) <= 1
