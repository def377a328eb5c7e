"""Compile the fast encoder, one C file, with any C compiler.

The package's build runs this file by path, so it must not import from the package. In a source
tree, `python -m chimeralab.embedding.build` compiles the library in place.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "minilm.c"
LIBRARY = HERE / ("libminilm.dll" if sys.platform == "win32" else "libminilm.so")
# No fused or reordered float operations: every compiler must give the same vectors.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden", "-shared")
COMPILE_SECONDS = 300


def platform_tag() -> str:
    """The platform tag of a wheel with a library compiled here."""
    name = sysconfig.get_platform().replace("universal2", "x86_64")
    return name.replace("-", "_").replace(".", "_")


def compile_library(target: Path, *more: str) -> str | None:
    """Compile the library and write its hash next to it; return why that failed, or None."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"it is not written for {platform.machine()}"
    why = "no C compiler was found"
    for compiler in _compilers():
        command = [*compiler, *FLAGS, *_platform_flags(), *more, "-o", str(target), str(SOURCE)]
        command += [] if sys.platform == "win32" else ["-lm"]
        try:
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=COMPILE_SECONDS
            )
        except subprocess.CalledProcessError as error:
            said = [*error.stderr.splitlines(), f"exit code {error.returncode}"]
            why = f"{compiler[0]} failed: {said[0]}"
            continue
        except (OSError, subprocess.SubprocessError) as error:
            why = f"{compiler[0]} failed: {error}"
            continue
        digest = hashlib.sha256(target.read_bytes()).hexdigest()
        target.with_name(f"{target.name}.sha256").write_text(f"{digest}\n", encoding="ascii")
        return None
    return why


def _compilers() -> Iterator[list[str]]:
    """$CC if it is set, otherwise the compilers on the path."""
    if chosen := os.environ.get("CC"):
        yield shlex.split(chosen)
        return
    # GCC for Windows does not align the stack for AVX.
    for name in ("clang",) if sys.platform == "win32" else ("cc", "gcc", "clang"):
        if shutil.which(name):
            yield [name]


def _platform_flags() -> list[str]:
    if sys.platform == "win32":
        return []
    if sys.platform == "darwin":
        oldest = sysconfig.get_platform().split("-")[1]
        return ["-fPIC", "-arch", "x86_64", f"-mmacosx-version-min={oldest}"]
    return ["-fPIC"]


if __name__ == "__main__":
    sys.exit(compile_library(LIBRARY))
