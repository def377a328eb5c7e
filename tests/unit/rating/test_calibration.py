"""Calibration: a practice set, the agreement of its raters, then the lock."""

import json
import sqlite3
from contextlib import closing

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.calibration import calibrate, next_steps
from chimeralab.rating.gate import Gate
from chimeralab.rating.plan import load_calibrations, load_study_rubric
from chimeralab.rating.raters import rate_study
from chimeralab.rating.rubric import VERSIONS, load_rubric, lock_path, lock_rubric
from chimeralab.rating.samples import draw, load_samples
from chimeralab.rating.study_audit import audit_study
from chimeralab.study import Study
from chimeralab.study.verify import verify_study
from tests.plans import RATED

DONE = ("lock", "run")
# The alternative that comes with the package, which nobody has been compared on.
DRAFT = '[rubric]\nversion = "4.0"\n'
CONTRARY = ('use = "judging:Judge"', 'use = "judging:Judge"\nmanner = "contrary"')
BAR = Gate(("rules", "judge"), sample=8, rule="point", threshold=0.8)


@pytest.fixture
def rated(make_study):
    """A study with the uncalibrated rubric, rated by the rules and by a model."""

    def make(*changes):
        study = make_study(RATED, DRAFT, *changes, steps=DONE)
        for rater in ("rules", "judge"):
            rate_study(study, rater)
        return study

    return make


def test_practice_set_is_drawn_before_anything_is_compared(make_study):
    study = make_study(RATED, DRAFT, steps=DONE)
    found = calibrate(study, BAR)
    assert (found["sample"], found["passed"]) == ("calibration-1", None)
    assert found["missing"] == {"rules": 8, "judge": 8}
    assert next_steps(study, found) == [
        f"chimera rate {study.path} --rater rules --only calibration-1",
        f"chimera rate {study.path} --rater judge --only calibration-1",
        f"chimera calibrate {study.path}",
    ]
    assert load_calibrations(study) == []
    assert load_study_rubric(study).state == "draft"


def test_people_are_invited_to_the_practice_set(make_study):
    study = make_study(RATED, DRAFT, steps=DONE)
    found = calibrate(study, Gate(("rules", "human:ann"), sample=4, rule="point"))
    assert f"chimera rate invite {study.path} ann --only calibration-1" in next_steps(study, found)


def test_agreement_locks_the_rubric_in_the_study(rated):
    study = rated()
    with pytest.raises(InputError, match="a gate needs a locked one: run `chimera calibrate`"):
        audit_study(study)
    record = calibrate(study, BAR)
    assert (record["passed"], record["kappa"], record["items"]) == (True, 1.0, 8)
    assert record["kappa_ci"][0] < 1
    rubric = load_study_rubric(study)
    assert (rubric.state, rubric.warning) == ("locked", "")
    assert (rubric.history[-1].kappa, rubric.history[-1].items) == (1.0, 8)
    draw(study, "gate", 6, seed=1)
    assert audit_study(study).gate.declared


def test_practice_set_shares_no_item_with_the_gate(rated):
    study = rated()
    calibrate(study, BAR)
    gate = draw(study, "gate", 6, seed=1)
    practice = next(each for each in load_samples(study) if each.kind == "calibration")
    assert not set(gate.ids) & set(practice.ids)
    assert practice.used


def test_calibrating_again_shows_the_result_and_changes_nothing(rated):
    study = rated()
    record = calibrate(study, BAR)
    assert calibrate(study) == record
    with pytest.raises(InputError, match=r"4\.0 was calibrated on calibration-1 with a kappa of 1"):
        calibrate(study, BAR)
    assert load_calibrations(study) == [record]


def test_disagreement_leaves_the_rubric_a_draft_and_stays_on_record(rated):
    study = rated(CONTRARY)
    record = calibrate(study, BAR)
    assert record["passed"] is False
    assert len(record["disagreements"]) == 8
    assert load_study_rubric(study).state == "draft"
    with pytest.raises(InputError, match="who rates the practice set"):
        calibrate(study)
    again = calibrate(study, BAR)
    assert again["sample"] == "calibration-2"
    assert [each["sample"] for each in load_calibrations(study)] == [
        "calibration-1", "calibration-2",
    ]  # fmt: skip
    first, second = load_samples(study)
    assert not set(first.ids) & set(second.ids)


def test_bar_of_a_practice_set_cannot_be_changed(make_study):
    study = make_study(RATED, DRAFT, steps=DONE)
    calibrate(study, BAR)
    lower = Gate(("rules", "judge"), sample=8, rule="point", threshold=0.1)
    with pytest.raises(InputError, match="under way for rules and judge with a kappa of at least"):
        calibrate(study, lower)
    assert calibrate(study, BAR)["passed"] is None


@pytest.mark.parametrize(
    ("raters", "complaint"),
    [
        (("rules", "jugde"), "unknown rater 'jugde'"),
        ((), "who rates the practice set"),
    ],
)
def test_unusable_raters_are_rejected(make_study, raters, complaint):
    study = make_study(RATED, DRAFT, steps=DONE)
    with pytest.raises(InputError, match=complaint):
        calibrate(study, Gate(raters, sample=8, rule="point"))
    assert load_samples(study) == []


def test_calibration_comes_after_the_run(make_study):
    with pytest.raises(InputError, match="has not been run yet"):
        calibrate(make_study(RATED, DRAFT, steps=("lock",)), BAR)


def test_calibration_comes_before_the_gate(make_study):
    study = make_study(RATED, steps=DONE)
    for rater in ("rules", "judge"):
        rate_study(study, rater)
    draw(study, "gate", 6, seed=1)
    audit_study(study)
    with pytest.raises(InputError, match="the gate was decided on gate-1"):
        calibrate(study, BAR)


def test_locked_rubric_can_be_calibrated_too(make_study):
    study = make_study(RATED, steps=DONE)
    for rater in ("rules", "judge"):
        rate_study(study, rater)
    record = calibrate(study, BAR)
    assert record["rubric"]["version"] == "3.0"
    # What was published for it stays in its history.
    assert load_study_rubric(study).history[-1].kappa == 0.566


def test_verify_finds_a_calibration_that_was_tampered_with(rated):
    study = rated(CONTRARY)
    calibrate(study, BAR)
    assert verify_study(study).findings == ()
    with closing(sqlite3.connect(study.store_path)) as db, db:
        [(key, value)] = db.execute("SELECT * FROM study WHERE key LIKE 'calibration of%'")
        forged = json.dumps(json.loads(value) | {"passed": True, "kappa": 0.9})
        db.execute("UPDATE study SET value = ? WHERE key = ?", (forged, key))
    found = [str(each) for each in verify_study(Study(study.path, allow_code=True)).findings]
    assert any("calibration of rubric" in each for each in found)
    assert "calibration on calibration-1: its record differs from its labels: kappa" in found


def test_own_rubric_is_locked_by_a_calibration_and_keeps_its_hash(make_study):
    draft = VERSIONS["4.0"].read_bytes()
    files = RATED | {"mine.toml": draft.decode()}
    study = make_study(files, '[rubric]\nfile = "mine.toml"\n', steps=DONE)
    for rater in ("rules", "judge"):
        rate_study(study, rater)
    record, path = calibrate(study, BAR), study.path / "mine.toml"
    before = load_rubric(path)
    with pytest.raises(InputError, match="only a calibrated rubric without a lock"):
        lock_rubric(path)
    locked = lock_rubric(path, {"kappa": record["kappa"], "items": record["items"]})
    assert (locked.state, locked.sha256) == ("locked", before.sha256)
    assert load_rubric(path).history[-1].kappa == record["kappa"]
    # The study in which it was calibrated still has its rubric.
    assert load_study_rubric(Study(study.path, allow_code=True)).state == "locked"
    lock_path(path).write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.lock is damaged"):
        load_rubric(path)
    lock_path(path).unlink()
    with pytest.raises(InputError, match=r"mine\.lock is missing"):
        load_rubric(path)
