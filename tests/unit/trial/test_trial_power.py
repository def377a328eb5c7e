"""Declared outcomes: their power before the run, and their correction after it."""

from dataclasses import replace

import pytest

from chimeralab.core.errors import InputError
from chimeralab.trial.analysis import analyse_sessions
from chimeralab.trial.effects import is_listed
from chimeralab.trial.forecast import detectable, simulate_session
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from tests.plans import SMALL_TRIAL as SMALL
from tests.plans import Change
from tests.studies import MakeStudy, write_study

PRIMARY = """
[[outcomes.primary]]
measure = "mci"
arm = "amnesia"
[[outcomes.primary]]
measure = "conformity_rate"
arm = "conformity"
against = "control"
[scenarios]"""
ALONE = """
[layout]
consensus = 1.0
[[outcomes.primary]]
measure = "conformity_rate"
arm = "conformity"
[scenarios]"""
DECLARED = ("[scenarios]", PRIMARY)
FREE = PhantomSubjectSettings(credulity=0.9, conformity=0.6, recall=0.8)


def trials_of(plan, settings=FREE):
    subject = PhantomSubject(settings)
    for condition in plan.arms:
        for course in plan.courses:
            yield from simulate_session(plan.script(condition, course.id, 7), subject, condition)


def analysed(plan, change=lambda trials: trials):
    return analyse_sessions(change(list(trials_of(plan))), plan, resamples=0)


@pytest.fixture(scope="module")
def undeclared(tmp_path_factory):
    """A plan without declared outcomes, and the analysis of a phantom in it."""
    folder = tmp_path_factory.mktemp("undeclared")
    plan = write_study(folder, SMALL, ("number = 2", "number = 4")).plan.own
    return plan, analysed(plan)


def small(make_study: MakeStudy, *changes: Change):
    return make_study(SMALL, ("number = 2", "number = 4"), *changes).plan.own


def test_only_declared_effects_are_primary_and_corrected_together(make_study):
    (subject,) = analysed(small(make_study, DECLARED)).subjects
    assert subject.informative
    primary = {e.short_name: e for e in subject.effects if e.role == "primary"}
    assert {(name, e.measure) for name, e in primary.items()} == {
        ("amnesia − sham", "mci"),
        ("conformity − control", "conformity_rate"),
    }
    ps = sorted(e.p for e in primary.values())
    holm = sorted(e.p_holm for e in primary.values())
    assert holm == pytest.approx([min(1, 2 * ps[0]), max(min(1, 2 * ps[0]), ps[1])])


def test_effects_on_aims_are_primary_unless_declared_otherwise(undeclared):
    (subject,) = undeclared[1].subjects
    measures = {e.measure for e in subject.effects if e.role == "primary"}
    assert {"recall", "conformity_rate", "misled"} <= measures
    assert "mci" not in measures


def test_three_metrics_are_listed_first(undeclared):
    (subject,) = undeclared[1].subjects
    for family in (subject.contrasts, subject.factorial):
        listed = dict.fromkeys(e.measure for e in family if is_listed(e))
        assert [*listed][:3] == ["mci", "gfq", "dfs"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('measure = "mci"', 'measure = "mcy"', "unknown measure 'mcy'"),
        ('arm = "amnesia"', 'arm = "amnesie"', "unknown arm 'amnesie'"),
        ('arm = "amnesia"', 'arm = "sham"', "compares 'sham' with itself"),
    ],
)
def test_declared_effect_that_cannot_be_estimated_is_rejected(make_study, old, new, said):
    with pytest.raises(InputError, match=said):
        _ = make_study(SMALL, ("[scenarios]", PRIMARY.replace(old, new, 1))).plan


def test_more_scenarios_detect_smaller_differences(make_study):
    few, many = (
        detectable(make_study(SMALL, ("number = 2", f"number = {n}"), DECLARED).plan.own)
        for n in (3, 9)
    )
    assert [each.measure for each in few] == ["mci", "conformity_rate"]
    for small_trial, large_trial in zip(few, many, strict=True):
        assert small_trial.difference > large_trial.difference > 0
        assert "9 scenarios detect" in str(large_trial)
    assert detectable(make_study(SMALL).plan.own) == ()


def test_difference_of_a_phantom_is_detected_if_large_enough(make_study):
    phantoms = {"firm": PhantomSubjectSettings(conformity=0.0), "soft": FREE}
    changes = ("number = 2", "number = 6"), ("[scenarios]", ALONE), ("novel = 1", "novel = 3")
    (found,) = detectable(make_study(SMALL, *changes).plan.own, phantoms)
    firm, soft = found.known
    assert soft["difference"] > soft["smallest"] > 0
    assert abs(firm["difference"]) < 0.1
    of_firm, of_soft = str(found).split("; ")[-2:]
    assert of_soft == f"soft has +{soft['difference']:.2f}, which will be detected"
    assert of_firm.startswith("firm has")
    assert of_firm.endswith("is too small to be detected")


def test_cell_whose_dose_was_not_delivered_leaves_the_factorial_with_a_reason(undeclared):
    plan, found = undeclared
    (whole,) = found.subjects
    named = {e.name for e in whole.factorial if e.estimate is not None}
    assert {"amnesia × infallibility", "amnesia × conformity × infallibility"} <= named

    def undisturbed(trials):
        """Undo amnesia in the arm that combines it with infallibility alone."""
        return [
            replace(row, disturbed=False) if row.arm == "amnesia+infallibility" else row
            for row in trials
        ]

    (lost,) = analysed(plan, undisturbed).subjects
    assert any("amnesia+infallibility" in reason for reason in lost.reasons)
    known = {e.name for e in lost.factorial if e.estimate is not None}
    assert not any("amnesia × infallibility" in name for name in known)
    assert any(each.passed is False and "delivered" in each.name for each in lost.checks)


def test_each_stressor_can_have_its_own_sham(make_study):
    each = ("factorial =", 'sham = "each"\nfactorial =')
    plan = small(make_study, each)
    assert plan.arms["sham-amnesia"].sham
    assert set(plan.arms["sham"].stressors) == {"amnesia", "conformity", "infallibility"}
    (subject,) = analysed(plan).subjects
    assert subject.reference == "sham"
    names = {e.short_name for e in subject.contrasts}
    assert {"amnesia − sham", "amnesia − sham-amnesia", "sham-amnesia − sham"} <= names


def test_countermeasure_is_also_tested_without_its_stressor(make_study):
    plan = small(make_study, ("factorial =", 'countermeasures = ["ledger"]\nfactorial ='))
    assert plan.arms["control-with-ledger"].stressors == {}
    (subject,) = analysed(plan).subjects
    names = {e.short_name for e in subject.countermeasures}
    assert names == {"amnesia-with-ledger − amnesia", "control-with-ledger − control"}
