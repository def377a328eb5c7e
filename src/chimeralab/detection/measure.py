"""How alike each judged turn is to the turns before it: exact wherever a cutoff is near."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Trajectory
from chimeralab.core.text import readable
from chimeralab.detection.judged_turns import JudgedTurns, judged
from chimeralab.detection.seam import Cutoff, Detector, Seen
from chimeralab.detection.words import is_blank

if TYPE_CHECKING:  # words alone need no encoder, and to import one takes a while
    from chimeralab.embedding.encoder import Encoded, Encoder

Floats = NDArray[np.float64]

MIN_LAGS = 5
# A rotation over more speakers than this is measured at the first lags only.
MAX_LAGS = 32
# Conversations are embedded together until this many turns are at hand: enough for full batches,
# few enough that memory does not grow with the number of conversations. It begins with a single
# conversation, so that the first verdict is there at once, and each handful is twice the last.
TURNS_AT_ONCE = 1_024
ROWS_AT_ONCE = 8_192


def lag_similarities(vectors: NDArray[np.float32], lags: int) -> Floats:
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

    def __init__(self, encoder: "Encoder", cutoffs: Sequence[Cutoff]) -> None:
        self._encoder = encoder
        self._cutoffs = cutoffs
        self.recomputed = 0
        self.largest_error = 0.0

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


class Measured(NamedTuple):
    """One conversation with all that a detector needs to judge it.

    `similarities[t - 1, k - 1]` compares judged turn t with the turn k before it; without vectors
    it has no columns.
    """

    trajectory: Trajectory
    series: JudgedTurns
    similarities: Floats
    blank: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    repaired: int

    @property
    def seen(self) -> list[Seen]:
        """The judged turns as a detector is shown them."""
        rows = zip(self.series.turns, self.similarities.tolist(), self.blank.tolist(), strict=True)
        return [Seen(turn, tuple(lags), blank) for turn, lags, blank in rows]


class Handful(NamedTuple):
    """Conversations that are embedded together, and the texts of all their judged turns."""

    trajectories: list[Trajectory]
    series: list[JudgedTurns]
    texts: list[str]


class Measurer:
    """Measures conversations as they come, a handful at a time; without an encoder, no vectors."""

    def __init__(
        self,
        encoder: "Encoder | None",
        cutoffs: Sequence[Cutoff] = (),
        *,
        speaker: str | None = None,
        skip_blank: bool = False,
        lags: int = MIN_LAGS,
    ) -> None:
        self.encoder = encoder
        self.band = GuardBand(encoder, cutoffs) if encoder else None
        self._speaker = speaker
        self._skip_blank = skip_blank
        self._lags = max(MIN_LAGS, lags)

    def measure(self, trajectories: Iterable[Trajectory]) -> Iterator[Measured]:
        # Without vectors nothing is gained by waiting for more.
        most = TURNS_AT_ONCE if self.encoder else 1
        groups = handfuls(trajectories, lambda each: len(each.turns), most)
        for group, encoded in self._encoded(map(self._handful, groups)):
            end = 0
            for trajectory, one in zip(group.trajectories, group.series, strict=True):
                start, end = end, end + len(one.turns)
                similarities = np.empty((len(one.turns), 0))
                truncated = np.zeros(len(one.turns), dtype=bool)
                if encoded:
                    similarities = self._similarities(one, encoded.vectors[start:end])
                    truncated = encoded.truncated[start:end]
                own = group.texts[start:end]
                blank = np.array([is_blank(text) for text in own], dtype=bool)
                repaired = sum(readable(text) != text for text in own)
                yield Measured(trajectory, one, similarities, blank, truncated, repaired)

    def _handful(self, trajectories: list[Trajectory]) -> Handful:
        series = [self._series(trajectory) for trajectory in trajectories]
        return Handful(trajectories, series, [turn.text for one in series for turn in one.turns])

    def _encoded(self, groups: Iterable[Handful]) -> Iterator[tuple[Handful, "Encoded | None"]]:
        """Each handful with its vectors; while one is judged, the next is being encoded."""
        if not self.encoder:
            return ((group, None) for group in groups)
        from chimeralab.embedding.workers import one_ahead  # noqa: PLC0415 - as for the encoder

        # Splitting holds Python's lock. In this thread, which judges, it competes with nobody.
        encoder = self.encoder
        split = ((group, encoder.split(group.texts)) for group in groups)
        encoded = one_ahead(lambda pair: encoder.encode_split(pair[1]), split)
        return ((group, vectors) for (group, _), vectors in encoded)

    def _series(self, trajectory: Trajectory) -> JudgedTurns:
        series = judged(trajectory, self._speaker)
        if not self._skip_blank:
            return series
        kept = [index for index, turn in enumerate(series.turns) if not is_blank(turn.text)]
        return replace(
            series,
            turns=tuple(series.turns[index] for index in kept),
            positions=tuple(series.positions[index] for index in kept),
        )

    def _similarities(self, series: JudgedTurns, vectors: NDArray[np.float32]) -> Floats:
        speakers = len({turn.speaker for turn in series.turns})
        similarities = lag_similarities(vectors, max(self._lags, min(speakers, MAX_LAGS)))
        if self.band:
            self.band.sharpen([turn.text for turn in series.turns], similarities)
        return similarities


def measurer_for(
    detector: Detector | None,
    open_encoder: "Callable[[], Encoder]",
    *,
    speaker: str | None = None,
) -> Measurer:
    """What measures for one detector; an encoder is opened only if it asks for similarities."""
    if detector is None:
        return Measurer(None, speaker=speaker)
    needs = detector.needs
    return Measurer(
        open_encoder() if needs.lags else None,
        needs.cutoffs,
        speaker=speaker,
        skip_blank=needs.skip_blank,
        lags=needs.lags,
    )


Item = TypeVar("Item")


def handfuls(
    items: Iterable[Item], turns_of: Callable[[Item], int], most: int = TURNS_AT_ONCE
) -> Iterator[list[Item]]:
    """Items as they come: one, and then each time twice as many turns, up to `most`."""
    group: list[Item] = []
    turns, enough = 0, 1
    for item in items:
        group.append(item)
        turns += turns_of(item)
        if turns >= enough:
            yield group
            group, turns, enough = [], 0, min(most, max(2 * turns, 2 * enough))
    if group:
        yield group
