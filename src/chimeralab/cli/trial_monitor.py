"""The metrics of a trial while it runs, arm by arm: a subscriber like any other."""

import time
from collections import defaultdict

import numpy as np
from rich.table import Table

from chimeralab.cli.measure import groups_table
from chimeralab.runner import TrialScored
from chimeralab.sandbox.columns import columns_of
from chimeralab.sandbox.metrics import Metrics, MetricWeights, measure
from chimeralab.sandbox.scored import trials_of
from chimeralab.sandbox.trials import Trial

SECONDS_BETWEEN_TABLES = 5.0
# Of the time that a long trial runs, at most one part in so many goes into its tables.
SHARE_OF_TIME = 20
RESAMPLES = 500


class TrialMonitor:
    """Keeps scored trials by arm. The table is computed again every few seconds at most."""

    def __init__(self, weights: MetricWeights | None = None) -> None:
        self._weights = weights or MetricWeights()
        self.arms: defaultdict[str, list[Trial]] = defaultdict(list)
        self._table = Table()
        self._due = 0.0

    def take(self, news: TrialScored) -> None:
        """Take in the next trial of any session."""
        self.arms[news.place.arm] += trials_of([news.row], news.place)

    def table(self, width: int) -> Table:
        """The three metrics of each arm, with intervals over the scenarios so far."""
        started = time.monotonic()
        if started >= self._due:
            self._table = groups_table("arm", self.measured(), width)
            now = time.monotonic()
            self._due = now + max(SECONDS_BETWEEN_TABLES, SHARE_OF_TIME * (now - started))
        return self._table

    def outdate(self) -> None:
        """Have the next table computed again, as at the end of a run."""
        self._due = 0.0

    def measured(self) -> dict[str, Metrics]:
        """Everything that the trials of each arm say so far."""
        rng = np.random.default_rng(0)
        return {
            name: measure(columns_of(trials), self._weights, rng=rng, resamples=RESAMPLES)
            for name, trials in sorted(self.arms.items())
        }
