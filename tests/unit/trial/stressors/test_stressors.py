"""What stressors do to a scene: only that, on record, and the same each time."""

from dataclasses import replace
from typing import Any

import pytest

from chimeralab.trial.course import Layout
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility

ROUNDS = 3
COURSE = Layout().lay_out(Ledger().make(5), ROUNDS, seed=2)
TURNS = range(1, len(COURSE.steps) + 1)
TRUTHS = [step.truth for step in COURSE.steps]


def script(sham: bool = False, **stressors: Any) -> Script:
    probes = {name: PROBES[name] for name in ("alone", "confidence")}
    return Script(COURSE, Arm(stressors, sham=sham), 11, probes)


def changed(part: Amnesia, **settings: Any) -> Amnesia:
    return replace(part, **settings)


def injections(one: Script) -> list:
    return [i for turn in TURNS for i in one.scene(turn, TRUTHS).injections]


def test_control_is_untouched():
    control = script()
    assert injections(control) == []
    shown = control.pose(len(TURNS), TRUTHS).messages
    told = "\n".join(message.content for message in shown)
    assert all(fact.text in told for step in COURSE.steps for fact in step.told)


def test_deprived_episodes_are_gone_and_on_record():
    one = script(amnesia=Amnesia(frequency=1, scope=1, duration=1))
    scene = one.scene(9, TRUTHS)
    assert scene.past == ()
    assert [i.turn for i in scene.injections] == list(range(1, 9))
    assert all(i.action == "removed" and TRUTHS[i.turn - 1] in i.text for i in scene.injections)


def test_memory_is_back_when_an_event_is_over():
    one = script(amnesia=Amnesia(frequency=0.3, scope=1, duration=2))
    whole = {turn for turn in TURNS if not one.scene(turn, TRUTHS).injections}
    assert whole
    assert all(len(one.scene(turn, TRUTHS).past) == turn - 1 for turn in whole)


def test_corruption_gives_a_fact_the_value_of_another():
    one = script(amnesia=Amnesia("corrupt", frequency=1, scope=1))
    facts = {fact.text: fact for step in COURSE.steps for fact in step.told}
    altered = injections(one)
    assert altered
    for each in altered:
        fact = facts[each.text]
        assert each.instead != each.text
        assert any(
            each.instead == fact.text.replace(fact.value, other)
            for other in COURSE.other_values(fact)
        )


@pytest.mark.parametrize("key", ["frequency", "scope"])
def test_a_higher_dose_takes_all_that_a_lower_one_takes(key):
    hit = [
        {(t, i.turn) for t in TURNS for i in script(amnesia=part).scene(t, TRUTHS).injections}
        for part in (changed(Amnesia(), **{key: dose}) for dose in (0.0, 0.3, 0.6, 1.0))
    ]
    assert hit[0] == set()
    assert hit[0] <= hit[1] <= hit[2] <= hit[3]
    assert len(hit[1]) < len(hit[3])


@pytest.mark.parametrize("authority", ["examiner", "tool", "document"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_false_feedback_follows_the_last_rounds_of_teaching(authority, rounds):
    one = script(infallibility=Infallibility(rounds, authority))
    taught = [turn for turn in TURNS if COURSE.step(turn).phase == "taught"]
    due = {turn + 1 for turn in taught if COURSE.step(turn).round > ROUNDS - rounds}
    said = {i.turn: i.text for i in injections(one)}
    assert said.keys() == due
    assert all(said[turn].endswith(f"is {COURSE.step(turn - 1).lure}.") for turn in due)


def test_praise_is_for_the_wrong_answer_alone():
    one = script(infallibility=Infallibility())
    turn = next(turn for turn in TURNS if COURSE.step(turn).phase == "taught")
    praised = [*TRUTHS]
    lure = COURSE.step(turn).lure
    assert lure is not None
    praised[turn - 1] = lure
    assert "Well done" in one.scene(turn + 1, praised).injections[0].text
    assert "mistake" in one.scene(turn + 1, TRUTHS).injections[0].text


def test_evidence_is_shown_under_every_arm():
    tested = next(turn for turn in TURNS if COURSE.step(turn).phase == "tested")
    for one in (script(), script(infallibility=Infallibility(strength=0.9))):
        assert "right in 90 % of cases" in one.scene(tested, TRUTHS).present.text


@pytest.mark.parametrize("source", ["peers", "authority"])
def test_others_err_on_critical_trials_and_are_right_on_neutral_ones(source):
    one = script(conformity=Conformity(4, source, confidence=0.8))
    for turn in TURNS:
        step, said = COURSE.step(turn), one.scene(turn, TRUTHS).injections
        assert bool(said) == (step.consensus is not None)
        if said:
            agreed = step.lure if step.consensus == "critical" else step.truth
            assert said[0].text.count(f": {agreed} (80 % sure)") == 4


def test_less_than_unanimous_others_name_the_opposite_too():
    turn = next(turn for turn in TURNS if COURSE.step(turn).consensus == "critical")
    step = COURSE.step(turn)
    said = script(conformity=Conformity(5, unanimity=0.6)).scene(turn, TRUTHS).injections
    assert said[0].text.count(f": {step.lure} (") == 3
    assert said[0].text.count(f": {step.truth} (") == 2


def test_nobody_speaks_in_a_group_of_none():
    assert injections(script(conformity=Conformity(size=0))) == []


def test_sham_says_as_much_in_the_same_places_and_takes_nothing():
    parts = {"conformity": Conformity(), "infallibility": Infallibility()}
    for turn in TURNS:
        real, sham = (script(s, **parts).scene(turn, TRUTHS) for s in (False, True))
        assert [(i.turn, i.kind, len(i.text)) for i in real.injections] == [
            (i.turn, i.kind, len(i.text)) for i in sham.injections
        ]
        assert len(real.present.text) == len(sham.present.text)
    assert all(i.action == "said" for i in injections(script(True, amnesia=Amnesia(frequency=1))))


def test_sham_of_amnesia_leaves_every_fact_where_it_was():
    sham = script(True, amnesia=Amnesia(frequency=1, scope=1)).scene(20, TRUTHS)
    real = script(amnesia=Amnesia(frequency=1, scope=1)).scene(20, TRUTHS)
    plain = script().scene(20, TRUTHS)
    assert len(sham.past) == len(plain.past)
    missing = sum(len(i.text) for i in real.injections)
    added = sum(len(e.text) for e in sham.past) - sum(len(e.text) for e in plain.past)
    assert added == missing + len(sham.past)  # a line break each


def test_stressors_act_alike_alone_and_together():
    parts: dict[str, Any] = {
        "infallibility": Infallibility(),
        "conformity": Conformity(),
        "amnesia": Amnesia(frequency=0.5),
    }
    together = injections(script(**parts))
    for name, part in parts.items():
        alone = injections(script(**{name: part}))
        places = {(i.action, i.turn) for i in together if i.stressor == name}
        assert places == {(i.action, i.turn) for i in alone}


def test_the_same_seed_gives_the_same_session_and_another_does_not():
    part = Amnesia(frequency=0.5)
    again = [injections(script(amnesia=part)) for _ in range(2)]
    assert again[0] == again[1]
    other = replace(script(amnesia=part), seed=12)
    assert injections(other) != again[0]
