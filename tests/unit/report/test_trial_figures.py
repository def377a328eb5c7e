"""Figures and sessions of a trial: they show the numbers of the analysis, and nothing hostile."""

import sqlite3

import pytest

from chimeralab.errors import InputError
from chimeralab.pipeline import analyse_trial
from chimeralab.report.figure import svg
from chimeralab.report.trial_figures import dose_response, effect_forest
from chimeralab.report.trial_session import session_html
from chimeralab.study import Study, run_study

PLAN = """
[study]
name = "trial"
kind = "trial"
[models.p]
use = "subject"
[trial]
subjects = ["p"]
dose = { conformity.size = [1, 8] }
probes = ["alone"]
[scenarios]
use = "consensus"
number = 3
items = 6
[layout]
beliefs = 0
consensus = 1.0
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    (folder / "plan.toml").write_text(PLAN)
    study = Study(folder)
    run_study(study)
    return study


def test_a_dose_response_holds_every_dose_with_its_value(study):
    [subject] = analyse_trial(study).subjects
    chart = dose_response(subject, "accuracy", "conformity")
    spec = chart.to_dict()
    rows = spec["datasets"][spec["layer"][2]["data"]["name"]]
    by_dose = {arm.dose: arm.measures["accuracy"].value for arm in subject.arms}
    assert {row["dose"]: row["value"] for row in rows} == {d: by_dose[d] for d in (1.0, 8.0)}
    assert "dose of conformity" in svg(chart)


def test_a_forest_names_every_arm_and_nothing_is_drawn_without_effects(study):
    [subject] = analyse_trial(study).subjects
    drawn = svg(effect_forest(subject, "accuracy"))
    assert "conformity-size-8" in drawn
    assert effect_forest(subject, "belief_update") is None
    assert dose_response(subject, "accuracy", "amnesia") is None


def test_a_session_shows_its_injections_in_place_and_escapes_all_text(study):
    session = "conformity-size-8/consensus-1/1"
    with sqlite3.connect(study.store_path) as db:
        hostile = "<script>alert(1)</script>"
        db.execute("UPDATE turns SET text = ? WHERE trajectory = ?", (hostile, session))
    page = session_html(study, session)
    assert page.count("<li>") == 6
    assert page.count("&lt;script&gt;") == 6
    assert "conformity: injected" in page
    assert "Participant 8" in page
    assert "<script>" not in page
    with pytest.raises(InputError, match="no session"):
        session_html(study, "nobody/x/1")
