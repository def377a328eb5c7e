"""The base class of log formats, and helpers that read fields of JSON values with clear errors."""

import ast
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
EVENTS = "events"  # a folder of OpenHands that is one log, named after its parent
MAX_DEPTH = 64
# Metadata: the number of calls that were read from the text of messages.
CALLS_READ = "calls_read_from_text"


NO_OBJECTS = frozenset({"\0"})  # `keys` for a reader of texts or lists; no object has it


class Text(str):
    """A log that is a text as a whole; a text inside JSON is a plain `str`."""

    __slots__ = ()


class Unreadable(ValueError):
    """A value of a log can't be read. The message is the reason, `line` counts from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


class Damage(Unreadable):
    """A file was cut off or broken after it was written."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a log, for error messages and default ids."""

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
        reason = f"{self.part}: {reason}" if self.part else reason
        return LogError(self.file, reason, self.line, self.format)

    def default_id(self) -> str:
        """Name a conversation that has no id.

        >>> Place("logs/talks.jsonl", "talks", line=3).default_id()
        'talks#3'
        """
        if self.part is None:
            return f"{self.stem}#{self.line}"
        number = self.part.rpartition(" ")[2]
        # A file that is a single list is all "line 1", so the line is left out.
        line = "" if self.line in {1, None} else f"{self.line}."
        return f"{self.stem}#{line}{number}"

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        part = "" if self.part is None else f" ({self.part})"
        return f"{self.file}{line}{part}"


Values = Iterable[tuple[Any, Place]]
"""JSON values with their places."""

Report = Callable[[str, Place], None]
"""Called with a reason and a place for each unreadable value; may raise to stop reading."""


def file_place(path: str) -> Place:
    if path == STANDARD_INPUT:
        return Place("standard input", "stdin")
    from pathlib import PurePath  # noqa: PLC0415 - a guard reads messages and no files

    name = PurePath(path).name.removesuffix(".gz").removesuffix(".zst")
    if name == EVENTS:
        name = PurePath(path).parent.name
    return Place(path, PurePath(name).stem or path)


# How sure a reader is of a value.
CERTAIN = 1.0  # the value names its format
WRAPS = 0.8  # it has the fields of the format, and messages in another one inside
FITS = 0.6  # it has the fields of the format, which few others use
COMMON = 0.4  # it has the fields of the format, which others use as well
VAGUE = 0.2  # it has little more than a telling name


class Reader:
    """A log format. Each log gets its own instance, which is fed the JSON values in order.

    ``name``, ``recognised``, ``matches`` and ``read`` are required. The rest is for formats that
    spread a conversation over several values, or put several conversations into one.
    """

    name: ClassVar[str]
    max_sureness: ClassVar[float] = CERTAIN
    """The surest that it is of any value; it is not asked where another reader is surer."""
    keys: ClassVar[frozenset[str]] = frozenset()
    """Fields of which an object in this format has at least one; `matches` sees no other object.

    ``messages.FIELD`` is a field of its first message. Without keys, `matches` sees every object.
    """
    recognised: ClassVar[str]
    """How the format is recognised, for the table of formats."""
    turns: ClassVar[str] = ""
    """What becomes a turn, for the table of formats."""
    left_out: ClassVar[str] = ""
    """What the reader drops, for the table of formats."""
    whole: ClassVar[bool] = True
    """Whether a value is a whole conversation, not a line of one."""
    pieces: ClassVar[re.Pattern[str] | None] = None
    """File names, with their number as a group, that together are one log with a value per file."""
    zipped: ClassVar[bool] = False
    """Whether logs may be zip archives, read with `members` and `load`."""

    def matches(self, value: Any) -> bool:
        """Whether a JSON value is in this format."""
        raise NotImplementedError

    def sureness(self, value: Any) -> float:
        """How sure it is that a value is in this format, from 0 to 1; the surest reader reads."""
        return FITS if self.matches(value) else 0.0

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        """Yield the conversations of a value, or raise `Unreadable` with a reason."""
        raise NotImplementedError

    def is_exact(self, value: Any) -> bool:
        """Whether texts of a value are only texts; otherwise calls written in them are read."""
        return False

    def finish(self, place: Place) -> Iterator[Trajectory]:
        """Yield the conversations that needed the whole log, after its last value."""
        return iter(())

    def is_note(self, value: Any) -> bool:
        """Whether a value that no format knows belongs to a log of this one, and says nothing."""
        return False

    def says_something(self, value: Any) -> bool:
        """Whether a value has part of a conversation, rather than only metadata."""
        return True

    def inner(self, value: Any) -> list[Any]:
        """List the conversations inside a value that has several."""
        return []

    def members(self, archive: "ZipFile") -> list[str]:
        """List the members of a zip archive that are conversations, in order."""
        return []

    def load(self, archive: "ZipFile", name: str) -> Any:
        """Load a member of a zip archive as a value for `read`."""
        raise NotImplementedError


KINDS = {
    type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "text",
    list: "a list",
}  # fmt: skip


def json_type(value: Any) -> str:
    """Name the type of a JSON value.

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


def as_object_with(key: str, value: Any) -> Mapping[str, Any]:
    """Return an object, or one with a bare list under `key`."""
    return {key: value} if isinstance(value, list) else as_object(value, "the line")


def _misfit(holder: Mapping[str, Any], key: str, place: str, wanted: str) -> Unreadable:
    name = f"{place}.{key}" if place else key
    if key not in holder:
        return Unreadable(f"{name} is missing")
    return Unreadable(f"{name} is {json_type(holder[key])}, not {wanted}")


def get_id(fields: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first non-empty id as text."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, bool | list | dict):
            raise Unreadable(f"{key} is {json_type(value)}, not text")
        if value is not None and value != "":
            return str(value)
    return None


def other_fields(fields: Mapping[str, Any], exclude: Container[str]) -> dict[str, Any]:
    """Return the fields that are not excluded, with a nested `metadata` object merged in."""
    kept = {key: value for key, value in fields.items() if key not in exclude}
    if isinstance(kept.get("metadata"), dict):
        kept |= kept.pop("metadata")
    for key, value in kept.items():
        level = [value]
        for _ in range(MAX_DEPTH):
            holders = [list(each.values()) if isinstance(each, dict) else each for each in level]
            level = [inner for holder in holders for inner in items(holder)]
            if not level:
                break
        else:
            raise Unreadable(f"{key} is nested too deeply")
    return kept


def other_scalars(fields: Mapping[str, Any], exclude: Container[str]) -> dict[str, Any]:
    """Return the fields that are not excluded and are not lists or objects."""
    kept = other_fields(fields, exclude)
    return {key: value for key, value in kept.items() if not isinstance(value, list | dict)}


def str_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def bool_or_none(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def items(value: Any) -> list[Any]:
    """Return a list, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def with_places(listed: Iterable[Any], place: str) -> Iterator[tuple[Any, str]]:
    """Pair items with their paths: `messages[0]` and so on."""
    return ((each, f"{place}[{n}]") for n, each in enumerate(listed))


def get_path(value: Any, *path: str) -> Any:
    """Follow keys into nested objects; None if one is missing.

    >>> get_path({"info": {"agent": {"llm": "m"}}}, "info", "agent", "llm")
    'm'
    """
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def first_text(fields: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of these fields that is text."""
    return next((fields[key] for key in keys if isinstance(fields.get(key), str)), None)


def first_present(fields: Mapping[str, Any], *keys: str) -> Any:
    """Return the first of these fields that is not null."""
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def try_json(text: str) -> Any:
    """Parse a text that is a JSON list or object; None if it is not."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# Texts and constants as Python prints them.
LITERAL = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|\b(?:None|True|False)\b")


def try_literal(text: str) -> Any:
    """Parse a text that is a list or object as Python prints it; None if it is not.

    >>> try_literal("[{'id': 'call_1', 'done': None}]")
    [{'id': 'call_1', 'done': None}]
    """

    def as_json(token: re.Match[str]) -> str:
        return json.dumps(ast.literal_eval(token[0]))

    try:
        return try_json(LITERAL.sub(as_json, text))
    except (ValueError, SyntaxError):
        return None
