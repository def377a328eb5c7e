"""How alike a turn is to the turns before it, exact wherever a cutoff is near."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.detectors import Cutoff
from chimeralab.embedding.encoder import Encoder

Floats = NDArray[np.float64]
_BLOCK = 8_192


def lag_similarities(vectors: NDArray[np.float32], lags: int) -> Floats:
    """Cosines of every row to the rows 1..lags before it, as (rows, lags); NaN where there is none.

    >>> lag_similarities(np.eye(2, dtype=np.float32)[[0, 1, 0]], 2).tolist()
    [[nan, nan], [0.0, nan], [0.0, 1.0]]
    """
    table = np.full((len(vectors), lags), np.nan)
    for lag in range(1, min(lags, len(vectors) - 1) + 1):
        for start in range(lag, len(vectors), _BLOCK):
            end = min(start + _BLOCK, len(vectors))
            table[start:end, lag - 1] = cosines(
                vectors[start:end], vectors[start - lag : end - lag]
            )
    return table


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> Floats:
    """Cosine of each row of `a` with the same row of `b`, in float64.

    Equal rows give exactly 1: a repeated text must not fall short of it by a rounding error.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    products = np.einsum("ij,ij->i", a64, b64)
    lengths = np.sqrt(np.einsum("ij,ij->i", a64, a64) * np.einsum("ij,ij->i", b64, b64))
    return np.where((a == b).all(axis=1), 1.0, np.clip(products / lengths, -1, 1))


class GuardBand:
    """Recomputes what lies within the encoder's margin of a cutoff, so that verdicts are exact."""

    def __init__(self, encoder: Encoder, cutoffs: Sequence[Cutoff]) -> None:
        self._encoder = encoder
        self._cutoffs = cutoffs
        self.recomputed = 0
        self.largest_error = 0.0

    def sharpen(self, texts: Sequence[str], table: Floats) -> None:
        """Replace the doubtful similarities of a conversation, in place."""
        for lag in sorted({cutoff.lag for cutoff in self._cutoffs}):
            turns = np.flatnonzero(self._doubtful(lag, table[:, lag - 1]))
            if len(turns):
                exact = self._exactly(texts, turns, lag)
                self._note(np.abs(exact - table[turns, lag - 1]))
                table[turns, lag - 1] = exact

    def _doubtful(self, lag: int, similarities: Floats) -> NDArray[np.bool_]:
        near = np.zeros(len(similarities), dtype=bool)
        for cutoff in self._cutoffs:
            if cutoff.lag == lag:
                near |= np.abs(similarities - cutoff.value) <= self._encoder.margin
        return near

    def _exactly(self, texts: Sequence[str], turns: NDArray[np.intp], lag: int) -> Floats:
        now = self._encoder.encode_exactly([texts[turn] for turn in turns])
        then = self._encoder.encode_exactly([texts[turn - lag] for turn in turns])
        return cosines(now.vectors, then.vectors)

    def _note(self, errors: Floats) -> None:
        self.recomputed += len(errors)
        self.largest_error = max(self.largest_error, float(errors.max()))
