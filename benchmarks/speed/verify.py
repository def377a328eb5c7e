"""Verifying a judged study of 720 runs of 40 turns, its vectors cached: under 60 seconds."""

import tempfile
import time
from pathlib import Path

from benchmarks.speed.report import made_study
from benchmarks.table import Result, keep
from chimeralab.embedding import encoder
from chimeralab.study.verdicts import detect_study
from chimeralab.study.verify import verify_study

COMMAND = "python -m benchmarks.speed.verify"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "vectors.db"
        encoder.vector_cache = lambda: cache
        study = made_study(Path(folder) / "study")
        judging = time.perf_counter()
        detect_study(study)
        judging = time.perf_counter() - judging
        quickly = time.perf_counter()
        verify_study(study, quick=True)
        quickly = time.perf_counter() - quickly
        wholly = time.perf_counter()
        verified = verify_study(study)
        wholly = time.perf_counter() - wholly
        size = cache.stat().st_size / 1e6
    assert not verified.findings, verified.findings[:3]
    note = (
        f"{verified.turns:,} turns, {verified.records:,} records; {quickly:.0f} s with --quick; "
        f"judging took {judging:.0f} s, the cache {size:.0f} MB"
    )
    keep(Result("verify, time", f"{wholly:.0f} s", "60 s", wholly < 60, COMMAND, note))


if __name__ == "__main__":
    main()
