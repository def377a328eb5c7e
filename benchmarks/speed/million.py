"""A million short conversations from one file: constant memory, and time as their number grows."""

import random
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from benchmarks.speed.cold_start import Cost, cost
from benchmarks.table import Result, keep
from benchmarks.transcripts import WORDS

COMMAND = "python -m benchmarks.speed.million"
SIZES = (10_000, 100_000, 1_000_000)
TURNS, WORDS_PER_TURN = 2, 6
PLAIN = [word for word in WORDS if word.isalnum()]
LINEAR = 1.2  # how much more than ten times the time ten times the input may take
MEMORY = 1.2


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        write(log, 1)
        start = min(detect_cost(log) for _ in range(3))
        costs = []
        for size in SIZES:
            write(log, size)
            costs.append(detect_cost(log))
    seconds = [each.cpu - start.cpu for each in costs]
    steps = [later / (10 * sooner) for sooner, later in pairwise(seconds)]
    note = ", ".join(
        f"{size:,} in {cpu:.1f} CPU-s and {each.memory:.0f} MB"
        for size, cpu, each in zip(SIZES, seconds, costs, strict=True)
    )
    note += (
        f"; {TURNS} turns of {WORDS_PER_TURN} words, by words, without a start of {start.cpu:.2f}"
    )
    value, met = f"{10 * max(steps):.1f} x the time", max(steps) <= LINEAR
    keep(Result("a million conversations, time", value, "12 x per 10 x", met, COMMAND, note))
    grown = costs[-1].memory / costs[0].memory
    value, met = f"{costs[-1].memory:.0f} MB", grown < MEMORY and costs[-1].memory < 200
    keep(Result("a million conversations, memory", value, "200 MB, 20 % more", met, COMMAND, note))


def detect_cost(log: Path) -> Cost:
    return cost([sys.executable, "-m", "chimeralab", "detect", "--no-vectors", str(log)])


def write(path: Path, conversations: int) -> None:
    """Write talks of random words, line by line: a million don't fit into memory as records."""
    rng = random.Random(7)
    with path.open("w", encoding="utf-8") as file:
        for number in range(conversations):
            file.write(_line(rng, number))


def _line(rng: random.Random, number: int) -> str:
    def text() -> str:
        return " ".join(rng.choices(PLAIN, k=WORDS_PER_TURN))

    turns = ", ".join(f'{{"speaker": "{"ab"[n % 2]}", "text": "{text()}"}}' for n in range(TURNS))
    return f'{{"id": "talk-{number}", "turns": [{turns}]}}\n'


if __name__ == "__main__":
    main()
