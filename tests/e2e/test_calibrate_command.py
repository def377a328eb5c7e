"""A rubric from draft to lock on the command line, and every place that says what it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab.rating.rubric import VERSIONS, load_rubric
from tests.plans import RATED, judge
from tests.studies import RUN, MakeStudy

Chimera = Callable[..., Any]

UNCALIBRATED = "the rubric sustained-collapse 4.0 is not calibrated"
DRAFT = '[rubric]\nversion = "4.0"\n'
SMALL = "[conversation]\nturns = 5\nrepeats = 4\n"
ASK = ("--rater", "rules", "--rater", "judge", "--size", 6)


def words(text: str) -> str:
    return " ".join(text.split())


def rate(chimera: Chimera, study: Path) -> None:
    for rater in ("rules", "judge"):
        assert chimera("rate", study, "--rater", rater).code == 0


def test_uncalibrated_rubric_is_named_by_check_audit_and_page(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(RATED, DRAFT, SMALL, steps=RUN).path
    assert UNCALIBRATED in words(chimera("check", study, "--offline").out)
    advice = chimera("check", study, "--offline", "--json").json["advice"]
    assert any(UNCALIBRATED in each for each in advice)
    rate(chimera, study)
    assert chimera("rate", "sample", study, "--for", "calibration", "--size", 6).code == 0
    assert UNCALIBRATED in words(chimera("audit", study, "--only", "calibration-1").err)
    assert chimera("report", study).code == 0
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "The rubric sustained-collapse 4.0 is not calibrated" in page
    assert "before that no gate is decided" in page


# What pays or asks raters, and the labels of which may decide a gate.
FOR_A_GATE = (
    "rate {} --rater judge",
    "rate sample {}",
    "rate invite {} ann",
    "rate packet {} {}/p",
)


@pytest.mark.parametrize("command", FOR_A_GATE)
def test_uncalibrated_rubric_is_named_before_anyone_rates_for_the_gate(
    chimera: Chimera, make_study: MakeStudy, command: str
) -> None:
    study = make_study(RATED, DRAFT, SMALL, steps=RUN).path
    ran = chimera(*command.format(study, study.parent).split())
    assert ran.code == 0
    said = words(ran.err)
    done = ("newly rated", "gate-1", "human:ann: ", "wrote packet")
    assert said.index(UNCALIBRATED) < min(said.index(each) for each in done if each in said)
    assert "`chimera calibrate` compares them, and before that no gate is decided" in said
    assert "no gate is decided" in words(chimera("check", study, "--offline").out)
    refused = chimera("audit", study)
    assert refused.code == 2
    assert "a gate needs a locked one" in words(refused.err)


def test_practice_set_is_rated_without_a_warning(chimera: Chimera, make_study: MakeStudy) -> None:
    study = make_study(RATED, DRAFT, SMALL, steps=RUN).path
    assert chimera("calibrate", study, *ASK).code == 0
    for command in ("rate {} --rater judge --only calibration-1", "rate {} --only calibration-1"):
        ran = chimera(*command.format(study).split())
        assert (ran.code, "calibrated" in words(ran.err)) == (0, False)


def test_rubric_without_a_gate_is_named_and_nothing_said_of_a_gate(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    gate = RATED["plan.toml"].partition("[gate]")[2].partition("\n[")[0]
    plan = {**RATED, "plan.toml": RATED["plan.toml"].replace(f"[gate]{gate}", "")}
    study = make_study(plan, DRAFT, SMALL).path
    said = words(chimera("check", study, "--offline").out)
    assert UNCALIBRATED in said
    assert "no gate is decided" not in said


def test_calibrated_rubric_is_named_nowhere_as_uncalibrated(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(RATED, SMALL, steps=RUN).path
    rate(chimera, study)
    told = chimera("check", study, "--offline")
    assert chimera("report", study).code == 0
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "calibrated" not in told.out + page


def test_calibration_goes_from_practice_set_to_gate(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(RATED, DRAFT, SMALL, ("sample = 6", "sample = 4"), steps=RUN).path
    drawn = chimera("calibrate", study, *ASK)
    assert drawn.code == 0
    assert "calibration-1: 6 left for rules, 6 left for judge" in words(drawn.err)
    assert f"chimera rate {study} --rater judge --only calibration-1" in words(drawn.err)
    for rater in ("rules", "judge"):
        assert chimera("rate", study, "--rater", rater, "--only", "calibration-1").code == 0
    met = chimera("calibrate", study)
    assert met.code == 0
    assert "kappa 1.0000 reaches 0.80 (95 % interval" in words(met.err)
    assert "sustained-collapse 4.0 is calibrated and locked" in words(met.err)
    assert chimera("calibrate", study, "--json").json["passed"] is True
    assert UNCALIBRATED not in words(chimera("check", study, "--offline").out)
    assert chimera("rate", "sample", study, "--for", "gate").code == 0
    rate(chimera, study)
    assert chimera("audit", study).code == 0
    record = (study / "audit" / "gate-record.md").read_text(encoding="utf-8")
    assert "rubric: sustained-collapse 4.0, sha256" in record
    assert "(kappa 1.000 on 6 items)" in record
    verified = chimera("verify", study, "--json").json
    assert verified["findings"] == []
    assert any("the calibration on calibration-1" in each for each in verified["checked"])


def test_raters_that_disagree_exit_with_1_and_list_the_differences(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(RATED, DRAFT, SMALL, judge("contrary"), steps=RUN).path
    rate(chimera, study)
    ran = chimera("calibrate", study, *ASK)
    assert ran.code == 1
    assert ran.err.count("they differ on") == 6
    assert "sustained-collapse 4.0 is NOT calibrated" in words(ran.err)
    assert chimera("audit", study).code == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "who rates the practice set?"),
        (("--size", 6), "a practice set is drawn for its raters: name them with --rater"),
        (("--rater", "rules"), "agreement needs two or more distinct raters"),
        (("--rater", "rules", "--rater", "nobody"), "unknown rater 'nobody'"),
        (("--rater", "rules", "--rater", "judge", "--size", 999), "can't be drawn from 16 items"),
    ],
)
def test_calibration_that_cannot_start_is_rejected(
    chimera: Chimera, make_study: MakeStudy, options: tuple[object, ...], complaint: str
) -> None:
    study = make_study(RATED, DRAFT, SMALL, steps=RUN).path
    ran = chimera("calibrate", study, *options)
    assert ran.code == 2
    assert complaint in words(ran.err)


def test_rubric_of_a_pilot_is_locked_for_other_studies(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    draft = chimera("rubric", "show", "4.0", "--toml").out
    assert draft == VERSIONS["4.0"].read_text(encoding="utf-8")
    files = RATED | {"mine.toml": draft}
    study = make_study(files, '[rubric]\nfile = "mine.toml"\n', SMALL, steps=RUN).path
    mine = study / "mine.toml"
    refused = chimera("rubric", "lock", mine, "--study", study)
    assert refused.code == 2
    assert "has no calibration of" in refused.err
    assert "only a calibrated rubric" in chimera("rubric", "lock", mine).err
    rate(chimera, study)
    assert chimera("calibrate", study, *ASK).code == 0
    assert chimera("rubric", "lock", mine, "--study", study).code == 0
    locked = load_rubric(mine)
    assert (locked.state, locked.history[-1].kappa, locked.history[-1].items) == ("locked", 1.0, 6)
    assert chimera("verify", study).code == 0


def test_rubrics_that_come_with_the_package_are_shown_by_version(chimera: Chimera) -> None:
    assert chimera("rubric", "show").out.startswith("# sustained-collapse, version 3.0 (locked)")
    shown = chimera("rubric", "show", "4.0").out
    assert shown.startswith("# sustained-collapse, version 4.0 (draft, not calibrated)")
    assert chimera("rubric", "show", "5.0").code == 2


def test_log_rated_by_the_draft_says_so(chimera: Chimera, tmp_path: Path) -> None:
    log = tmp_path / "talks.jsonl"
    log.write_text('{"id": "a", "turns": ["Again.", "Again.", "Again."]}\n', encoding="utf-8")
    default, draft = chimera("rate", log), chimera("rate", log, "--rubric", "4.0")
    assert "T0 to T2 are the same text" in words(default.out)
    assert "the first one T0; the field `turns` counts from 1" in words(default.err)
    assert "Turns 1 to 3 are the same text" in words(draft.out)
    assert UNCALIBRATED in words(draft.err)
    assert "T0" not in draft.err


def test_code_of_a_plan_rates_a_practice_set_once_it_is_allowed(
    stranger: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(RATED, DRAFT, SMALL, steps=RUN).path
    refused = stranger("calibrate", study, *ASK)
    assert (refused.code, "use --allow-code" in words(refused.err)) == (2, True)
    assert stranger("calibrate", study, *ASK, "--allow-code").code == 0
