"""What fuzzing found once, kept so that it stays found."""

import json

from chimeralab import readers


def test_conversations_with_a_role_of_their_own_are_no_messages(write):
    log = write(json.dumps([{"turns": ["Hi."], "role": "host"}]).encode())
    (read,) = readers.read(log)
    assert read.metadata == {"role": "host"}


def test_a_list_of_nothing_is_refused_in_a_forced_format(reason):
    assert reason(b"[null]", form="plain") == "conversation 1: the line is null, not an object"


def test_a_number_beyond_all_floats_does_not_come_back_as_infinity(talk):
    assert talk(b'{"turns": ["Hi."], "n": [1e400]}').metadata == {"n": [None]}


def test_a_trace_whose_spans_are_no_list_is_refused(reason):
    log = {"resourceSpans": [{"scopeSpans": True}]}
    assert reason(log) == "resourceSpans.scopeSpans is true or false, not a list"
