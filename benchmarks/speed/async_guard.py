"""Bar: a guard in async code stalls the event loop for at most 5 ms per message.

A timer in the loop says how late it is called. Whatever else the machine does makes it late, too,
but seldom in every one of many tries; what the guard itself holds up is late in all of them. So
every length is tried often, and the least of the longest delays is kept, along with a
thread that hashes: it never holds Python's lock, so what is late there is the machine's doing.
"""

import asyncio
import random
import time
from collections.abc import Awaitable
from hashlib import sha256

from benchmarks.table import Result, keep
from benchmarks.transcripts import WORDS
from chimeralab import Guard

COMMAND = "python -m benchmarks.speed.async_guard"
LENGTHS = (20, 150, 3_000)
TRIES = 15
TICK = 0.0005
BAR = 5.0
HASHED = bytes(20_000_000)


def main() -> None:
    stalls = asyncio.run(measure())
    worst = max(stall for name, stall in stalls.items() if name.endswith("words"))
    each = ", ".join(f"{name} {stall:.1f} ms" for name, stall in stalls.items())
    note = f"least of {TRIES} tries each: {each}"
    keep(Result("async guard", f"{worst:.1f} ms", f"{BAR:.0f} ms", worst <= BAR, COMMAND, note))


async def measure() -> dict[str, float]:
    """The stall in ms by the length of the messages, and those that the guard has no part in."""
    rng = random.Random(7)
    guard = Guard()
    await guard.update_async("warm up")
    stalls = {}
    for words in LENGTHS:
        texts = (" ".join(rng.choices(WORDS, k=words)) for _ in range(TRIES))
        tried = [await longest_stall(guard.update_async(text)) for text in texts]
        stalls[f"{words:,} words"] = min(tried)
    others = {
        "a hashing thread": lambda: asyncio.to_thread(sha256, HASHED),
        "an idle loop": lambda: asyncio.sleep(0.02),
    }
    for name, other in others.items():
        stalls[name] = min([await longest_stall(other()) for _ in range(TRIES)])
    return stalls


async def longest_stall(work: Awaitable[object]) -> float:
    """The longest delay of a timer while something is awaited, in ms."""
    late = [0.0]

    async def tick() -> None:
        while True:
            asked = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            late.append(time.perf_counter() - asked)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    await work
    ticking.cancel()
    return 1000 * max(late)


if __name__ == "__main__":
    main()
