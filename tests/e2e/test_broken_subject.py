"""A custom subject whose code fails: one sentence, and finished work is on record."""

import sqlite3
from contextlib import closing

import pytest

from tests.plans import TRIAL, Files, changed

TABLES = """
[models.p]
[models.own]
use = "own:Own"
[trial]
subjects = ["own"]
each = ["conformity"]
[layout]
beliefs = 0
consensus = 1.0
[scenarios]
use = "consensus"
number = 1
items = 4
"""
OWN = """
from dataclasses import dataclass

from chimeralab.models.seam import Reply


@dataclass(frozen=True)
class Own:
    def open(self):
        return self

    async def reply(self, request):
        if request.turn >= {first}:
            raise KeyError("boom")
        return Reply("A", "stop", 1, 1, "own", 0.0)
"""
SAID = "chimera: [models.own] failed with KeyError('boom') (own.py, line 14); fix its code"


def broken_from(turn: int) -> Files:
    return changed(TRIAL | {"own.py": OWN.format(first=turn)}, TABLES)


@pytest.mark.parametrize("command", ["check", "run"])
def test_subject_that_fails_at_once_is_named_in_one_sentence(chimera, make_study, command):
    ran = chimera(command, make_study(broken_from(0)).path)
    assert ran.code == 2
    assert SAID in ran.err
    assert "Traceback" not in ran.err


def test_subject_that_fails_during_a_run_leaves_a_crashed_attempt(chimera, make_study):
    study = make_study(broken_from(2)).path
    ran = chimera("run", study)
    assert ran.code == 2
    assert SAID in ran.err
    with closing(sqlite3.connect(study / "study.db")) as store:
        reasons = store.execute("SELECT DISTINCT reason FROM attempts WHERE outcome = 'crashed'")
        assert reasons.fetchall() == [("KeyError('boom')",)]
    assert chimera("verify", study).code == 0
