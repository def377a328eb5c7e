"""[perturbations.NAME]: conditions are crossed with treatments, and nonsense is refused."""

from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.text import neutral_text
from chimeralab.study import Study
from chimeralab.study.forecast import forecast
from chimeralab.study.lock import resolve
from tests.plans import PERTURBED


def test_every_condition_is_crossed_with_its_perturbations(make_study):
    other = '[conditions.trio]\nspeakers = ["stuck", "stuck", "stuck"]\n'
    study = make_study(PERTURBED, other)
    assert list(study.plan.conditions) == [
        *("duo.nudge", "duo.sham", "duo.none"),
        *("trio.nudge", "trio.sham", "trio.none"),
    ]
    assert study.plan.conditions["duo.sham"].schedule.after_onset == 1
    assert forecast(study.plan).conversations == 12


def test_a_perturbation_may_name_its_conditions(make_study):
    free = '[conditions.free]\nspeakers = ["stuck", "stuck"]\n'
    study = make_study(
        PERTURBED, free, ("after_onset = 1", 'after_onset = 1\nconditions = ["duo"]')
    )
    assert list(study.plan.conditions) == ["duo.nudge", "duo.sham", "duo.none", "free"]


def test_shares_are_turns_of_the_length(make_study):
    study = make_study(PERTURBED, ("after_onset = 1", "at_shares = [0.25, 0.5, 0.75]"))
    assert study.plan.conditions["duo.none"].schedule.at_turns == (3, 7, 10)
    assert not study.plan.needs_guard


def test_lock_has_the_treatments(make_study):
    locked = resolve(make_study(PERTURBED).plan)["conditions"]["duo.sham"]
    assert locked["countermeasure"]["settings"]["of"] == {"text": "Move on.", "turns": 4}
    assert locked["schedule"]["arm"] == "sham"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("after_onset = 1", "at_turns = [14]", r"nudge\] at_turns: no turn follows turn 14 of 14"),
        ("after_onset = 1", "at_turns = [12]\ntimes = 3", r"no turn follows turn 14 of 14"),
        ("after_onset = 1", "at_shares = [0.01]", r"at_shares: a share is before turn 1 of 14"),
        ("after_onset = 1", "at_turns = [0]", r"at_turns = \[0\]: "),
        ("after_onset = 1", "", r"needs one of at_turns, at_shares, after_onset"),
        ("after_onset = 1", "after_onset = 1\nat_turns = [2]", r"needs one of .*, not several"),
        ('use = "sham"\nof = "nudge"', 'use = "sham"', r"sham\] is a sham without a treatment"),
        ('use = "sham"\nof = "nudge"', 'use = "sham"\nof = "none"', r"unknown treatment 'none'"),
        ('"nudge"\ntext = "Move on."', '"drop"\nlast = 2', r"says nothing that could be neutral"),
        ('use = "nudge"', 'use = "nudge"\nof = "sham"', r"has of = 'sham', which is for sham and"),
        ("after_onset = 1", 'after_onset = 1\nconditions = ["solo"]', r"unknown condition 'solo'"),
        (
            "turns = 14",
            "turns = 14\nstop_early = true",
            r"acts after an onset, at which stop_early",
        ),
        ('use = "sham"', 'use = "sham"\ntext = "x"', r"unknown key 'text'"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(old, new, complaint, make_study, chimera):
    study = make_study(PERTURBED, (old, new))
    with pytest.raises(InputError, match=complaint):
        _ = study.plan
    assert chimera("check", study.path, "--offline").code == 2


def test_condition_with_a_countermeasure_is_not_perturbed_too(make_study):
    measure = '"stuck"]\ncountermeasure = { use = "nudge" }'
    study = make_study(PERTURBED, ('"stuck"]', measure))
    with pytest.raises(InputError, match=r"has a countermeasure, and duo\.nudge"):
        _ = study.plan


def test_a_nudge_frees_a_phantom_that_its_sham_does_not(make_study):
    study = make_study(PERTURBED, steps=("lock", "run", "detect"))
    with study.archive() as archive:
        said = {each.id: [turn.text for turn in each.turns] for each in archive.trajectories()}
        events = {
            row["trajectory"]: (row["turn"], row["kind"], row["detail"])
            for row in archive.rows("SELECT * FROM events")
        }
    assert set(events) == set(said)
    turn, kind, detail = events["duo.sham/p1/1"]
    assert kind == "intervention"
    assert neutral_text(8) in detail
    assert events["duo.none/p1/1"][:2] == (turn, "mark")
    for talk, texts in said.items():
        freed = len(set(texts[turn:])) > 1
        assert freed == talk.startswith("duo.nudge")


def test_the_plan_of_the_replication_is_valid_and_of_the_size_that_it_says():
    folder = Path(__file__).parents[3] / "studies" / "replication"
    plan = Study(folder).plan
    homogeneous = [f"HOMO_{letter}" for letter in "ABC"]
    arms = [f"ESCAPE.{arm}" for arm in ("nudge", "sham", "none")]
    assert list(plan.conditions) == [*homogeneous, "HETERO_ROT", *arms]
    expected = forecast(plan)
    said = (folder / "README.md").read_text(encoding="utf-8")
    assert f"{expected.conversations} conversations\nand {expected.calls:,} replies" in said
    assert "0.66 if 50% of the runs loop" in str(expected.detectable[0])
    assert not list(folder.glob("*.lock"))
