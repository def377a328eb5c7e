"""Where a conversation stands: a file, a line of it, a part of that line."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

from chimeralab.core.errors import LogError

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a log that messages and ids can name."""

    file: str
    stem: str
    line: int | None = None
    part: str | None = None

    def at(self, line: int) -> "Place":
        return replace(self, line=line)

    def inside(self, part: str) -> "Place":
        return replace(self, part=part)

    def error(self, reason: str) -> LogError:
        return LogError(self.file, f"{self.part}: {reason}" if self.part else reason, self.line)

    def default_id(self) -> str:
        """The name of a conversation that has none of its own.

        >>> Place("logs/talks.jsonl", "talks", line=3).default_id()
        'talks#3'
        """
        if self.part is None:
            return f"{self.stem}#{self.line}"
        number = self.part.rpartition(" ")[2]
        # A file that is one list is on its first line; counting that line tells nobody anything.
        return (
            f"{self.stem}#{number}"
            if self.line in {1, None}
            else f"{self.stem}#{self.line}.{number}"
        )

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        part = "" if self.part is None else f" ({self.part})"
        return f"{self.file}{line}{part}"


Report = Callable[[str, Place], None]
"""Takes the reason why something can't be read, and its place; raises, or the reading goes on."""


def place_of(path: str) -> Place:
    if path == STANDARD_INPUT:
        return Place("standard input", "stdin")
    name = PurePath(path).name.removesuffix(".gz").removesuffix(".zst")
    return Place(path, PurePath(name).stem or path)
