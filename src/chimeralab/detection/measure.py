"""Similarities of judged turns to the turns before them, exact near every cutoff."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.seam import Cutoff, Observation, choose_turns
from chimeralab.detection.words import is_blank

if TYPE_CHECKING:  # slow to import, and not needed without vectors
    from chimeralab.embedding.encoder import Encoder

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
EncodedConversation = tuple[Trajectory, tuple[int, ...], str, Vectors, NDArray[np.bool_]]

MIN_LAGS = 5
MAX_LAGS = 32  # with more speakers in rotation, only the first lags are measured
# Turns that are encoded together: enough for full batches, few enough for constant memory.
BATCH_TURNS = 1_024
ROWS_AT_ONCE = 8_192
_NO_VECTORS = np.empty((0, 0), dtype=np.float32)
_NOT_TRUNCATED = np.empty(0, dtype=bool)


def lag_similarities(vectors: Vectors, lags: int) -> Floats:
    """Cosines of each row with the rows 1..lags before it, as (rows, lags); NaN if there is none.

    >>> lag_similarities(np.eye(2, dtype=np.float32)[[0, 1, 0]], 2).tolist()
    [[nan, nan], [0.0, nan], [0.0, 1.0]]
    """
    table = np.full((len(vectors), lags), np.nan)
    for lag in range(1, min(lags, len(vectors) - 1) + 1):
        for start in range(lag, len(vectors), ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, len(vectors))
            table[start:end, lag - 1] = cosines(
                vectors[start:end], vectors[start - lag : end - lag]
            )
    return table


def cosines(a: Vectors, b: Vectors) -> Floats:
    """Cosine of each row of `a` with the same row of `b`, in float64.

    Equal rows give exactly 1, whatever the rounding.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    products = np.einsum("ij,ij->i", a64, b64)
    lengths = np.sqrt(np.einsum("ij,ij->i", a64, a64) * np.einsum("ij,ij->i", b64, b64))
    return np.where((a == b).all(axis=1), 1.0, np.clip(products / lengths, -1, 1))


class GuardBand:
    """Recomputes similarities near a cutoff, so that verdicts do not depend on the encoder."""

    def __init__(self, encoder: "Encoder", cutoffs: Sequence[Cutoff]) -> None:
        self._encoder = encoder
        self._cutoffs = cutoffs
        self.recomputed = 0
        self.largest_error = 0.0

    def similarities(self, turns: Sequence[Turn], vectors: Vectors, least: int = 0) -> Floats:
        """Similarities at one lag per speaker, and at no fewer than `least` lags."""
        lags = max(MIN_LAGS, least, min(len({turn.speaker for turn in turns}), MAX_LAGS))
        table = lag_similarities(vectors, lags)
        self.recompute([turn.text for turn in turns], table)
        return table

    def recompute(self, texts: Sequence[str], table: Floats) -> None:
        """Recompute the doubtful similarities of a conversation in place."""
        for lag in sorted({cutoff.lag for cutoff in self._cutoffs}):
            column = table[:, lag - 1]
            near = np.zeros(len(column), dtype=bool)
            for cutoff in self._cutoffs:
                if cutoff.lag == lag:
                    near |= np.abs(column - cutoff.value) <= self._encoder.margin
            turns = np.flatnonzero(near).tolist()
            if not turns:
                continue
            pairs = [texts[turn - back] for back in (0, lag) for turn in turns]
            now, then = np.split(self._encoder.encode_exactly(pairs).vectors, 2)
            exact = cosines(now, then)
            errors = np.abs(exact - column[turns])
            self.recomputed += len(errors)
            self.largest_error = max(self.largest_error, float(errors.max()))
            column[turns] = exact


class MeasuredConversation(NamedTuple):
    """A conversation with its similarities, to be judged by several detectors.

    `similarities[t - 1, k - 1]` compares judged turn t with the turn k before it.
    """

    trajectory: Trajectory
    positions: tuple[int, ...]
    judged: str
    similarities: Floats
    blank: NDArray[np.bool_]

    @property
    def observations(self) -> list[Observation]:
        turns = (self.trajectory.turns[n - 1] for n in self.positions)
        rows = zip(turns, self.similarities.tolist(), self.blank.tolist(), strict=True)
        return [Observation(turn, tuple(lags), blank) for turn, lags, blank in rows]


def measure(
    trajectories: Iterable[Trajectory],
    encoder: "Encoder",
    cutoffs: Sequence[Cutoff],
    *,
    speaker: str | None = None,
    skip_blank: bool = False,
) -> Iterator[MeasuredConversation]:
    """Measure a stream of conversations, with exact similarities near every cutoff."""
    band = GuardBand(encoder, cutoffs)
    batches = encode_batches(trajectories, encoder, speaker=speaker, skip_blank=skip_blank)
    for batch in batches:
        for talk, positions, judged, vectors, _ in batch:
            turns = [talk.turns[n - 1] for n in positions]
            blank = np.array([is_blank(turn.text) for turn in turns], dtype=bool)
            yield MeasuredConversation(
                talk, positions, judged, band.similarities(turns, vectors), blank
            )


def encode_batches(
    trajectories: Iterable[Trajectory],
    encoder: "Encoder | None",
    *,
    speaker: str | None = None,
    skip_blank: bool = False,
) -> Iterator[list[EncodedConversation]]:
    """Encode a stream of conversations in batches, one batch ahead of the caller.

    Each conversation comes with the positions of its judged turns, a description of whose they are,
    their vectors, and which were truncated. Without an encoder there are no vectors.
    """
    batches = (
        [(talk, *choose_turns(talk, speaker, skip_blank=skip_blank)) for talk in batch]
        for batch in batch_by_turns(trajectories)
    )
    if encoder is None:
        for batch in batches:
            yield [(*each, _NO_VECTORS, _NOT_TRUNCATED) for each in batch]
        return
    from chimeralab.embedding.workers import one_ahead  # noqa: PLC0415 - slow to import

    # Tokenising holds the GIL, so it runs in this thread instead of competing with it.
    split = (
        (batch, encoder.split([talk.turns[n - 1].text for talk, at, _ in batch for n in at]))
        for batch in batches
    )
    for (batch, _), found in one_ahead(lambda pair: encoder.encode_split(pair[1]), split):
        ends = accumulate(len(positions) for _, positions, _ in batch)
        own = [slice(end - len(each[1]), end) for each, end in zip(batch, ends, strict=True)]
        yield [
            (*each, found.vectors[rows], found.truncated[rows])
            for each, rows in zip(batch, own, strict=True)
        ]


def batch_by_turns(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """Batch conversations: one first, for a fast first verdict, then twice as many turns each."""
    batch: list[Trajectory] = []
    turns, enough = 0, 1
    for each in trajectories:
        batch.append(each)
        turns += len(each.turns)
        if turns >= enough:
            yield batch
            batch, turns, enough = [], 0, min(BATCH_TURNS, max(2 * turns, 2 * enough))
    if batch:
        yield batch
