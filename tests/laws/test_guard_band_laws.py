"""Noise inside the margin never flips a verdict: the guard band recomputes what is in doubt."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.measure import GuardBand, cosines, lag_similarities, measure
from chimeralab.detection.sweep import STUDY_GRID, all_cutoffs, grid_of
from chimeralab.embedding.encoder import Embeddings


class NoisyEncoder:
    """An encoder that is wrong by up to its margin, to inject the fault that int16 may make."""

    precision = "noisy"

    def __init__(self, exact: dict[str, Any], rng: np.random.Generator, margin: float) -> None:
        self._exact = exact
        self.margin = margin
        self._noisy = {text: _turned(vector, rng, margin / 3) for text, vector in exact.items()}

    def encode(self, texts: list[str]) -> Embeddings:
        return _encoded(self._noisy, texts)

    def split(self, texts: list[str]) -> list[str]:
        return texts

    encode_split = encode

    def encode_exactly(self, texts: list[str]) -> Embeddings:
        return _encoded(self._exact, texts)


def _encoded(table: dict[str, Any], texts: list[str]) -> Embeddings:
    return Embeddings(np.array([table[text] for text in texts]), np.zeros(len(texts), dtype=bool))


def _turned(vector: Any, rng: np.random.Generator, size: float) -> Any:
    noise = rng.normal(size=len(vector))
    turned = vector + size * noise / np.linalg.norm(noise)
    return (turned / np.linalg.norm(turned)).astype(np.float32)


def _talk(rng: np.random.Generator, turns: int) -> dict[str, Any]:
    """Vectors whose lag similarities crowd around the thresholds."""
    vectors = [_unit(rng.normal(size=16)), _unit(rng.normal(size=16))]
    while len(vectors) < turns:
        base = vectors[-rng.integers(1, 3)]
        cosine = np.clip(rng.choice([0.90, 0.92]) + rng.normal() * 0.004, -1, 1)
        across = _unit(rng.normal(size=16))
        across = _unit(across - (across @ base) * base)
        vectors.append(cosine * base + np.sqrt(1 - cosine**2) * across)
    return {f"turn {i}": v.astype(np.float32) for i, v in enumerate(vectors)}


def _unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


@given(st.integers(0, 2**32 - 1))
def test_verdicts_are_the_exact_ones_in_every_cell_of_a_sweep(seed: int) -> None:
    rng = np.random.default_rng(seed)
    exact = _talk(rng, 24)
    grid = grid_of(LOCKED, STUDY_GRID)
    encoder = NoisyEncoder(exact, rng, margin=0.005)
    talk = Trajectory("talk", tuple(Turn(text) for text in exact))
    [noisy] = measure([talk], encoder, all_cutoffs(grid))  # type: ignore[arg-type]
    truth = noisy._replace(similarities=lag_similarities(np.array(list(exact.values())), 5))
    for detector in grid:
        found, expected = detector.judge(noisy.observations), detector.judge(truth.observations)
        assert [s.collapsed for s in found] == [s.collapsed for s in expected]
        assert [s.period1 for s in found] == [s.period1 for s in expected]


def test_band_reports_what_it_corrected() -> None:
    a = np.eye(2, dtype=np.float32)[0]
    b = np.array([0.92, np.sqrt(1 - 0.92**2)], dtype=np.float32)
    slightly_off = np.array([0.9184, np.sqrt(1 - 0.9184**2)], dtype=np.float32)
    encoder = NoisyEncoder({"a": a, "b": b}, np.random.default_rng(1), margin=0.005)
    encoder._noisy = {"a": a, "b": slightly_off}
    band = GuardBand(encoder, LOCKED.cutoffs)  # type: ignore[arg-type]
    table = lag_similarities(encoder.encode(["a", "b"]).vectors, 2)
    band.recompute(["a", "b"], table)
    assert abs(table[1, 0] - 0.92) < 1e-7
    assert band.recomputed == 1
    assert 0.0015 < band.largest_error < 0.0017


def test_far_from_every_cutoff_nothing_is_recomputed() -> None:
    a, b = np.eye(2, dtype=np.float32)
    encoder = NoisyEncoder({"a": a, "b": b}, np.random.default_rng(1), margin=0.005)
    band = GuardBand(encoder, LOCKED.cutoffs)  # type: ignore[arg-type]
    band.recompute(["a", "b"], lag_similarities(np.array([a, b]), 2))
    assert band.recomputed == 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_lag_similarities_are_plain_cosines(seed: int, turns: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(turns, 8)).astype(np.float32)
    table = lag_similarities(vectors, 3)
    for lag in (1, 2, 3):
        assert np.isnan(table[:lag, lag - 1]).all()
        for turn in range(lag, turns):
            a, b = vectors[turn].astype(float), vectors[turn - lag].astype(float)
            expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
            assert abs(table[turn, lag - 1] - expected) < 1e-12


def test_equal_rows_are_exactly_one() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 384)).astype(np.float32)
    assert (cosines(rows, rows) == 1.0).all()
