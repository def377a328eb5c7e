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
BAR = 20_000
LINEAR = 12
DETECT = ("-m", "chimeralab", "detect", "--no-vectors")


def main() -> None:
    talks = english(CONVERSATIONS)
    with tempfile.TemporaryDirectory() as folder:
        log, one = Path(folder) / "log.jsonl", Path(folder) / "one.jsonl"
        write_plain(log, talks)
        write_plain(one, talks[:1])
        start = _least(lambda: seconds((*DETECT, str(one))))
        whole = _least(lambda: seconds((*DETECT, str(log)))) - start
        reading = _cpu(lambda: [talk.turns for talk in readers.read(log)])
        ten, long, longer = (Path(folder) / f"{name}.jsonl" for name in ("ten", "long", "longer"))
        write_plain(ten, english(10 * CONVERSATIONS))
        tenfold = _least(lambda: seconds((*DETECT, str(ten)))) - start
        write_plain(long, english(1, turns=LONG))
        write_plain(longer, english(1, turns=10 * LONG))
        some = _least(lambda: seconds((*DETECT, str(long)))) - start
        more = _least(lambda: seconds((*DETECT, str(longer)))) - start
    turns = CONVERSATIONS * TURNS
    texts = [[turn.text for turn in talk.turns] for talk in talks]
    hearing = _cpu(lambda: list(Screen(LOOPS).hear(texts)))
    judging = _cpu(lambda: list(detect_all(talks, detector=None)))
    rate = turns / whole
    note = (
        f"{turns:,} turns of {WORDS_PER_TURN} words in {whole:.2f} CPU-s after a start of "
        f"{start:.2f}: reading {reading:.2f}, words {hearing:.2f}, terms and verdicts "
        f"{judging - hearing:.2f}, the rest {whole - reading - judging:.2f}; "
        f"{100 * rate / BAR:.0f} % of the bar"
    )
    name = "detect --no-vectors, end to end"
    keep(Result(name, f"{rate:,.0f} turns/s", f"{BAR:,}", rate >= BAR, COMMAND, note))
    _keep_growth("ten times the conversations", whole, tenfold, f"{CONVERSATIONS:,} conversations")
    _keep_growth("ten times the turns of one", some, more, f"{LONG:,} turns")


def _keep_growth(name: str, few: float, many: float, what: str) -> None:
    note = f"{what} in {few:.2f} CPU-s, ten times as many in {many:.2f}, without the start"
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


def _least(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(3))


def _cpu(work: Callable[[], object]) -> float:
    def once() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    return _least(once)


if __name__ == "__main__":
    main()
