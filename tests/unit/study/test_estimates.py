"""Estimates are computed once; later commands read them exactly or report a change."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab import pipeline
from chimeralab.analysis import Analysis
from chimeralab.core.schema import json_text
from chimeralab.report.named_numbers import load_numbers
from chimeralab.selfplay.specifications import SpecificationCurve
from chimeralab.study import Study
from chimeralab.study.estimates import CHANGED, FILE, Estimates
from chimeralab.trial.analysis import TrialAnalysis
from tests.plans import LOOPERS, STRESSED
from tests.studies import DETECTED, RUN, MakeStudy

REPORTED = (*DETECTED, "report")


def refuse() -> Analysis:
    raise AssertionError("computed again")


def take_nothing(study: Study) -> tuple[dict[str, object], list[str]]:
    """The estimates that a reader gets, and the messages."""
    told: list[str] = []
    return dict(load_numbers(study, told.append)), told


def test_trial_estimates_come_back_exactly(make_study: MakeStudy) -> None:
    study = make_study(STRESSED, steps=RUN)
    computed = pipeline.analyse_trial(study, Estimates(study, renew=True))
    read = pipeline.analyse_trial(Study(study.path, allow_code=True))
    assert read == computed
    assert json_text(read.as_dict()) == json_text(computed.as_dict())
    subject = read.subjects[0]
    assert {type(arm.arm) for arm in subject.arms} == {
        type(a.arm) for a in computed.subjects[0].arms
    }


def test_selfplay_estimates_come_back_exactly(
    make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(LOOPERS, steps=DETECTED)
    computed = take_nothing(study)
    assert not (study.path / FILE).exists(), "a reader writes nothing"
    reported = make_study(LOOPERS, steps=REPORTED, name="reported")
    monkeypatch.setattr(pipeline, "analyse", refuse)
    assert repr(take_nothing(reported)) == repr(computed)


def test_a_report_reads_the_curve_that_an_earlier_one_stored(make_study: MakeStudy) -> None:
    estimates = Estimates(make_study(LOOPERS, steps=REPORTED))
    curve = estimates.get_or_compute(SpecificationCurve, refuse, {})  # type: ignore[arg-type]
    assert len(curve.specifications) == curve.distinct_detectors


def test_changed_records_are_analysed_again_with_a_message(make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, steps=REPORTED)
    assert take_nothing(study)[1] == []
    with sqlite3.connect(study.store_path) as db:
        db.execute("UPDATE detections SET detection = json_set(detection, '$.turns', 99)")
    before = (study.path / FILE).read_bytes()
    assert take_nothing(Study(study.path))[1] == [CHANGED]
    assert (study.path / FILE).read_bytes() == before


@pytest.mark.parametrize("command", ["analyse", "report"])
def test_commands_say_once_that_stale_estimates_are_computed_again(
    make_study: MakeStudy, chimera: Callable[..., Any], command: str
) -> None:
    study = make_study(LOOPERS, steps=REPORTED)
    assert CHANGED not in chimera(command, study.path).err
    with sqlite3.connect(study.store_path) as db:
        db.execute("UPDATE detections SET detection = json_set(detection, '$.turns', 15)")
    assert chimera(command, study.path).err.splitlines().count(CHANGED) == 1
    assert CHANGED not in chimera(command, study.path).err


@pytest.mark.parametrize("text", ["", "[]", '{"Analysis": 3}', '{"Analysis": {"key": "x"}}'])
def test_damaged_file_is_ignored(make_study: MakeStudy, text: str) -> None:
    study = make_study(LOOPERS, steps=DETECTED)
    expected, _ = take_nothing(study)
    (study.path / FILE).write_text(text)
    assert take_nothing(study)[0] == expected


def test_estimates_with_other_seeds_are_not_stored(make_study: MakeStudy) -> None:
    study = make_study(STRESSED, steps=RUN)
    found = pipeline.analyse_trial(study, Estimates(study, renew=True), seed=2)
    assert isinstance(found, TrialAnalysis)
    assert not (study.path / FILE).exists()


def test_moved_study_keeps_its_estimates(make_study: MakeStudy, tmp_path: Path) -> None:
    study = make_study(LOOPERS, steps=REPORTED)
    moved = study.path.rename(tmp_path / "elsewhere")
    assert take_nothing(Study(moved))[1] == []
