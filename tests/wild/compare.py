"""Hold what the readers make of a log against the counts of its raw text."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory, role_of_turn
from tests.wild.raw_counts import COUNTERS, Counts

TOLERANCE = 0.02


class Comparison(NamedTuple):
    """How one file was read."""

    talks: int
    bad: int
    read: Counts
    raw: Counts

    def wrong(self) -> list[str]:
        """List the counts that are off by more than the tolerance."""
        pairs = zip(Counts._fields, self.read, self.raw, strict=True)
        return [
            f"{name}: {read} of {raw}"
            for name, read, raw in pairs
            if raw is not None and abs((read or 0) - raw) > TOLERANCE * raw
        ]


def count_read(talks: Iterable[Trajectory]) -> Counts:
    turns = [turn for talk in talks for turn in talk.turns]
    calls = [call for turn in turns for call in turn.calls]
    roles = [role_of_turn(turn) for turn in turns]
    said = [
        role == "assistant" and bool(turn.text.strip())
        for role, turn in zip(roles, turns, strict=True)
    ]
    results = sum(call.result is not None for call in calls)
    return Counts(roles.count("user"), sum(said), len(calls), results, len(turns))


def compare(source: str, path: Path) -> Comparison:
    bad: list[LogError] = []
    talks = list(readers.read(path, on_bad=bad.append))
    counter = COUNTERS.get(source)
    raw = counter(path) if counter else Counts()
    return Comparison(len(talks), len(bad), count_read(talks), raw)
