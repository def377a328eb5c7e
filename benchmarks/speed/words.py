"""Words and calls alone: 20,000 turns of 50 words per second, from JSON lines to the table.

Where the time goes is measured apart: starting, reading, hearing words in batches, and the terms
that weigh what the batch can't rule out. CPU time, as one process does all of it. Ten times the
conversations take ten times as long, and so do ten times the turns of one conversation.
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
from chimeralab.detection.judging import detect_all
from chimeralab.detection.screen import Screen

COMMAND = "python -m benchmarks.speed.words"
CONVERSATIONS, TURNS, WORDS_PER_TURN = 1_000, 10, 50
LONG = 10_000
RUNS = 5
BAR = 20_000
LINEAR = 12
DETECT = ("-m", "chimeralab", "detect", "--no-vectors")


def main() -> None:
    talks = english(CONVERSATIONS)
    with tempfile.TemporaryDirectory() as folder:
        logs = {
            "one": talks[:1],
            "some": talks,
            "ten times": english(10 * CONVERSATIONS),
            "long": english(1, turns=LONG),
            "ten times as long": english(1, turns=10 * LONG),
        }
        paths = {name: Path(folder) / f"{name}.jsonl" for name in logs}
        for name, path in paths.items():
            write_plain(path, logs[name])
        # One after another and then again, as the machine may be slow for a while.
        rounds = [
            {name: seconds((*DETECT, str(path))) for name, path in paths.items()}
            for _ in range(RUNS)
        ]
        reading = _cpu(lambda: [talk.turns for talk in readers.read(paths["some"])])
    start, *least = (min(each[name] for each in rounds) for name in logs)
    some, ten, long, longer = (each - start for each in least)
    texts = [[turn.text for turn in talk.turns] for talk in talks]
    hearing = _cpu(lambda: list(Screen(LOOPS).screen(texts)))
    judging = _cpu(lambda: list(detect_all(talks, detector=None)))
    turns = CONVERSATIONS * TURNS
    rate, each = 10 * turns / ten, 1e6 / turns
    note = (
        f"{10 * turns:,} turns of {WORDS_PER_TURN} words in {ten:.2f} CPU-s after a start of "
        f"{start:.2f}, {each * ten / 10:.0f} µs per turn: reading {each * reading:.0f}, words "
        f"{each * hearing:.0f}, terms and verdicts {each * (judging - hearing):.0f}, the rest "
        f"{each * (ten / 10 - reading - judging):.0f}; {100 * rate / BAR:.0f} % of the bar"
    )
    name = "detect --no-vectors, end to end"
    keep(Result(name, f"{rate:,.0f} turns/s", f"{BAR:,}", rate >= BAR, COMMAND, note))
    _keep_growth("ten times the conversations", some, ten, f"{CONVERSATIONS:,} conversations")
    _keep_growth("ten times the turns of one", long, longer, f"{LONG:,} turns")


def _keep_growth(name: str, few: float, many: float, what: str) -> None:
    note = (
        f"{what} in {few:.2f} CPU-s, ten times as many in {many:.2f}, without the start; "
        f"least of {RUNS} interleaved processes"
    )
    times, met = f"{many / few:.1f} x the time", many / few <= LINEAR
    keep(Result(f"detect --no-vectors, {name}", times, f"{LINEAR} x", met, COMMAND, note))


def english(conversations: int, seed: int = 5, turns: int = TURNS) -> list[Trajectory]:
    """Talks in words of our documentation, as often as they come there; a tenth of turns repeat."""
    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/*.md")))
    words, rng = re.findall(r"[a-z]{1,12}(?= )", text.lower()), random.Random(seed)

    def said() -> list[Turn]:
        texts: list[str] = []
        for _ in range(turns):
            again = texts and rng.random() < 0.1
            new = " ".join(rng.choices(words, k=WORDS_PER_TURN)) + "."
            texts.append(rng.choice(texts) if again else new)
        return list(map(Turn, texts))

    return [Trajectory(f"talk-{n}", tuple(said())) for n in range(conversations)]


def _cpu(work: Callable[[], object]) -> float:
    def once() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    return min(once() for _ in range(RUNS))


if __name__ == "__main__":
    main()
