"""A million chats of ten turns from one file: constant memory, and time as their number grows.

The file takes 4 GB while it is read, and the whole takes ten minutes.
"""

import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from benchmarks.speed.cold_start import Cost, cost
from benchmarks.speed.words import TURNS, WORDS_PER_TURN, english
from benchmarks.table import Result, keep
from chimeralab.core.schema import SCHEMA
from chimeralab.readers.plain import dumps

COMMAND = "python -m benchmarks.speed.million"
SIZES = (10_000, 100_000, 1_000_000)
DIFFERENT = 1_000
SECONDS = 600
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
    keep(Result("a million conversations, growth", value, "12 x per 10 x", met, COMMAND, note))
    value, met = f"{seconds[-1]:.0f} CPU-s", seconds[-1] < SECONDS
    keep(Result("a million conversations, time", value, f"{SECONDS} CPU-s", met, COMMAND, note))
    grown = costs[-1].memory / costs[0].memory
    value, met = f"{costs[-1].memory:.0f} MB", grown < MEMORY and costs[-1].memory < 200
    keep(Result("a million conversations, memory", value, "200 MB, 20 % more", met, COMMAND, note))


def detect_cost(log: Path) -> Cost:
    return cost([sys.executable, "-m", "chimeralab", "detect", "--no-vectors", str(log)])


def write(path: Path, conversations: int) -> None:
    """Write talks line by line: a million don't fit into memory as records.

    A thousand different ones come back, each time with a word that no other talk has.
    """
    start = f'{{"schema": {SCHEMA}, "id": "'
    lines = [dumps(talk).removeprefix(f'{start}{talk.id}", ') for talk in english(DIFFERENT)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(conversations):
            line = lines[number % DIFFERENT].replace('"text": "', f'"text": "w{number} ', 1)
            file.write(f'{start}talk-{number}", {line}\n')


if __name__ == "__main__":
    main()
