"""The earlier name of `chimeralab.trial`: what the docs named is found under it, too."""

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
