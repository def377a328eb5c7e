"""From runs to estimates: `read_runs` takes a table, `analyse` says what it shows."""

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

# Modules that the docs named before the kinds of study had packages of their own.
for _name, _module in {
    "selfplay": selfplay,
    "selfplay.runs": runs,
    "trial": trial,
    "trial.measures": measures,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
