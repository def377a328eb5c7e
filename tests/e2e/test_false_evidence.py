"""Mixed evidence from the plan to the page: locked, run, verified, exported, analysed, reported."""

import csv

import pytest

from chimeralab import pipeline
from chimeralab.core.errors import InputError
from tests.small_trial import make_trial

MIXED = """
[stressors.infallibility]
evidence = "mixed"
strength = 1.0
"""
# It believes all feedback and all evidence: it obeys the last voice.
OBEYING = 'use = "subject"\ncredulity = 1.0\nrigidity = 0.0\ndiscernment = 0.0\nrecall = 1.0'
DESIGN = 'each = ["infallibility"]'


def make(folder, more=MIXED, beliefs=2):
    study = make_trial(folder, OBEYING, DESIGN, more=more)
    plan = study.plan_path.read_text().replace("beliefs = 1", f"beliefs = {beliefs}")
    study.plan_path.write_text(plan)
    return study


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    study = make(tmp_path_factory.mktemp("mixed") / "study")
    pipeline.lock(study)
    pipeline.run(study)
    return study


def test_telling_true_from_false_evidence_is_measured_and_printed(ran, chimera):
    found = chimera("analyse", ran.path, "--json").json["subjects"][0]
    arms = {arm["arm"]: arm for arm in found["arms"]}
    stressed = arms["infallibility"]["measures"]
    assert stressed["belief_update"]["value"] == stressed["false_update"]["value"] == 1
    assert stressed["discrimination"]["value"] == 0
    aimed = {e["measure"] for e in found["contrasts"] if e["role"] == "primary"}
    assert {"discrimination", "false_update"} <= aimed
    printed = chimera("analyse", ran.path).out
    assert "discrimination" in printed
    assert "fooled" in printed


def test_the_delivered_dose_stands_beside_the_measures(ran, chimera):
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


def test_evidence_of_two_kinds_needs_two_beliefs(tmp_path):
    with pytest.raises(InputError, match=r'evidence = "mixed" needs two beliefs .* has 1'):
        _ = make(tmp_path / "study", beliefs=1).plan


def test_a_plan_with_true_evidence_is_locked_as_before(tmp_path):
    bare, stated = (
        make(tmp_path / name, more).plan.trial.as_dict()
        for name, more in (("bare", ""), ("stated", MIXED.replace("mixed", "true")))
    )
    assert "evidence" not in bare
    assert "evidence" not in stated["arms"]["infallibility"]["stressors"]["infallibility"]
