"""Bar 4: a 100 times longer input raises peak memory by less than 20 %; 100,000 conversations stay
under 200 MB."""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import transcripts
from benchmarks.table import Result, keep

COMMAND = "python -m benchmarks.speed.memory"
MEASURE = """
import resource, sys
from chimeralab.cli.main import main
try:
    main()
finally:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak * (1 if sys.platform == "darwin" else 1024), file=sys.stderr)
"""
MB = 1e6


def main() -> None:
    growth("memory growth", conversations=10, turns=20)
    growth("memory growth, 100,000 conversations", conversations=1_000, turns=2)
    growth("memory growth, 100,000 conversations by words", "--no-vectors", conversations=1_000)


def growth(name: str, *options: str, conversations: int, turns: int = 4) -> None:
    """Compare a number of conversations with a hundred times as many, all different."""
    with tempfile.TemporaryDirectory() as folder:
        short, long = Path(folder) / "short.jsonl", Path(folder) / "long.jsonl"
        transcripts.write_plain(short, transcripts.made(conversations, turns, words=5))
        transcripts.write_plain(long, transcripts.made(100 * conversations, turns, words=5))
        before, after = peak(short, *options), peak(long, *options)
    grown = after / before - 1
    note = (
        f"{before / MB:.0f} MB to {after / MB:.0f} MB (bar: 200 MB),"
        f" {100 * conversations:,} conversations of {turns} turns"
    )
    met = grown < 0.2 and after < 200 * MB
    keep(Result(name, f"{100 * grown:.0f} %", "20 %", met, COMMAND, note))


def peak(log: Path, *options: str) -> int:
    """Peak memory in bytes of `chimera detect` on a log."""
    command = [sys.executable, "-c", MEASURE, "detect", str(log), *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stderr.splitlines()[-1])


if __name__ == "__main__":
    main()
