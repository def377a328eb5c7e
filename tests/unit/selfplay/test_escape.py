"""Escape and relapse after a perturbation: definitions, comparisons, and what a plan may ask."""

import re
from dataclasses import replace

import pytest

from chimeralab.core.errors import InputError
from chimeralab.selfplay.escape import (
    Against,
    Escape,
    PerturbedLoop,
    analyse_escape,
    follow_turns,
    list_comparisons,
    load_courses,
    load_escape,
)
from chimeralab.study.verdicts import load_detections
from tests.plans import PERTURBED

STEPS = ("lock", "run", "detect")


@pytest.fixture
def perturbed(make_study):
    return make_study(PERTURBED, steps=STEPS)


def course(arm, prompt, escape, relapse=None, **changes):
    found = PerturbedLoop("duo", arm, prompt, 8, 3, 30, False, escape, relapse)
    return found._replace(**changes)


def test_an_escape_is_complete_at_the_last_free_turn():
    assert follow_turns({3, 4, 5, 6, 9}, range(1, 14), 5) == (3, 7, None)
    assert follow_turns({3, 4, 5, 6, 9}, range(1, 14), 5, free=2) == (3, 3, 4)
    assert follow_turns({3, 4}, range(1, 5), 4) == (2, None, None)
    assert follow_turns({3}, range(1, 9), 5) == (0, 3, None)


def test_turns_that_were_not_judged_count_for_nothing():
    assert follow_turns({4}, [1, 2, 3, 4, 6, 8, 10], 4) == (1, 6, None)


def test_a_nudge_that_is_heeded_ends_every_loop_and_its_sham_none(perturbed):
    found = load_escape(perturbed, load_detections(perturbed))
    values = {arm: each.estimates["escape"].value for arm, each in found.arms.items()}
    assert values == {"nudge": 1.0, "sham": 0.0, "none": 0.0}
    differences = {e.name: e.estimate for e in found.comparisons if e.measure == "escape"}
    assert differences == {"nudge − sham": 1, "nudge − none": 1, "sham − none": 0}
    assert found.arms["nudge"].runs == found.arms["nudge"].prompts == 2
    assert found.arms["nudge"].states["loop"][0] == 1


def test_moments_are_those_of_the_events(perturbed):
    courses, left_out = load_courses(perturbed, load_detections(perturbed))
    with perturbed.archive() as archive:
        events = {row["trajectory"]: row["turn"] for row in archive.rows("SELECT * FROM events")}
    assert not left_out
    moments = [(f"{c.condition}.{c.arm}/{c.prompt}/1", c.moment) for c in courses]
    assert dict(moments) == events
    assert {c.followed + c.moment for c in courses} == {14}


def test_conversations_outside_of_a_loop_are_counted_and_left_out(make_study):
    study = make_study(PERTURBED, ("after_onset = 1", "at_turns = [1]"), steps=STEPS)
    _, left_out = load_courses(study, load_detections(study))
    assert left_out == {
        (arm, "not in a loop at the moment"): 2 for arm in ("nudge", "sham", "none")
    }


def test_differences_are_within_prompts_and_clustered_by_them():
    courses = [
        course(arm, prompt, escape)
        for prompt, (treated, not_treated) in enumerate([(4, None), (5, 6), (3, None), (9, None)])
        for arm, escape in (("nudge", treated), ("none", not_treated))
    ]
    courses = [each._replace(prompt=str(each.prompt)) for each in courses]
    asked = [Against("nudge", "none"), Against("nudge", "none", "turns_to_escape")]
    found = analyse_escape(courses, Escape(), ["nudge", "none"], asked)
    share, turns = found.comparisons
    assert (share.estimate, share.units, turns.units) == (0.75, 4, 4)
    assert share.interval == pytest.approx((0.75 - 0.7956, 0.75 + 0.7956), abs=1e-3)
    (small, holm), (large, last) = sorted((each.p or 1, each.p_holm) for each in (share, turns))
    assert holm == pytest.approx(2 * small)
    assert last == pytest.approx(max(large, 2 * small))
    assert turns.estimate == pytest.approx((4 + 5 + 3 + 9) / 4 - (12 + 6 + 12 + 12) / 4)


def test_relapse_counts_from_the_escape_and_among_the_escaped():
    courses = [course("nudge", str(n), 4, 6 if n < 3 else None) for n in range(4)]
    courses += [course("nudge", "9", None)]
    found = analyse_escape(courses, Escape(), ["nudge"], []).arms["nudge"].estimates
    assert (found["relapse"].value, found["relapse"].runs) == (0.75, 4)
    assert found["turns_to_relapse"].value == pytest.approx((2 * 3 + 12) / 4)


def test_older_loops_that_escape_less_are_entrenched():
    courses = [course("none", str(n % 6), None if n >= 6 else 4, looping=n + 1) for n in range(12)]
    found = analyse_escape(courses, Escape(), ["none"], []).entrenchment
    assert found.slope < 0
    assert found.interval.high < 0
    same = [each._replace(looping=3) for each in courses]
    alike = analyse_escape(same, Escape(), ["none"], []).entrenchment
    assert (alike.slope, alike.reason) == (None, "all loops were equally old")


def test_an_arm_without_loops_has_reasons_instead_of_numbers():
    found = analyse_escape([], Escape(), ["nudge", "none"], [Against("nudge", "none")])
    assert found.arms["nudge"].estimates["escape"].reason == "no conversation was in a loop"
    assert found.comparisons[0].reasons["p"] == "nudge: no conversation counts"


def test_loops_that_all_end_have_an_interval_too():
    courses = [course("nudge", str(n % 7), 4 + n % 3, followed=9 + n) for n in range(16)]
    found = analyse_escape(courses, Escape(horizon=7), ["nudge"], []).arms["nudge"]
    assert found.estimates["escape"].value == 1
    assert found.estimates["escape"].interval.low > 0.5
    late = [*courses[:6], *(course("nudge", str(n), None, followed=5) for n in range(5))]
    found = analyse_escape(late, Escape(horizon=6), ["nudge"], []).arms["nudge"]
    assert found.estimates["escape"].value == 1
    assert found.estimates["escape"].interval.low < 0.9


def test_treatments_are_compared_with_their_shams_and_marks(make_study):
    plan = make_study(PERTURBED).plan
    pairs = {
        (each.treatment, each.against, each.role)
        for each in list_comparisons(plan.conditions, Escape())
    }
    assert pairs == {
        ("nudge", "sham", "exploratory"),
        ("nudge", "none", "exploratory"),
        ("sham", "none", "exploratory"),
    }
    declared = replace(Escape(), comparisons=(Against("sham", "none"),))
    assert list_comparisons(plan.conditions, declared) == [Against("sham", "none")]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("[escape]\nhorizon = 14\n", "horizon = 14 must lie between free = 3 and the 14 turns"),
        ("[escape]\nfree = 13\n", "horizon = 12 must lie between free = 13"),
        ('[[escape.comparisons]]\ntreatment = "nuge"\nagainst = "none"\n', "unknown perturbation"),
        ('[[escape.comparisons]]\ntreatment = "none"\nagainst = "none"\n', "none with itself"),
    ],
)
def test_a_nonsensical_definition_is_refused(table, complaint, make_study):
    study = make_study(PERTURBED, table)
    with pytest.raises(InputError, match=re.escape(complaint)):
        _ = study.plan


def test_escape_without_a_perturbation_is_refused(make_study):
    none = "".join(f"[perturbations.{name}]\n" for name in ("nudge", "sham", "none"))
    study = make_study(PERTURBED, none, "[escape]\nfree = 2\n")
    with pytest.raises(InputError, match=r"\[escape\] needs a treatment"):
        _ = study.plan


def test_check_says_the_smallest_difference_that_can_be_found(make_study, chimera):
    declared = '[[escape.comparisons]]\ntreatment = "nudge"\nagainst = "sham"\n'
    study = make_study(PERTURBED, declared, ("turns = 14", "turns = 14\nrepeats = 12"))
    said = chimera("check", study.path, "--offline").out
    assert "primary outcome escape, nudge − sham: the smallest difference found" in said
    assert "100% of the runs loop" in said
