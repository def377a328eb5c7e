"""Chance that can be repeated: by name for events, by seed for scenarios."""

import hashlib
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from chimeralab.core.errors import InputError

T = TypeVar("T")


def uniform(*parts: Any) -> float:
    """A number from 0 to 1 that depends on its parts alone, in every version of Python.

    An event that happens at `uniform(...) < dose` also happens at every higher dose.

    >>> uniform(1, "a") == uniform(1, "a"), 0 <= uniform(1, "a") < 1
    (True, True)
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def pick(items: Sequence[T], *parts: Any) -> T:
    """One of the items."""
    return items[int(uniform(*parts) * len(items))]


def shuffled(items: Sequence[T], *parts: Any) -> list[T]:
    """The items in an order of chance."""
    keys = [uniform(*parts, place) for place in range(len(items))]
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


def source(kind: str, seed: int) -> Random:
    """The random source of one scenario; kinds with the same seed do not share draws."""
    return Random(f"{kind}/{seed}")  # noqa: S311 - scenarios must be repeatable, not secret


def wrong_one(rng: Random, options: Sequence[T], truth: T) -> T:
    """One of the options that is not the truth."""
    return rng.choice([option for option in options if option != truth])


def choices(rng: Random, truth: str, others: Sequence[str], size: int = 4) -> tuple[str, ...]:
    """The truth among distinct wrong options, in random order.

    >>> sorted(choices(Random(1), "a", ["b", "a", "c"], size=3))
    ['a', 'b', 'c']
    """
    wrong = sorted(set(others) - {truth})
    options = [truth, *rng.sample(wrong, min(size - 1, len(wrong)))]
    rng.shuffle(options)
    return tuple(options)


def check_counts(name: str, limits: dict[str, tuple[int, int, int]]) -> None:
    """Refuse settings outside their limits: name to value, least and most."""
    for setting, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise InputError(f"{name}: {setting} is {value}; it takes {least} to {most}")
