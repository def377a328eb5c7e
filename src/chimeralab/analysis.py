"""Analyse a table of runs: `read_runs` reads it, `analyse` estimates."""

import sys

from chimeralab import selfplay, trial
from chimeralab.selfplay import runs
from chimeralab.selfplay.analysis import Analysis, analyse
from chimeralab.selfplay.outcomes import Estimand, Outcomes, WeightedContrast
from chimeralab.selfplay.replication import Replication, compare
from chimeralab.selfplay.runs import Run, Runs, read_runs, runs_of
from chimeralab.trial import measures

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

# Import paths that were documented before each kind of study had its own package.
for _name, _module in {
    "selfplay": selfplay,
    "selfplay.runs": runs,
    "trial": trial,
    "trial.measures": measures,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
