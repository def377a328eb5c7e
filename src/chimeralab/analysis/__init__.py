"""From runs to estimates: `read_runs` takes a table, `analyse` says what it shows."""

from chimeralab.analysis.selfplay.analysis import Analysis, analyse
from chimeralab.analysis.selfplay.outcomes import Estimand, Outcomes, WeightedContrast
from chimeralab.analysis.selfplay.replication import Replication, compare
from chimeralab.analysis.selfplay.runs import Run, Runs, read_runs, runs_of

__all__ = [
    "Analysis",
    "Estimand",
    "Outcomes",
    "Replication",
    "Run",
    "Runs",
    "WeightedContrast",
    "analyse",
    "compare",
    "read_runs",
    "runs_of",
]
