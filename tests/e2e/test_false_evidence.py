"""Mixed evidence from the plan to the page: locked, run, verified, exported, analysed, reported."""

import csv

import pytest

from chimeralab.core.errors import InputError
from tests.plans import trial
from tests.studies import RUN

MIXED = """
[stressors.infallibility]
evidence = "mixed"
strength = 1.0
"""
# It believes all feedback and all evidence, so that it follows whoever spoke last.
OBEYING = 'use = "subject"\ncredulity = 1.0\nrigidity = 0.0\ndiscernment = 0.0\nrecall = 1.0'
OBEDIENT = trial(OBEYING, 'each = ["infallibility"]')
TWO_BELIEFS = ("beliefs = 1", "beliefs = 2")


@pytest.fixture
def ran(make_study):
    return make_study(OBEDIENT, MIXED, TWO_BELIEFS, steps=RUN)


def test_telling_true_from_false_evidence_is_measured_and_printed(ran, chimera):
    found = chimera("analyse", ran.path, "--json").json["subjects"][0]
    arms = {arm["arm"]: arm for arm in found["arms"]}
    stressed = arms["infallibility"]["measures"]
    assert stressed["belief_update"]["value"] == stressed["false_update"]["value"] == 1
    assert stressed["discrimination"]["value"] == 0
    aimed = {e["measure"] for e in found["contrasts"] if e["role"] == "primary"}
    assert {"discrimination", "false_update"} <= aimed
    printed = chimera("analyse", ran.path, "--full").out
    assert "discrimination" in printed
    assert "fooled" in printed


def test_delivered_dose_is_next_to_the_measures(ran, chimera):
    arms = chimera("analyse", ran.path, "--json").json["subjects"][0]["arms"]
    doses = {arm["arm"]: arm["delivered"] for arm in arms}
    assert doses["control"] == doses["sham"] == {}
    assert 0 < doses["infallibility"]["infallibility"] < 1
    assert "dose delivered" in chimera("analyse", ran.path).out
    assert chimera("report", ran.path).code == 0
    page = (ran.path / "report" / "index.html").read_text()
    assert "true evidence followed minus false evidence followed" in page
    with next((ran.path / "report").rglob("delivered.csv")).open() as file:
        shown = {(row["arm"], row["what"]): float(row["share"]) for row in csv.DictReader(file)}
    dose = doses["infallibility"]["infallibility"]
    assert shown["infallibility", "infallibility"] == pytest.approx(dose)


def test_which_evidence_was_false_is_stored_verified_and_exported(ran, chimera, tmp_path):
    assert chimera("verify", ran.path).code == 0
    assert chimera("export", ran.path, "--format", "csv", "--out", tmp_path / "out").code == 0
    with (tmp_path / "out" / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = {(row["prompt"], row["item"]): row["evidence"] for row in rows if row["phase"]}
    assert sorted(kinds.values()) == ["false"] * 3 + ["true"] * 3
    assert {row["evidence"] for row in rows if not row["phase"]} == {""}


def test_evidence_of_two_kinds_needs_two_beliefs(make_study):
    with pytest.raises(InputError, match=r'evidence = "mixed" needs two beliefs .* has 1'):
        _ = make_study(OBEDIENT, MIXED).plan
