"""Profile a command: the files, functions and record types that it passes through."""

import gc
import sys
import threading
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import chimeralab

ROOT = str(Path(chimeralab.__file__).parent)


class Way(NamedTuple):
    """The files of the package, functions and record types that a command called."""

    files: frozenset[str]
    functions: frozenset[tuple[str, str]]
    records: frozenset[str]

    @property
    def counts(self) -> tuple[int, int, int]:
        return len(self.files), len(self.functions), len(self.records)


def is_record(cls: type) -> bool:
    """Whether a class of the package is a dataclass or a named tuple."""
    ours = cls.__module__.startswith("chimeralab")
    return ours and (is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields")))


def profile(command: Callable[[], Any]) -> Way:
    """Run a command, with all its threads, under a profiler.

    Bodies of modules and classes do not count: importing is not passing through.
    """
    files: set[str] = set()
    functions: set[tuple[str, str]] = set()
    records: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code, values = frame.f_code, frame.f_locals
        # A named tuple is created by a lambda of the standard library, a dataclass by __init__.
        if code.co_name == "<lambda>":
            created = values.get("_cls")
        elif code.co_name == "__init__":
            created = type(values.get("self"))
        else:
            created = None
        if isinstance(created, type) and is_record(created):
            records.add(f"{created.__module__}.{created.__qualname__}")
        # Only functions have optimised locals; modules and classes do not.
        # Templates, which are compiled to code of their own, are prose and not counted.
        ours = code.co_filename.startswith(ROOT) and code.co_filename.endswith(".py")
        if ours and code.co_flags & 0x2:
            files.add(code.co_filename[len(ROOT) + 1 :])
            functions.add((code.co_filename, code.co_qualname))

    # Garbage of earlier tests must not be collected meanwhile: closing a generator is a call, too.
    gc.collect()
    gc.disable()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        command()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
    return Way(frozenset(files), frozenset(functions), frozenset(records))
