"""Which turns are judged, and how they are described."""

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.seam import choose_turns, list_judged_turns


def talk(*turns: Turn) -> Trajectory:
    return Trajectory("talk", turns, source="log.jsonl:1")


def said(speaker: str | None, role: str | None = None, *, spoken: bool = True) -> Turn:
    return Turn(f"{speaker} speaks", speaker=speaker, role=role, spoken=spoken)


def test_chat_is_judged_by_its_assistant_turns():
    positions, whose = choose_turns(
        talk(said("user"), said("assistant"), said("user"), said("assistant"))
    )
    assert positions == (2, 4)
    assert whose == "assistant turns (chat)"


def test_other_names_make_self_play_and_all_turns_count():
    positions, whose = choose_turns(talk(said("user"), said("jane"), said("user")))
    assert positions == (1, 2, 3)
    assert whose == "all turns (self-play)"


def test_turns_without_speakers_are_self_play():
    assert choose_turns(talk(said(None), said(None)))[0] == (1, 2)


def test_one_assistant_alone_is_not_a_chat():
    assert choose_turns(talk(said("assistant"), said("assistant")))[1] == "all turns (self-play)"


def test_third_speaker_makes_it_self_play():
    positions, _ = choose_turns(talk(said("user"), said("assistant"), said("critic")))
    assert positions == (1, 2, 3)


def test_unspoken_turns_keep_their_position_but_are_never_judged():
    system = said("system", "system", spoken=False)
    read = talk(system, said("user"), said("assistant"), system, said("assistant"))
    assert choose_turns(read)[0] == (3, 5)
    assert all(turn.spoken for turn in list_judged_turns(read))


def test_roles_decide_what_is_a_chat_whatever_the_names():
    read = talk(said("Ann", "user"), said("assistant-2", "assistant"))
    assert [turn.speaker for turn in list_judged_turns(read)] == ["assistant-2"]
    assert choose_turns(read)[1] == "assistant turns (chat)"


def test_user_called_assistant_is_not_the_assistant():
    positions, _ = choose_turns(talk(said("assistant", "user"), said("Bo", "assistant")))
    assert positions == (2,)


def test_agent_that_only_calls_tools_leaves_nothing_to_judge():
    positions, whose = choose_turns(
        talk(said("user", "user"), said("assistant", "assistant", spoken=False))
    )
    assert positions == ()
    assert whose == "assistant turns (chat)"


def test_speaker_names_are_case_insensitive():
    assert choose_turns(talk(said("User"), said("Assistant")))[0] == (2,)


@pytest.mark.parametrize("name", ["jane", "JANE"])
def test_name_selects_that_speaker(name: str):
    positions, whose = choose_turns(
        talk(said("user"), said("jane"), said("user"), said("jane")), name
    )
    assert positions == (2, 4)
    assert whose == f"turns of {name} (asked for)"


def test_role_selects_every_speaker_with_it():
    assert choose_turns(talk(said("Ann", "user"), said("Bo", "assistant")), "user")[0] == (1,)


def test_all_overrides_the_chat_rule():
    positions, whose = choose_turns(talk(said("user"), said("assistant")), "all")
    assert positions == (1, 2)
    assert whose == "all turns (asked for)"


def test_unknown_speaker_error_lists_the_speakers():
    with pytest.raises(InputError, match=r"no turn by 'jan' .*log\.jsonl:1.*: user, jane;"):
        choose_turns(talk(said("user"), said("jane")), "jan")


def test_empty_name_is_rejected():
    with pytest.raises(InputError, match="none is named"):
        choose_turns(talk(said(None)), "")
