"""Preference pairs, and the tests of promptfoo that are one conversation."""

import json

import chimeralab
from chimeralab import readers
from chimeralab.detection.seam import list_judged_turns


def test_both_answers_of_a_preference_are_conversations(write):
    asked = {"role": "user", "content": "Which is it?"}
    same, other = ({"role": "assistant", "content": text} for text in ("The red one.", "Blue."))
    looping, healthy = [asked, same] * 6, [asked, other]
    log = write({"prompt": [asked], "chosen": healthy, "rejected": looping})
    chosen, rejected = readers.read(log)
    assert [turn.text for turn in list_judged_turns(chosen)] == ["Blue."]
    assert [turn.text for turn in list_judged_turns(rejected)] == ["The red one."] * 6
    assert chimeralab.detect(rejected, detector=None).loops
    chosen, _ = readers.read(
        write({"chosen": "\n\nHuman: Hi\n\nAssistant: Yes?", "rejected": "No."})
    )
    assert [turn.text for turn in list_judged_turns(chosen)] == ["Yes?"]
    asked, good, bad = ({"from": who, "value": who} for who in ("human", "gpt", "bot"))
    chosen, rejected = readers.read(
        write({"conversations": [asked], "chosen": good, "rejected": bad})
    )
    assert [turn.text for turn in chosen.turns] == ["human", "gpt"]
    assert [turn.text for turn in rejected.turns] == ["human", "bot"]


def promptfoo_test(asked: list[str], answer: str) -> dict[str, object]:
    messages = [
        {"role": "assistant" if n % 2 else "user", "content": said} for n, said in enumerate(asked)
    ]
    return {
        "prompt": {"raw": json.dumps(messages)},
        "vars": {},
        "testCase": {"metadata": {"conversationId": "c"}},
        "response": {"output": answer},
    }


def test_tests_that_repeat_the_conversation_are_joined_without_repeating_it(talk):
    read = talk(promptfoo_test(["Hi"], "Yes?"), promptfoo_test(["Hi", "Yes?", "Bye"], "Bye."))
    assert [turn.text for turn in read.turns] == ["Hi", "Yes?", "Bye", "Bye."]


def test_repeated_question_is_kept_twice(talk):
    read = talk(promptfoo_test(["Hi"], "Yes?"), promptfoo_test(["Hi"], "Yes?"))
    assert [turn.text for turn in read.turns] == ["Hi", "Yes?"] * 2
