"""Which turns are judged, and how the output calls them."""

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.judged_turns import judged


def talk(*turns: Turn) -> Trajectory:
    return Trajectory("talk", turns, source="log.jsonl:1")


def said(speaker: str | None, role: str | None = None, *, spoken: bool = True) -> Turn:
    return Turn(f"{speaker} speaks", speaker=speaker, role=role, spoken=spoken)


def test_a_chat_is_judged_by_its_assistant_turns():
    series = judged(talk(said("user"), said("assistant"), said("user"), said("assistant")))
    assert series.positions == (2, 4)
    assert series.who == "assistant turns (chat)"


def test_other_names_make_self_play_and_all_turns_count():
    series = judged(talk(said("user"), said("jane"), said("user")))
    assert series.positions == (1, 2, 3)
    assert series.who == "all turns (self-play)"


def test_turns_without_speakers_are_self_play():
    assert judged(talk(said(None), said(None))).positions == (1, 2)


def test_one_assistant_alone_is_no_chat():
    assert judged(talk(said("assistant"), said("assistant"))).who == "all turns (self-play)"


def test_a_third_speaker_makes_it_self_play():
    series = judged(talk(said("user"), said("assistant"), said("critic")))
    assert series.positions == (1, 2, 3)


def test_unspoken_turns_hold_their_place_but_are_never_judged():
    system = said("system", "system", spoken=False)
    series = judged(talk(system, said("user"), said("assistant"), system, said("assistant")))
    assert series.positions == (3, 5)
    assert all(turn.spoken for turn in series.turns)


def test_roles_make_a_chat_whatever_the_names():
    series = judged(talk(said("Ann", "user"), said("assistant-2", "assistant")))
    assert [turn.speaker for turn in series.turns] == ["assistant-2"]
    assert series.who == "assistant turns (chat)"


def test_a_user_called_assistant_is_not_the_assistant():
    series = judged(talk(said("assistant", "user"), said("Bo", "assistant")))
    assert series.positions == (2,)


def test_an_agent_that_only_calls_tools_leaves_nothing_to_judge():
    series = judged(talk(said("user", "user"), said("assistant", "assistant", spoken=False)))
    assert series.turns == ()
    assert series.who == "assistant turns (chat)"


def test_capital_letters_do_not_change_who_speaks():
    assert judged(talk(said("User"), said("Assistant"))).positions == (2,)


@pytest.mark.parametrize("name", ["jane", "JANE"])
def test_a_name_picks_that_speaker(name: str):
    series = judged(talk(said("user"), said("jane"), said("user"), said("jane")), name)
    assert series.positions == (2, 4)
    assert series.who == f"turns of {name} (asked for)"


def test_a_role_picks_whoever_has_it():
    assert judged(talk(said("Ann", "user"), said("Bo", "assistant")), "user").positions == (1,)


def test_all_overrides_the_chat_rule():
    series = judged(talk(said("user"), said("assistant")), "all")
    assert series.positions == (1, 2)
    assert series.who == "all turns (asked for)"


def test_an_unknown_speaker_names_those_there_are():
    with pytest.raises(InputError, match=r"no turn by 'jan' .*log\.jsonl:1.*: user, jane;"):
        judged(talk(said("user"), said("jane")), "jan")


def test_an_empty_name_is_nobody():
    with pytest.raises(InputError, match="none is named"):
        judged(talk(said(None)), "")
