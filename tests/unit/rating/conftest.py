"""Fixtures of the rating tests: studies run without the encoder."""

import pytest


@pytest.fixture(autouse=True)
def _nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the encoder is not installed."""
    monkeypatch.setattr("chimeralab.study.run.weights.locate", lambda name: None)
