"""Studies that do not depend on a detector."""

import pytest


@pytest.fixture(autouse=True)
def _nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without the encoder."""
    monkeypatch.setattr("chimeralab.study.run.weights.locate", lambda name: None)
