"""Two workers of Ray against one, with a thread each and start-up apart: at least 1.7 times."""

import json
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.table import Result, keep
from benchmarks.transcripts import made
from chimeralab import scale

COMMAND = "python -m benchmarks.speed.ray_workers"
FILES, TALKS, TURNS = 8, 30, 20
LIMIT = 1.7


def main() -> None:
    if find_spec("ray") is None:
        print('passed over: it needs Ray (pip install "chimera-lab[ray]")')
        return
    with tempfile.TemporaryDirectory() as folder:
        logs, few = Path(folder) / "logs", Path(folder) / "few"
        _write(logs, TALKS)
        _write(few, 1)
        # A job of a few turns is start-up alone: the cluster, the workers, their encoders.
        starts = [_seconds(few, Path(folder) / f"start-{n}", n) for n in (1, 2)]
        whole = [_seconds(logs, Path(folder) / f"out-{n}", n) for n in (1, 2)]
    one, two = (each - start for each, start in zip(whole, starts, strict=True))
    turns = FILES * TALKS * TURNS
    note = (
        f"{turns:,} turns in {FILES} files: {turns / one:,.0f} and {turns / two:,.0f} turns per "
        f"second; start-up {starts[0]:.0f} and {starts[1]:.0f} s left out"
    )
    ratio = one / two
    name = "Ray, two workers"
    keep(Result(name, f"{ratio:.2f} x one", f"{LIMIT} x", ratio >= LIMIT, COMMAND, note))


def _write(folder: Path, talks: int) -> None:
    folder.mkdir()
    for n in range(FILES):
        rows = (
            {"id": talk.id, "turns": [turn.text for turn in talk.turns]}
            for talk in made(talks, TURNS, words=60, seed=n)
        )
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{n}.jsonl").write_text(text, encoding="utf-8")


def _seconds(logs: Path, out: Path, workers: int) -> float:
    started = time.monotonic()
    scale.detect_files([str(logs)], str(out), workers=workers)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
