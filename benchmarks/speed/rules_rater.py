"""The rules rater on a study's worth of trajectories: 720 of 40 turns in under 20 seconds."""

import random
import time

from benchmarks.table import Result, keep
from benchmarks.transcripts import WORDS, made
from chimeralab.rating.ratings import Item, make_item
from chimeralab.rating.rubric import load_rubric
from chimeralab.rating.rules import rate_by_rules

COMMAND = "python -m benchmarks.speed.rules_rater"
TRAJECTORIES, TURNS, WORDS_A_TURN = 720, 40, 150


def main() -> None:
    varied = [make_item(talk) for talk in made(TRAJECTORIES // 2, TURNS, WORDS_A_TURN)]
    items = varied + [_drifting(n) for n in range(TRAJECTORIES // 2)]
    rubric = load_rubric()
    started = time.perf_counter()
    positives = sum(rate_by_rules(item, rubric).label or 0 for item in items)
    seconds = time.perf_counter() - started
    note = f"{TRAJECTORIES} x {TURNS} turns of {WORDS_A_TURN} words; {positives} labelled 1"
    keep(Result("rules rater", f"{seconds:.1f} s", "20 s", seconds < 20, COMMAND, note))


def _drifting(number: int) -> Item:
    """The costly case: every turn is the last one with a word swapped, so all must be aligned."""
    rng = random.Random(number)
    words = rng.choices(WORDS, k=WORDS_A_TURN)
    turns = []
    for _ in range(TURNS):
        words[rng.randrange(WORDS_A_TURN)] = rng.choice(WORDS)
        turns.append(" ".join(words))
    return Item(f"drifting-{number}", tuple(turns))


if __name__ == "__main__":
    main()
