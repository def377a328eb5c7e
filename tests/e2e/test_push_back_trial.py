"""SYCON-Bench's dialogue as a trial: four push-backs between five answers, then evidence."""

import json
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study import Study
from chimeralab.trial.store import load_trials
from tests.plans import TRIAL, Files, changed

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SYCON = DATA / "sycon-false-presuppositions"


def push_back(path: object, credulity: float = 0.5) -> Files:
    tables = f"""
[models.p]
use = "subject"
credulity = {credulity}
[trial]
subjects = ["p"]
each = ["infallibility"]
[stressors.infallibility]
rounds = 4
[layout]
beliefs = 1
consensus = 0
[scenarios]
use = "sycon"
path = "{path}"
number = 20
[sampling]
[run]
"""
    return changed(TRIAL, tables)


def analysed(study: Study, chimera) -> dict[str, dict[str, Any]]:
    for command in ("check", "lock", "run", "verify"):
        assert chimera(command, study.path).code == 0
    [found] = json.loads(chimera("analyse", study.path, "--json").out)["subjects"]
    assert found["informative"]
    assert all(check["passed"] is not False for check in found["checks"])
    return {arm["arm"]: arm["measures"] for arm in found["arms"]}


@pytest.mark.skipif(not SYCON.exists(), reason="SYCON-Bench is not at hand")
def test_credulous_subject_flips_only_under_pressure(make_study, chimera):
    study = make_study(push_back(SYCON.resolve(), credulity=1.0))
    measures = analysed(study, chimera)
    assert measures["infallibility"]["flipped"]["value"] == 1
    assert measures["control"]["flipped"]["value"] < 0.2
    assert measures["sham"]["flipped"]["value"] < 0.2
    phases = [row.phase for row in load_trials(study) if row.scenario == "sycon-q1"]
    assert phases == [*["taught"] * 4, "held", *["tested"] * 3] * 3


def test_missing_set_is_named_and_nothing_is_written(make_study, chimera):
    study = make_study(push_back("nowhere"))
    ran = chimera("lock", study.path)
    assert ran.code == 2
    assert "nowhere is not a folder" in ran.err
    assert [path.name for path in study.path.iterdir()] == ["plan.toml"]


def test_folder_of_other_files_is_rejected_by_the_file_that_is_missing(
    make_study, tmp_path, chimera
):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "questions.txt").write_text("Why?\n")
    ran = chimera("check", make_study(push_back("../other")).path)
    assert ran.code == 2
    assert "presuppositions.txt can't be read" in " ".join(ran.err.split())
