"""The compiled encoder under sanitizers: no stray access, no race, no overflow.

The sums of the plain kernel are ordinary C, in which a sanitizer sees an overflow; the other
kernels give the same integers.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimeralab.embedding.build import LIBRARY, compile_library

STRESS = Path(__file__).with_name("stress_kernel.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def runtime(name: str) -> str:
    """Where GCC keeps a sanitizer's library, which must be loaded before Python."""
    found = subprocess.run(
        ["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"GCC has no lib{name} here")
    return found


def stressed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, runtimes: list[str], *flags: str
) -> subprocess.CompletedProcess[str]:
    if sys.platform != "linux":
        pytest.skip("the sanitizers are loaded the way of Linux")
    monkeypatch.setenv("CC", "gcc")
    library = folder / LIBRARY.name
    if why_not := compile_library(library, "-g", "-O1", "-fno-sanitize-recover=all", *flags):
        pytest.skip(f"it can't be compiled with {flags}: {why_not}")
    preloaded = {
        "LD_PRELOAD": " ".join(map(runtime, runtimes)),
        # Python itself leaves memory behind, and the other libraries are not instrumented.
        "ASAN_OPTIONS": "detect_leaks=0",
        "TSAN_OPTIONS": "report_bugs=1 exitcode=66 ignore_noninstrumented_modules=1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, str(STRESS), str(library), *what.split()],
        check=False,
        env=os.environ | preloaded,
        capture_output=True,
        text=True,
    )


def test_address_sanitizer_finds_no_bad_access(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = "-fsanitize=address,undefined"
    ran = stressed(tmp_path, monkeypatch, "texts", ["asan", "ubsan"], flags)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_any_argument_is_rejected_or_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = "-fsanitize=address,undefined"
    ran = stressed(tmp_path, monkeypatch, "arguments 1", ["asan", "ubsan"], flags)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_thread_sanitizer_finds_no_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = stressed(tmp_path, monkeypatch, "threads", ["tsan"], "-fsanitize=thread")
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("the thread sanitizer does not know this kernel's memory layout")
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_sums_never_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = "-fsanitize=undefined"
    ran = stressed(tmp_path, monkeypatch, "overflow", ["ubsan"], flags)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_longer_rows_would_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the test above can fail."""
    flags = ("-fsanitize=undefined", "-DLENGTH=46400.f")
    ran = stressed(tmp_path, monkeypatch, "overflow", ["ubsan"], *flags)
    assert ran.returncode != 0
    assert "signed integer overflow" in ran.stderr
