"""The conversation as each speaker sees it."""

from chimeralab.models.seam import Message, Sampling
from chimeralab.runner import Prompt, Rules, Speaker, Talk, TurnRecord
from chimeralab.runner.converse import visible_messages
from chimeralab.runner.interventions import Ask

SAMPLING = Sampling()


def talk(speakers, seed_visible="all", system=None):
    cast = tuple(Speaker(f"s{n}", "m", SAMPLING, system) for n in range(speakers))
    return Talk("c", Prompt("p", "seed"), 1, cast, Rules(seed_visible=seed_visible), 0)


def seen(talk, turn, **ask):
    said = [TurnRecord(n, "", "m", f"t{n}", "stop") for n in range(1, turn)]
    asked = Ask(turn, talk.slot(turn), len(talk.speakers), "m", SAMPLING, **ask)
    return [(message.role, message.content) for message in visible_messages(talk, asked, said)]


def test_own_turns_are_the_assistants_and_others_the_users():
    assert seen(talk(2), 4) == [("user", "seed\n\nt1"), ("assistant", "t2"), ("user", "t3")]
    assert seen(talk(2), 3) == [("user", "seed"), ("assistant", "t1"), ("user", "t2")]


def test_turns_of_several_others_become_one_message():
    assert seen(talk(3), 5) == [
        ("user", "seed\n\nt1"),
        ("assistant", "t2"),
        ("user", "t3\n\nt4"),
    ]


def test_the_seed_prompt_can_be_for_the_first_speaker_alone():
    assert seen(talk(3, "first"), 4)[0] == ("user", "seed")
    assert seen(talk(3, "first"), 2) == [("user", "t1")]
    assert seen(talk(3, "first"), 3) == [("user", "t1\n\nt2")]


def test_a_system_prompt_comes_first():
    assert seen(talk(2, system="Be brief."), 1) == [("system", "Be brief."), ("user", "seed")]


def test_hint_follows_its_turn():
    assert seen(talk(2), 4, hints=((3, "nudge"),))[-1] == ("user", "t3\n\nnudge")
    assert seen(talk(2), 6, hints=((3, "nudge"),))[2] == ("user", "t3\n\nnudge")


def test_a_shortened_history_keeps_the_seed_for_those_who_see_it():
    assert seen(talk(2), 9, first_shown=7) == [
        ("user", "seed"),
        ("assistant", "t7"),
        ("user", "t8"),
    ]


def test_a_shortened_history_never_opens_with_the_speakers_own_turn():
    assert seen(talk(2, "first"), 10, first_shown=8) == [
        ("user", "t7"),
        ("assistant", "t8"),
        ("user", "t9"),
    ]


def test_visible_history_consists_of_messages():
    asked = Ask(1, 0, 2, "m", SAMPLING)
    assert visible_messages(talk(2), asked, []) == (Message("user", "seed"),)
