"""Finds the logs that paths, folders and patterns name."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError, LogError
from chimeralab.readers.fields import Unreadable
from chimeralab.readers.formats import READERS, Formats
from chimeralab.readers.layouts import values_in
from chimeralab.readers.opening import open_archive, opened, with_head
from chimeralab.readers.seam import STANDARD_INPUT, Place, Reader, place_of

ENDINGS = (
    ".jsonl", ".ndjson", ".json", ".eval", ".traj", ".csv", ".tsv", ".parquet", ".txt", ".md",
    ".gz", ".zst",
)  # fmt: skip
EVENTS_AGAIN = "event_cache"  # in which OpenHands keeps pages of the same events
LINES_TO_TRY = 1000
# Fields that say of broken JSON that it was meant as a log.
SIGNS = (b'"messages"', b'"role"', b'"turns"', b'"conversations"', b'"parentUuid"', b'"speaker"')

OnSkip = Callable[[str], None]
"""Takes the path of a file in a folder that turned out to be no log."""


def find_logs(
    paths: Iterable[str | Path],
    *,
    on_skip: OnSkip | None = None,
    format: type[Reader] | None = None,  # noqa: A002 - as `read` calls it
) -> list[str]:
    """The logs at `paths`, each once, in their order; what a folder holds is sorted by name.

    A path that is missing and a folder or pattern without a log are errors. Inside a folder,
    files that hold no conversations are passed over, and `on_skip` is told.
    """
    search = LogSearch(on_skip or _ignore, format)
    found: dict[str, str] = {}
    for path in paths:
        for log in search.logs_at(str(path)):
            found.setdefault(os.path.realpath(log), log)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class LogSearch:
    """Looks for logs; only those of one format where one is asked for that is not ours."""

    on_skip: OnSkip
    format: type[Reader] | None

    def logs_at(self, path: str) -> Iterable[str]:
        if path == STANDARD_INPUT or _is_file(path):
            return [path]
        if Path(path).is_dir():
            endings = " ".join(ENDINGS)
            reason = f"this folder holds no logs (files ending in {endings} with conversations)"
            return _at_least_one(self._in_folder(path), path, reason)
        if glob.has_magic(path):
            return _at_least_one(self._by_pattern(path), path, "no log matches this pattern")
        raise InputError(f"{path}: no such file or folder")

    def _by_pattern(self, pattern: str) -> Iterator[str]:
        for path in sorted(glob.iglob(pattern, recursive=True)):  # noqa: PTH207 - may be absolute
            if _is_file(path):
                yield path
            elif "**" not in pattern:  # which already goes down into every folder
                yield from self._in_folder(path)

    def _in_folder(self, folder: str) -> Iterator[str]:
        """The logs at any depth, by name; hidden files are left out."""
        for where, folders, files in os.walk(folder):
            folders[:] = sorted(n for n in folders if not n.startswith((".", EVENTS_AGAIN)))
            together = self._pieces_of_one(where, files)
            if together:
                yield where
            for name in sorted(set(files) - together):
                path = str(Path(where) / name)
                if name[0] == "." or not name.lower().endswith(ENDINGS):
                    continue
                if self._is_log(path):
                    yield path
                else:
                    self.on_skip(path)

    def _pieces_of_one(self, folder: str, files: list[str]) -> set[str]:
        """The files of a folder that are one log together; none where each is a log of its own."""
        known = (self.format,) if self.format else READERS.values()
        for reader in known:
            found = sorted(filter(reader.pieces.fullmatch, files)) if reader.pieces else []
            try:
                if found and reader().matches(_first_value(str(Path(folder) / found[0]))):
                    return set(found)
            except (LogError, Unreadable, OSError, MemoryError):
                continue
        return set()

    def _is_log(self, path: str) -> bool:
        formats, place = Formats(self.format), place_of(path)
        damage: list[tuple[str, Place]] = []
        try:
            with opened(path) as file:
                if file.is_zip:
                    formats.of_archives().members(open_archive(file.stream))
                    return True
                head, stream = with_head(file.stream)
                rest = replace(file, stream=stream)
                some = islice(
                    values_in(
                        rest,
                        place,
                        lambda *what: damage.append(what),
                        named_columns=formats.names_columns,
                    ),
                    LINES_TO_TRY,
                )
                pieces = (piece for item in some for piece in formats.pieces(item, place))
                for piece in pieces:
                    reader = next((r for r in formats.all if r.matches(piece.value)), None)
                    if reader and reader.says_something(piece.value):
                        return True
                return bool(damage) and any(sign in head for sign in SIGNS)
        except Unreadable:
            # A damaged Inspect log is still meant as one, and the damage should be heard of.
            return path.endswith(".eval")
        except (LogError, OSError, MemoryError):
            return True


def _first_value(path: str) -> Any:
    with opened(path) as file:
        if file.is_zip:
            return None
        first = next(iter(values_in(file, place_of(path), _ignore)), None)
        return first.value if first and isinstance(first.value, dict) else None


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


def _ignore(*_: object) -> None:
    pass
