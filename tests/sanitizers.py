"""The compiled encoder under GCC's sanitizers: how to build it, and what loads it."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from chimeralab.embedding.build import LIBRARY, compile_library

ADDRESSES = ("-fsanitize=address,undefined",)
LIBRARY_VARIABLE = "SANITIZED_LIBRARY"


def sanitized(
    folder: Path, flags: Sequence[str] = ADDRESSES, runtimes: Sequence[str] = ("asan", "ubsan")
) -> dict[str, str]:
    """Compile the encoder into a folder; returns the environment of a Python that loads it.

    Where that is not possible, the test is skipped with the reason.
    """
    if sys.platform != "linux":
        pytest.skip("the sanitizers are loaded the way of Linux")
    library = folder / LIBRARY.name
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", "gcc")
        why_not = compile_library(library, "-g", "-O2", "-fno-sanitize-recover=all", *flags)
    if why_not:
        pytest.skip(f"it can't be compiled with {flags}: {why_not}")
    return {
        LIBRARY_VARIABLE: str(library.resolve()),
        "LD_PRELOAD": " ".join(map(_runtime, runtimes)),
        # Python itself leaves memory behind, and the other libraries are not instrumented.
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "report_bugs=1 exitcode=66 ignore_noninstrumented_modules=1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _runtime(name: str) -> str:
    """Where GCC keeps a sanitizer's library, which must be loaded before Python."""
    found = subprocess.run(
        ["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"GCC has no lib{name} here")
    return found
