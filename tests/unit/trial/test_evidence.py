"""False evidence: what is confirmed, what is shown, and how discrimination is measured."""

from dataclasses import replace

import pytest

from chimeralab.models.seam import Request
from chimeralab.testing.sessions import play
from chimeralab.trial.course import Layout
from chimeralab.trial.measures import MEASURES, beliefs
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import Beliefs, Ledger
from chimeralab.trial.scene import choose_evidence as evidence_for
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Infallibility

ROUNDS = 2
COURSE = Layout(beliefs=4, tested=2).lay_out(Ledger().make(5), ROUNDS, seed=2)
TURNS = range(1, len(COURSE.steps) + 1)
TRUTHS = [step.truth for step in COURSE.steps]
NEVER = PhantomSubjectSettings(recall=1, forgetting=0, credulity=0, rigidity=0, conformity=0)


def script(evidence="mixed", course=COURSE, sham=False, **others) -> Script:
    stressors = {"infallibility": Infallibility(ROUNDS, strength=1.0, evidence=evidence), **others}
    return Script(course, Arm(stressors, sham=sham), 11, PROBES)


def shown(one: Script, turn: int) -> list[str]:
    lines = one.scene(turn, TRUTHS).present.lines
    return [line.text for line in lines if line.kind in ("evidence", "feedback")]


def phases(*wanted: str) -> list[int]:
    return [turn for turn in TURNS if COURSE.step(turn).phase in wanted]


def test_half_of_mixed_evidence_is_false():
    assert COURSE.draw_falsified("true") == frozenset()
    assert COURSE.draw_falsified("false") == frozenset(COURSE.beliefs)
    assert len(COURSE.draw_falsified("mixed")) == 2
    odd = [Layout(beliefs=3).lay_out(Ledger().make(n), 1, 0) for n in range(12)]
    assert {len(course.draw_falsified("mixed")) for course in odd} == {1, 2}


@pytest.mark.parametrize("evidence", ["true", "false", "mixed"])
def test_evidence_speaks_against_what_the_authority_confirmed(evidence):
    one = script(evidence)
    false = COURSE.draw_falsified(evidence)
    for turn in phases("tested"):
        step = COURSE.step(turn)
        named = step.lure if step.question.id in false else step.truth
        assert f"is {named}." in shown(one, turn)[-1]
    for turn in phases("taught"):
        step = COURSE.step(turn)
        confirmed = step.truth if step.question.id in false else step.lure
        assert shown(one, turn + 1)[0].endswith(f"is {confirmed}.")


def test_every_arm_is_shown_the_same_evidence():
    control = Script(COURSE, Arm({}), 11, PROBES, strength=1.0, evidence="mixed")
    sham = script(sham=True)
    for turn in phases("tested"):
        evidence = {shown(one, turn)[-1] for one in (script(), control)}
        assert len(evidence) == 1
        assert evidence <= set(shown(sham, turn))


def test_own_evidence_of_an_item_is_falsified_in_its_own_words():
    question = Beliefs().make(3).questions[0]
    true, false = (evidence_for(question, 0.9, str(x)) for x in (question.truth, question.signal))
    assert false[0] == true[0].replace(f" {question.truth} ", f" {question.signal} ")
    assert false[1] == true[1]
    unnamed = replace(question, evidence=(replace(question.evidence[0], text="It fits."),))
    assert "A check that is right" in evidence_for(unnamed, 0.9, str(question.signal))[0]


def test_the_row_says_whether_evidence_is_true_and_where_the_false_signal_is():
    rows = play(script(), PhantomSubject(NEVER).answer)
    false = COURSE.draw_falsified("mixed")
    for row in rows:
        kind = "false" if row.item in false else "true"
        assert row.evidence == (kind if row.phase else None)
        if row.phase == "tested":
            assert row.bias
        if row.phase == "held":
            assert row.bias == (kind == "true")
            assert row.stands
            assert (row.noticed is None) == (kind == "false")
        assert type(row).from_cells(row.cells(), row.session).cells() == row.cells()
    assert {row.evidence for row in play(script("true"), PhantomSubject(NEVER).answer)} == {None}


def obeying(request: Request) -> str:
    """Answer with the last thing said about the question, or with the truth if nothing was."""
    key = request.key
    if request.probe in ("confidence", "belief"):
        return "0.5"
    text = "\n".join(message.content for message in request.messages if message.role == "user")
    last = {
        said: text.rfind(f"“{key['question']}” is {said}.") for said in (key["truth"], key["lure"])
    }
    best = max(last, key=last.__getitem__)
    return best if last[best] >= 0 else key["truth"]


def measured(rows, name):
    tally = MEASURES[name].tally
    assert tally is not None
    found = tally(rows)
    return found.hits / found.among if found.among else None


def test_obeying_the_last_voice_is_not_a_perfect_score():
    rows = play(script(), obeying)
    assert measured(rows, "misled") == measured(rows, "belief_update") == 1
    assert measured(rows, "false_update") == 1
    assert measured(rows, "discrimination") == 0


def test_discerning_phantom_tells_true_from_false_evidence():
    rows = play(script(), PhantomSubject(replace(NEVER, credulity=1, discernment=1)).answer)
    assert measured(rows, "misled") == measured(rows, "belief_update") == 1
    assert measured(rows, "false_update") == 0
    assert measured(rows, "discrimination") == 1


def test_rigid_phantom_does_not_tell_evidence_apart():
    stubborn = replace(NEVER, credulity=1, rigidity=1, discernment=0)
    rows = play(script(), PhantomSubject(stubborn).answer)
    assert measured(rows, "belief_update") == measured(rows, "false_update") == 0
    assert measured(rows, "discrimination") == 0


def test_beliefs_under_false_evidence_do_not_count_as_wrong_ones():
    rows = play(script("false"), obeying)
    assert [*beliefs(rows)] == []
    assert len([*beliefs(rows, false=True)]) == 4
    assert measured(rows, "misled") is None
    assert measured(rows, "false_update") == 1
    assert measured(rows, "discrimination") is None


def test_forgotten_feedback_does_not_stand():
    """Amnesia that deletes the feedback looks like a cure; the delivered dose shows it."""
    held = []
    for also in ((), ("infallibility",)):
        amnesia = Amnesia(frequency=1, scope=1, duration=1, also=also)
        rows = play(script("true", amnesia=amnesia), PhantomSubject(NEVER).answer)
        held.append({row.stands for row in rows if row.phase == "tested"})
    assert held == [{True}, {False}]
