"""Seeded draws that scenarios share."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from chimeralab.core.errors import InputError

T = TypeVar("T")


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
