"""Import paths that the docs named before the package was cut along the kinds of study."""

from importlib import import_module

import pytest

MOVED = {
    "chimeralab.analysis.selfplay.runs": "chimeralab.selfplay.runs",
    "chimeralab.analysis.trial.measures": "chimeralab.trial.measures",
    "chimeralab.sandbox.agents": "chimeralab.trial.agents",
    "chimeralab.sandbox.hooks": "chimeralab.trial.hooks",
    "chimeralab.sandbox.metrics": "chimeralab.trial.metrics",
    "chimeralab.sandbox.probes": "chimeralab.trial.probes",
    "chimeralab.sandbox.scenarios": "chimeralab.trial.scenarios",
    "chimeralab.sandbox.scene": "chimeralab.trial.scene",
    "chimeralab.sandbox.stressors": "chimeralab.trial.stressors",
}


@pytest.mark.parametrize("before", MOVED)
def test_an_earlier_documented_path_gives_the_same_module(before: str) -> None:
    assert import_module(before) is import_module(MOVED[before])
