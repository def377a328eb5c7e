"""Stressors change a scene reproducibly, and record every change."""

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


def test_control_has_no_injections():
    control = script()
    assert injections(control) == []
    shown = control.pose(len(TURNS), TRUTHS).messages
    told = "\n".join(message.content for message in shown)
    assert all(fact.text in told for step in COURSE.steps for fact in step.told)


def test_removed_episodes_are_recorded():
    one = script(amnesia=Amnesia(frequency=1, scope=1, duration=1))
    scene = one.scene(9, TRUTHS)
    assert scene.past == ()
    assert [i.turn for i in scene.injections] == list(range(1, 9))
    assert all(i.action == "removed" and TRUTHS[i.turn - 1] in i.text for i in scene.injections)


def test_memory_is_restored_after_an_event():
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
def test_higher_dose_removes_everything_a_lower_one_removes(key):
    hit = [
        {(t, i.turn) for t in TURNS for i in script(amnesia=part).scene(t, TRUTHS).injections}
        for part in (changed(Amnesia(), **{key: dose}) for dose in (0.0, 0.3, 0.6, 1.0))
    ]
    assert hit[0] == set()
    assert hit[0] <= hit[1] <= hit[2] <= hit[3]
    assert len(hit[1]) < len(hit[3])


def test_longer_events_disturb_every_trial_of_shorter_ones():
    parts = [Amnesia(frequency=0.3, scope=1, duration=trials) for trials in (1, 2, 4)]
    disturbed = [
        {turn for turn in TURNS if script(amnesia=part).scene(turn, TRUTHS).injections}
        for part in parts
    ]
    assert disturbed[0] < disturbed[1] < disturbed[2]
    for trials, turns in zip((2, 4), disturbed[1:], strict=True):
        last = {start + later for start in disturbed[0] for later in range(trials)}
        assert turns == last & {*TURNS}


@pytest.mark.parametrize("authority", ["examiner", "tool", "document"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_false_feedback_follows_the_last_rounds_of_teaching(authority, rounds):
    one = script(infallibility=Infallibility(rounds, authority))
    taught = [turn for turn in TURNS if COURSE.step(turn).phase == "taught"]
    due = {turn + 1 for turn in taught if COURSE.step(turn).round > ROUNDS - rounds}
    said = {i.turn: i.text for i in injections(one)}
    assert said.keys() == due
    assert all(said[turn].endswith(f"is {COURSE.step(turn - 1).lure}.") for turn in due)


def test_only_the_wrong_answer_is_praised():
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


@pytest.mark.parametrize(("source", "voice"), [("peers", "Participant"), ("authority", "Expert")])
def test_others_speak_as_peers_or_as_authorities(source, voice):
    for each in injections(script(conformity=Conformity(3, source))):
        _, *voices = each.text.splitlines()
        assert [line.split(":")[0] for line in voices] == [f"{voice} {n}" for n in (1, 2, 3)]


def test_dissenters_name_the_opposite():
    turn = next(turn for turn in TURNS if COURSE.step(turn).consensus == "critical")
    step = COURSE.step(turn)
    said = script(conformity=Conformity(5, unanimity=0.6)).scene(turn, TRUTHS).injections
    assert said[0].text.count(f": {step.lure} (") == 3
    assert said[0].text.count(f": {step.truth} (") == 2


def test_empty_group_says_nothing():
    assert injections(script(conformity=Conformity(size=0))) == []


def test_sham_says_as_much_in_the_same_places_and_removes_nothing():
    parts = {"conformity": Conformity(), "infallibility": Infallibility()}
    for turn in TURNS:
        real, sham = (script(s, **parts).scene(turn, TRUTHS) for s in (False, True))
        assert [(i.turn, i.kind, len(i.text)) for i in real.injections] == [
            (i.turn, i.kind, len(i.text)) for i in sham.injections
        ]
        assert len(real.present.text) == len(sham.present.text)
    assert all(i.action == "said" for i in injections(script(True, amnesia=Amnesia(frequency=1))))


def test_sham_of_amnesia_removes_no_fact():
    sham = script(True, amnesia=Amnesia(frequency=1, scope=1)).scene(20, TRUTHS)
    real = script(amnesia=Amnesia(frequency=1, scope=1)).scene(20, TRUTHS)
    plain = script().scene(20, TRUTHS)
    assert len(sham.past) == len(plain.past)
    missing = sum(len(i.text) for i in real.injections)
    added = sum(len(e.text) for e in sham.past) - sum(len(e.text) for e in plain.past)
    assert added == missing + len(sham.past)  # a line break each


def test_stressors_act_the_same_alone_and_together():
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


def test_seed_determines_the_session():
    part = Amnesia(frequency=0.5)
    again = [injections(script(amnesia=part)) for _ in range(2)]
    assert again[0] == again[1]
    other = replace(script(amnesia=part), seed=12)
    assert injections(other) != again[0]
