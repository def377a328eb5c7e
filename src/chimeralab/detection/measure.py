"""Similarities of every judged turn to the turns before it, for any number of conversations."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Trajectory
from chimeralab.detection.detectors import Cutoff
from chimeralab.detection.series import Series, judged
from chimeralab.detection.similarity import Floats, GuardBand, lag_similarities
from chimeralab.embedding.encoder import Encoder
from chimeralab.embedding.pieces import readable

MIN_LAGS = 5
# A rotation over more speakers than this is measured at the first lags only.
MAX_LAGS = 32
# Conversations are embedded together until this many turns are at hand: enough for full batches,
# few enough that memory does not grow with the number of conversations.
TURNS_AT_ONCE = 1_024


class Measured(NamedTuple):
    """One conversation with all that a detector needs to judge it.

    `similarities[t - 1, k - 1]` compares judged turn t with the turn k before it.
    """

    trajectory: Trajectory
    series: Series
    similarities: Floats
    blank: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    repaired: int


class Measurer:
    """Measures conversations as they come, a handful at a time."""

    def __init__(
        self,
        encoder: Encoder,
        cutoffs: Sequence[Cutoff],
        *,
        speaker: str | None = None,
        skip_blank: bool = False,
    ) -> None:
        self.encoder = encoder
        self.band = GuardBand(encoder, cutoffs)
        self._speaker = speaker
        self._skip_blank = skip_blank

    def measure(self, trajectories: Iterable[Trajectory]) -> Iterator[Measured]:
        for group in _handfuls(trajectories):
            series = [self._series(trajectory) for trajectory in group]
            texts = [turn.text for one in series for turn in one.turns]
            vectors, truncated = self.encoder.encode(texts)
            end = 0
            for trajectory, one in zip(group, series, strict=True):
                start, end = end, end + len(one.turns)
                yield self._measured(trajectory, one, vectors[start:end], truncated[start:end])

    def _series(self, trajectory: Trajectory) -> Series:
        series = judged(trajectory, self._speaker)
        if not self._skip_blank:
            return series
        kept = [index for index, turn in enumerate(series.turns) if not is_blank(turn.text)]
        return replace(
            series,
            turns=tuple(series.turns[index] for index in kept),
            positions=tuple(series.positions[index] for index in kept),
        )

    def _measured(
        self,
        trajectory: Trajectory,
        series: Series,
        vectors: NDArray[np.float32],
        truncated: NDArray[np.bool_],
    ) -> Measured:
        texts = [turn.text for turn in series.turns]
        speakers = len({turn.speaker for turn in series.turns})
        lags = min(max(MIN_LAGS, speakers), MAX_LAGS)
        similarities = lag_similarities(vectors, lags)
        self.band.sharpen(texts, similarities)
        blank = np.array([is_blank(text) for text in texts], dtype=bool)
        repaired = sum(readable(text) != text for text in texts)
        return Measured(trajectory, series, similarities, blank, truncated, repaired)


def is_blank(text: str) -> bool:
    """Whether a text has nothing but white space and punctuation.

    >>> is_blank(" ... "), is_blank("ok"), is_blank("\N{WAVING HAND SIGN}")
    (True, False, False)
    """
    return not any(char.isalnum() or unicodedata.category(char)[0] in "LNS" for char in text)


def _handfuls(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    group: list[Trajectory] = []
    turns = 0
    for trajectory in trajectories:
        group.append(trajectory)
        turns += len(trajectory.turns)
        if turns >= TURNS_AT_ONCE:
            yield group
            group, turns = [], 0
    if group:
        yield group
