"""A custom rater of a plan rates a study, is audited, and is part of the lock."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plans import SELFPLAY, changed
from tests.studies import RUN, MakeStudy

Chimera = Callable[..., Any]

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_rater.py"
TABLES = """
[conversation]
turns = 5
repeats = 2
[raters.mine]
use = "own_rater:Ending"
turns = 3
[gate]
rule = "point"
raters = ["rules", "mine"]
"""
OWN = changed(SELFPLAY | {EXAMPLE.name: EXAMPLE.read_text(encoding="utf-8")}, TABLES)


def test_custom_rater_rates_under_its_name_and_is_audited(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(OWN, steps=RUN).path
    assert chimera("rate", study).code == 0
    done = chimera("rate", study, "--rater", "mine", "--json")
    assert (done.json["rater"], done.json["newly_rated"], done.json["ones"]) == ("mine", 8, 4)
    assert chimera("rate", study, "--rater", "mine", "--json").json["newly_rated"] == 0
    ran = chimera("audit", study, "--json")
    assert (ran.code, ran.json["raters"], ran.json["kappa"]) == (0, ["rules", "mine"], 1.0)
    record = json.loads((study / "audit" / "gate-record.json").read_text(encoding="utf-8"))
    kinds = [(each["name"], each["kind"]) for each in record["rater_identities"]]
    assert kinds == [("rules", "program"), ("mine", "program")]
    assert "use own_rater:Ending, turns 3" in record["rater_identities"][1]["settings"]
    lock = json.loads((study / "plan.lock").read_text(encoding="utf-8"))["resolved"]
    assert list(lock["outside_code"]) == ["own_rater:Ending"]
    assert lock["extras"]["raters"]["own"]["mine"]["settings"] == {"turns": 3}


def test_changed_code_of_a_rater_is_not_the_locked_plan(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(OWN, steps=RUN).path
    make_study(OWN, ("are one text", "are the same"))
    ran = chimera("rate", study, "--rater", "mine")
    assert (ran.code, "own_rater.py is not the file that was locked" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("turns = 3\n[gate]", "turn = 3\n[gate]"), "did you mean 'turns'?"),
        (("own_rater:Ending", "own_rater:Start"), "can't be loaded"),
        (("own_rater:Ending", "own_rater:EndingRater"), "its fields are the settings"),
        (("def open", "def start"), "has no method open(rubric)"),
        (('use = "own_rater:Ending"', 'use = "rules"'), "needs use = 'module:Class'"),
        (("[raters.mine]", "[raters.loops]"), "the name 'loops' is taken"),
        (('"mine"]', '"mein"]'), "unknown rater 'mein' in [gate] raters; known: rules, mine, "),
    ],
)
def test_invalid_rater_is_rejected_before_anything_runs(
    chimera: Chimera, make_study: MakeStudy, change: tuple[str, str], complaint: str
) -> None:
    ran = chimera("lock", make_study(OWN, change).path)
    assert (ran.code, complaint in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("count = len(item.texts)", "count = 1 / 0"), "failed on '"),
        (('"", 0,', '"", 2,'), "must return a Rating of '"),
    ],
)
def test_failing_rater_is_named_with_the_conversation(
    chimera: Chimera, make_study: MakeStudy, change: tuple[str, str], complaint: str
) -> None:
    study = make_study(OWN, change, steps=("run",)).path
    ran = chimera("rate", study, "--rater", "mine")
    assert (ran.code, complaint in ran.err) == (2, True), ran.err
