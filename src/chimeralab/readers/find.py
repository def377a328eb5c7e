"""Finds the logs that paths, folders and patterns name."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from chimeralab.core.errors import InputError, LogError
from chimeralab.readers import claude_code, inspect
from chimeralab.readers.archive import open_archive
from chimeralab.readers.conversations import pieces
from chimeralab.readers.expect import Unreadable
from chimeralab.readers.items import items_of
from chimeralab.readers.opening import Opened, opened
from chimeralab.readers.places import STANDARD_INPUT, Place, place_of
from chimeralab.readers.sniff import format_of

ENDINGS = (".jsonl", ".ndjson", ".json", ".eval", ".gz", ".zst")
LINES_TO_TRY = 1000

OnSkip = Callable[[str], None]
"""Takes the path of a file in a folder that turned out to be no log."""


def find_logs(paths: Iterable[str | Path], *, on_skip: OnSkip | None = None) -> list[str]:
    """The logs at `paths`, each once, in their order; what a folder holds is sorted by name.

    A path that is missing and a folder or pattern without a log are errors. Inside a folder,
    files that hold no conversations are passed over, and `on_skip` is told.
    """
    found: dict[str, str] = {}
    for path in paths:
        for log in _logs_at(str(path), on_skip or _ignore):
            found.setdefault(os.path.realpath(log), log)
    return list(found.values())


def _logs_at(path: str, on_skip: OnSkip) -> Iterable[str]:
    if path == STANDARD_INPUT or _is_file(path):
        return [path]
    if Path(path).is_dir():
        endings = " ".join(ENDINGS)
        reason = f"this folder holds no logs (files ending in {endings} with conversations)"
        return _at_least_one(_logs_in_folder(path, on_skip), path, reason)
    if glob.has_magic(path):
        return _at_least_one(_logs_by_pattern(path, on_skip), path, "no log matches this pattern")
    raise InputError(f"{path}: no such file or folder")


def _is_file(path: str) -> bool:
    try:
        return Path(path).exists() and not Path(path).is_dir()
    except OSError:  # it may well be there: opening it will say what is wrong
        return True


def _at_least_one(logs: Iterator[str], path: str, reason: str) -> Iterator[str]:
    first = next(logs, None)
    if first is None:
        raise InputError(f"{path}: {reason}")
    yield first
    yield from logs


def _logs_by_pattern(pattern: str, on_skip: OnSkip) -> Iterator[str]:
    for path in sorted(glob.iglob(pattern, recursive=True)):  # noqa: PTH207 - may be absolute
        if _is_file(path):
            yield path
        elif "**" not in pattern:  # which already goes down into every folder
            yield from _logs_in_folder(path, on_skip)


def _logs_in_folder(folder: str, on_skip: OnSkip) -> Iterator[str]:
    for path in _files_in(folder):
        if path.lower().endswith(ENDINGS):
            if _is_log(path):
                yield path
            else:
                on_skip(path)


def _files_in(folder: str) -> Iterator[str]:
    """All files at any depth, by name; hidden ones are left out."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (str(Path(where) / name) for name in sorted(files) if name[0] != ".")


def _is_log(path: str) -> bool:
    try:
        with opened(path) as file:
            return _holds_samples(file) if file.is_zip else _holds_talk(file, place_of(path))
    except Unreadable:
        # A damaged Inspect log is still meant as one, and the damage should be heard of.
        return path.endswith(".eval")
    except (LogError, OSError):
        return True


def _holds_samples(file: Opened) -> bool:
    return bool(inspect.run_of(open_archive(file.stream)))


def _holds_talk(file: Opened, place: Place) -> bool:
    some_items = islice(items_of(file.stream, place, bad=_ignore), LINES_TO_TRY)
    return any(_is_talk(piece.value) for item in some_items for piece in pieces(item, place))


def _is_talk(value: object) -> bool:
    try:
        return bool(format_of(value)) and not claude_code.is_note(value)
    except Unreadable:
        return False


def _ignore(*_: object) -> None:
    pass
