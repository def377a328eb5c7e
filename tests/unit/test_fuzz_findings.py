"""Inputs on which fuzzing once found a traceback; each is refused in a sentence now."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import chimeralab
from chimeralab.cli.hook import read_settings
from chimeralab.core.errors import InputError
from chimeralab.core.records import Call
from chimeralab.models.seam import parse_answer
from chimeralab.rating.rubric import BUILT_IN, load_rubric, lock_path, parse_rubric
from chimeralab.study import Study
from chimeralab.study.lock import digest
from chimeralab.trial.replies import cut_next_turn, read_choice
from chimeralab.trial.scenarios.files import read_scenarios
from chimeralab.trial.scoring import asserts, find_number
from chimeralab.trial.trials import TrialLog
from tests.campaign import limit_time
from tests.plans import SELFPLAY, TRIAL

DEEP = "[" * 100_000


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('name = "phantoms"', f"name = {DEEP}"), "not valid TOML: nested too deeply"),
        (('name = "phantoms"', 'name = "a"\nkind = {}'), r"unknown kind = \{\}"),
        (("[study]", "[kind]\nuse = {}\n[study]"), r"\[kind\] needs use = NAME"),
    ],
)
def test_odd_plan_is_refused(make_study, change, said: str) -> None:
    with pytest.raises(InputError, match=said):
        _ = make_study(SELFPLAY, change).plan


def test_trial_whose_run_is_not_a_table_is_refused(make_study) -> None:
    without = TRIAL["plan.toml"].replace("[run]", "[former]")
    study = make_study({**TRIAL, "plan.toml": "run = 3\n" + without.partition("[former]")[0]})
    with pytest.raises(InputError, match=r"\[run\] must be a table of keys, not 3"):
        _ = study.plan


@pytest.mark.parametrize("line", [DEEP, "9" * 5_000])
def test_prompt_that_cannot_be_parsed_is_named_by_its_line(make_study, line: str) -> None:
    study = make_study(SELFPLAY, '[prompts]\nfile = "prompts.jsonl"\n')
    (study.path / "prompts.jsonl").write_text(line, encoding="utf-8")
    said = refusal(lambda: Study(study.path).plan)
    assert said.startswith("plan.toml: prompts.jsonl, line 1: not valid JSON (")


def test_rubric_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in refusal(lambda: parse_rubric(f"a = {DEEP}".encode(), "r.toml"))
    path = tmp_path / "rubric.toml"
    path.write_bytes(BUILT_IN.read_bytes())
    lock_path(path).write_text(DEEP, encoding="utf-8")
    assert "is damaged; restore it" in refusal(lambda: load_rubric(path))


def test_settings_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(DEEP, encoding="utf-8")
    assert "not a valid settings file" in refusal(lambda: read_settings(path))


def test_reply_that_is_nested_too_deeply_is_not_an_answer() -> None:
    assert parse_answer(DEEP) is None


def test_truth_that_is_nested_too_deeply_is_text(tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text(f"session,trial,truth\ns,1,{DEEP}\n", encoding="utf-8")
    (row,) = TrialLog(path).read()
    assert row.truth == DEEP


@pytest.mark.parametrize("change", [{"resolved": "x"}, {"resolved": [1]}, {"schema": "x"}, DEEP])
def test_lock_of_odd_types_is_damaged(make_study, change: dict[str, Any] | str) -> None:
    study = make_study(SELFPLAY, steps=("lock",))
    values = json.loads(study.lock_path.read_bytes())
    if isinstance(change, dict):
        del values["sha256"]
        values |= change
        values["sha256"] = digest(values)
    text = change if isinstance(change, str) else json.dumps(values)
    study.lock_path.write_text(text, encoding="utf-8")
    assert "plan.lock is damaged" in refusal(Study(study.path).check_lock)


def test_reply_that_repeats_its_answer_for_ever_is_read_in_linear_time() -> None:
    with limit_time(10.0):  # of CPU; it took half a minute
        assert read_choice("My answer is Rome, I am sure.\n" * 12_000, ("Paris", "Rome")) == "Rome"


@pytest.mark.parametrize(
    "text", ["\n" * 30_000, "Rome. " * 60_000, "> *\n" * 20_000, "-Rome" * 60_000]
)
def test_long_reply_is_scored_in_linear_time(text: str) -> None:
    with limit_time(10.0):
        find_number(text)
        asserts(text, "Rome", "Where is it?")


@pytest.mark.parametrize("between", ["", "\n", "\n\n > **\n", "**"])
def test_next_turn_is_cut_with_the_marks_before_it(between: str) -> None:
    assert cut_next_turn(f"Rome.\n{between} **User 2: Why?") == "Rome."


def test_deeply_nested_arguments_of_a_call_become_json_values() -> None:
    nested: Any = 1
    for _ in range(600):
        nested = {"a": nested}
    assert Call("f", nested).as_dict()["arguments"] == "(nested too deeply)"


@pytest.mark.parametrize("key", [1, None, ("a", 2), 3.5, b"role", True])
def test_message_whose_key_is_not_a_text_is_refused(key: Any) -> None:
    for talk in ([{key: "user"}], [{key: 1, "x": [{key: 2}]}]):
        assert "its fields are" in refusal(partial(chimeralab.detect, talk, detector=None))
    hello = {"role": "user", "content": "Hi.", key: {key: 1}}
    with suppress(InputError):
        chimeralab.detect([hello], detector=None)
    with suppress(InputError):
        chimeralab.Guard(vectors=False).update(hello)


@pytest.mark.parametrize("need", [1, None, [], {}, [{"a": 1}], 2.5])
def test_question_that_needs_a_fact_of_another_type_is_refused(tmp_path: Path, need: Any) -> None:
    fact = {"id": "f1", "subject": "The fox", "relation": "lives in", "value": "a den"}
    asked = {"prompt": "Where?", "truth": "a den", "options": ["a den"], "needs": [need]}
    path = tmp_path / "scenarios.jsonl"
    scenario = {"id": "fox", "kind": "own", "facts": [fact], "questions": [asked]}
    path.write_text(json.dumps(scenario), encoding="utf-8")
    assert "needs" in refusal(lambda: list(read_scenarios(path)))
