"""Find logs at paths, and read their conversations."""

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
EVENT_CACHE = "event_cache"  # OpenHands keeps copies of the same events there
LINES_TO_TRY = 1000
# Fields by which broken JSON is recognised as a log.
SIGNS = (b'"messages"', b'"role"', b'"turns"', b'"conversations"', b'"parentUuid"', b'"speaker"')

OnBad = Callable[[LogError], None]
"""Called with each `LogError`; may raise to stop reading."""

OnSkip = Callable[[str], None]
"""Called with the path of each file in a folder that is not a log."""


def read(
    path: str | Path,
    *,
    format: str | type[Reader] | None = None,  # noqa: A002 - what everyone calls it
    on_bad: OnBad | None = None,
) -> Iterator[Trajectory]:
    """Yield the conversations of one log; `-` is standard input.

    `format` is a format's name, `module:Class` or a `Reader` class; by default the content decides.
    An unreadable value raises a `LogError`, or is passed to `on_bad` and skipped.
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
    """Yield the conversations of all logs at `paths`: files, folders, patterns or `-`."""
    reader = reader_named(format) if isinstance(format, str) else format
    logs = find_logs(paths, on_skip=on_skip, format=reader)
    return (trajectory for log in logs for trajectory in read(log, format=reader, on_bad=on_bad))


def _conversations(path: str, formats: Formats, on_bad: OnBad | None) -> Iterator[Trajectory]:
    is_empty = True

    def report(reason: str, place: Place) -> None:
        nonlocal is_empty
        is_empty = False
        if on_bad is None:
            raise place.error(reason)
        on_bad(place.error(reason))

    for trajectory in _from_log(path, formats, report):
        is_empty = False
        yield trajectory
    if is_empty:
        report("has no conversations", file_place(path))


def _from_log(path: str, formats: Formats, report: Report) -> Iterator[Trajectory]:
    for name in _files_of(path, formats):
        place = file_place(name)
        try:
            with open_log(name) as file:
                if file.is_zip:
                    yield from _from_archive(file.stream, formats, place, report)
                else:
                    values = read_values(file, place, report, named_columns=formats.named_columns)
                    yield from _from_each(values, formats, report)
        except Unreadable as problem:
            report(str(problem), place)
        except MemoryError:
            report("needs more memory than is available; write one conversation per line", place)
    try:
        yield from formats.finish(file_place(path))
    except Unreadable as problem:
        report(str(problem), file_place(path))


def _files_of(path: str, formats: Formats) -> list[str]:
    """List the files of a log: one, or a folder's numbered pieces in order."""
    if Path(path).is_dir():
        for pieces in filter(None, (reader.pieces for reader in formats.types)):
            named = ((pieces.fullmatch(file.name), file) for file in Path(path).iterdir())
            found = sorted((int(match[1]), str(file)) for match, file in named if match)
            if found:
                return [file for _, file in found]
    return [path]


def read_values(
    file: LogFile, place: Place, report: Report, *, named_columns: bool = False
) -> Values:
    """Yield every value of a log: JSON, the rows of a table, or a transcript as a whole."""
    if file.is_parquet:
        return parquet_rows(file.stream, place, report)
    lines = file.head.decode("utf-8-sig", "replace").lstrip().splitlines() or [""]
    if not lines[0].startswith(("{", "[")):
        first = next((line for line in lines if line.strip() and line[0] != "#"), "")
        if LABEL.match(first):
            turns = parse_transcript(read_whole(file.stream).decode("utf-8-sig", "replace"))
            if turns is None:
                raise Unreadable("looks like 'Name: text' lines, but no two names recur")
            return [(turns, place.at(1))]
        separator = find_separator(lines[0])
        if separator is not None:
            return csv_rows(file.stream, separator, place, report, sure=named_columns)
    return read_json(file.stream, place, report)


def read_conversations(
    values: Values, formats: Formats, place: Place, report: Report
) -> Iterator[Trajectory]:
    """Yield the conversations of JSON values; unreadable values are reported."""
    yield from _from_each(values, formats, report)
    yield from formats.finish(place)


def _from_each(values: Values, formats: Formats, report: Report) -> Iterator[Trajectory]:
    for value, place in formats.conversations(values):
        reader = None
        try:
            reader = formats.of(value)
            yield from _require_turns(reader.read(value, place))
        except Unreadable as problem:
            report(str(problem), replace(place, format=reader.name if reader else None))
        except RecursionError:
            report("is nested too deeply", place)


def _from_archive(
    stream: BinaryIO, formats: Formats, place: Place, report: Report
) -> Iterator[Trajectory]:
    reader = formats.of_archives()
    archive = open_archive(stream)
    for name in reader.members(archive):
        member = place.inside(name)
        try:
            yield from _require_turns(reader.read(reader.load(archive, name), member))
        except Unreadable as problem:
            report(str(problem), member)


def _require_turns(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        if not trajectory.turns:
            raise Unreadable("no turns")
        yield trajectory


def find_logs(
    paths: Iterable[str | Path],
    *,
    on_skip: OnSkip | None = None,
    format: type[Reader] | None = None,  # noqa: A002 - as `read` calls it
) -> list[str]:
    """List the logs at `paths`, each once and in order; files of a folder are sorted by name.

    A missing path, and a folder or pattern without a log, are errors. Files of a folder without
    conversations are skipped and passed to `on_skip`. A custom `format` is recognised as well.
    """
    found: dict[str, str] = {}
    for path in paths:
        for log in logs_at(str(path), on_skip or ignore, format):
            found.setdefault(os.path.realpath(log), log)
    return list(found.values())


def logs_at(path: str, on_skip: OnSkip, chosen: type[Reader] | None = None) -> Iterator[str]:
    """Yield the logs that one path names."""
    if path == STANDARD_INPUT or _is_file(path):
        yield path
        return
    logs: Iterator[str]
    if Path(path).is_dir():
        logs = _in_folder(path, on_skip, chosen)
        endings = " ".join(ENDINGS)
        reason = f"this folder has no logs (files ending in {endings} with conversations)"
    elif glob.has_magic(path):
        deep = "**" in path  # already matches the files in subfolders
        logs = chain.from_iterable(
            _expand_match(each, on_skip, chosen, deep=deep)
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


def _expand_match(
    path: str, on_skip: OnSkip, chosen: type[Reader] | None, *, deep: bool
) -> Iterator[str]:
    """The logs at a path that a pattern matched."""
    if Path(path).is_dir():
        if not deep:
            yield from _in_folder(path, on_skip, chosen)
    elif Path(path).is_file():
        yield path
    else:
        on_skip(path)


def _is_file(path: str) -> bool:
    try:
        return Path(path).exists() and not Path(path).is_dir()
    except OSError:  # it may exist: opening it gives the error
        return True


def _in_folder(folder: str, on_skip: OnSkip, chosen: type[Reader] | None) -> Iterator[str]:
    """Yield the logs of a folder at any depth, by name; hidden files are ignored."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith((".", EVENT_CACHE)))
        regular = [name for name in files if (Path(where) / name).is_file()]
        together = _pieces_of_one(where, regular, chosen)
        if together:
            yield where
        for name in sorted(set(files) - together):
            path = str(Path(where) / name)
            if name[0] == "." or not name.lower().endswith(ENDINGS):
                continue
            # Opening a pipe would wait for a writer.
            if name in regular and _is_log(path, chosen):
                yield path
            else:
                on_skip(path)


def _pieces_of_one(folder: str, files: list[str], chosen: type[Reader] | None) -> set[str]:
    """Return the files of a folder that together are one log; empty if there are none."""
    for reader in (chosen,) if chosen else READERS.values():
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


def _is_log(path: str, chosen: type[Reader] | None) -> bool:
    formats, damage = Formats(chosen), []

    def report(reason: str, _: Place) -> None:
        damage.append(reason)

    try:
        with open_log(path) as file:
            if file.is_zip:
                formats.of_archives().members(open_archive(file.stream))
                return True
            values = read_values(
                file, file_place(path), report, named_columns=formats.named_columns
            )
            for value, _ in formats.conversations(islice(values, LINES_TO_TRY)):
                reader = formats.recognise(value)
                if reader and reader.says_something(value):
                    return True
            return bool(damage) and any(sign in file.head for sign in SIGNS)
    except Unreadable:
        # A damaged Inspect log is still a log, and its damage should be reported.
        return path.endswith(".eval")
    except (LogError, OSError, MemoryError):
        return True


def ignore(*_: object) -> None:
    """Do nothing: the default callback."""
