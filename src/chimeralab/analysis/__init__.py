"""From runs to estimates: `read_runs` takes a table, `analyse` says what it shows."""

from chimeralab.analysis.collapse import Analysis, analyse
from chimeralab.analysis.compare import Replication, compare
from chimeralab.analysis.estimands import Estimand, Outcomes, WeightedContrast
from chimeralab.analysis.run_files import read_runs
from chimeralab.analysis.runs import Run, Runs, runs_of

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
