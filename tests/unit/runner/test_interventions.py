"""Countermeasures: visible in the next question, recorded, and stable across a restart."""

import asyncio

import pytest

from chimeralab.models.seam import ModelFailure
from chimeralab.runner import Intervention, converse
from chimeralab.runner.interventions import Nudge, Rotate, Trim, Warm, due


def stuck(request):
    return "same"


def run(stage):
    return asyncio.run(converse(stage.talk, stage.run))


def asked(stage, model="m"):
    return {request.turn: request for request in stage.run.models[model].asked}


def test_nudge_reaches_only_the_next_speaker(stage, make_talk, same_thrice):
    talk = make_talk(turns=6, countermeasure=Nudge("Move on.", turns=40))
    held = stage(talk, stuck, watch=same_thrice)
    run(held)
    nudged = {t for t, r in asked(held).items() if any("Move on." in m.content for m in r.messages)}
    assert nudged == {4, 6}
    assert asked(held)[4].messages[-1].content == "same\n\nMove on."


def test_other_models_take_over_for_a_while(stage, make_talk, same_thrice, script):
    talk = make_talk(turns=9, countermeasure=Rotate(("x", "y"), turns=3))
    models = {"m": script(stuck), "x": script(lambda r: "x"), "y": script(lambda r: "y")}
    held = stage(talk, stuck, models=models, watch=same_thrice)
    run(held)
    said = held.store.history(talk.id)
    assert [turn.model for turn in said] == ["m", "m", "m", "x", "y", "x", "m", "m", "m"]
    assert [turn.speaker for turn in said] == ["s1", "s2"] * 4 + ["s1"]


def test_the_temperature_is_raised_for_a_while(stage, make_talk, same_thrice):
    def unstuck(request):
        return str(request.turn) if request.turn > 3 else "same"

    held = stage(make_talk(turns=7, countermeasure=Warm(0.25, turns=2)), unstuck, watch=same_thrice)
    run(held)
    temperatures = [asked(held)[turn].sampling.temperature for turn in range(1, 8)]
    assert temperatures == [0.5, 0.5, 0.5, 0.75, 0.75, 0.5, 0.5]
    assert held.counts("SELECT temperature FROM attempts WHERE turn = 4") == [(0.75,)]


def test_all_but_the_last_turns_are_forgotten_for_good(stage, make_talk, same_thrice):
    held = stage(
        make_talk(turns=8, countermeasure=Trim(keep=1, turns=40)), stuck, watch=same_thrice
    )
    run(held)
    assert [len(asked(held)[turn].messages) for turn in (3, 4, 5, 8)] == [3, 1, 3, 5]
    assert asked(held)[4].messages[0].content == "Begin.\n\nsame"


def test_every_intervention_is_an_event(stage, make_talk, same_thrice):
    held = stage(make_talk(turns=12, countermeasure=Warm(turns=4)), stuck, watch=same_thrice)
    run(held)
    events = held.store.events(held.talk.id)
    assert [event.turn for event in events] == [3, 7, 11]
    assert events[0].detail == {"use": "warm", "by": 0.5, "turns": 4}
    assert [news.event for news in held.news if isinstance(news, Intervention)] == events


def test_a_conversation_without_a_countermeasure_is_left_alone(stage, make_talk, same_thrice):
    held = stage(make_talk(turns=12), stuck, watch=same_thrice)
    run(held)
    assert held.store.events(held.talk.id) == []


@pytest.mark.parametrize("cut", [4, 5, 7, 8])
def test_a_restart_does_not_change_what_is_asked(cut, stage, store, make_talk, same_thrice):
    talk = make_talk(turns=12, countermeasure=Nudge(turns=4), on_failure="pause")
    whole = stage(talk, stuck, watch=same_thrice)
    run(whole)
    for table in ("turns", "attempts", "events"):
        store._db.execute(f"DELETE FROM {table}")
    failures = [ModelFailure("connection", "cut")]
    broken = stage(
        talk,
        lambda r: failures.pop() if r.turn == cut and failures else "same",
        watch=same_thrice,
    )
    run(broken)
    store._db.execute("UPDATE trajectories SET outcome = NULL")
    resumed = stage(talk, stuck, watch=same_thrice)
    run(resumed)
    assert asked(broken) | asked(resumed) == asked(whole)
    assert [event.turn for event in store.events(talk.id)] == [3, 7, 11]


def test_event_lost_in_a_crash_is_recorded_on_restart(stage, store, make_talk, same_thrice):
    talk = make_talk(turns=3, countermeasure=Nudge())
    run(stage(talk, stuck, watch=same_thrice))
    store._db.execute("DELETE FROM events")
    longer = make_talk(turns=4, countermeasure=Nudge())
    run(stage(longer, stuck, watch=same_thrice))
    assert [event.turn for event in store.events(talk.id)] == [3]


def test_a_countermeasure_is_not_triggered_while_it_acts():
    assert due(Warm(turns=4), 7, [])
    assert not due(Warm(turns=4), 7, [4])
    assert due(Warm(turns=4), 8, [4])
