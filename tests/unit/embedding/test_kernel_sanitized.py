"""The compiled encoder under sanitizers: no stray access, no race, no overflow.

The sums of the plain kernel are ordinary C, in which a sanitizer sees an overflow; the other
kernels give the same integers.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sanitizers import ADDRESSES, LIBRARY_VARIABLE, sanitized

STRESS = Path(__file__).with_name("stress_kernel.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def stressed(
    folder: Path, what: str, runtimes: list[str], *flags: str
) -> subprocess.CompletedProcess[str]:
    environment = sanitized(folder, flags, runtimes)
    return subprocess.run(
        [sys.executable, str(STRESS), environment[LIBRARY_VARIABLE], *what.split()],
        check=False,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def test_address_sanitizer_finds_no_bad_access(tmp_path: Path) -> None:
    ran = stressed(tmp_path, "texts", ["asan", "ubsan"], *ADDRESSES)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_any_argument_is_rejected_or_computed(tmp_path: Path) -> None:
    ran = stressed(tmp_path, "arguments 1", ["asan", "ubsan"], *ADDRESSES)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_thread_sanitizer_finds_no_race(tmp_path: Path) -> None:
    ran = stressed(tmp_path, "threads", ["tsan"], "-fsanitize=thread")
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("the thread sanitizer does not know this kernel's memory layout")
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_sums_never_overflow(tmp_path: Path) -> None:
    flags = "-fsanitize=undefined"
    ran = stressed(tmp_path, "overflow", ["ubsan"], flags)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-3_000:]


def test_longer_rows_would_overflow(tmp_path: Path) -> None:
    """Shows that the test above can fail."""
    flags = ("-fsanitize=undefined", "-DLENGTH=46400.f")
    ran = stressed(tmp_path, "overflow", ["ubsan"], *flags)
    assert ran.returncode != 0
    assert "signed integer overflow" in ran.stderr
