"""Bar 1: `detect` on real transcripts against sentence-transformers on the same weights."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import reference, transcripts
from benchmarks.table import Result, keep
from chimeralab import LOCKED, detect_all
from chimeralab.detection.detectors import Lags
from chimeralab.detection.measure import judged, lag_similarities
from chimeralab.embedding.encoder import Encoder

COMMAND = "python -m benchmarks.speed.detect"


def main() -> None:
    talks = transcripts.selfchats()
    texts = [turn.text for talk in talks for turn in judged(talk).turns]
    distinct = list(dict.fromkeys(texts))
    with tempfile.TemporaryDirectory() as folder:
        model = reference.load(Path(folder))
        model.encode(distinct[:64])
        theirs_distinct = seconds(lambda: model.encode(distinct, batch_size=32))
        theirs_all = seconds(lambda: model.encode(texts, batch_size=32))
        vectors = dict(zip(distinct, np.vstack([model.encode([t]) for t in distinct]), strict=True))
    encoder = warm()
    ours_distinct = seconds(lambda: encoder.encode(distinct))
    encoder = warm()
    ours_all = seconds(lambda: list(detect_all(talks, encoder=encoder)))
    note = f"{len(texts)} turns, {len(distinct)} distinct, vectors in {encoder.precision}"
    fast = theirs_distinct / ours_distinct
    keep(Result("detect, distinct turns", f"{fast:.2f} x", "2.5 x", fast >= 2.5, COMMAND, note))
    full = theirs_all / ours_all
    keep(Result("detect, all turns", f"{full:.2f} x", "3 x", full >= 3, COMMAND, note))
    flips = sum(
        found.collapsed != expected(talk_texts(talk), vectors)
        for talk, found in zip(talks, detect_all(talks, encoder=encoder), strict=True)
    )
    keep(Result("verdicts unlike f32", str(flips), "0", flips == 0, COMMAND, note))


def warm() -> Encoder:
    """An encoder that is compiled but has seen none of the texts."""
    encoder = Encoder()
    encoder.encode(["warm up"])
    return encoder


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def talk_texts(talk: transcripts.Trajectory) -> list[str]:
    return [turn.text for turn in judged(talk).turns]


def expected(texts: list[str], vectors: dict[str, np.ndarray]) -> tuple[int, ...]:
    """The collapsed turns by the reference vectors."""
    table = lag_similarities(np.array([vectors[text] for text in texts]), 2)
    signals = LOCKED.judge(Lags(*row) for row in table.tolist())
    return tuple(signal.turn for signal in signals if signal.collapsed)


if __name__ == "__main__":
    main()
