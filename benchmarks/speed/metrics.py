"""Bar 6: MCI, GFQ and DFS from columns at 10 million trials a second, live within a factor 50."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.table import Result, keep
from chimeralab.sandbox.columns import TrialColumns
from chimeralab.sandbox.metrics import LiveMetrics, literal_values, measure
from chimeralab.sandbox.trials import Trial

COMMAND = "python -m benchmarks.speed.metrics"
SESSION = 100
WIDE, LIVE = 1_000_000, 50_000
REPEATS = 15
BAR, FACTOR = 10e6, 50


def main() -> None:
    columns, trials = made_columns(WIDE), made_trials(LIVE)
    # The two forms take turns, so that a busy moment of the machine hits both.
    rounds = [(_rate(columns), _live_rate(trials)) for _ in range(REPEATS)]
    wide, live = (max(rates) for rates in zip(*rounds, strict=True))
    keep(Result("metrics from columns", _millions(wide), _millions(BAR), wide >= BAR, COMMAND))
    note = f"factor {BAR / live:.0f} of the bar, {wide / live:.0f} of the measured columns"
    bar = f"{_millions(BAR / FACTOR)}"
    keep(
        Result("metrics trial by trial", _millions(live), bar, live >= BAR / FACTOR, COMMAND, note)
    )
    _keep_growth(wide, live)
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
        pair=np.arange(rows) // 2,
        frame=frame,
    )


def made_trials(rows: int) -> list[Trial]:
    """The same trials as records, one by one."""
    columns = made_columns(rows)
    table = np.column_stack(
        [columns.correct, columns.confidence, columns.weight, columns.novel, columns.bias]  # type: ignore[arg-type]
    )
    answers = np.column_stack([columns.response, columns.truth]).astype(int)  # type: ignore[arg-type]
    return [
        Trial(
            f"s{n // SESSION}",
            n % SESSION,
            bool(correct),
            confidence,
            weight,
            bool(novel),
            bool(bias),
            response,
            truth,
            str(n // 2),
            "biased" if bias else "neutral",
        )
        for n, ((correct, confidence, weight, novel, bias), (response, truth)) in enumerate(
            zip(table.tolist(), answers.tolist(), strict=True)
        )
    ]


def _rate(columns: TrialColumns) -> float:
    return len(columns) / _seconds(lambda: literal_values(columns))


def _live_rate(trials: list[Trial]) -> float:
    live = LiveMetrics()

    def run() -> None:
        for trial in trials:
            live.update(trial)

    return len(trials) / _seconds(run)


def _keep_growth(wide: float, live: float) -> None:
    """Linear in N: four times the trials cost no more than five times as long."""
    columns, trials = made_columns(4 * WIDE), made_trials(4 * LIVE)
    rounds = [(_rate(columns), _live_rate(trials)) for _ in range(3)]
    slower = [
        before / max(rates)
        for before, rates in zip((wide, live), zip(*rounds, strict=True), strict=True)
    ]
    value = " and ".join(f"{4 * factor:.1f} x the time" for factor in slower)
    note = f"columns {WIDE:,} to {4 * WIDE:,} trials, trial by trial {LIVE:,} to {4 * LIVE:,}"
    keep(Result("metrics, four times the trials", value, "5 x", max(slower) < 1.25, COMMAND, note))


def _keep_apart(columns: TrialColumns) -> None:
    """What the bar leaves out: pairs in random order, companions, intervals."""
    shuffled = np.random.default_rng(1).permutation(len(columns) // 2)
    pairs = np.random.default_rng(2).permutation(np.repeat(shuffled, 2))
    order = np.argsort(pairs, kind="stable")
    frame = np.empty(len(columns))
    frame[order] = np.tile([0.0, 1.0], len(columns) // 2)
    apart = {
        "pairs in any order": _rate(replace(columns, pair=pairs, frame=frame)),
        "with companions": len(columns) / _seconds(lambda: measure(columns, resamples=0)),
        "with companions and intervals": len(columns) / _seconds(lambda: measure(columns)),
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
