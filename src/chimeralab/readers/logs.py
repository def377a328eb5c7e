"""Find logs at paths, and read their conversations."""

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import BinaryIO

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Trajectory
from chimeralab.readers.formats import HINT, READERS, Formats, reader_named
from chimeralab.readers.seam import (
    STANDARD_INPUT,
    Damage,
    Place,
    Reader,
    Report,
    Text,
    Unreadable,
    Values,
    file_place,
    try_json,
)
from chimeralab.readers.stores import read_store
from chimeralab.readers.streams import (
    LIMITS,
    LogFile,
    as_stream,
    open_archive,
    open_log,
    read_json,
    read_whole,
    spans_lines,
)
from chimeralab.readers.tables import (
    LABEL,
    csv_rows,
    find_separator,
    is_header,
    parquet_rows,
)

ENDINGS = (
    ".jsonl", ".ndjson", ".json", ".eval", ".traj", ".csv", ".tsv", ".parquet", ".txt", ".md",
    ".log", ".gz", ".zst", ".db", ".sqlite", ".sqlite3",
)  # fmt: skip
# Folders without logs of their own: copies of events by OpenHands, versions of files, caches and
# packages. Other hidden folders are searched, since many agents keep their logs in one.
PASSED_OVER = (
    "event_cache", ".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".cache", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "__pycache__", "node_modules",
)  # fmt: skip
LINES_TO_TRY = 1000
# Fields by which broken JSON is recognised as a log.
SIGNS = (b'"messages"', b'"role"', b'"turns"', b'"conversations"', b'"parentUuid"', b'"speaker"')

# Groups of files that are not logs, in a summary.
DAMAGED, EMPTY = "damaged", "empty"
OTHERS, SPECIAL, PARTLY = "with other endings", "not regular files", "partly read"

# One of these is in every text with a call.
CALL_SIGNS = ("<", "```", "[tool_use:", "Act", "ACT")

OnBad = Callable[[LogError], None]
"""Called with each `LogError`; may raise to stop reading."""

OnSkip = Callable[[LogError], None]
"""Called with the reason for each file in a folder that is not a log."""


def read(
    path: str | Path,
    *,
    format: str | type[Reader] | None = None,  # noqa: A002 - what everyone calls it
    on_bad: OnBad | None = None,
    on_partly: OnBad | None = None,
) -> Iterator[Trajectory]:
    """Yield the conversations of one log; `-` is standard input.

    `format` is a format's name, `module:Class` or a `Reader` class; by default the content decides.
    An unreadable value raises a `LogError`, or is passed to `on_bad` and skipped.
    If less than half of a log was read, `on_partly` is called at its end.
    """
    reader = format if format is None or isinstance(format, type) else reader_named(format)
    return _conversations(str(path), Formats(reader), on_bad, on_partly or ignore)


def read_all(
    paths: Iterable[str | Path],
    *,
    format: str | type[Reader] | None = None,  # noqa: A002
    on_bad: OnBad | None = None,
    on_skip: OnSkip | None = None,
) -> Iterator[Trajectory]:
    """Yield the conversations of all logs at `paths`: files, folders, patterns or `-`."""
    reader = format if format is None or isinstance(format, type) else reader_named(format)
    logs = find_logs(paths, on_skip=on_skip, format=reader)
    return (trajectory for log in logs for trajectory in read(log, format=reader, on_bad=on_bad))


def _conversations(
    path: str, formats: Formats, on_bad: OnBad | None, on_partly: OnBad
) -> Iterator[Trajectory]:
    found = bad = 0

    def report(reason: str, place: Place) -> None:
        nonlocal bad
        bad += 1
        if on_bad is None:
            raise place.error(reason)
        on_bad(place.error(reason))

    for trajectory in _from_log(path, formats, report):
        found += 1
        yield trajectory
    if not found + bad:
        error = LogError(file_place(path).file, "has no conversations", group=EMPTY)
        if on_bad is None:
            raise error
        on_bad(error)
    if found and bad > formats.understood:
        entries = plural(bad + formats.understood, "entry", "entries")
        reason = f"only {formats.understood:,} of its {entries} could be read"
        on_partly(LogError(file_place(path).file, reason, group=PARTLY))


def _from_log(path: str, formats: Formats, report: Report) -> Iterator[Trajectory]:
    for name in _files_of(path, formats):
        place = file_place(name)
        try:
            with open_log(name) as file:
                if file.is_zip:
                    yield from _from_archive(file.stream, formats, place, report)
                else:
                    values = read_values(file, place, report, formats)
                    yield from _from_each(values, formats, report)
        except Unreadable as problem:
            report(str(problem), place)
        except MemoryError:
            report("needs more memory than is available; write one conversation per line", place)
    try:
        yield from _take_finished(formats.finish(file_place(path)), file_place(path), report)
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


# How a line of JSON begins; a line of a log or of a template may begin with a bracket, too.
JSON_LINE = re.compile(
    r"\s*(?:\{(?![%{#])|\[\s*(?:[\[{\"\]tfn]|$|-?\d[\d.eE+-]*\s*(?:[,\]]|$))"
    r"|(?:-?\d[\d.eE+-]*|true|false|null|\".*\")\s*$)"
)
NUMBERED = re.compile(r"\s*\[[-\d.]*\]\s*[^\s,\]]")


def is_json(head: str) -> bool:
    """Whether a text is JSON, or was before it was damaged, by its first lines.

    >>> is_json('{"turns": [\\n"Hi."]}'), is_json("{% if x %}\\nsome text\\nmore text")
    (True, False)
    """
    lines = [line for line in head.split("\n") if line.strip()]
    if not lines or not JSON_LINE.match(lines[0]):
        return False
    if isinstance(try_json(lines[0]), dict | list):
        return True
    start = [(line.encode(errors="replace"), n) for n, line in enumerate(lines[:2])]
    return spans_lines(start) or _is_mostly_json(lines)


def _is_mostly_json(lines: list[str]) -> bool:
    # In "[3] some text" the bracket is not JSON.
    json_lines = (line for line in lines if JSON_LINE.match(line) and not NUMBERED.match(line))
    return 2 * sum(1 for _ in json_lines) > len(lines)


def read_values(file: LogFile, place: Place, report: Report, formats: Formats) -> Values:
    """Yield every value of a log: JSON, the rows of a table, or a text as a whole."""
    if file.is_sqlite or file.is_parquet:
        is_store, stream = file.is_sqlite, file.stream
        return read_store(file, place, report) if is_store else parquet_rows(stream, place, report)
    head = file.head.decode("utf-8-sig", "replace").lstrip()
    lines = head.splitlines() or [""]
    if is_json(head):
        return read_json(file.stream, place, report)
    separator = find_separator(lines[0])
    if separator is not None and (formats.named_columns or is_header(lines[0], separator)):
        return csv_rows(file.stream, separator, place, report, sure=formats.named_columns)
    raw = read_whole(file.stream)
    text = Text(raw.decode("utf-8-sig", "replace"))
    filled = [line for line in lines if line.strip()]
    if not filled or formats.recognise(text):
        return [(text, place.at(1))] if filled else []
    if _is_mostly_json(filled):
        return read_json(as_stream(iter([raw])), place, report)
    first = next((line for line in filled if line[0] != "#"), "")
    if LABEL.match(first):
        raise Unreadable("looks like 'Name: text' lines, but no two names recur")
    if separator is not None:
        return csv_rows(as_stream(iter([raw])), separator, place, report, sure=False)
    raise Unreadable(f"a text in no known format ({HINT})")


def read_conversations(
    values: Values, formats: Formats, place: Place, report: Report
) -> Iterator[Trajectory]:
    """Yield the conversations of JSON values; unreadable values are reported."""
    yield from _from_each(values, formats, report)
    yield from _take_finished(formats.finish(place), place, report)


def _from_each(values: Values, formats: Formats, report: Report) -> Iterator[Trajectory]:
    for value, place in formats.conversations(values):
        reader = None
        try:
            reader = formats.of(value)
            found = _require_turns(reader.read(value, place))
            yield from found if reader.is_exact(value) else map(_read_written_calls, found)
            formats.understood += 1
        except Unreadable as problem:
            if reader or not formats.is_note(value):
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
            found = _require_turns(reader.read(reader.load(archive, name), member))
            yield from map(_read_written_calls, found)
            formats.understood += 1
        except Unreadable as problem:
            report(str(problem), member)


def _read_written_calls(trajectory: Trajectory) -> Trajectory:
    """Read the calls in the texts of a conversation, if any may have one."""
    if not any(sign in turn.text for turn in trajectory.turns for sign in CALL_SIGNS):
        return trajectory
    from chimeralab.readers.text_calls import read_calls  # noqa: PLC0415 - few logs need it

    return read_calls(trajectory)


def _take_finished(
    trajectories: Iterable[Trajectory], place: Place, report: Report
) -> Iterator[Trajectory]:
    """Yield what several entries made; a conversation that is refused leaves the others."""
    for trajectory in trajectories:
        try:
            _check_length(trajectory)
        except Unreadable as problem:
            report(f"conversation {trajectory.id}: {problem}", place)
        else:
            yield _read_written_calls(trajectory)


def _require_turns(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        if not trajectory.turns:
            raise Unreadable("no turns")
        _check_length(trajectory)
        yield trajectory


def _check_length(trajectory: Trajectory) -> None:
    if len(trajectory.turns) > LIMITS.turns:
        raise Unreadable(
            f"has {len(trajectory.turns):,} turns, more than the {LIMITS.turns:,} that one "
            "conversation may have; allow more with --max-turns"
        )


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
    skipped: list[LogError] = []

    def skip(error: LogError) -> None:
        skipped.append(error)
        on_skip(error)

    logs: Iterator[str]
    if Path(path).is_dir():
        logs = _in_folder(path, skip, chosen)
        reason = "this folder has no logs"
    elif glob.has_magic(path):
        deep = "**" in path  # already matches the files in subfolders
        logs = chain.from_iterable(
            _expand_match(each, skip, chosen, deep=deep)
            for each in sorted(glob.iglob(path, recursive=True))  # noqa: PTH207 - may be absolute
        )
        reason = "no log matches this pattern"
    else:
        raise InputError(f"{path}: no such file or folder")
    first = next(logs, None)
    if first is None:
        counted = ", ".join([f"{plural(len(skipped), 'file')} looked at", *count_groups(skipped)])
        raise InputError(f"{path}: {reason} ({counted})")
    yield first
    yield from logs


def count_groups(errors: Iterable[LogError]) -> list[str]:
    """Count the files that were refused alike, the largest group first.

    >>> count_groups(LogError(f"{n}.md", "no messages", group=".md (no reader)") for n in range(3))
    ['3 .md (no reader)']
    """
    counts = Counter(error.group for error in errors)
    return [f"{n:,} {group}" for group, n in counts.most_common()]


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
        on_skip(LogError(path, "not a regular file", group=SPECIAL))


def _is_file(path: str) -> bool:
    try:
        return Path(path).exists() and not Path(path).is_dir()
    except OSError:  # it may exist: opening it gives the error
        return True


def _in_folder(folder: str, on_skip: OnSkip, chosen: type[Reader] | None) -> Iterator[str]:
    """Yield the logs of a folder at any depth, by name."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders).difference(PASSED_OVER))
        regular = [name for name in files if (Path(where) / name).is_file()]
        together = _pieces_of_one(where, regular, chosen)
        if together:
            yield where
        for name in sorted(set(files) - together):
            path = str(Path(where) / name)
            if not name.lower().endswith(ENDINGS):
                error: LogError | None = LogError(path, "its ending is not a log's", group=OTHERS)
            elif name not in regular:  # opening a pipe would wait for a writer
                error = LogError(path, "not a regular file", group=SPECIAL)
            else:
                error = find_refusal(path, chosen)
            if error is None:
                yield path
            else:
                on_skip(error)


def _pieces_of_one(folder: str, files: list[str], chosen: type[Reader] | None) -> set[str]:
    """Return the files of a folder that together are one log; empty if there are none."""
    for reader in (chosen,) if chosen else READERS.values():
        found = sorted(filter(reader.pieces.fullmatch, files)) if reader.pieces else []
        if not found:
            continue
        path = str(Path(folder) / found[0])
        try:
            with open_log(path) as file:
                formats = Formats(reader)
                values = [] if file.is_zip else read_values(file, file_place(path), ignore, formats)
                value, _ = next(iter(values), (None, None))
                if isinstance(value, dict) and reader().matches(value):
                    return set(found)
        except (LogError, Unreadable, OSError, MemoryError):
            continue
    return set()


def find_refusal(path: str, chosen: type[Reader] | None = None) -> LogError | None:
    """Say why a file is not a log; None if it is one, or one that can't be opened."""
    name = PurePath(path).name.removesuffix(".gz").removesuffix(".zst")
    unknown = f"{PurePath(name).suffix.lower() or name} (no reader)"
    try:
        with open_log(path) as file:
            if not file.is_zip:
                return _refuse_values(file, path, Formats(chosen), unknown)
            Formats(chosen).of_archives().members(open_archive(file.stream))
    except Unreadable as problem:
        # A damaged Inspect log is still a log, and its damage should be reported.
        if not path.endswith(".eval"):
            group = EMPTY if str(problem) == EMPTY else unknown
            group = DAMAGED if isinstance(problem, Damage) else group
            return LogError(path, str(problem), group=group)
    except (LogError, OSError, MemoryError):
        pass
    return None


def _refuse_values(file: LogFile, path: str, formats: Formats, unknown: str) -> LogError | None:
    """Say why the values of a file are not those of a log; None if they are."""
    damage, notes = list[LogError](), list[LogError]()

    def report(reason: str, place: Place) -> None:
        damage.append(LogError(path, reason, place.line, group=DAMAGED))

    values = read_values(file, file_place(path), report, formats)
    for value, place in formats.conversations(islice(values, LINES_TO_TRY)):
        reader = formats.recognise(value)
        if reader and reader.says_something(value):
            return None
        if reader:
            group = f"{reader.name} (no messages)"
            notes.append(LogError(path, "no messages", None, reader.name, group))
        elif not notes:
            notes.append(LogError(path, formats.explain(value), place.line, group=unknown))
    if damage and any(sign in file.head for sign in SIGNS):
        return None
    return next(iter(damage or notes), LogError(path, EMPTY, group=EMPTY))


def ignore(*_: object) -> None:
    """Do nothing: the default callback."""
