"""What `make demo` takes once it is set up: five minutes on two cores are enough.

Its commands are read from the Makefile and run in a folder of their own. The bar is on CPU seconds,
half of which two quiet cores take; `--folder` keeps the studies.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.speed.start import seconds
from benchmarks.table import ROOT, Result, keep

COMMAND = "python -m benchmarks.speed.demo"
CORES = 2
MINUTES, FIRST = 5.0, 30.0
IN_FOLDER = (
    "import subprocess, sys; subprocess.run(sys.argv[1], shell=True, check=True, cwd=sys.argv[2])"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="where the studies go; they stay there")
    chosen = parser.parse_known_args()[0].folder
    with tempfile.TemporaryDirectory() as made:
        folder = Path(chosen or made).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("examples", "studies"):
            if not (folder / name).exists():
                (folder / name).symlink_to(ROOT / name)
        taken = {line: run(line, folder) for line in demo_lines()}
    first, whole = next(iter(taken.values())) / CORES, sum(taken.values()) / CORES
    named = {line.split(" -m chimeralab ")[-1]: cpu for line, cpu in taken.items()}
    slowest = sorted(named, key=lambda line: -named[line])[:4]
    note = "CPU-s: " + ", ".join(f"{line} {named[line]:.0f}" for line in slowest)
    value = f"{whole / 60:.1f} min ({CORES * whole:.0f} CPU-s on {CORES} cores)"
    keep(Result("demo", value, f"{MINUTES:g} min", whole <= 60 * MINUTES, COMMAND, note))
    met = first <= FIRST
    keep(Result("demo, first verdicts", f"{first:.1f} s", f"{FIRST:g} s", met, COMMAND, "CPU time"))


def demo_lines() -> list[str]:
    """The commands of the demo, as a shell runs them; what it only prints is left out."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    lines = [line.lstrip("\t@") for line in recipe[1].splitlines()]
    ours = f"{sys.executable} -m chimeralab"
    return [
        line.replace("$(CHIMERA)", ours)
        for line in lines
        if not line.startswith(("echo", "date", "$(ELAPSED)"))
    ]


def run(line: str, folder: Path) -> float:
    print(line, flush=True)
    return seconds(("-c", IN_FOLDER, line, str(folder)))


if __name__ == "__main__":
    main()
