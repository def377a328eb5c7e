"""MCI, GFQ and DFS as published, with their parts, companions, intervals and reasons."""

from chimeralab.trial.metrics.records import (
    COMPANION_MEANINGS,
    METRIC_MEANINGS,
    PARTS,
    Companions,
    Coverage,
    Dfs,
    Gfq,
    Mci,
    Meaning,
    Metrics,
    MetricWeights,
)
from chimeralab.trial.metrics.summary import measure

__all__ = [
    "COMPANION_MEANINGS",
    "METRIC_MEANINGS",
    "PARTS",
    "Companions",
    "Coverage",
    "Dfs",
    "Gfq",
    "Mci",
    "Meaning",
    "MetricWeights",
    "Metrics",
    "measure",
]
