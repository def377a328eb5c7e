"""How alike each judged turn is to the turns before it: exact wherever a cutoff is near."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.seam import Cutoff, Observation, choose_turns
from chimeralab.detection.words import is_blank

if TYPE_CHECKING:  # words alone need no encoder, and to import one takes a while
    from chimeralab.embedding.encoder import Encoder

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
EncodedTalk = tuple[Trajectory, tuple[int, ...], str, Vectors, NDArray[np.bool_]]

MIN_LAGS = 5
# A rotation over more speakers than this is measured at the first lags only.
MAX_LAGS = 32
# Conversations are embedded together until this many turns are at hand: enough for full batches,
# few enough that memory does not grow with the number of conversations. It begins with a single
# conversation, so that the first verdict is there at once, and each handful is twice the last.
TURNS_AT_ONCE = 1_024
ROWS_AT_ONCE = 8_192
_NO_VECTORS = np.empty((0, 0), dtype=np.float32)
_NO_MARKS = np.empty(0, dtype=bool)


def lag_similarities(vectors: Vectors, lags: int) -> Floats:
    """Cosines of every row to the rows 1..lags before it, as (rows, lags); NaN where there is none.

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

    Equal rows give exactly 1: a repeated text must not fall short of it by a rounding error.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    products = np.einsum("ij,ij->i", a64, b64)
    lengths = np.sqrt(np.einsum("ij,ij->i", a64, a64) * np.einsum("ij,ij->i", b64, b64))
    return np.where((a == b).all(axis=1), 1.0, np.clip(products / lengths, -1, 1))


class GuardBand:
    """Recomputes what lies within the encoder's margin of a cutoff, so that verdicts are exact."""

    def __init__(self, encoder: "Encoder", cutoffs: Sequence[Cutoff]) -> None:
        self._encoder = encoder
        self._cutoffs = cutoffs
        self.recomputed = 0
        self.largest_error = 0.0

    def similarities(self, turns: Sequence[Turn], vectors: Vectors, least: int = 0) -> Floats:
        """How alike turns are to those before: as many as there are speakers, or `least`."""
        lags = max(MIN_LAGS, least, min(len({turn.speaker for turn in turns}), MAX_LAGS))
        table = lag_similarities(vectors, lags)
        self.sharpen([turn.text for turn in turns], table)
        return table

    def sharpen(self, texts: Sequence[str], table: Floats) -> None:
        """Replace the doubtful similarities of a conversation, in place."""
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
    """One conversation with its similarities, for whoever judges it by several detectors.

    `similarities[t - 1, k - 1]` compares judged turn t with the turn k before it.
    """

    trajectory: Trajectory
    positions: tuple[int, ...]
    judged: str
    similarities: Floats
    blank: NDArray[np.bool_]

    @property
    def seen(self) -> list[Observation]:
        """The judged turns as a detector is shown them."""
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
    """Measure conversations as they come, exactly wherever one of the cutoffs is near."""
    band = GuardBand(encoder, cutoffs)
    for group in encoded(trajectories, encoder, speaker=speaker, skip_blank=skip_blank):
        for talk, positions, judged, vectors, _ in group:
            turns = [talk.turns[n - 1] for n in positions]
            blank = np.array([is_blank(turn.text) for turn in turns], dtype=bool)
            yield MeasuredConversation(
                talk, positions, judged, band.similarities(turns, vectors), blank
            )


def encoded(
    trajectories: Iterable[Trajectory],
    encoder: "Encoder | None",
    *,
    speaker: str | None = None,
    skip_blank: bool = False,
) -> Iterator[list[EncodedTalk]]:
    """Conversations a handful at a time; while one is judged, the next is being encoded.

    Each comes with the positions of its judged turns, whose they are, the vectors of these turns,
    and which of them were cut. Without an encoder there are no vectors.
    """
    groups = (
        [(talk, *choose_turns(talk, speaker, skip_blank=skip_blank)) for talk in group]
        for group in handfuls(trajectories)
    )
    if encoder is None:
        for group in groups:
            yield [(*each, _NO_VECTORS, _NO_MARKS) for each in group]
        return
    from chimeralab.embedding.workers import one_ahead  # noqa: PLC0415 - as for the encoder

    # Splitting holds Python's lock. In this thread, which judges, it competes with nobody.
    split = (
        (group, encoder.split([talk.turns[n - 1].text for talk, at, _ in group for n in at]))
        for group in groups
    )
    for (group, _), found in one_ahead(lambda pair: encoder.encode_split(pair[1]), split):
        ends = accumulate(len(positions) for _, positions, _ in group)
        own = [slice(end - len(each[1]), end) for each, end in zip(group, ends, strict=True)]
        yield [
            (*each, found.vectors[rows], found.truncated[rows])
            for each, rows in zip(group, own, strict=True)
        ]


def handfuls(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """Conversations as they come: one, and then each time twice as many turns, up to a limit."""
    group: list[Trajectory] = []
    turns, enough = 0, 1
    for each in trajectories:
        group.append(each)
        turns += len(each.turns)
        if turns >= enough:
            yield group
            group, turns, enough = [], 0, min(TURNS_AT_ONCE, max(2 * turns, 2 * enough))
    if group:
        yield group
