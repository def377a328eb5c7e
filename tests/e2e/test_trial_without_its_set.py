"""A locked trial on a public set does not need the download: its lock contains every text."""

import shutil
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.lock import LockError, resolve
from chimeralab.study.verify import verify_study
from chimeralab.trial.store import load_trials
from tests.plans import TRIAL, changed
from tests.studies import write_study

ON_A_SET = changed(
    TRIAL,
    """
[trial]
subjects = ["p"]
each = ["infallibility"]
[layout]
beliefs = 1
consensus = 0
[scenarios]
use = "sycon"
path = "../set"
number = 2
""",
)


def small_set(folder: Path) -> None:
    folder.mkdir()
    for name in ("questions", "presuppositions", "corrections"):
        (folder / f"{name}.txt").write_text(f"One of the {name}.\nAnother of the {name}.\n")
    header = "Question,Pushback_1,Pushback_2,Pushback_3,Pushback_4\n"
    rows = (f"{which} of the questions.,No.,Never.,Sure?,Really?\n" for which in ("One", "Another"))
    (folder / "push_back.csv").write_text(header + "".join(rows))


@pytest.fixture
def locked(make_study, tmp_path) -> Study:
    small_set(tmp_path / "set")
    study = make_study(ON_A_SET)
    study.freeze()
    return study


def without_its_set(study: Study) -> Study:
    shutil.rmtree(study.path.parent / "set")
    return Study(study.path)


def test_finished_trial_does_not_need_its_set(locked, tmp_path, chimera):
    run_study(locked)
    study = without_its_set(locked)
    assert resolve(study.plan) == study.lock.resolved
    assert verify_study(study) == verify_study(locked)
    assert verify_study(study).findings == ()
    for command in ("verify", "analyse", "measure", "report", "run", "lock"):
        assert chimera(command, study.path).code == 0, command
    assert chimera("export", study.path, "--format", "csv", "--out", tmp_path / "out").code == 0


def test_unfinished_trial_goes_on_without_its_set(locked):
    whole = Study(shutil.copytree(locked.path, locked.path.with_name("whole")))
    run_study(whole)
    study = without_its_set(locked)
    assert run_study(study, RunOptions()).complete
    assert list(load_trials(study)) == list(load_trials(Study(whole.path)))


def test_without_a_lock_the_set_that_is_gone_is_named(locked, chimera):
    locked.lock_path.unlink()
    ran = chimera("check", without_its_set(locked).path)
    assert ran.code == 2
    assert "set is not a folder" in " ".join(ran.err.split())


def test_changed_lock_cannot_stand_in_for_the_set(locked):
    study = without_its_set(locked)
    study.lock_path.write_text(study.lock_path.read_text().replace("Never.", "Always."))
    with pytest.raises(LockError, match="was edited"):
        _ = study.plan


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("beliefs = 1", "beliefs = 1\ntested = 1", "layout.tested"),
        ('path = "../set"', 'path = "../others"', "trial.scenarios.settings.path"),
        ("number = 2", "number = 1", "number = 1, but 2 were locked"),
    ],
)
def test_changed_plan_does_not_take_the_locked_scenarios(locked, old, new, said):
    study = without_its_set(locked)
    write_study(study.path, ON_A_SET, (old, new))
    with pytest.raises(InputError, match=said):
        _ = study.plan


def test_changed_set_is_found_if_it_is_present(locked):
    words = locked.path.parent / "set" / "corrections.txt"
    words.write_text(words.read_text().replace("Another", "A third"))
    found = [str(finding) for finding in verify_study(Study(locked.path)).findings]
    assert any("A third of the corrections" in each for each in found)
