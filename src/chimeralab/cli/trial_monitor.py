"""The metrics of a trial while it runs, arm by arm: a subscriber like any other."""

import time
from collections import defaultdict

import numpy as np
from rich.table import Table

from chimeralab.cli.groups_table import groups_table
from chimeralab.runner import TrialScored
from chimeralab.sandbox.metrics import LiveMetrics, Metrics, MetricWeights, measure_live
from chimeralab.sandbox.scored import trials_of

SECONDS_BETWEEN_TABLES = 5.0
RESAMPLES = 500


class TrialMonitor:
    """Adds up scored trials by arm. The table is worked out anew every few seconds at most."""

    def __init__(self, weights: MetricWeights | None = None) -> None:
        self._weights = weights or MetricWeights()
        self.arms: defaultdict[str, LiveMetrics] = defaultdict(LiveMetrics)
        self._table = Table()
        self._drawn = -SECONDS_BETWEEN_TABLES

    def take(self, news: TrialScored) -> None:
        """Take in the next trial of any session."""
        for trial in trials_of([news.row], news.place):
            self.arms[news.place.arm].update(trial)

    def table(self, width: int) -> Table:
        """The three metrics of each arm, with intervals over the scenarios so far."""
        if time.monotonic() - self._drawn >= SECONDS_BETWEEN_TABLES:
            self._drawn = time.monotonic()
            self._table = groups_table("arm", self.measured(), width)
        return self._table

    def outdate(self) -> None:
        """Have the next table worked out anew, as at the end of a run."""
        self._drawn = -SECONDS_BETWEEN_TABLES

    def measured(self) -> dict[str, Metrics]:
        """Everything that the trials of each arm say so far."""
        rng = np.random.default_rng(0)
        return {
            name: measure_live(live, self._weights, rng=rng, resamples=RESAMPLES)
            for name, live in sorted(self.arms.items())
        }
