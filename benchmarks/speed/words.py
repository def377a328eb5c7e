"""Words and calls alone: 20,000 turns of 50 words per second, from JSON lines to the table.

Where the time goes is measured apart: starting, reading, and the loop detector. CPU time, as one
process does all of it.
"""

import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.speed.start import seconds
from benchmarks.table import ROOT, Result, keep
from benchmarks.transcripts import write_plain
from chimeralab import LOOPS, Trajectory, Turn, readers
from chimeralab.detection.loops import LoopStream

COMMAND = "python -m benchmarks.speed.words"
CONVERSATIONS, TURNS, WORDS_PER_TURN = 1_000, 10, 50
BAR = 20_000
DETECT = ("-m", "chimeralab", "detect", "--no-vectors")


def main() -> None:
    talks = english(CONVERSATIONS)
    with tempfile.TemporaryDirectory() as folder:
        log, one = Path(folder) / "log.jsonl", Path(folder) / "one.jsonl"
        write_plain(log, talks)
        write_plain(one, talks[:1])
        start = min(seconds((*DETECT, str(one))) for _ in range(3))
        whole = min(seconds((*DETECT, str(log))) for _ in range(3)) - start
        reading = _cpu(lambda: [talk.turns for talk in readers.read(log)])
    turns = CONVERSATIONS * TURNS
    judging = _cpu(lambda: [_judge(talk) for talk in talks])
    rate = turns / whole
    note = (
        f"{turns:,} turns of {WORDS_PER_TURN} words in {whole:.2f} CPU-s after a start of "
        f"{start:.2f}: reading {reading:.2f}, loop detector {judging:.2f}, the rest "
        f"{whole - reading - judging:.2f}; {100 * rate / BAR:.0f} % of the bar"
    )
    name = "detect --no-vectors, end to end"
    keep(Result(name, f"{rate:,.0f} turns/s", f"{BAR:,}", rate >= BAR, COMMAND, note))


def english(conversations: int, seed: int = 5) -> list[Trajectory]:
    """Talks in words of our documentation, as often as they come there; a tenth of turns repeat."""
    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/*.md")))
    words, rng = re.findall(r"[a-z]{1,12}(?= )", text.lower()), random.Random(seed)

    def turns() -> list[Turn]:
        said: list[str] = []
        for _ in range(TURNS):
            again = said and rng.random() < 0.1
            said.append(
                rng.choice(said) if again else " ".join(rng.choices(words, k=WORDS_PER_TURN)) + "."
            )
        return list(map(Turn, said))

    return [Trajectory(f"talk-{n}", tuple(turns())) for n in range(conversations)]


def _judge(talk: Trajectory) -> None:
    stream = LoopStream(LOOPS)
    for turn in talk.turns:
        stream.update(turn)


def _cpu(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
