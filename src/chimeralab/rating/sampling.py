"""Which items are rated: drawn by seed, in proportion to strata or balanced by the verdict."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record

Method = Literal["proportional", "balanced"]


@dataclass(frozen=True, slots=True)
class SampledItem(Record):
    """An item of a sample: its stratum, and how many items of the population it stands for."""

    id: str
    stratum: str
    weight: float


@dataclass(frozen=True, slots=True)
class Sample(Record):
    """Items to rate and how they were drawn; kappa on a balanced sample needs the weights."""

    items: tuple[SampledItem, ...]
    method: Method
    seed: int
    population: Mapping[str, int]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item.id for item in self.items)


def draw_sample(
    strata: Mapping[str, str],
    size: int,
    *,
    seed: int,
    method: Method = "proportional",
    without: Collection[str] = (),
) -> Sample:
    """Draw items by stratum: in proportion to it, or equally many from each.

    `strata` gives the stratum of every item, a condition or the detector's verdict. The same seed
    draws the same items in whatever order they come.

    >>> conditions = {f"run-{n}": "AB"[n % 2] for n in range(10)}
    >>> [item.stratum for item in draw_sample(conditions, 4, seed=1).items]
    ['A', 'A', 'B', 'B']
    """
    members: dict[str, list[str]] = {}
    for item in sorted(set(strata) - set(without)):
        members.setdefault(strata[item], []).append(item)
    population = {name: len(members[name]) for name in sorted(members)}
    total = sum(population.values())
    if not 1 <= size <= total:
        raise InputError(f"a sample of {size} can't be drawn from {total} items")
    sizes = _shares(population, size) if method == "proportional" else _equal(population, size)
    rng = np.random.default_rng(seed)
    drawn = {
        name: sorted(rng.choice(members[name], sizes[name], replace=False).tolist())
        for name in population
    }
    items = tuple(
        SampledItem(item, name, population[name] / sizes[name])
        for name in population
        for item in drawn[name]
    )
    return Sample(items, method, seed, population)


def _shares(population: Mapping[str, int], size: int) -> dict[str, int]:
    """Seats by the largest remainder, at least one for each stratum where there is room."""
    total = sum(population.values())
    exact = {name: size * count / total for name, count in population.items()}
    seats = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (seats[name] - exact[name], name))
    for name in by_remainder[: size - sum(seats.values())]:
        seats[name] += 1
    empty = [name for name, count in seats.items() if count == 0]
    for name in empty if size >= len(seats) else ():
        largest = max(seats, key=lambda other: seats[other])
        seats[largest] -= 1
        seats[name] = 1
    return seats


def _equal(population: Mapping[str, int], size: int) -> dict[str, int]:
    """The same number from each stratum; what a small one lacks goes to the others."""
    seats = dict.fromkeys(population, 0)
    for _ in range(size):
        open_to = [name for name in seats if seats[name] < population[name]]
        seats[min(open_to, key=lambda name: (seats[name], name))] += 1
    return seats
