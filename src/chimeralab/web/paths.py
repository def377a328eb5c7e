"""What lies at the paths that a server is started on: studies, logs, or nothing to show."""

import os
import time
from pathlib import Path

from chimeralab.core.errors import InputError

SECONDS_TO_SEARCH = 0.5


def studies_at(path: Path) -> list[Path]:
    """The study at a path, or the studies in a folder, at any depth."""
    if (path / "plan.toml").is_file():
        return [path]
    found = []
    for where, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "plan.toml" in files:
            found.append(Path(where))
            folders.clear()
    return found


class _TakesTooLong(Exception):
    """There is so much to look at that the server may as well start."""


def refuse_nothing(path: Path) -> None:
    """Refuse a path without anything to show, as far as a short look can tell."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if not path.is_dir() or (path / "plan.toml").is_file():
        return
    from chimeralab.readers.find import LogSearch  # noqa: PLC0415 - a study needs no formats

    end = time.monotonic() + SECONDS_TO_SEARCH

    def passed_over(_: str) -> None:
        if time.monotonic() > end:
            raise _TakesTooLong

    try:
        next(iter(LogSearch(passed_over, None).logs_at(str(path))), None)
    except _TakesTooLong:
        return
    except InputError as error:
        if not studies_at(path):
            raise InputError(f"{error}, and no study (a folder with plan.toml)") from None
