"""The loop detector without vectors: under 1 ms per turn of 150 words, linear in the turns."""

import random
import time
from statistics import median

from benchmarks.table import Result, keep
from benchmarks.transcripts import made
from chimeralab.core.records import Turn
from chimeralab.detection.loops import LoopStream

COMMAND = "python -m benchmarks.speed.loops"
WORDS_PER_TURN = 150
LIMIT = 1.0
FEW, MANY = 10_000, 100_000


def main() -> None:
    turns = [turn for talk in made(10, 100, words=WORDS_PER_TURN) for turn in talk.turns]
    best = min(_milliseconds(turns) for _ in range(3))
    note = f"{len(turns)} turns of {WORDS_PER_TURN} words, a third repeated; best of 3, CPU time"
    keep(Result("loops, per turn", f"{best:.2f} ms", "1 ms", best < LIMIT, COMMAND, note))
    rng = random.Random(3)
    words = [f"word{n}" for n in range(5_000)]
    short = [Turn(" ".join(rng.choices(words, k=12)), "ab"[n % 2]) for n in range(MANY)]
    few = median(_milliseconds(short[:FEW]) for _ in range(3))
    many = _milliseconds(short)
    note = f"per turn of 12 words: {1000 * few:.0f} µs of {FEW:,}, {1000 * many:.0f} µs of {MANY:,}"
    name = "loops, ten times the turns"
    value = f"{10 * many / few:.1f} x the time"
    keep(Result(name, value, "12 x", many / few <= 1.2, COMMAND, note))


def _milliseconds(turns: list[Turn]) -> float:
    """CPU time per turn of one conversation."""
    stream = LoopStream()
    started = time.process_time()
    for turn in turns:
        stream.update(turn)
    return 1000 * (time.process_time() - started) / len(turns)


if __name__ == "__main__":
    main()
