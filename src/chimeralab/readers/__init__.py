"""Reads any log of conversations: `read` one file, `read_all` of many, `find_logs` in folders."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Trajectory
from chimeralab.readers.conversations import from_archive, from_items
from chimeralab.readers.expect import Unreadable
from chimeralab.readers.find import OnSkip, find_logs
from chimeralab.readers.items import items_of
from chimeralab.readers.opening import Opened, opened
from chimeralab.readers.places import Place, Report, place_of
from chimeralab.readers.sniff import FORMATS

__all__ = ["FORMATS", "find_logs", "read", "read_all"]

OnBad = Callable[[LogError], None]
"""Takes what can't be read; raises, or lets the reading go on."""


def read(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - what everyone calls it
    on_bad: OnBad | None = None,
) -> Iterator[Trajectory]:
    """The conversations of one log, `-` for standard input, one after the other.

    What can't be read raises a `LogError`; with `on_bad`, that is called instead and the
    reading goes on behind it.
    """
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    return _conversations(str(path), format, on_bad or _refuse)


def read_all(
    paths: Iterable[str | Path],
    *,
    format: str | None = None,  # noqa: A002
    on_bad: OnBad | None = None,
    on_skip: OnSkip | None = None,
) -> Iterator[Trajectory]:
    """The conversations of all logs at `paths`: files, folders, patterns or `-`."""
    readings = [
        read(log, format=format, on_bad=on_bad) for log in find_logs(paths, on_skip=on_skip)
    ]
    return (trajectory for reading in readings for trajectory in reading)


def _conversations(path: str, forced: str | None, on_bad: OnBad) -> Iterator[Trajectory]:
    place = place_of(path)
    gave_nothing = True

    def bad(reason: str, place: Place) -> None:
        nonlocal gave_nothing
        gave_nothing = False
        on_bad(place.error(reason))

    try:
        with opened(path) as file:
            for trajectory in _from(file, place, forced, bad):
                gave_nothing = False
                yield trajectory
    except Unreadable as problem:
        bad(str(problem), place)
    if gave_nothing:
        bad("holds no conversations", place)


def _from(file: Opened, place: Place, forced: str | None, bad: Report) -> Iterator[Trajectory]:
    if not file.is_zip:
        return from_items(items_of(file.stream, place, bad), place, forced, bad)
    if forced in {None, "inspect"}:
        return from_archive(file.stream, place, bad)
    raise Unreadable(f"is a zip archive, which the format {forced} is never in")


def _refuse(error: LogError) -> None:
    raise error
