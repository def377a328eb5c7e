"""The earlier name of `chimeralab.trial`, kept for its documented modules."""

import sys
from importlib import import_module

DOCUMENTED = (
    "agents",
    "columns",
    "countermeasures",
    "course",
    "hooks",
    "metrics",
    "probes",
    "scenarios",
    "scene",
    "scoring",
    "stressors",
    "trials",
)

for _name in DOCUMENTED:
    sys.modules[f"{__name__}.{_name}"] = import_module(f"chimeralab.trial.{_name}")
