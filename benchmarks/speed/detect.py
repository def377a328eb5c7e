"""Bar 1: `detect` on real transcripts against sentence-transformers on the same weights."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import reference, transcripts
from benchmarks.table import Result, keep
from chimeralab import detect_all
from chimeralab.detection.seam import list_judged_turns
from chimeralab.embedding.encoder import MiniLMEncoder

COMMAND = "OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.detect"
RUNS = 5


def main() -> None:
    talks = transcripts.selfchats()
    texts = [turn.text for talk in talks for turn in list_judged_turns(talk)]
    distinct = list(dict.fromkeys(texts))
    with tempfile.TemporaryDirectory() as folder:
        model = reference.load(Path(folder))
        model.encode(distinct[:64])
        work: dict[str, Callable[[], object]] = {
            "theirs, distinct": lambda: model.encode(distinct, batch_size=32),
            "ours, distinct": with_a_fresh_encoder(lambda encoder: encoder.encode(distinct)),
            "theirs, all": lambda: model.encode(texts, batch_size=32),
            "ours, all": with_a_fresh_encoder(
                lambda encoder: list(detect_all(talks, encoder=encoder))
            ),
        }
        # Both take turns, so that what else the machine does burdens both.
        rounds = [{name: seconds(each) for name, each in work.items()} for _ in range(RUNS)]
    middle = {name: statistics.median(times[name] for times in rounds) for name in work}
    note = (
        f"{len(texts)} turns, {len(distinct)} distinct, vectors in {MiniLMEncoder().precision};"
        f" medians of {RUNS} interleaved runs, wall time"
    )
    for what, bar in (("distinct", 2.3), ("all", 2.6)):
        ratio = middle[f"theirs, {what}"] / middle[f"ours, {what}"]
        name = f"detect, {what} turns"
        keep(Result(name, f"{ratio:.2f} x", f"{bar} x", ratio >= bar, COMMAND, note))


def with_a_fresh_encoder(work: Callable[[MiniLMEncoder], object]) -> Callable[[], object]:
    """Work for an encoder that is loaded but has seen none of the texts."""
    waiting = [MiniLMEncoder() for _ in range(RUNS)]
    return lambda: work(waiting.pop())


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
