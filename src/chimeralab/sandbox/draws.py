"""Chance by name: the same question about the same seed always falls the same way."""

import hashlib
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def uniform(*parts: Any) -> float:
    """A number from 0 to 1 that hangs on its parts alone, in every version of Python.

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
