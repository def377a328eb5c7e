"""Regression tests for findings of fuzzing."""

import json

from chimeralab import readers


def test_conversations_with_a_role_are_not_messages(write):
    log = write(json.dumps([{"turns": ["Hi."], "role": "host"}]).encode())
    (read,) = readers.read(log)
    assert read.metadata == {"role": "host"}


def test_empty_list_is_rejected_in_a_forced_format(reason):
    assert reason(b"[null]", form="plain") == "conversation 1: the line is null, not an object"


def test_number_beyond_float_range_does_not_become_infinity(talk):
    assert talk(b'{"turns": ["Hi."], "n": [1e400]}').metadata == {"n": [None]}


def test_trace_whose_spans_are_not_a_list_is_rejected(reason):
    log = {"resourceSpans": [{"scopeSpans": True}]}
    assert reason(log) == "resourceSpans.scopeSpans is true or false, not a list"
