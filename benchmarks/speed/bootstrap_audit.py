"""Bar 7: the bootstrap of an audit, against resampling item by item with scikit-learn's kappa."""

import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import cohen_kappa_score

from benchmarks.table import Result, keep
from chimeralab.stats.agreement import Table2x2, kappa_bootstrap
from chimeralab.stats.intervals import percentile_interval

COMMAND = "python -m benchmarks.speed.bootstrap_audit"
TABLE = Table2x2(157, 7, 6, 10)
RESAMPLES = 10_000
PLAIN_RESAMPLES = 200


def main() -> None:
    ours = min(_seconds(_tables_at_once) for _ in range(5))
    plain = _seconds(_item_by_item) * RESAMPLES / PLAIN_RESAMPLES
    note = f"{RESAMPLES:,} resamples of {TABLE.n} items, {plain / ours:,.0f} x item by item"
    keep(Result("bootstrap audit", f"{1000 * ours:.0f} ms", "500 ms", ours < 0.5, COMMAND, note))


def _tables_at_once() -> None:
    percentile_interval(kappa_bootstrap(TABLE, rng=np.random.default_rng(1), resamples=RESAMPLES))


def _item_by_item() -> None:
    """A fiftieth of the resamples: all of them would take half a minute."""
    rng = np.random.default_rng(1)
    cells = np.repeat(np.arange(4), TABLE.cells.astype(int))
    first, second = np.isin(cells, (0, 1)), np.isin(cells, (0, 2))
    for _ in range(PLAIN_RESAMPLES):
        drawn = rng.integers(0, len(cells), len(cells))
        cohen_kappa_score(first[drawn], second[drawn])


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
