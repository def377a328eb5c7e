"""Bar 3: a live guard judges one 200-piece turn in under 30 ms at the median."""

import random
import statistics
import time

from benchmarks.table import Result, keep
from benchmarks.transcripts import WORDS
from chimeralab import Guard, weights
from chimeralab.embedding.encoder import default_encoder
from chimeralab.embedding.minilm import WordPieces

COMMAND = "python -m benchmarks.speed.guard"
PIECES = 200
TURNS = 60


def main() -> None:
    words = WordPieces(weights.ensure("minilm") / "tokenizer.json")
    rng = random.Random(7)
    turns = [_turn(words, rng) for _ in range(TURNS)]
    guard = Guard()
    guard.update("warm up")
    times = []
    for turn in turns:
        started = time.perf_counter()
        guard.update(turn)
        times.append(1000 * (time.perf_counter() - started))
    median = statistics.median(times)
    note = f"vectors in {default_encoder().precision}; slowest {max(times):.0f} ms of {TURNS}"
    keep(Result("live guard", f"{median:.1f} ms", "30 ms", median < 30, COMMAND, note))


def _turn(words: WordPieces, rng: random.Random) -> str:
    """A text of exactly 200 word pieces, like no other."""
    text = ""
    while len(words.split([text])[0][0]) < PIECES:
        text += " " + rng.choice(WORDS)
    while len(words.split([text])[0][0]) > PIECES:
        text = text[:-1]
    return text


if __name__ == "__main__":
    main()
