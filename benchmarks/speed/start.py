"""How long a process takes before it does anything: CPU time, and what it loads for it."""

import resource
import subprocess
import sys

from benchmarks.table import Result, keep

COMMAND = "python -m benchmarks.speed.start"
RUNS = 5
BAR = 0.2
HELP = ("-m", "chimeralab", "--help")
OTHERS = {
    "an empty Python": ("-c", "pass"),
    "import chimeralab": ("-c", "import chimeralab"),
    "a guard by words": ("-c", "import chimeralab; chimeralab.Guard(vectors=False)"),
    "detect --help": ("-m", "chimeralab", "detect", "--help"),
    "rate --help": ("-m", "chimeralab", "rate", "--help"),
}


def main() -> None:
    shown = min(seconds(HELP) for _ in range(RUNS))
    others = {name: min(seconds(each) for _ in range(RUNS)) for name, each in OTHERS.items()}
    note = ", ".join(f"{name} {each:.2f}" for name, each in others.items())
    bar = f"{BAR} CPU-s"
    keep(Result("chimera --help", f"{shown:.2f} CPU-s", bar, shown < BAR, COMMAND, note))


def seconds(arguments: tuple[str, ...]) -> float:
    """CPU time of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
