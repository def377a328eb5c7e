"""The loop zoo: conversations with a loop of known kind, each with a healthy twin of its length.

`make(seed)` gives one pair. Even seeds are for choosing parameters, odd seeds for reporting; they
share neither hosts nor templates, topics, scripts, tools and English courtesy lines. Kinds rotate
with `seed // 2`: `len(LOOPS) * len(HEALTHY)` seeds of one parity hold every combination once.
Hosts are real conversations, read in place; `available()` says whether they are at hand.
"""

import random
from typing import NamedTuple

from benchmarks.validity.loop_zoo.healthy import HEALTHY
from benchmarks.validity.loop_zoo.hosts import Call, Turn, available, choose_host, next_speakers
from benchmarks.validity.loop_zoo.loops import LOOPS
from benchmarks.validity.loop_zoo.scene import Scene

__all__ = ["HEALTHY", "LOOPS", "Call", "Case", "Pair", "Turn", "available", "make"]

LENGTHS = (6, 8, 10, 12, 14, 18)


class Case(NamedTuple):
    """A conversation with its truth; `first` and `last` are the loop's turns from 0."""

    id: str
    host: str
    turns: tuple[Turn, ...]
    stuck: bool
    kind: str
    noise: int
    period: int
    first: int | None = None
    last: int | None = None


class Pair(NamedTuple):
    """A stuck case and a healthy one with the same number of turns."""

    positive: Case
    negative: Case


def make(seed: int) -> Pair:
    """The pair of this seed, always the same."""
    rng, half, number = random.Random(seed), seed % 2, seed // 2
    host = choose_host(rng, half)
    before = host.turns[: rng.randint(3, min(12, len(host.turns)))]
    rest = host.turns[len(before) :]
    after = rest[: rng.choice((0, 0, 4, 6))]
    speakers = next_speakers(before)
    kind, noise, loop_maker = LOOPS[number % len(LOOPS)]
    loop = loop_maker(Scene(rng, half, host, speakers), rng.choice(LENGTHS), noise)
    first, length = len(before), len(loop.turns)
    positive = Case(
        f"zoo-{seed}-stuck",
        host.id,
        (*before, *loop.turns, *after),
        stuck=True,
        kind=kind,
        noise=noise,
        period=loop.period,
        first=first,
        last=first + loop.stuck - 1,
    )
    scene = Scene(random.Random(f"{seed} healthy"), half, host, speakers)
    calm, calm_maker = HEALTHY[number % len(HEALTHY)]
    stretch = [*calm_maker(scene, length), *rest[len(after) :]][:length]
    stretch += scene.said([scene.facts() for _ in range(length - len(stretch))])
    turns = (*before, *stretch, *after)
    return Pair(positive, Case(f"zoo-{seed}-healthy", host.id, turns, False, calm, 0, 0))
