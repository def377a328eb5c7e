"""A trial with a custom stressor, probe, countermeasure and scenario."""

import csv
import json
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.trial.store import load_trials
from tests.studies import RUN

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_trial.py"
PLAN = """
[study]
name = "own parts"
kind = "trial"
[models.p]
use = "subject"
conformity = 2
[trial]
subjects = ["p"]
each = ["rumour"]
factorial = ["rumour", "amnesia"]
countermeasures = ["own_trial:Caution"]
dose = { rumour = { times = [0, 1] } }
[stressors.rumour]
use = "own_trial:Rumour"
times = 3
[probes.mood]
use = "own_trial:Mood"
[arms.loud]
stressors = { rumour = { times = 5 } }
countermeasure = { use = "own_trial:Caution" }
[arms.hushed]
stressors = { rumour = {} }
sham = true
[scenarios]
use = "own_trial:Orchestra"
number = 3
[layout]
lag = 1
beliefs = 1
tested = 1
recall_every = 1
[run]
concurrency = 4
"""


FILES = {"plan.toml": PLAN, EXAMPLE.name: EXAMPLE.read_text(encoding="utf-8")}


def test_custom_parts_run_through_a_whole_trial_under_their_names(make_study, tmp_path, chimera):
    study = make_study(FILES)
    for step in ("lock", "run", "verify"):
        assert chimera(step, study.path).code == 0, step
    arms = list(study.plan.own.arms)
    assert {"rumour", "rumour-times-1", "rumour+amnesia", "rumour-with-warning"} <= set(arms)

    lock = json.loads((study.path / "plan.lock").read_text())["resolved"]
    code = {"own_trial:Rumour", "own_trial:Mood", "own_trial:Caution", "own_trial:Orchestra"}
    assert code == lock["outside_code"].keys()
    assert lock["trial"]["own"]["stressors.rumour"]["settings"] == {"times": 3}

    with study.archive() as archive:
        query = "SELECT DISTINCT t.condition, e.kind FROM events e JOIN trajectories t"
        done = {tuple(row.values()) for row in archive.rows(f"{query} ON t.id = e.trajectory")}
        moods = archive.value("SELECT count(*) FROM probes WHERE probe = 'mood'")
        trials = archive.value("SELECT count(*) FROM trials")
    assert moods == trials
    assert {("rumour", "rumour"), ("hushed", "sham"), ("rumour-with-warning", "warning")} <= done
    assert ("control", "rumour") not in done
    assert ("rumour-times-0", "rumour") not in done

    rows = list(load_trials(study))
    assert {row.arm for row in rows if row.bias} == {
        "rumour", "rumour-times-1", "rumour+amnesia", "rumour-with-warning", "loud",
    }  # fmt: skip
    said = {row.recall_states.relation for row in rows if row.recall_states}
    assert said == {"plays|bows"}

    ran = chimera("analyse", study.path, "--json")
    assert ran.code == 0
    [subject] = ran.json["subjects"]
    checks = {(check["name"], check["arm"]): check["passed"] for check in subject["checks"]}
    assert checks["rumour heard", "rumour"] is True
    assert checks["rumour heard", "rumour-times-0"] is True
    assert [each["name"] for each in subject["doses"][:1]] == ["dose of rumour.times"]

    assert chimera("report", study.path).code == 0
    page = (study.path / "report" / "index.html").read_text(encoding="utf-8")
    assert "rumour (passers-by who name a wrong answer)" in page
    assert "the mood in one word" in page
    assert chimera("export", study.path, "--format", "csv", "--out", tmp_path / "out").code == 0
    with (tmp_path / "out" / "probes.csv").open(newline="", encoding="utf-8") as file:
        assert "mood" in {row["probe"] for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('Rumour"\ntimes = 3', 'Orchestra"', r"\[stressors.rumour\] .*not a Stressor"),
        ("own_trial:Mood", "own_trial:Caution", r"\[probes.mood\] .*not a Probe"),
        ("[stressors.rumour]", "[stressors.conformity]", "is a built-in stressor"),
        ("[probes.mood]", "[probes.recall]", "is a built-in probe"),
        ('each = ["rumour"]', 'each = ["rumor"]', "unknown stressor 'rumor' .*rumour"),
        ('each = ["rumour"]', 'probes = ["recall"]', r"\[probes.mood\] is never asked"),
        ("times = 3", 'times = "often"', r"\[stressors.rumour\] times"),
        ('against: ClassVar[str] = "rumour"', "", "has no attribute `against`"),
        ("return step.lure is not None", "return False", r"\[stressors.rumour\] never acts on"),
    ],
)
def test_invalid_part_is_rejected_before_the_lock(make_study, old, new, complaint):
    study = make_study(FILES, (old, new))
    with pytest.raises(InputError, match=complaint):
        study.plan  # noqa: B018


def test_built_in_stressor_can_have_another_name(make_study):
    crowd = ("[probes.mood]", '[stressors.crowd]\nuse = "conformity"\nsize = 9\n[probes.mood]')
    each = ('each = ["rumour"]', 'each = ["rumour", "crowd"]')
    plan = make_study(FILES, crowd, each, ("[layout]", "[layout]\nconsensus = 1")).plan.own
    course = plan.courses[0]
    script = plan.script("crowd", course.id, seed=1)
    answers = [step.truth for step in course.steps]
    turn = next(n for n, step in enumerate(course.steps, start=1) if step.consensus)
    [done] = script.scene(turn, answers).injections
    assert done.stressor == "crowd"
    assert "Participant 9" in done.text
    assert plan.arms["crowd"].cell == "00001"


def test_change_without_a_record_is_rejected(make_study, chimera):
    change = 'scene.saying("rumour", Utterance("others", said))'
    silent = "Scene(scene.opening, (), scene.present)"
    ran = chimera("run", make_study(FILES, (change, silent)).path)
    assert ran.code == 2
    assert "[stressors.rumour] changed a scene without recording it" in ran.err


def test_dose_of_a_built_in_part_is_known_without_running_code(make_study, chimera):
    alone = "[arms.loud]\nstressors = { rumour = { times = 5 } }"
    both = "[arms.loud]\nstressors = { rumour = { times = 5 }, infallibility = {} }"
    study = make_study(FILES, (alone, both), ("number = 3", "number = 1"), steps=RUN)
    [subject] = chimera("analyse", study.path, "--json").json["subjects"]
    [given] = [check for check in subject["checks"] if check["name"] == "feedback given"]
    assert (given["arm"], given["passed"]) == ("loud", True)
