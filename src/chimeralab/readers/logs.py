"""From paths to logs, and from logs to conversations, each value through its reader."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Trajectory
from chimeralab.readers.formats import READERS, Formats, reader_named
from chimeralab.readers.seam import (
    STANDARD_INPUT,
    Place,
    Reader,
    Report,
    Unreadable,
    Values,
    file_place,
)
from chimeralab.readers.streams import LogFile, open_archive, open_log, read_json, read_whole
from chimeralab.readers.tables import (
    LABEL,
    csv_rows,
    find_separator,
    parquet_rows,
    parse_transcript,
)

ENDINGS = (
    ".jsonl", ".ndjson", ".json", ".eval", ".traj", ".csv", ".tsv", ".parquet", ".txt", ".md",
    ".gz", ".zst",
)  # fmt: skip
EVENTS_AGAIN = "event_cache"  # in which OpenHands keeps pages of the same events
LINES_TO_TRY = 1000
# Fields that say of broken JSON that it was meant as a log.
SIGNS = (b'"messages"', b'"role"', b'"turns"', b'"conversations"', b'"parentUuid"', b'"speaker"')

OnBad = Callable[[LogError], None]
"""Takes what can't be read; raises, or lets the reading go on."""

OnSkip = Callable[[str], None]
"""Takes the path of a file in a folder that turned out to be no log."""


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
    return _conversations(str(path), Formats(reader), on_bad)


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
    return (trajectory for log in logs for trajectory in read(log, format=reader, on_bad=on_bad))


def _conversations(path: str, formats: Formats, on_bad: OnBad | None) -> Iterator[Trajectory]:
    gave_nothing = True

    def bad(reason: str, place: Place) -> None:
        nonlocal gave_nothing
        gave_nothing = False
        if on_bad is None:
            raise place.error(reason)
        on_bad(place.error(reason))

    for trajectory in _from_log(path, formats, bad):
        gave_nothing = False
        yield trajectory
    if gave_nothing:
        bad("holds no conversations", file_place(path))


def _from_log(path: str, formats: Formats, bad: Report) -> Iterator[Trajectory]:
    for name in _files_of(path, formats):
        place = file_place(name)
        try:
            with open_log(name) as file:
                if file.is_zip:
                    yield from _from_archive(file.stream, formats, place, bad)
                else:
                    values = read_values(file, place, bad, named_columns=formats.named_columns)
                    yield from _from_each(values, formats, bad)
        except Unreadable as problem:
            bad(str(problem), place)
        except MemoryError:
            bad("takes more memory than there is; write one conversation per line", place)
    try:
        yield from formats.finish(file_place(path))
    except Unreadable as problem:
        bad(str(problem), file_place(path))


def _files_of(path: str, formats: Formats) -> list[str]:
    """A log is one file, or the pieces of one in a folder, in order of their numbers."""
    if Path(path).is_dir():
        for pieces in filter(None, (reader.pieces for reader in formats.types)):
            named = ((pieces.fullmatch(file.name), file) for file in Path(path).iterdir())
            found = sorted((int(match[1]), str(file)) for match, file in named if match)
            if found:
                return [file for _, file in found]
    return [path]


def read_values(file: LogFile, place: Place, bad: Report, *, named_columns: bool = False) -> Values:
    """Every value of a log: JSON, the rows of a table, or the one talk of a text."""
    if file.is_parquet:
        return parquet_rows(file.stream, place, bad)
    lines = file.head.decode("utf-8-sig", "replace").lstrip().splitlines() or [""]
    if not lines[0].startswith(("{", "[")):
        first = next((line for line in lines if line.strip() and line[0] != "#"), "")
        if LABEL.match(first):
            talk = parse_transcript(read_whole(file.stream).decode("utf-8-sig", "replace"))
            if talk is None:
                raise Unreadable(
                    "looks like a text of 'Name: text' lines, but no two names come back in it"
                )
            return [(talk, place.at(1))]
        separator = find_separator(lines[0])
        if separator is not None:
            return csv_rows(file.stream, separator, place, bad, sure=named_columns)
    return read_json(file.stream, place, bad)


def read_conversations(
    values: Values, formats: Formats, place: Place, bad: Report
) -> Iterator[Trajectory]:
    """The conversations of JSON values, wherever they are from; `bad` hears of unreadable ones."""
    yield from _from_each(values, formats, bad)
    yield from formats.finish(place)


def _from_each(values: Values, formats: Formats, bad: Report) -> Iterator[Trajectory]:
    for value, place in formats.conversations(values):
        reader = None
        try:
            reader = formats.of(value)
            yield from _with_turns(reader.read(value, place))
        except Unreadable as problem:
            bad(str(problem), replace(place, format=reader.name if reader else None))
        except RecursionError:
            bad("is nested too deeply", place)


def _from_archive(
    stream: BinaryIO, formats: Formats, place: Place, bad: Report
) -> Iterator[Trajectory]:
    reader = formats.of_archives()
    archive = open_archive(stream)
    for name in reader.members(archive):
        member = place.inside(name)
        try:
            yield from _with_turns(reader.read(reader.load(archive, name), member))
        except Unreadable as problem:
            bad(str(problem), member)


def _with_turns(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        if not trajectory.turns:
            raise Unreadable("has no turns")
        yield trajectory


def find_logs(
    paths: Iterable[str | Path],
    *,
    on_skip: OnSkip | None = None,
    format: type[Reader] | None = None,  # noqa: A002 - as `read` calls it
) -> list[str]:
    """The logs at `paths`, each once, in their order; what a folder holds is sorted by name.

    A path that is missing and a folder or pattern without a log are errors. Inside a folder,
    files that hold no conversations are passed over, and `on_skip` is told. With a `format` that
    is not ours, a log in that format is one, too.
    """
    found: dict[str, str] = {}
    for path in paths:
        for log in logs_at(str(path), on_skip or ignore, format):
            found.setdefault(os.path.realpath(log), log)
    return list(found.values())


def logs_at(path: str, on_skip: OnSkip, asked: type[Reader] | None = None) -> Iterator[str]:
    """The logs that one path names, as they are found."""
    if path == STANDARD_INPUT or _is_file(path):
        yield path
        return
    logs: Iterator[str]
    if Path(path).is_dir():
        logs = _in_folder(path, on_skip, asked)
        endings = " ".join(ENDINGS)
        reason = f"this folder holds no logs (files ending in {endings} with conversations)"
    elif glob.has_magic(path):
        deep = "**" in path  # which already goes down into every folder
        logs = chain.from_iterable(
            _matching(each, on_skip, asked, deep=deep)
            for each in sorted(glob.iglob(path, recursive=True))  # noqa: PTH207 - may be absolute
        )
        reason = "no log matches this pattern"
    else:
        raise InputError(f"{path}: no such file or folder")
    first = next(logs, None)
    if first is None:
        raise InputError(f"{path}: {reason}")
    yield first
    yield from logs


def _matching(
    path: str, on_skip: OnSkip, asked: type[Reader] | None, *, deep: bool
) -> Iterator[str]:
    """The logs at a path that a pattern matched."""
    if Path(path).is_dir():
        if not deep:
            yield from _in_folder(path, on_skip, asked)
    elif Path(path).is_file():
        yield path
    else:
        on_skip(path)


def _is_file(path: str) -> bool:
    try:
        return Path(path).exists() and not Path(path).is_dir()
    except OSError:  # it may well be there: opening it will say what is wrong
        return True


def _in_folder(folder: str, on_skip: OnSkip, asked: type[Reader] | None) -> Iterator[str]:
    """The logs at any depth, by name; hidden files are left out."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith((".", EVENTS_AGAIN)))
        regular = [name for name in files if (Path(where) / name).is_file()]
        together = _pieces_of_one(where, regular, asked)
        if together:
            yield where
        for name in sorted(set(files) - together):
            path = str(Path(where) / name)
            if name[0] == "." or not name.lower().endswith(ENDINGS):
                continue
            # Opening a pipe would wait for a writer.
            if name in regular and _is_log(path, asked):
                yield path
            else:
                on_skip(path)


def _pieces_of_one(folder: str, files: list[str], asked: type[Reader] | None) -> set[str]:
    """The files of a folder that are one log together; none where each is a log of its own."""
    for reader in (asked,) if asked else READERS.values():
        found = sorted(filter(reader.pieces.fullmatch, files)) if reader.pieces else []
        if not found:
            continue
        path = str(Path(folder) / found[0])
        try:
            with open_log(path) as file:
                values = [] if file.is_zip else read_values(file, file_place(path), ignore)
                value, _ = next(iter(values), (None, None))
                if isinstance(value, dict) and reader().matches(value):
                    return set(found)
        except (LogError, Unreadable, OSError, MemoryError):
            continue
    return set()


def _is_log(path: str, asked: type[Reader] | None) -> bool:
    formats, damage = Formats(asked), []

    def bad(reason: str, _: Place) -> None:
        damage.append(reason)

    try:
        with open_log(path) as file:
            if file.is_zip:
                formats.of_archives().members(open_archive(file.stream))
                return True
            values = read_values(file, file_place(path), bad, named_columns=formats.named_columns)
            for value, _ in formats.conversations(islice(values, LINES_TO_TRY)):
                reader = formats.recognise(value)
                if reader and reader.says_something(value):
                    return True
            return bool(damage) and any(sign in file.head for sign in SIGNS)
    except Unreadable:
        # A damaged Inspect log is still meant as one, and the damage should be heard of.
        return path.endswith(".eval")
    except (LogError, OSError, MemoryError):
        return True


def ignore(*_: object) -> None:
    """What hears of something and does nothing about it."""
