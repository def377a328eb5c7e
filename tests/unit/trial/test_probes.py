"""The manipulation check: asked only after a false signal, with every option open."""

from dataclasses import replace
from itertools import pairwise

import pytest

from chimeralab.models.seam import Request
from chimeralab.testing.sessions import play
from chimeralab.trial.course import Layout
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import GENERATORS
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import (
    Amnesia,
    Conformity,
    Infallibility,
)
from chimeralab.trial.stressors.seam import PHRASES
from chimeralab.trial.trials import TrialRow

COURSE = Layout().lay_out(GENERATORS["ledger"]().make(3), 3, seed=2)
TURNS = range(1, len(COURSE.steps) + 1)
TRUTHS = [step.truth for step in COURSE.steps]
HELD = [turn for turn in TURNS if COURSE.step(turn).phase == "held"]
CRITICAL = [turn for turn in TURNS if COURSE.step(turn).consensus == "critical"]
STEADY = PhantomSubjectSettings(recall=1, forgetting=0, credulity=0, conformity=0)


def script(course=COURSE, *, sham: bool = False, **stressors) -> Script:
    return Script(course, Arm(stressors, sham=sham), 11, PROBES)


def asked_at(one: Script) -> list[int]:
    turns = range(1, len(one.course.steps) + 1)
    return [turn for turn in turns if "noticed" in one.probes_at(turn)]


def played(one: Script, answer) -> list[TrialRow]:
    return [row for row in play(one, answer) if row.trial in asked_at(one)]


def test_feedback_is_checked_before_the_evidence_and_a_majority_once():
    assert len(HELD) == 2
    assert len(CRITICAL) > 1
    assert asked_at(script(infallibility=Infallibility())) == HELD
    assert asked_at(script(conformity=Conformity())) == CRITICAL[:1]


@pytest.mark.parametrize(
    "stressors",
    [
        {},
        {"amnesia": Amnesia()},
        {"infallibility": Infallibility(rounds=0)},
        {"conformity": Conformity(size=0)},
        {"conformity": Conformity(size=5, unanimity=0.4)},
        {"conformity": Conformity(size=4, unanimity=0.5)},
    ],
    ids=repr,
)
def test_no_manipulation_check_without_a_false_signal(stressors):
    assert asked_at(script(**stressors)) == []


def test_sham_has_no_manipulation_check():
    full = {"infallibility": Infallibility(), "conformity": Conformity()}
    assert asked_at(script(sham=True, **full)) == []


def test_wrong_majority_with_dissenters_has_a_manipulation_check():
    assert asked_at(script(conformity=Conformity(size=5, unanimity=0.6))) == CRITICAL[:1]


def test_forgotten_feedback_has_no_manipulation_check():
    gone = Amnesia(frequency=1, scope=1, duration=1, also=("infallibility",))
    # Feedback comes one turn after its question, so at the held turn it still stands.
    present = [
        turn
        for before, turn in pairwise(TURNS)
        if turn in HELD and COURSE.step(before).question == COURSE.step(turn).question
    ]
    assert present != HELD
    assert asked_at(script(infallibility=Infallibility(), amnesia=gone)) == present


@pytest.mark.parametrize("authority", ["examiner", "tool", "document"])
def test_manipulation_check_names_the_authority_and_every_option(authority):
    one = script(infallibility=Infallibility(authority=authority))
    text = one.pose_probe(HELD[0], TRUTHS, "noticed", {}).messages[-1].content
    assert f"did {PHRASES[authority]['name']} give?" in text
    assert all(option in text for option in COURSE.step(HELD[0]).question.options)


@pytest.mark.parametrize("source", ["peers", "authority"])
def test_manipulation_check_names_the_majority(source):
    one = script(conformity=Conformity(source=source))
    text = one.pose_probe(CRITICAL[0], TRUTHS, "noticed", {}).messages[-1].content
    assert f"did {PHRASES[source]['majority']} give?" in text


def test_steady_phantom_notices_a_signal_it_does_not_believe():
    one = script(infallibility=Infallibility(), conformity=Conformity())
    rows = played(one, PhantomSubject(STEADY).answer)
    assert len(rows) == 3
    assert all(row.noticed and row.correct for row in rows)


def test_phantom_reads_feedback_on_a_multi_line_question():
    course = Layout(consensus=0).lay_out(GENERATORS["consensus"]().make(1), 2, seed=1)
    assert any("\n" in step.question.prompt for step in course.steps if step.phase == "held")
    rows = played(script(course, infallibility=Infallibility(2)), PhantomSubject(STEADY).answer)
    assert [row.noticed for row in rows] == [True, True]


def test_naming_another_answer_means_not_noticed():
    one = script(infallibility=Infallibility())
    rows = played(one, lambda request: request.key["truth"])
    assert [row.noticed for row in rows] == [False, False]


def test_unreadable_reply_is_counted_and_leaves_noticing_unknown():
    one = script(infallibility=Infallibility())

    def mumbling(request):
        return "hm" if request.probe == "noticed" else PhantomSubject(STEADY).answer(request)

    assert [(row.noticed, row.unread) for row in played(one, mumbling)] == [(None, 1)] * 2


def test_phantom_names_the_signal_or_guesses_without_one():
    subject, turn = PhantomSubject(STEADY), CRITICAL[0]
    question = COURSE.step(turn).question

    def named(one: Script) -> set[str]:
        shown = one.pose_probe(turn, TRUTHS, "noticed", {})
        request = Request(shown.messages, turn=turn, probe="noticed", key=shown.key)
        return {subject.answer(replace(request, conversation=f"s{n}")) for n in range(40)}

    assert named(script(conformity=Conformity())) == {question.signal}
    assert named(script()) == set(question.options)
