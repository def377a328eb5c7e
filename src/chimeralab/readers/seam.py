"""The seam for log formats: what a reader is, the places it names, the fields it looks for."""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory

if TYPE_CHECKING:
    from zipfile import ZipFile

STANDARD_INPUT = "-"
EVENTS = "events"  # a folder that is a log, and named after the one around it
MAX_DEPTH = 64


class Unreadable(ValueError):
    """Something in a log is not what it should be; the message is the reason alone.

    `line` counts from the beginning of whatever was being read.
    """

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


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
        line = "" if self.line in {1, None} else f"{self.line}."
        return f"{self.stem}#{line}{number}"

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        part = "" if self.part is None else f" ({self.part})"
        return f"{self.file}{line}{part}"


Values = Iterable[tuple[Any, Place]]
"""JSON values, each with the place where it stands."""

Report = Callable[[str, Place], None]
"""Takes the reason why something can't be read, and its place; raises, or the reading goes on."""


def file_place(path: str) -> Place:
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
    keys: ClassVar[frozenset[str]] = frozenset()
    """An object of this format, or one with several conversations of it, has one of these fields.

    `messages.FIELD` is one of the first of its messages. A reader that names fields is asked about
    no other object; without any, it is asked about all.
    """
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


KINDS = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text",
    list: "a list",
}  # fmt: skip


def json_type(value: Any) -> str:
    """What a JSON value is, in words.

    >>> json_type(3.5), json_type([]), json_type(None)
    ('a number', 'a list', 'null')
    """
    return KINDS.get(type(value), "an object")


def get_text(holder: Mapping[str, Any], key: str, place: str = "") -> str:
    value = holder.get(key)
    if isinstance(value, str):
        return value
    raise _misfit(holder, key, place, "text")


def optional_text(holder: Mapping[str, Any], key: str, place: str = "") -> str | None:
    value = holder.get(key)
    if value is None or isinstance(value, str):
        return value
    raise _misfit(holder, key, place, "text")


def get_list(holder: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    value = holder.get(key)
    if isinstance(value, list):
        return value
    raise _misfit(holder, key, place, "a list")


def optional_list(holder: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    return [] if holder.get(key) is None else get_list(holder, key, place)


def as_object(value: Any, place: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise Unreadable(f"{place} is {json_type(value)}, not an object")


def _misfit(holder: Mapping[str, Any], key: str, place: str, wanted: str) -> Unreadable:
    name = f"{place}.{key}" if place else key
    if key not in holder:
        return Unreadable(f"{name} is missing")
    return Unreadable(f"{name} is {json_type(holder[key])}, not {wanted}")


def get_id(fields: Mapping[str, Any], *keys: str) -> str | None:
    """The first id that is given; a number will do."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, bool | list | dict):
            raise Unreadable(f"{key} is {json_type(value)}, not text")
        if value is not None and value != "":
            return str(value)
    return None


def other_fields(fields: Mapping[str, Any], but: Container[str]) -> dict[str, Any]:
    """All other fields; those of a nested `metadata` come up to the same level."""
    kept = {key: value for key, value in fields.items() if key not in but}
    if isinstance(kept.get("metadata"), dict):
        kept |= kept.pop("metadata")
    for key, value in kept.items():
        level = [value]
        for _ in range(MAX_DEPTH):
            holders = [list(each.values()) if isinstance(each, dict) else each for each in level]
            level = [inner for held in holders for inner in items(held)]
            if not level:
                break
        else:
            raise Unreadable(f"{key} is nested too deeply")
    return kept


def other_scalars(fields: Mapping[str, Any], but: Container[str]) -> dict[str, Any]:
    """All other fields that are one value: tool lists and nested payloads stay behind."""
    kept = other_fields(fields, but)
    return {key: value for key, value in kept.items() if not isinstance(value, list | dict)}


def str_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def bool_or_none(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def items(value: Any) -> list[Any]:
    """The items of a list; none of anything else."""
    return value if isinstance(value, list) else []


def with_places(listed: Iterable[Any], place: str) -> Iterator[tuple[Any, str]]:
    """Items with the names of their places: `messages[0]` and so on."""
    return ((each, f"{place}[{n}]") for n, each in enumerate(listed))


def get_path(value: Any, *path: str) -> Any:
    """What objects hold under one key after the other; None where one of them is missing.

    >>> get_path({"info": {"agent": {"llm": "m"}}}, "info", "agent", "llm")
    'm'
    """
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def first_text(fields: Mapping[str, Any], *keys: str) -> str | None:
    """The first of some fields that is text."""
    return next((fields[key] for key in keys if isinstance(fields.get(key), str)), None)


def first_present(fields: Mapping[str, Any], *keys: str) -> Any:
    """The first of some fields that is there and not null."""
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def embedded_json(said: str) -> Any:
    """The JSON that a text holds; None where it holds none."""
    if not said.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return None
