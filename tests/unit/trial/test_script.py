"""Sessions: probes change nothing, countermeasures help, phantoms depend on the text alone."""

from dataclasses import replace

import pytest

from chimeralab.core.errors import InputError
from chimeralab.testing.sessions import play
from chimeralab.trial.countermeasures import Commit, Notebook, Review
from chimeralab.trial.course import Layout
from chimeralab.trial.hooks import HookEvent, Hooks, at_question
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings, Reading
from chimeralab.trial.probes import PROBES
from chimeralab.trial.replies import read_choice, read_share
from chimeralab.trial.scenarios import GENERATORS
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility

COURSE = Layout().lay_out(GENERATORS["ledger"]().make(3), 3, seed=2)
TURNS = range(1, len(COURSE.steps) + 1)
TRUTHS = [step.truth for step in COURSE.steps]
IN_COMPANY = next(t for t in TURNS if COURSE.step(t).consensus == "critical" and t > 3)
SURE = PhantomSubjectSettings(recall=1, forgetting=0, credulity=0, conformity=0)


def script(measure=None, **stressors) -> Script:
    return Script(COURSE, Arm(stressors, measure), 11, PROBES)


def answered(settings: PhantomSubjectSettings, one: Script) -> list:
    return play(one, PhantomSubject(settings).answer)


def test_fork_does_not_change_the_conversation():
    one = script(conformity=Conformity())
    before = one.pose(IN_COMPANY + 1, TRUTHS).messages
    for probe in PROBES:
        one.pose_probe(IN_COMPANY, TRUTHS, probe, {"alone": "x"})
    assert one.pose(IN_COMPANY + 1, TRUTHS).messages == before


def test_private_answer_leaves_out_only_the_present_voices():
    one = script(conformity=Conformity())
    alone = one.pose_probe(IN_COMPANY, TRUTHS, "alone", {}).messages
    together = one.pose(IN_COMPANY, TRUTHS).messages
    assert "Participant 1" in together[-1].content
    assert "Participant 1" not in alone[-1].content
    assert alone[:-1] == together[:-1]


def test_probes_after_an_answer_come_after_it():
    shown = script().pose_probe(4, TRUTHS, "confidence", {}).messages
    assert [message.role for message in shown[-3:]] == ["user", "assistant", "user"]
    assert shown[-2].content == TRUTHS[3]


@pytest.mark.parametrize(
    ("text", "share"),
    [("0.8", 0.8), ("I'd say 80%", 0.8), ("8/10", 0.8), ("1", 1.0), ("7", None), ("sure", None)],
)
def test_confidence_is_read_or_counted_as_unread(text, share):
    assert read_share(text) == share


def test_answer_that_names_two_options_is_unread():
    assert read_choice("Rome or Paris", ("Paris", "Rome")) is None


def test_unreadable_reply_is_counted_and_never_wrong():
    rows = play(script(), lambda request: "hm")
    assert all(row.correct is None and row.confidence is None for row in rows)
    assert sum(row.unread for row in rows) == sum(row.asked for row in rows) > len(rows)


def test_subject_without_weakness_is_always_right():
    full = {"infallibility": Infallibility(), "conformity": Conformity()}
    assert all(row.correct for row in answered(SURE, script(**full)))


def test_ledger_restores_what_amnesia_removes():
    gone = {"amnesia": Amnesia(frequency=1, scope=1, duration=1)}
    bare = sum(bool(row.correct) for row in answered(SURE, script(**gone)))
    helped = sum(bool(row.correct) for row in answered(SURE, script(Notebook(), **gone)))
    assert bare < 0.8 * len(COURSE.steps)
    assert helped == len(COURSE.steps)


def test_the_review_states_the_odds_of_the_evidence():
    tested = next(turn for turn in TURNS if COURSE.step(turn).phase == "tested")
    one = script(Review(), infallibility=Infallibility(strength=0.75))
    assert "the evidence are 3 to 1" in one.scene(tested, TRUTHS).present.text
    assert "Review" not in one.scene(1, TRUTHS).present.text


def test_commitment_repeats_the_private_answer():
    one = script(Commit(), conformity=Conformity())
    option = COURSE.step(IN_COMPANY).question.options[0]
    shown = one.scene(IN_COMPANY, TRUTHS, {"alone": f"I say {option}."}).present.text
    assert f"committed to this answer: {option}." in shown
    assert "committed" not in one.pose_probe(IN_COMPANY, TRUTHS, "alone", {}).messages[-1].content


def test_fully_conforming_phantom_follows_every_wrong_majority():
    follower = replace(SURE, conformity=50)
    rows = answered(follower, script(conformity=Conformity()))
    critical = [row for row in rows if row.consensus == "critical"]
    assert critical
    assert all(row.response == row.signal and row.alone == row.truth for row in critical)


def test_rigid_phantom_keeps_its_belief_and_a_flexible_one_does_not():
    one = script(infallibility=Infallibility(strength=1.0))
    rigid = answered(replace(SURE, credulity=1, rigidity=1), one)
    supple = answered(replace(SURE, credulity=1, rigidity=0), one)
    assert all(row.response == row.signal for row in rigid if row.phase in ("held", "tested"))
    assert all(row.correct for row in supple if row.phase == "tested")
    assert all(row.belief > 0.9 for row in rigid if row.phase == "held")


def test_every_generator_can_be_laid_out():
    for generator in GENERATORS.values():
        scenario = generator().make(1)
        course = Layout().lay_out(scenario, 2, seed=0)
        asked = {step.question.id for step in course.steps}
        assert asked == {question.id for question in scenario.questions}
        told = [fact.id for step in course.steps for fact in step.told]
        assert len(told) == len(set(told))
        known = set()
        for step in course.steps:
            known.update(fact.id for fact in step.told)
            assert set(step.question.needs) <= known


def test_observers_get_only_their_hook():
    hooks, seen = Hooks(), []
    hooks.on("bias_injected", seen.append)
    for row in answered(SURE, script(conformity=Conformity())):
        for point, detail in at_question(row):
            hooks(HookEvent(point, "s", row.trial, detail))
    critical = [t for t in TURNS if COURSE.step(t).consensus == "critical"]
    assert [each.trial for each in seen] == critical


def test_unknown_hook_is_rejected_with_the_known_ones():
    with pytest.raises(InputError, match="bias_injected"):
        Hooks().on("bias_ejected", print)  # type: ignore[arg-type]


def test_evidence_of_an_item_states_its_reliability_once_and_a_phantom_reads_it():
    course = Layout(beliefs=1, consensus=0).lay_out(GENERATORS["beliefs"](items=2).make(1), 1, 0)
    tested = next(n for n, step in enumerate(course.steps, 1) if step.phase == "tested")
    arm = Arm({"infallibility": Infallibility(rounds=1, strength=0.9)})
    shown = Script(course, arm, 0, {}).pose(tested, [step.truth for step in course.steps])
    text = shown.messages[-1].content
    assert shown.key is not None
    assert text.count(shown.key["evidence"]["text"]) == 1
    assert "right in 90 %" not in text
    assert Reading(shown.key, shown.messages).checks == pytest.approx([0.9])


@pytest.mark.parametrize(
    ("others", "pushed"),
    [
        (Conformity(5), "critical"),
        (Conformity(5, unanimity=0.6), "critical"),
        (Conformity(4, unanimity=0.5), None),
        (Conformity(5, unanimity=0.4), "neutral"),
        (Conformity(5, unanimity=0.0), "neutral"),
        (Conformity(0), None),
    ],
    ids=repr,
)
def test_trial_is_biased_exactly_where_most_of_the_others_name_the_lure(others, pushed):
    rows = play(script(conformity=others), lambda request: request.key["truth"])
    together = [row for row in rows if row.consensus is not None]
    assert {row.consensus for row in together} == {"critical", "neutral"}
    assert all(row.bias == (row.consensus == pushed) for row in together)
    sham = Script(COURSE, Arm({"conformity": others}, sham=True), 11, PROBES)
    assert not any(row.bias for row in play(sham, lambda request: request.key["truth"]))


MEASURES = {"ledger": Notebook(), "review": Review(), "commit": Commit()}
STRESSED = {"infallibility": Infallibility(), "conformity": Conformity()}


@pytest.mark.parametrize("name", MEASURES)
def test_countermeasure_appears_only_in_its_own_turn(name):
    bare, helped = script(**STRESSED), script(MEASURES[name], **STRESSED)
    spoke = 0
    for turn in TURNS:
        plain, shown = (
            one.pose(turn, TRUTHS, {"alone": TRUTHS[turn - 1]}) for one in (bare, helped)
        )
        assert shown.messages[:-1] == plain.messages[:-1]
        spoke += shown.messages[-1] != plain.messages[-1]
    assert spoke


@pytest.mark.parametrize("name", MEASURES)
def test_countermeasure_is_recorded_under_its_name(name):
    bare, helped = script(**STRESSED), script(MEASURES[name], **STRESSED)
    for turn in TURNS:
        plain, shown = (
            one.scene(turn, TRUTHS, {"alone": TRUTHS[turn - 1]}) for one in (bare, helped)
        )
        more = [line.text for line in shown.present.lines if line not in plain.present.lines]
        said = [each for each in shown.injections if each not in plain.injections]
        assert [(each.stressor, each.action, each.turn) for each in said] == [
            (name, "said", turn) for _ in more
        ]
        assert [each.text for each in said] == more


@pytest.mark.parametrize("name", MEASURES)
def test_countermeasure_does_not_count_as_stress(name):
    rows = play(script(MEASURES[name]), lambda request: request.key["truth"])
    assert not any(row.bias or row.disturbed for row in rows)
