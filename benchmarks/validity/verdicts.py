"""Verdicts from the fast encoder against those in f32: on whole public sets, not one may differ."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.table import Result, keep
from benchmarks.transcripts import DATA
from chimeralab import LOCKED, Trajectory, Turn, readers
from chimeralab.detection.measure import GuardBand, lag_similarities
from chimeralab.detection.seam import Observation, list_judged_turns
from chimeralab.embedding.encoder import MiniLMEncoder

COMMAND = "python -m benchmarks.validity.verdicts"
SETS = ("selfchats", "dialogue-eval", "tau-bench")
LAGS = 5

Floats = NDArray[np.float64]


class Compared(NamedTuple):
    """How often fast vectors lead to another verdict, and how far their similarities are off."""

    conversations: int
    similarities: int
    rechecked: int
    unlike: int
    unlike_without_recheck: int
    largest_error: float


def main() -> None:
    for name in SETS:
        folder = DATA / name
        if not folder.exists():
            print(f"{name}: left out, the public set is not on this machine")
            continue
        encoder = MiniLMEncoder()
        found = compare(list(readers.read_all([folder])), encoder)
        note = (
            f"{found.conversations:,} conversations, {found.similarities:,} lag similarities in"
            f" {encoder.precision}: largest error {found.largest_error:.1e} (margin"
            f" {encoder.margin:g}), {found.rechecked:,} rechecked; without that,"
            f" {found.unlike_without_recheck} verdicts would differ"
        )
        met = found.unlike == 0 and found.largest_error < encoder.margin
        keep(Result(f"verdicts unlike f32, {name}", str(found.unlike), "0", met, COMMAND, note))


def compare(talks: Sequence[Trajectory], encoder: MiniLMEncoder) -> Compared:
    """Judge every conversation three times: fast and rechecked, fast alone, and exactly."""
    band = GuardBand(encoder, LOCKED.cutoffs)
    series = [[turn.text for turn in list_judged_turns(talk)] for talk in talks]
    distinct = list(dict.fromkeys(text for texts in series for text in texts))
    place = {text: index for index, text in enumerate(distinct)}
    fast_vectors = encoder.encode(distinct).vectors
    exact_vectors = encoder.encode_exactly(distinct).vectors
    count = unlike = without = 0
    largest = 0.0
    for texts in series:
        rows = [place[text] for text in texts]
        exact, alone = (lag_similarities(v[rows], LAGS) for v in (exact_vectors, fast_vectors))
        errors = np.abs(exact - alone)[~np.isnan(exact)]
        count += errors.size
        largest = max(largest, float(errors.max(initial=0.0)))
        rechecked = alone.copy()
        band.recompute(texts, rechecked)
        unlike += collapsed(rechecked) != collapsed(exact)
        without += collapsed(alone) != collapsed(exact)
    return Compared(len(talks), count, band.recomputed, unlike, without, largest)


def collapsed(table: Floats) -> list[int]:
    """The turns that the locked detector marks, given the similarities."""
    signals = LOCKED.judge(Observation(Turn(""), tuple(row)) for row in table[:, :2].tolist())
    return [signal.turn for signal in signals if signal.collapsed]


if __name__ == "__main__":
    main()
