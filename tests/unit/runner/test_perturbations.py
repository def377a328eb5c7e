"""Treatments at planned moments: what the next speakers see, and once each across a kill."""

import asyncio
from dataclasses import replace

import pytest

from chimeralab.core.text import neutral_text
from chimeralab.models.seam import ModelFailure
from chimeralab.runner import converse
from chimeralab.runner.interventions import (
    Advice,
    Drop,
    Interject,
    Mark,
    Moderator,
    Nudge,
    Renew,
    Rotate,
    Schedule,
    Sham,
    Summarise,
)


def run(stage):
    asyncio.run(converse(stage.talk, stage.run))


def asked(stage):
    return {request.turn: request for request in stage.run.models["m"].asked}


def texts(request):
    return [(message.role, message.content) for message in request.messages]


def numbered(request):
    return f"line {request.turn}"


@pytest.fixture
def perturb(stage, make_talk):
    """Run a conversation of numbered lines that is treated after some turns."""

    def make(part, *turns, answer=numbered, length=6, **settings):
        schedule = Schedule("solo", "arm", at_turns=turns, **settings.pop("schedule", {}))
        talk = make_talk(turns=length, countermeasure=part, schedule=schedule)
        held = stage(talk, answer, **settings)
        run(held)
        return held

    return make


def test_planned_turns_are_treated_once_each(perturb):
    held = perturb(Nudge("Move on."), 2, 4)
    events = held.store.events(held.talk.id)
    assert [(e.turn, e.kind, e.detail["arm"]) for e in events] == [
        (2, "intervention", "arm"),
        (4, "intervention", "arm"),
    ]
    assert [t for t, r in asked(held).items() if "Move on." in r.messages[-1].content] == [3, 5]


def test_a_dose_is_given_several_times(perturb):
    held = perturb(Mark(), 1, schedule={"times": 3, "every": 2}, length=8)
    assert [event.turn for event in held.store.events(held.talk.id)] == [1, 3, 5]


def test_a_mark_changes_no_question(perturb, stage, make_talk):
    marked = perturb(Mark(), 3)
    assert [(e.turn, e.kind) for e in marked.store.events(marked.talk.id)] == [(3, "mark")]
    assert texts(asked(marked)[4])[-1] == ("user", "line 3")


def test_a_moderator_is_heard_by_everybody_for_good(perturb):
    held = perturb(Moderator("Be brief."), 2)
    assert texts(asked(held)[3])[-1] == ("user", "line 2\n\nModerator: Be brief.")
    assert texts(asked(held)[4])[1:3] == [
        ("assistant", "line 2"),
        ("user", "Moderator: Be brief.\n\nline 3"),
    ]


def test_an_interjection_seems_to_be_of_the_last_speaker(perturb):
    held = perturb(Interject("I changed my mind."), 2)
    assert texts(asked(held)[3])[-1] == ("user", "line 2\n\nI changed my mind.")
    assert texts(asked(held)[4])[-2] == ("assistant", "line 2\n\nI changed my mind.")


def test_a_renewed_system_message_lasts_some_turns(perturb):
    held = perturb(Renew("Stay curious.", turns=2), 2)
    system = {t for t, r in asked(held).items() if ("system", "Stay curious.") in texts(r)}
    assert system == {3, 4}


def test_dropped_turns_are_gone_and_somebody_is_still_answered(perturb):
    held = perturb(Drop(last=1), 3)
    assert texts(asked(held)[4]) == [("user", "Begin.\n\nline 1")]
    assert texts(asked(held)[5])[-2:] == [("assistant", "line 1"), ("user", "line 2\n\nline 4")]


def test_summarised_turns_are_replaced_by_how_they_began(perturb):
    held = perturb(Summarise(last=2), 3)
    said = texts(asked(held)[4])[-1][1]
    assert "line 3" not in said.split("Moderator: ")[0]
    assert said.endswith("The last 2 turns are left out. They began: “line 2”; “line 3”.")
    event = held.store.events(held.talk.id)[0]
    assert event.detail["text"] in said


def test_a_sham_says_as_much_in_the_same_place(perturb):
    held = perturb(Sham(Summarise(last=2)), 3)
    length = len("The last 2 turns are left out. They began: “line 2”; “line 3”.")
    said = f"line 3\n\nModerator: {neutral_text(length)}"
    assert texts(asked(held)[4])[-1] == ("user", said)
    assert held.store.events(held.talk.id)[0].detail["use"] == "sham"


def test_advice_is_that_of_the_live_guard_and_is_recorded(perturb):
    class Warned:
        collapsed = True

        class warning:  # noqa: N801 - as the guard names it
            advice = "The same message has come again."

        def update(self, turn):
            return self

    held = perturb(Advice(), 2, watch=Warned)
    assert texts(asked(held)[3])[-1] == ("user", "line 2\n\nThe same message has come again.")
    assert held.store.events(held.talk.id)[0].detail["text"] == "The same message has come again."


def test_an_onset_counts_from_the_first_turn_of_the_loop(stage, make_talk, same_thrice):
    schedule = Schedule("solo", "arm", after_onset=2)
    talk = make_talk(turns=9, countermeasure=Mark(), schedule=schedule)
    held = stage(talk, lambda r: "same", watch=same_thrice)
    run(held)
    assert [event.turn for event in held.store.events(talk.id)] == [5]


def test_a_loop_that_ends_by_itself_is_not_treated(stage, make_talk, same_thrice):
    schedule = Schedule("solo", "arm", after_onset=2)
    talk = make_talk(turns=9, countermeasure=Mark(), schedule=schedule)
    held = stage(talk, lambda r: "same" if r.turn < 5 else str(r.turn), watch=same_thrice)
    run(held)
    assert held.store.events(talk.id) == []


def test_nothing_is_done_after_the_last_turn(stage, make_talk, same_thrice):
    schedule = Schedule("solo", "arm", after_onset=0)
    talk = make_talk(turns=3, countermeasure=Mark(), schedule=schedule)
    run(held := stage(talk, lambda r: "same", watch=same_thrice))
    assert held.store.events(talk.id) == []


def test_arms_of_a_condition_share_their_seeds(make_talk):
    one = make_talk(countermeasure=Mark(), schedule=Schedule("solo", "none", (2,)))
    other = replace(one, condition="solo.nudge", schedule=Schedule("solo", "nudge", (2,)))
    assert one.seed_for(5) == other.seed_for(5) == make_talk().seed_for(5)


@pytest.mark.parametrize("cut", [2, 4, 5, 6])
@pytest.mark.parametrize("part", [Advice(), Summarise(), Rotate(("m",)), Sham(Advice())])
def test_a_kill_in_the_middle_applies_it_exactly_once(cut, part, stage, make_talk, same_thrice):
    schedule = Schedule("solo", "arm", after_onset=1, times=2)
    talk = make_talk(turns=8, countermeasure=part, schedule=schedule, on_failure="pause")
    run(whole := stage(talk, lambda r: "same", watch=same_thrice))
    store = whole.store
    events = store.events(talk.id)
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
    run(resumed := stage(talk, lambda r: "same", watch=same_thrice))
    assert [event.turn for event in events] == [4, 5]
    assert store.events(talk.id) == events
    assert asked(broken) | asked(resumed) == asked(whole)
