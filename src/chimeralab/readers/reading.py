"""From logs to conversations: each value of a log through the reader of its format."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory
from chimeralab.readers.fields import Unreadable
from chimeralab.readers.find import OnSkip, find_logs
from chimeralab.readers.formats import Formats, reader_named
from chimeralab.readers.json_values import JsonValue
from chimeralab.readers.layouts import values_in
from chimeralab.readers.opening import open_archive, opened
from chimeralab.readers.seam import Place, Reader, Report, place_of

OnBad = Callable[[LogError], None]
"""Takes what can't be read; raises, or lets the reading go on."""


def read(
    path: str | Path,
    *,
    format: str | type[Reader] | None = None,  # noqa: A002 - what everyone calls it
    on_bad: OnBad | None = None,
) -> Iterator[Trajectory]:
    """The conversations of one log, `-` for standard input, one after the other.

    `format` is the name of one, `module:Class`, or a `Reader` itself; without it the content
    decides. What can't be read raises a `LogError`; with `on_bad`, that is called instead and the
    reading goes on behind it.
    """
    reader = reader_named(format) if isinstance(format, str) else format
    return _conversations(str(path), reader, on_bad)


def read_all(
    paths: Iterable[str | Path],
    *,
    format: str | type[Reader] | None = None,  # noqa: A002
    on_bad: OnBad | None = None,
    on_skip: OnSkip | None = None,
) -> Iterator[Trajectory]:
    """The conversations of all logs at `paths`: files, folders, patterns or `-`."""
    reader = reader_named(format) if isinstance(format, str) else format
    logs = find_logs(paths, on_skip=on_skip, format=reader)
    readings = [read(log, format=reader, on_bad=on_bad) for log in logs]
    return (trajectory for reading in readings for trajectory in reading)


def _conversations(
    path: str, asked: type[Reader] | None, on_bad: OnBad | None
) -> Iterator[Trajectory]:
    place, formats = place_of(path), Formats(asked)
    gave_nothing = True

    def bad(reason: str, place: Place) -> None:
        nonlocal gave_nothing
        gave_nothing = False
        if on_bad is None:
            raise place.error(reason)
        on_bad(place.error(reason))

    try:
        for trajectory in _from_log(path, formats, bad):
            gave_nothing = False
            yield trajectory
    except Unreadable as problem:
        bad(str(problem), place)
    if gave_nothing:
        bad("holds no conversations", place)


def _from_log(path: str, formats: Formats, bad: Report) -> Iterator[Trajectory]:
    for file in _files_of(path, formats):
        try:
            yield from _from_file(file, formats, bad)
        except Unreadable as problem:
            bad(str(problem), place_of(file))
        except MemoryError:
            bad("takes more memory than there is; write one conversation per line", place_of(file))
    for reader in formats.readers:
        yield from reader.finish(place_of(path))


def _files_of(path: str, formats: Formats) -> list[str]:
    """A log is one file, or the pieces of one in a folder, in order of their numbers."""
    if Path(path).is_dir():
        for reader in formats.readers:
            if reader.pieces:
                named = (
                    (reader.pieces.fullmatch(file.name), file) for file in Path(path).iterdir()
                )
                found = sorted((int(match[1]), str(file)) for match, file in named if match)
                if found:
                    return [file for _, file in found]
    return [path]


def _from_file(path: str, formats: Formats, bad: Report) -> Iterator[Trajectory]:
    place = place_of(path)
    with opened(path) as file:
        if file.is_zip:
            yield from _from_archive(file.stream, formats, place, bad)
        else:
            values = values_in(file, place, bad, named_columns=formats.names_columns)
            yield from _from_some(values, formats, place, bad)


def from_values(
    values: Iterable[JsonValue], formats: Formats, place: Place, bad: Report
) -> Iterator[Trajectory]:
    """The conversations of JSON values, wherever they are from; `bad` hears of unreadable ones."""
    yield from _from_some(values, formats, place, bad)
    for reader in formats.readers:
        yield from reader.finish(place)


def _from_some(
    values: Iterable[JsonValue], formats: Formats, place: Place, bad: Report
) -> Iterator[Trajectory]:
    for piece in (piece for value in values for piece in formats.pieces(value, place)):
        reader = None
        try:
            reader = formats.of(piece.value)
            yield from map(_with_turns, reader.read(piece.value, piece.place))
        except Unreadable as problem:
            bad(str(problem), replace(piece.place, format=reader.name if reader else None))
        except RecursionError:
            bad("is nested too deeply", piece.place)


def _from_archive(
    stream: BinaryIO, formats: Formats, place: Place, bad: Report
) -> Iterator[Trajectory]:
    reader = formats.of_archives()
    archive = open_archive(stream)
    for name in reader.members(archive):
        member = place.inside(name)
        try:
            yield from map(_with_turns, reader.read(reader.load(archive, name), member))
        except Unreadable as problem:
            bad(str(problem), member)


def _with_turns(trajectory: Trajectory) -> Trajectory:
    if not trajectory.turns:
        raise Unreadable("has no turns")
    return trajectory
