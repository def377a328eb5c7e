"""The seam for log formats: what a reader is, and the places in a log that it can name."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory

if TYPE_CHECKING:
    from zipfile import ZipFile

STANDARD_INPUT = "-"
EVENTS = "events"  # a folder that is a log, and named after the one around it


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a log that messages and ids can name."""

    file: str
    stem: str
    line: int | None = None
    part: str | None = None
    format: str | None = None

    def at(self, line: int) -> "Place":
        return Place(self.file, self.stem, line, self.part, self.format)

    def inside(self, part: str) -> "Place":
        return replace(self, part=part)

    def error(self, reason: str) -> LogError:
        told = f"{self.part}: {reason}" if self.part else reason
        return LogError(self.file, told, self.line, self.format)

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
    from pathlib import PurePath  # noqa: PLC0415 - a guard reads messages and no files

    name = PurePath(path).name.removesuffix(".gz").removesuffix(".zst")
    if name == EVENTS:
        name = PurePath(path).parent.name
    return Place(path, PurePath(name).stem or path)


class Reader:
    """A log format. A log gets a reader of its own, which sees its JSON values one after another.

    ``name``, ``recognised``, ``matches`` and ``read`` are what a format has to say. The rest is
    for formats that spread a conversation over several values, or put several into one.
    """

    name: ClassVar[str]
    recognised: ClassVar[str]
    """How the format is recognised, in a sentence."""
    turns: ClassVar[str] = ""
    """What becomes a turn, for the table of formats."""
    left_out: ClassVar[str] = ""
    """What is in such a log and not in its conversations."""
    whole: ClassVar[bool] = True
    """Whether a value is a whole conversation; False where it is a line of one."""
    pieces: ClassVar[re.Pattern[str] | None] = None
    """Names of files that hold a value each and are one log together, in order of their number."""
    zipped: ClassVar[bool] = False
    """Whether logs of this format may be zip archives; then `members` and `load` read them."""

    def matches(self, value: Any) -> bool:
        """Whether a JSON value is in this format."""
        raise NotImplementedError

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        """The conversations of a value; raises `Unreadable` with the reason where it can't."""
        raise NotImplementedError

    def finish(self, place: Place) -> Iterator[Trajectory]:
        """The conversations that needed the whole log, once all of it was read."""
        return iter(())

    def says_something(self, value: Any) -> bool:
        """Whether a value in this format holds some of a conversation, and not a mere note."""
        return True

    def inner(self, value: Any) -> list[Any]:
        """The values inside a value that holds several conversations."""
        return []

    def members(self, archive: "ZipFile") -> list[str]:
        """The members of a zip archive that hold a conversation, in order."""
        return []

    def load(self, archive: "ZipFile", name: str) -> Any:
        """The value of a member, for `read`."""
        raise NotImplementedError
