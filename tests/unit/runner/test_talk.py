"""The rules for unusable replies: parsing and errors."""

import pytest

from chimeralab.core.errors import InputError
from chimeralab.runner import Rules
from chimeralab.runner.talk import Rule


@pytest.mark.parametrize(
    ("key", "text", "rule"),
    [
        ("empty", "record", Rule(0, "record")),
        ("empty", "retry 2", Rule(2, "record")),
        ("refusal", "retry 1 then stop", Rule(1, "stop")),
        ("overflow", "trim 6", Rule(0, "trim", 6)),
        ("overflow", "retry 1 then trim 6", Rule(1, "trim", 6)),
        ("failure", "retry 5 then pause", Rule(5, "pause")),
    ],
)
def test_rule_is_parsed(key, text, rule):
    assert Rules(**{f"on_{key}": text}).rule(key) == rule


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("on_empty", ""),
        ("on_empty", "retry"),
        ("on_empty", "trim 3"),
        ("on_empty", "record 3"),
        ("on_overflow", "trim"),
        ("on_overflow", "trim 0"),
        ("on_overflow", "record"),
        ("on_failure", "record"),
        ("on_failure", "retry -1"),
        ("on_failure", "retry 2 then"),
        ("on_failure", "retry 2 pause"),
        ("on_refusal", "Record"),
    ],
)
def test_invalid_rule_is_refused_with_the_choices(key, text):
    with pytest.raises(InputError, match=rf"{key} = .* known: .*retry N then"):
        Rules(**{key: text})
