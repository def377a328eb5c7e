"""Importers of public sets, on the sets themselves where available, and on wrong files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.trial.scenarios.files import (
    read_benchform,
    read_mt_consistency,
    read_sycon,
)

DATA = Path(__file__).parents[4] / "../shared/data"
BENCHFORM = DATA / "benchform"
SYCON = DATA / "sycon-false-presuppositions"
MT = DATA / "mt-consistency" / "cleaned_data.csv"

needs_benchform = pytest.mark.skipif(not BENCHFORM.exists(), reason="BenchForm is not at hand")
needs_sycon = pytest.mark.skipif(not SYCON.exists(), reason="SYCON-Bench is not at hand")
needs_mt = pytest.mark.skipif(not MT.exists(), reason="MT-Consistency is not at hand")


@needs_benchform
def test_the_wrong_answers_of_benchform_are_right_in_1188_of_3299_items() -> None:
    items = [
        item
        for file in BENCHFORM.glob("*.json")
        for item in json.loads(file.read_text(encoding="utf-8"))["data"]
    ]
    right = sum(item["multiple_choice_scores"][item["random_ans_idx"]] for item in items)
    assert (right, len(items)) == (1188, 3299)


@needs_benchform
def test_imported_benchform_signals_are_always_wrong() -> None:
    scenarios = read_benchform(BENCHFORM, seed=3)
    questions = [question for scenario in scenarios for question in scenario.questions]
    assert len(scenarios) == 13
    # Both options of one item are identical, so no option would be wrong.
    assert len(questions) == 3298
    assert all(question.signal in question.options for question in questions)
    assert all(question.truth in question.options for question in questions)
    assert all(question.signal != question.truth for question in questions)
    assert not any("Answer choices" in question.prompt for question in questions)


@needs_benchform
def test_another_seed_draws_other_wrong_options() -> None:
    file = BENCHFORM / "movie_recommendation.json"
    first, again, other = (read_benchform(file, seed=seed)[0].sha256 for seed in (1, 1, 2))
    assert first == again != other


@needs_sycon
def test_sycon_has_200_beliefs_with_four_pushes_each() -> None:
    questions = read_sycon(SYCON).questions
    assert len(questions) == 200
    assert all(len(question.pushes) == 4 and all(question.pushes) for question in questions)
    assert all(question.truth and question.signal for question in questions)
    assert questions[3].truth == "Faster wind has a higher pitch than slower wind."


@needs_mt
def test_mt_consistency_has_700_questions_of_39_subjects() -> None:
    scenarios = read_mt_consistency(MT)
    questions = [question for scenario in scenarios for question in scenario.questions]
    assert (len(scenarios), len(questions)) == (39, 700)
    assert all(question.truth in question.options for question in questions)
    assert all(question.signal != question.truth for question in questions)
    assert questions[2].options == ("6", "12", "30", "105")


ITEM = {
    "parsed_inputs": "Which?\n\nAnswer choices:\n(A) x\n(B) y",
    "multiple_choice_targets": ["x", "y"],
    "multiple_choice_scores": [0, 1],
}


def test_benchform_item_keeps_its_question_and_its_truth(tmp_path: Path) -> None:
    file = tmp_path / "task.json"
    file.write_text(json.dumps({"data": [ITEM]}))
    [question] = read_benchform(file)[0].questions
    assert (question.prompt, question.truth, question.signal) == ("Which?", "y", "x")


WRONG: dict[str, tuple[Callable[[Path], object], str, bytes, str]] = {
    "benchform, other JSON": (read_benchform, "a.json", b"[1, 2]", "not a BenchForm task"),
    "benchform, other items": (read_benchform, "a.json", b'{"data": [{"x": 1}]}', "item 1"),
    "benchform, no truth": (
        read_benchform,
        "a.json",
        json.dumps({"data": [ITEM | {"multiple_choice_scores": [0, 0]}]}).encode(),
        "item 1",
    ),
    "benchform, a table": (read_benchform, "a.csv", b"question,choices\n", "not JSON"),
    "benchform, bytes": (read_benchform, "a.json", b"\xff\xfe\x00", "not UTF-8"),
    "mt, a JSON file": (read_mt_consistency, "a.json", b'{"data": []}', "no column 'question'"),
    "mt, no row": (read_mt_consistency, "a.csv", b"question,choices,answer,subject\n", "no row"),
    "mt, strange choices": (
        read_mt_consistency,
        "a.csv",
        b"question,choices,answer,subject\nq,open('x'),A,s\n",
        "entry 1: choices is not a list",
    ),
    "mt, strange answer": (
        read_mt_consistency,
        "a.csv",
        b"question,choices,answer,subject\nq,\"['A. x', 'B. y']\",C. z,s\n",
        "entry 1: the answer is not among",
    ),
    "sycon, a file": (read_sycon, "a.txt", b"What?\n", "is not a folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file_is_named_with_the_expected_format(tmp_path: Path, case: str) -> None:
    read, name, content, words = WRONG[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize("read", [read_benchform, read_mt_consistency, read_sycon])
def test_missing_file_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(InputError, match="nowhere"):
        read(tmp_path / "nowhere")


def test_empty_folder_is_rejected_as_benchform(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.json file"):
        read_benchform(tmp_path)


def test_mismatched_sycon_files_are_rejected(tmp_path: Path) -> None:
    for name in ("questions", "presuppositions", "corrections"):
        (tmp_path / f"{name}.txt").write_text("One?\nTwo?\n")
    header = "Question,Pushback_1,Pushback_2,Pushback_3,Pushback_4\n"
    (tmp_path / "push_back.csv").write_text(header + "One?,a,b,c,d\n")
    with pytest.raises(InputError, match="entry 2 does not match"):
        read_sycon(tmp_path)
    (tmp_path / "push_back.csv").write_text("Question\nOne?\n")
    with pytest.raises(InputError, match="Pushback_1"):
        read_sycon(tmp_path)
    (tmp_path / "push_back.csv").write_text(header + "One?,a,b\nTwo?,a,b,c,d\n")
    with pytest.raises(InputError, match="entry 1 lacks a push-back"):
        read_sycon(tmp_path)
