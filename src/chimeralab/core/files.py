"""Read text files with clear errors, and write files and folders atomically."""

import errno
import hashlib
import json
import os
import platform
import re
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from chimeralab.core.errors import InputError

MAX_BYTES = 1 << 30


def read_regular(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a file that somebody else may have put there; what is wrong with it is an `OSError`.

    Opening a pipe would wait for a writer forever, and a device gives bytes without end.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if found.st_size > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes / 1e6:,.0f} MB")
    return path.read_bytes()


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(
    path: Path, expected: str = "", *, max_bytes: int | None = None, pipes: bool = False
) -> str:
    """Read a UTF-8 file, with or without a byte order mark; ``-`` is standard input.

    ``expected`` describes the content for error messages. Files over ``max_bytes`` are rejected,
    and so is what is not a file, unless it may be one of the ``pipes`` of a shell.
    """
    hint = f"; expected {expected}" if expected else ""
    try:
        if str(path) == "-":
            return sys.stdin.read()
        if max_bytes is not None and path.stat().st_size > max_bytes:
            raise InputError(f"{path} is larger than {max_bytes / 1e6:g} MB{hint}")
        content = path.read_bytes() if pipes and path.is_fifo() else read_regular(path)
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror or error}){hint}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text{hint or '; save it as UTF-8'}") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON from outside; whatever is wrong with it is a `ValueError`, its depth included."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML from outside; whatever is wrong with it is a `ValueError`, its depth included."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


# Whether a process is alive can only be checked on its own machine, so part files name both.
_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
_PART = re.compile(rf"\..+\.{_MACHINE}-(\d+)\.part", re.DOTALL)


def remove_stale_parts(folder: Path) -> None:
    """Remove the part files of killed writers on this machine."""
    if os.name == "nt":  # os.kill(pid, 0) would end the process there
        return
    with suppress(OSError):
        for path in folder.glob(".*.part"):
            found = _PART.fullmatch(path.name)
            if found and not is_running(int(found[1])):
                rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def is_running(process: int) -> bool:
    """Whether a process is alive."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's process
        pass
    return True


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block succeeds."""
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
        raise InputError(f"{path} can't be written ({why}); old content is unchanged") from error
    finally:
        with suppress(OSError):  # a read-only disk raises here, too
            part.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Create a folder and its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} can't be created ({error.strerror})") from error


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` if the block succeeds."""
    part = path.with_name(f".{path.name}.{_MACHINE}-{os.getpid()}.part")
    before = path.with_name(f".{path.name}.before")
    remove_stale_parts(path.parent)
    try:
        if before.exists():  # a writer was killed between the two renames
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
        raise InputError(f"{path} can't be written ({why}); old content is unchanged") from error
    finally:
        rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; lone surrogates become U+FFFD."""
    with atomic_file(path) as part:
        part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
