"""Bar 2: the first answer on a 40-turn file, against loading sentence-transformers alone."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import reference, transcripts
from benchmarks.table import Result, keep

COMMAND = "python -m benchmarks.speed.cold_start"
LOAD = "import sys; from sentence_transformers import SentenceTransformer as S; S(sys.argv[1])"
RUNS = 5


class Cost(NamedTuple):
    """What a process took: CPU seconds, and the most memory in MB."""

    cpu: float
    memory: float


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.jsonl"
        transcripts.write_plain(log, transcripts.made(1, 40, words=30))
        model = folder / "model"
        model.mkdir()
        reference.write_folder(model)
        detect = [sys.executable, "-m", "chimeralab", "detect", "--json", str(log)]
        load = [sys.executable, "-c", LOAD, str(model)]
        both = [(cost(detect), cost(load)) for _ in range(RUNS)]
    ours, theirs = (min(costs) for costs in zip(*both, strict=True))
    note = f"best of {RUNS} processes, interleaved; loading sentence-transformers {theirs.cpu:.1f}"
    value, met = f"{ours.cpu:.2f} CPU-s", ours.cpu < 1.0
    keep(Result("cold start, time", value, "1.0 CPU-s", met, COMMAND, note))
    value, met = f"{ours.memory:.0f} MB", ours.memory < 180
    keep(Result("cold start, memory", value, "180 MB", met, COMMAND, note))
    share = ours.cpu / theirs.cpu
    keep(Result("cold start", f"{share:.2f} of loading", "0.2", share < 0.2, COMMAND, note))


def cost(command: list[str]) -> Cost:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
