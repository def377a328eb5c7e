"""Streams: what a delta costs in a live guard, on text, code, tables, encoded bytes and chants."""

import base64
import random
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.table import ROOT, Result, keep
from chimeralab import Guard

COMMAND = "python -m benchmarks.speed.feed"
LENGTH, ROUNDS = 100_000, 5
SIZES = (1, 4, 20, 49, 100)
HUNDRED, SMALLER = 20, 5  # microseconds for 100 characters at once, and for each smaller delta


def main() -> None:
    worst: dict[int, tuple[float, str]] = dict.fromkeys(SIZES, (0.0, ""))
    for name, make in TEXTS.items():
        text = make()
        text = (text * (LENGTH // len(text) + 1))[:LENGTH]
        costs = {size: measure(text, size) for size in SIZES}
        print(f"{name:10}", *(f"{size}: {cost:.2f} µs" for size, cost in costs.items()), sep="  ")
        worst = {size: max(worst[size], (cost, name)) for size, cost in costs.items()}
    cost, name = worst[100]
    note = f"slowest kind of text: {name}"
    good = cost < HUNDRED
    keep(Result("streams, 100 characters", f"{cost:.1f} µs", "20 µs", good, COMMAND, note))
    size = max(SIZES[:-1], key=lambda size: worst[size])
    cost, name = worst[size]
    note = f"mean of deltas of {size} characters; slowest kind of text: {name}"
    good = cost <= SMALLER
    keep(Result("streams, smaller deltas", f"{cost:.1f} µs", "5 µs each", good, COMMAND, note))


def measure(text: str, size: int) -> float:
    """The microseconds that a delta of a size takes, at the best of a few rounds."""
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    times = []
    for _ in range(ROUNDS):
        guard = Guard(vectors=False)
        started = time.process_time()
        for delta in deltas:
            guard.feed(delta)
        times.append(time.process_time() - started)
    return 1e6 * min(times) / len(deltas)


def _read(pattern: str) -> str:
    files: list[Path] = sorted(ROOT.glob(pattern))
    return "".join(file.read_text(encoding="utf-8") for file in files)


def _table() -> str:
    rng = random.Random(3)
    rows = (f"| {n} | {rng.randrange(1000)} | {rng.random():.3f} |\n" for n in range(5000))
    return "".join(rows)


def _chinese() -> str:
    rng = random.Random(3)
    return "".join(chr(0x4E00 + rng.randrange(3000)) for _ in range(LENGTH))


TEXTS: dict[str, Callable[[], str]] = {
    "prose": lambda: _read("docs/*.md"),
    "code": lambda: _read("src/chimeralab/detection/*.py"),
    "table": _table,
    "numbers": lambda: "".join(f"{n}. x\n" for n in range(LENGTH)),
    "indexed": lambda: "".join(f'x[{n}] = "field {n}"\n' for n in range(6000)),
    "base64": lambda: base64.b64encode(random.Random(3).randbytes(LENGTH)).decode(),
    "Chinese": _chinese,
    "chant": lambda: "court <br>",
    "JSON chant": lambda: "".join(f'{{"id": {n}, "name": "item"}}, ' for n in range(6000)),
}


if __name__ == "__main__":
    main()
