"""Reading and writing files: text or one clear refusal, whole or not at all."""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from chimeralab.core.errors import InputError


def read_text(path: Path, expected: str = "", *, most_bytes: int | None = None) -> str:
    """The text of a UTF-8 file, with or without a byte order mark; ``-`` is standard input.

    ``expected`` says what should be there, for the error. A file of more than ``most_bytes`` was
    picked by mistake.
    """
    hint = f"; expected {expected}" if expected else ""
    try:
        if str(path) == "-":
            return sys.stdin.read()
        if most_bytes is not None and path.stat().st_size > most_bytes:
            raise InputError(f"{path} is larger than {most_bytes / 1e6:g} MB{hint}")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror or error}){hint}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text{hint or '; save it as UTF-8'}") from None


# Whether a process is gone can only be told on its own machine, so parts carry both.
_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_PART = re.compile(rf"\..+\.{_MACHINE}-(\d+)\.part", re.DOTALL)


def remove_stale_parts(folder: Path) -> None:
    """Remove what writers on this machine that were killed have left in a folder."""
    if os.name == "nt":  # where looking for a process by its number would end it
        return
    with suppress(OSError):
        for path in folder.glob(".*.part"):
            found = _PART.fullmatch(path.name)
            if found and not is_running(int(found[1])):
                rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def is_running(process: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to someone else
        pass
    return True


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name only when the block succeeds."""
    part = path.with_name(f".{path.name}.{_MACHINE}-{os.getpid()}.part")
    remove_stale_parts(path.parent)
    try:
        with part.open("xb"):
            pass
        yield part
        with part.open("rb") as done:
            os.fsync(done.fileno())
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path} can't be written ({why}); what was there is unchanged") from error
    finally:
        with suppress(OSError):  # on a disk that can't be written, even this is an error
            part.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder with all above it, unless it is there already."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} can't be made ({error.strerror})") from error


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `path` as a whole, only when the block succeeds."""
    part = path.with_name(f".{path.name}.{_MACHINE}-{os.getpid()}.part")
    before = path.with_name(f".{path.name}.before")
    remove_stale_parts(path.parent)
    try:
        if before.exists():  # a writer was killed between its last two steps
            rmtree(before) if path.exists() else before.rename(path)
        new = part / path.name
        new.mkdir(parents=True)
        yield new
        if path.exists():
            path.rename(before)
        new.rename(path)
        rmtree(before, ignore_errors=True)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{path} can't be written ({why}); what was there is unchanged") from error
    finally:
        rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all; half characters of a log become U+FFFD."""
    with atomic_file(path) as part:
        part.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def json_text(value: Any) -> str:
    """One line of JSON, in ASCII so that even broken characters of a log pass through."""
    return json.dumps(value, allow_nan=False)
