"""Scenarios from a file: any relation, free or closed questions, errors with their line."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.errors import InputError
from chimeralab.trial.scenarios import GENERATORS, JsonLines
from chimeralab.trial.scenarios.files import read_scenarios

KITCHEN: dict[str, Any] = {
    "id": "kitchen",
    "facts": [
        {"subject": "The oven", "relation": "runs", "value": "too hot"},
        {"id": "salt", "subject": "Ada", "relation": "hid", "value": "the salt", "text": "Salt!"},
    ],
    "questions": [
        {"prompt": "How does the oven run?", "truth": "too hot", "needs": ["f1"]},
        {
            "prompt": "Who hid the salt?",
            "truth": "Ada",
            "options": ["Ada", "Bo"],
            "signal": "Bo",
            "needs": ["salt"],
            "weight": 0.5,
            "novel": True,
        },
    ],
}


def written(folder, *scenarios):
    file = folder / "mine.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in scenarios), encoding="utf-8")
    return file


def test_scenario_is_read_with_its_defaults(tmp_path):
    [found] = read_scenarios(written(tmp_path, KITCHEN))
    assert [fact.id for fact in found.facts] == ["f1", "salt"]
    assert [fact.text for fact in found.facts] == ["The oven runs too hot.", "Salt!"]
    assert [question.kind for question in found.questions] == ["recall", "question"]
    assert found.questions[0].options == ()
    assert found.questions[1].signal == "Bo"


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_scenarios_survive_the_round_trip_through_a_file(tmp_path, name):
    made = [GENERATORS[name]().make(seed) for seed in (1, 2)]
    assert read_scenarios(written(tmp_path, *(each.as_dict() for each in made))) == tuple(made)


WORDS = st.text(string.ascii_letters + " |", min_size=1, max_size=12).filter(str.strip)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_any_relation_can_be_told_and_asked_for(tmp_path_factory, relations):
    facts = [
        {"subject": "Ada", "relation": relation, "value": f"v{n}"}
        for n, relation in enumerate(relations)
    ]
    row = {"facts": facts, "questions": [{"prompt": "Which?", "truth": "v0", "needs": ["f1"]}]}
    [found] = read_scenarios(written(tmp_path_factory.mktemp("set"), row))
    assert [fact.relation for fact in found.facts] == relations
    assert all(fact.relation in fact.prompt or "?" in fact.prompt for fact in found.facts)


@pytest.mark.parametrize(
    ("truth", "accepted"),
    [
        (["Paris", "Lutetia"], ("Paris", "Lutetia")),
        ({"number": 3.5, "tolerance": 0.5}, (3.5,)),
        ({"forms": ["a"], "pattern": "a+"}, ("a",)),
    ],
)
def test_free_truth_may_have_several_forms(tmp_path, truth, accepted):
    row = {"questions": [{"prompt": "Which?", "truth": truth}]}
    [found] = read_scenarios(written(tmp_path, row))
    assert found.questions[0].accepts.forms == accepted
    assert found.questions[0].truth == accepted[0]


def question(**keys):
    return {"questions": [{"prompt": "Which?", "truth": "a", **keys}]}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"questions": []}, "line 1: questions is empty"),
        ({"facts": 3, "questions": [{}]}, "facts must be a list of objects, not 3"),
        ({"questions": [{"prompt": "Which?"}]}, "question 1 needs a key 'truth'"),
        (question(optoins=["a"]), "'optoins' in question 1 .did you mean 'options'"),
        (question(options=["b", "c"]), 'truth "a" is not one of its options: b, c'),
        (question(options=["a", "c"], signal="d"), 'signal "d" is not one of its options'),
        (question(options=["a", "a"]), "duplicate option of question 1 'a'"),
        (question(signal="a"), "signal is the truth"),
        (question(weight=2), "weight must be between 0 and 1, not 2"),
        (question(needs=["f9"]), 'unknown fact "f9" in question 1 needs'),
        (question(pair="p", frame="neutral"), "pair 'p' has the frames neutral"),
        (question(frame="neutral"), "has a frame but no pair"),
        ({"id": 3, **question()}, "id must be a string, not 3"),
        ({"titel": "x", **question()}, "unknown key 'titel' in a scenario"),
    ],
)
def test_error_names_the_line(tmp_path, row, complaint):
    with pytest.raises(InputError, match=complaint) as raised:
        read_scenarios(written(tmp_path, row))
    assert "mine.jsonl, line 1: " in str(raised.value)


def test_duplicate_id_and_too_large_number_are_rejected(tmp_path):
    with pytest.raises(InputError, match="line 2: duplicate id 'kitchen'"):
        read_scenarios(written(tmp_path, KITCHEN, KITCHEN))
    file = written(tmp_path, KITCHEN)
    assert len(JsonLines(file.name).within(tmp_path).read()) == 1
    with pytest.raises(InputError, match=r"has 1 scenario, but \[scenarios\] number is 2"):
        JsonLines(str(file)).read(2)
