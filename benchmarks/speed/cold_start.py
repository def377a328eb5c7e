"""Bar 2: the first answer on a 40-turn file, against loading sentence-transformers alone."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import reference, transcripts
from benchmarks.table import Result, keep

COMMAND = "python -m benchmarks.speed.cold_start"
LOAD = "import sys; from sentence_transformers import SentenceTransformer as S; S(sys.argv[1])"
RUNS = 3


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.jsonl"
        transcripts.write_plain(log, transcripts.made(1, 40, words=30))
        model = folder / "model"
        model.mkdir()
        reference.write_folder(model)
        detect = [sys.executable, "-m", "chimeralab", "detect", "--json", str(log)]
        ours = best(detect)
        theirs = best([sys.executable, "-c", LOAD, str(model)])
    share = ours / theirs
    note = f"{ours:.1f} s against {theirs:.1f} s (best of {RUNS})"
    keep(Result("cold start", f"{share:.2f} of loading", "0.5", share < 0.5, COMMAND, note))


def best(command: list[str]) -> float:
    return min(_seconds(command) for _ in range(RUNS))


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
