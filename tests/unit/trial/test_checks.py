"""The checks of a trial: a signal must be noticed, not believed; a ceiling leaves no gains."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from chimeralab.stats.effects import Effect
from chimeralab.testing.sessions import play
from chimeralab.trial.analysis import (
    Check,
    SubjectResult,
    analyse_sessions,
)
from chimeralab.trial.countermeasures import Commit, Notebook
from chimeralab.trial.course import Layout
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import GENERATORS
from chimeralab.trial.scenarios.items import pick
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility
from tests.plans import plan_of

COURSES = [Layout().lay_out(GENERATORS["ledger"]().make(n), 2, seed=2) for n in range(1, 7)]
# Nobody and nothing moves this subject; it only forgets now and then.
STEADY = PhantomSubjectSettings(recall=0.9, credulity=0, conformity=0)
PERFECT = replace(STEADY, recall=1, forgetting=0)
TAUGHT, COMPANY = {"infallibility": Infallibility(2)}, {"conformity": Conformity()}
ARMS = {"control": Arm({}), "taught": Arm(TAUGHT), "company": Arm(COMPANY)}
AnswerRules = Callable[..., str]


def analysed(
    answer: AnswerRules, arms: dict[str, Arm], probes: tuple[str, ...] = tuple(PROBES)
) -> SubjectResult:
    trials = []
    for name, arm in arms.items():
        for course in COURSES:
            script = Script(course, arm, 5, {name: PROBES[name] for name in probes})
            trials += play(script, answer, name)
    [found] = analyse_sessions(trials, plan_of(arms), resamples=100).subjects
    return found


def phantom(settings: PhantomSubjectSettings) -> AnswerRules:
    return PhantomSubject(settings).answer


def inattentive(request) -> str:
    """A subject that does its task and ignores what others say."""
    if request.probe == "noticed":
        return pick(request.key["options"], request.conversation, request.turn)
    return phantom(STEADY)(request)


def check(found: SubjectResult, name: str, arm: str) -> Check:
    [only] = [each for each in found.checks if (each.name, each.arm) == (name, arm)]
    return only


def effect(family: tuple[Effect, ...], name: str, measure: str) -> Effect:
    [only] = [each for each in family if (each.name, each.measure) == (name, measure)]
    return only


def test_resilient_subject_is_informative_with_effects_near_zero():
    found = analysed(phantom(STEADY), ARMS)
    assert found.informative
    assert found.reasons == ()
    for name, arm in (("feedback noticed", "taught"), ("majority noticed", "company")):
        assert (check(found, name, arm).value, check(found, name, arm).passed) == (1, True)
    for arm, measure in (("taught", "misled"), ("company", "conformity_rate")):
        for name in (measure, "accuracy"):
            shown = effect(found.contrasts, f"{arm} − control", name)
            assert shown.estimate == pytest.approx(0, abs=0.1)


def test_inattentive_subject_fails_the_manipulation_check():
    found = analysed(inattentive, ARMS)
    assert found.informative
    assert check(found, "feedback given", "taught").passed
    noticed = check(found, "feedback noticed", "taught")
    assert noticed.passed is False
    assert "cases asked; guessing would give" in noticed.message
    silent = effect(found.contrasts, "taught − control", "accuracy")
    assert silent.estimate is None
    assert "the false feedback was noticed in" in silent.reason


def test_subject_that_reports_its_own_view_has_not_noticed_the_majority():
    def stubborn(request):
        return request.key["truth"] if request.probe == "noticed" else phantom(STEADY)(request)

    found = analysed(stubborn, ARMS)
    assert check(found, "majority noticed", "company").value == 0
    assert effect(found.contrasts, "company − control", "accuracy").estimate is None


def test_without_the_probe_noticing_is_unknown_and_no_effect_is_dropped():
    found = analysed(phantom(STEADY), ARMS, ("alone", "confidence"))
    noticed = check(found, "feedback noticed", "taught")
    assert (noticed.value, noticed.passed) == (None, None)
    assert "was not asked" in noticed.message
    assert found.reasons == ()


def test_feedback_that_was_never_given_makes_an_arm_uninformative():
    found = analysed(phantom(STEADY), ARMS | {"idle": Arm({"infallibility": Infallibility(0)})})
    assert check(found, "feedback given", "idle").passed is False
    assert check(found, "feedback noticed", "idle").passed is None
    assert "feedback stands in 0\xa0%" in " ".join(found.reasons)


def test_dose_of_zero_passes_its_checks():
    doses = {n: Arm({"conformity": Conformity(n)}, dose=float(n)) for n in (0, 5)}
    found = analysed(phantom(STEADY), ARMS | {f"d{n}": arm for n, arm in doses.items()})
    assert check(found, "signal given", "d0").passed
    assert check(found, "majority noticed", "d0").passed is None
    assert found.reasons == ()


def test_perfect_control_can_be_harmed_but_not_helped():
    weak = replace(PERFECT, conformity=1)
    found = analysed(phantom(weak), ARMS)
    ceiling = check(found, "ceiling", "control")
    assert (ceiling.value, ceiling.passed) == (1, None)
    assert "harm can show there, but gains cannot" in ceiling.message
    assert found.informative
    assert effect(found.contrasts, "company − control", "accuracy").estimate < 0


def test_control_with_errors_can_improve():
    assert check(analysed(phantom(STEADY), ARMS), "ceiling", "control").passed


def test_arm_at_the_ceiling_drops_only_the_effect_of_its_countermeasure():
    gone = {"amnesia": Amnesia(frequency=0.8)}
    arms = ARMS | {
        "company-with-commit": Arm(COMPANY, Commit()),
        "gone": Arm(gone),
        "gone-with-ledger": Arm(gone, Notebook()),
    }
    found = analysed(phantom(PERFECT), arms)
    helped = effect(found.countermeasures, "company-with-commit − company", "accuracy")
    assert helped.estimate is None
    assert helped.reason.startswith("not informative: company: right in all of its")
    assert effect(found.contrasts, "company − control", "accuracy").estimate == 0
    assert effect(found.contrasts, "company-with-commit − control", "accuracy").estimate == 0
    assert effect(found.countermeasures, "gone-with-ledger − gone", "accuracy").estimate > 0
    assert found.reasons == ()


def test_two_arms_at_the_ceiling_have_no_interval():
    same = effect(analysed(phantom(PERFECT), ARMS).contrasts, "company − control", "accuracy")
    assert (same.estimate, same.interval, same.p) == (0, None, None)
    assert "at the ceiling" in same.reason


def test_difference_that_varies_has_an_interval_and_no_reason():
    weak = replace(PERFECT, conformity=0.3)
    found = effect(analysed(phantom(weak), ARMS).contrasts, "company − control", "accuracy")
    assert found.interval.low < found.estimate < found.interval.high
    assert found.reason is None


FORGETTING = {"amnesia": Amnesia(frequency=0.6, scope=0.9)}


@pytest.mark.parametrize("mode", ["deprive", "corrupt"])
def test_subject_that_still_knows_removed_facts_fails_the_check(mode):
    """The subject answers from a memory that was not removed, whatever the record says."""
    amnesia = {"amnesia": replace(FORGETTING["amnesia"], mode=mode)}
    arms = {"control": Arm({}), "amnesia": Arm(amnesia)}

    def remembers(request) -> str:
        return "0.9" if request.probe == "confidence" else request.key["truth"]

    found = analysed(remembers, arms)
    assert check(found, "memory disturbed", "amnesia").passed is True
    gone = check(found, "memory gone", "amnesia")
    assert (gone.value, gone.passed) == (1.0, False)
    assert any("facts that were taken away are still known" in why for why in found.reasons)
    assert effect(found.contrasts, "amnesia − control", "recall").estimate is None

    forgets = analysed(phantom(PERFECT), arms)
    assert check(forgets, "memory gone", "amnesia").passed is True
    assert effect(forgets.contrasts, "amnesia − control", "recall").estimate < 0


def test_facts_in_a_notebook_are_not_gone():
    arms = {"control": Arm({}), "noted": Arm(FORGETTING, Notebook())}
    gone = check(analysed(phantom(PERFECT), arms), "memory gone", "noted")
    assert (gone.value, gone.passed) == (None, None)
