"""The plain format, which Chimera Lab writes."""

import pytest

from chimeralab import readers
from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers import plain


def test_turns_have_speakers_and_texts(talk):
    turns = [{"speaker": "Ann", "text": "Hi."}, {"speaker": "Bo", "text": "Hello."}]
    assert talk({"id": "a", "turns": turns}).turns == (Turn("Hi.", "Ann"), Turn("Hello.", "Bo"))


def test_turns_may_be_bare_texts(talk):
    assert talk({"turns": ["Hi.", "Hello."]}).turns == (Turn("Hi."), Turn("Hello."))


def test_an_empty_text_is_a_turn(talk):
    assert talk({"turns": [{"speaker": "A", "text": ""}]}).turns[0].spoken


def test_other_fields_become_metadata(talk):
    line = {"id": "a", "model": "m", "scores": {"fun": 3}, "turns": ["Hi."]}
    assert talk(line).metadata == {"model": "m", "scores": {"fun": 3}}


def test_nested_metadata_is_merged_into_the_top_level(talk):
    line = {"turns": ["Hi."], "condition": "b", "metadata": {"model": "m"}}
    assert talk(line).metadata == {"condition": "b", "model": "m"}


def test_a_turn_keeps_its_model_and_role(talk):
    turn = {"speaker": "A", "text": "Hi.", "model": "m-2", "role": "assistant"}
    assert talk({"turns": [turn]}).turns == (Turn("Hi.", "A", "assistant", "m-2"),)


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "seed", "text": "Go."},
        {"role": "prompt", "speaker": "A", "text": "Go."},
        {"speaker": "system", "text": "Be kind."},
        {"speaker": "Tool", "text": "42"},
        {"speaker": "A", "text": "", "spoken": False},
    ],
)
def test_unspoken_messages_keep_their_position(talk, turn):
    read = talk({"turns": [turn, {"speaker": "A", "text": "Hi."}]}).turns
    assert [turn.spoken for turn in read] == [False, True]


def test_speaker_named_prompt_is_spoken(talk):
    assert talk({"turns": [{"speaker": "prompt", "text": "Hi."}]}).turns[0].spoken


def test_an_id_may_be_a_number(talk):
    assert talk({"id": 7, "turns": ["Hi."]}).id == "7"


@pytest.mark.parametrize("missing", [{}, {"id": None}, {"id": ""}])
def test_without_an_id_the_file_and_line_name_it(talk, missing):
    assert talk({"turns": ["Hi."]} | missing).id == "log#1"


def test_the_source_names_file_and_line(write):
    log = write({"turns": ["Hi."]}, {"turns": ["Ho."]})
    assert [one.source for one in readers.read(log)] == [f"{log}:1", f"{log}:2"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"turns": "Hi."}, "turns is text, not a list"),
        ({"turns": None}, "turns is null, not a list"),
        ({"turns": []}, "no turns"),
        ({"turns": ["a", 5]}, "turns[1] is a number, not text or an object"),
        ({"turns": ["a", {"text": 5}]}, "turns[1].text is a number, not text"),
        ({"turns": [{"text": None}]}, "turns[0].text is null, not text"),
        ({"turns": [{"speaker": "A"}]}, "turns[0].text is missing"),
        ({"turns": [{"speaker": [], "text": ""}]}, "turns[0].speaker is a list, not text"),
        ({"turns": [{"text": "", "role": True}]}, "turns[0].role is true or false, not text"),
        ({"turns": [{"text": "", "spoken": 1}]}, "turns[0].spoken is a number, not true or false"),
        ({"turns": ["a"], "id": {}}, "id is an object, not text"),
    ],
)
def test_a_wrong_type_names_its_place(reason, line, expected):
    assert reason(line) == expected


def test_reserved_names_in_metadata_survive_writing(talk):
    metadata = {"id": "x", "turns": 3, "metadata": {"deep": 1}, "model": "m"}
    written = Trajectory("a", (Turn("Hi."),), metadata)
    (line,) = plain.dumps(written).splitlines()
    assert talk(line.encode()).metadata == metadata


def test_metadata_named_as_in_another_format_does_not_make_it_that_format(talk):
    found = talk({"turns": ["Hi."], "eval": {}, "samples": [None]})
    assert found.turns == (Turn("Hi."),)
    assert found.metadata == {"eval": {}, "samples": [None]}
