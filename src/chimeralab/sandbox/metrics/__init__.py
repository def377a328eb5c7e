"""MCI, GFQ and DFS as published, with their parts, companions, intervals and reasons.

`measure` takes whole columns at once, `LiveMetrics` one trial at a time; both add up the same sums
and so agree.
"""

import numpy as np

from chimeralab.sandbox.columns import TrialColumns
from chimeralab.sandbox.metrics.gathered import gather
from chimeralab.sandbox.metrics.literal import PUBLISHED, literal_values
from chimeralab.sandbox.metrics.live import LiveMetrics
from chimeralab.sandbox.metrics.notes import notes
from chimeralab.sandbox.metrics.reasons import PARTS
from chimeralab.sandbox.metrics.records import Companions, Coverage, Dfs, Gfq, Mci, Metrics
from chimeralab.sandbox.metrics.summary import Resampling, summarise
from chimeralab.sandbox.metrics.weights import MetricWeights

__all__ = [
    "PARTS",
    "Companions",
    "Coverage",
    "Dfs",
    "Gfq",
    "LiveMetrics",
    "Mci",
    "MetricWeights",
    "Metrics",
    "literal_values",
    "measure",
    "measure_live",
]


def measure(
    columns: TrialColumns,
    weights: MetricWeights = PUBLISHED,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """Everything that the trials say, each number with a cluster-bootstrap interval."""
    resampling = Resampling(rng or np.random.default_rng(0), resamples)
    return summarise(gather(columns), weights, resampling, notes(columns))


def measure_live(
    live: LiveMetrics,
    weights: MetricWeights = PUBLISHED,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """The same of the trials that have come in so far."""
    resampling = Resampling(rng or np.random.default_rng(0), resamples)
    return summarise(live.gathered, weights, resampling)
