"""Bar 6: MCI, GFQ, DFS and their companions from columns at 10 million trials per second."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.table import Result, keep
from chimeralab.trial.columns import TrialColumns
from chimeralab.trial.metrics import measure

COMMAND = "python -m benchmarks.speed.metrics"
SESSION = 100
TRIALS = 1_000_000
REPEATS = 10
BAR = 10e6


def main() -> None:
    columns = made_columns(TRIALS)
    rate = max(_rate(columns) for _ in range(REPEATS))
    note = "`measure` with all companions, without intervals"
    keep(
        Result("metrics from columns", _millions(rate), _millions(BAR), rate >= BAR, COMMAND, note)
    )
    _keep_growth(rate)
    _keep_apart(columns)


def made_columns(rows: int) -> TrialColumns:
    """Binary answers in adjacent pairs, sessions of a hundred trials, nothing missing."""
    rng = np.random.default_rng(6)
    flags = rng.integers(0, 2, (4, rows)).astype(np.float64)
    frame = np.tile([0.0, 1.0], rows // 2)
    return TrialColumns(
        session=np.arange(rows) // SESSION,
        correct=flags[0],
        confidence=rng.random(rows).round(2),
        weight=rng.random(rows),
        novel=flags[1],
        bias=frame,
        response=flags[2],
        truth=flags[3],
        signal=1 - flags[3],
        trial=(np.arange(rows) % SESSION).astype(np.float64),
        pair=np.arange(rows) // 2,
        frame=frame,
    )


def _rate(columns: TrialColumns) -> float:
    return len(columns) / _seconds(lambda: measure(columns, resamples=0))


def _keep_growth(rate: float) -> None:
    """Linear in N: four times the trials cost no more than five times as long."""
    columns = made_columns(4 * TRIALS)
    slower = rate / max(_rate(columns) for _ in range(REPEATS))
    note = f"{TRIALS:,} to {4 * TRIALS:,} trials"
    value = f"{4 * slower:.1f} x the time"
    keep(Result("metrics, four times the trials", value, "5 x", slower < 1.25, COMMAND, note))


def _keep_apart(columns: TrialColumns) -> None:
    """What the bar leaves out: pairs in random order, and intervals."""
    shuffled = np.random.default_rng(1).permutation(len(columns) // 2)
    pairs = np.random.default_rng(2).permutation(np.repeat(shuffled, 2))
    order = np.argsort(pairs, kind="stable")
    frame = np.empty(len(columns))
    frame[order] = np.tile([0.0, 1.0], len(columns) // 2)
    apart = {
        "pairs in any order": _rate(replace(columns, pair=pairs, frame=frame)),
        "with intervals": len(columns) / _seconds(lambda: measure(columns)),
    }
    value = ", ".join(f"{name} {_millions(rate)}" for name, rate in apart.items())
    keep(Result("metrics, the rest", value, "printed as it is", True, COMMAND))


def _seconds(run: Callable[[], object]) -> float:
    """Seconds of processor time, which a busy machine does not stretch."""
    started = time.process_time()
    run()
    return time.process_time() - started


def _millions(rate: float) -> str:
    return f"{rate / 1e6:.2f} million/s"


if __name__ == "__main__":
    main()
