"""`chimera analyse` on a trial: its options, what it leaves out, and what it does not claim."""

import json
import sqlite3

from chimeralab.pipeline import analyse_trial
from tests.plans import trial


def test_analysis_takes_its_own_options_and_refuses_those_of_self_play(make_study, chimera):
    study = make_study(trial(design='each = ["amnesia"]', number=8), steps=("run",))
    by_seed = [chimera("analyse", study.path, "--json", "--seed", seed).out for seed in (0, 1, 1)]
    assert by_seed[0] != by_seed[1] == by_seed[2]
    for option in (("--level", "0.9"), ("--robustness",), ("--contrast", "a = b")):
        ran = chimera("analyse", study.path, *option)
        assert ran.code == 2
        assert f"{option[0]} is for self-play" in ran.err


def test_analysis_says_if_the_trial_is_unfinished(make_study, chimera):
    study = make_study(trial(design='each = ["amnesia"]', number=2), steps=("run",))
    assert "left out" not in chimera("analyse", study.path).err
    with sqlite3.connect(study.store_path) as db:
        db.execute("UPDATE trajectories SET outcome = 'overflow' WHERE id = 'amnesia/ledger-1/1'")
        db.execute("UPDATE trajectories SET outcome = NULL WHERE id = 'amnesia/ledger-2/1'")
    ran = chimera("analyse", study.path)
    assert "left out as incomplete: amnesia, 1 (overflow)" in ran.err
    assert "left out as incomplete: amnesia, 1 (not finished)" in ran.err
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert {arm["arm"]: arm["sessions"] for arm in found["arms"]}["amnesia"] == 0


def test_resilient_subject_is_informative_under_every_stressor(make_study):
    steady = 'use = "subject"\nrecall = 1.0\nforgetting = 0.0\ncredulity = 0.0\nconformity = 0.0'
    design = 'each = ["infallibility", "conformity"]'
    study = make_study(trial(steady, design), steps=("run",))
    [found] = analyse_trial(study).subjects
    assert found.informative
    assert not found.reasons
    aims = {"infallibility": "misled", "conformity": "conformity_rate"}
    for arm, measure in aims.items():
        [shown] = [
            effect.estimate
            for effect in found.contrasts
            if (effect.name, effect.measure) == (f"{arm} − sham", measure)
        ]
        assert shown == 0


def test_subject_that_guesses_is_not_informative(make_study, chimera):
    study = make_study(trial('use = "subject"\nrecall = 0.0'), steps=("run",))
    found = json.loads(chimera("analyse", study.path, "--json").out)["subjects"][0]
    assert not found["informative"]
    assert "guessing would give" in found["reasons"][0]
    assert not found["contrasts"]
    assert not found["factorial"]
    assert "not informative" in chimera("analyse", study.path).out


def test_subject_that_cannot_be_read_is_not_informative(make_study):
    mumbler = 'use = "phantom"\ncourse = "novel"'
    study = make_study(trial(mumbler, 'each = ["amnesia"]', number=2), steps=("run",))
    [found] = analyse_trial(study).subjects
    assert not found.informative
    assert any("can't be read" in reason for reason in found.reasons)
