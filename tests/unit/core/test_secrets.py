"""Keys are redacted by the name of their variable; short placeholders are left alone."""

import pytest

from chimeralab.core.secrets import redact, secrets


def test_placeholder_keys_are_left_in_the_text() -> None:
    assert redact("the box is EMPTY", {"LAB_KEY": "EMPTY", "NONE": ""}) == "the box is EMPTY"


def test_values_that_look_like_keys_are_redacted_under_their_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAB_API_KEY", "sk-0123456789")
    monkeypatch.setenv("LAB_COLOUR", "ultramarine")
    assert redact("sk-0123456789 ultramarine") == "<LAB_API_KEY> ultramarine"
    assert secrets("LAB_COLOUR")["LAB_COLOUR"] == "ultramarine"
