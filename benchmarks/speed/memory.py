"""Bar 4: a 100 times longer input raises peak memory by less than 20 %."""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import transcripts
from benchmarks.table import Result, keep

COMMAND = "python -m benchmarks.speed.memory"
MEASURE = """
import resource, sys
from chimeralab import detect_file
for _ in detect_file(sys.argv[1]): pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
CONVERSATIONS = 10
TURNS = 20


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder) / "short.jsonl", Path(folder) / "long.jsonl"
        transcripts.write_plain(short, transcripts.made(CONVERSATIONS, TURNS, words=5))
        transcripts.write_plain(long, transcripts.made(100 * CONVERSATIONS, TURNS, words=5))
        before, after = peak(short), peak(long)
    growth = after / before - 1
    note = f"{before / 1024:.0f} MB to {after / 1024:.0f} MB, {100 * CONVERSATIONS} conversations"
    keep(Result("memory growth", f"{100 * growth:.0f} %", "20 %", growth < 0.2, COMMAND, note))


def peak(log: Path) -> int:
    """Peak memory in kB of a process that judges a log."""
    command = [sys.executable, "-c", MEASURE, str(log)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
