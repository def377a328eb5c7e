"""ShareGPT logs and their variants."""

import pytest

import chimeralab
from chimeralab.detection.seam import choose_turns

TALK = [{"from": "human", "value": "Hi."}, {"from": "gpt", "value": "Hello!"}]


@pytest.mark.parametrize("shape", [{"conversations": TALK}, {"conversation": TALK}, TALK])
def test_human_and_gpt_are_user_and_assistant(talk, shape):
    read = talk(shape)
    assert [(turn.speaker, turn.role, turn.text) for turn in read.turns] == [
        ("user", "user", "Hi."),
        ("assistant", "assistant", "Hello!"),
    ]
    assert choose_turns(read)[0] == (2,)


@pytest.mark.parametrize("name", ["gpt", "bot", "chatgpt", "assistant", "GPT", "model"])
def test_the_assistant_has_many_names(talk, name):
    assert talk({"conversations": [{"from": name, "value": "x"}]}).turns[0].role == "assistant"


@pytest.mark.parametrize("name", ["system", "tool", "function_call", "observation"])
def test_system_and_tools_are_not_spoken(talk, name):
    assert not talk({"conversations": [{"from": name, "value": "x"}]}).turns[0].spoken


def test_an_assistant_that_only_calls_tools_is_judged_and_not_its_user(talk):
    """No turn can be judged, but the calls are kept for the loop detector."""
    asked = {"from": "human", "value": "How warm is it?"}
    call = {"from": "function_call", "value": '{"name": "warm", "arguments": {"town": "Oslo"}}'}
    read = talk({"conversations": [asked, *[call, {"from": "observation", "value": "12"}] * 5]})
    assert choose_turns(read) == ((), "assistant turns (chat)")
    (loop,) = chimeralab.detect(read, detector=None).loops
    assert loop.level == "verdict"


def test_entries_may_have_role_and_content(talk):
    entries = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}]
    assert [turn.text for turn in talk({"conversation": entries}).turns] == ["Hi.", "Hello!"]


@pytest.mark.parametrize("sides", [("human", "assistant"), ("user", "assistant"), ("human", "gpt")])
def test_a_pair_is_two_turns_the_question_first(talk, sides):
    asks, answers = sides
    pair = {answers: "Hello!", asks: "Hi."}
    turns = talk({"conversation": [pair]}).turns
    assert [(turn.role, turn.text) for turn in turns] == [("user", "Hi."), ("assistant", "Hello!")]


def test_id_and_single_fields_are_kept(talk):
    read = talk({"id": "x_0", "conversations": TALK, "model": "m", "tools": []})
    assert (read.id, read.metadata) == ("x_0", {"model": "m"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"conversations": {}}, "conversations is an object, not a list"),
        (
            {"conversations": [{"from": "gpt", "value": 5}]},
            "conversations[0].value is a number, not text",
        ),
        ({"conversations": [{"from": "gpt"}]}, "conversations[0].value is missing"),
        ({"conversations": [{"value": "x"}]}, "conversations[0].from is missing"),
        ({"conversation": [5]}, "conversation[0] is a number, not an object"),
        ({"conversations": []}, "no turns"),
    ],
)
def test_a_wrong_type_names_its_place(reason, line, expected):
    assert reason(line) == expected


def test_entries_may_have_a_speaker_and_a_message(talk):
    told = [{"round": n, "speaker": name, "message": f"{name}."} for n, name in enumerate("ABAB")]
    read = talk({"topic": "letters", "conversation": told})
    assert [(turn.speaker, turn.text) for turn in read.turns][:2] == [("A", "A."), ("B", "B.")]
    assert choose_turns(read)[1] == "all turns (self-play)"
