"""Scoring of free answers: exact, numeric, by meaning, and against the contradiction guard."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.embedding.encoder import default_token_encoder
from chimeralab.trial.course import Layout
from chimeralab.trial.replies import find_option
from chimeralab.trial.scenarios import GENERATORS
from chimeralab.trial.scoring import Scorer, statement_similarity
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.session import score
from chimeralab.trial.trials import Answer, read_truth
from chimeralab.trial.wording import numbers_differ, quantities

SCORER = Scorer()


def of(unit: str, value: float, counted: str = "") -> tuple[str, float, str]:
    """A quantity as `quantities` returns it."""
    return unit, value, counted


@pytest.mark.parametrize(
    ("answer", "truth"),
    [("Paris", "paris"), ("The Louvre.", "louvre"), ('"C++"', "c++"), (True, True), (3, 3)],
)
def test_the_same_letters_are_exact(answer: Answer, truth: Answer) -> None:
    assert SCORER.score(answer, truth).how == "exact"


@pytest.mark.parametrize(
    ("answer", "truth", "same"),
    [
        ("42", 42, True),
        ("The answer is forty-two.", 42, True),
        ("42.0", "42", True),
        ("It costs $1,250", 1250, True),
        ("There is only one.", 1, True),
        ("-5", 5, False),
        ("between 40 and 44", 42, False),
        ("It is not 42.", 42, False),
        ("I do not know", 42, False),
        ("many", 42, False),
        (0.1 + 0.2, 0.3, True),
    ],
)
def test_numbers_are_compared_as_numbers(answer: Answer, truth: Answer, same: bool) -> None:
    verdict = SCORER.score(answer, truth)
    assert verdict.same is same
    assert verdict.similarity is None


@pytest.mark.weights
def test_paraphrases_count_as_the_same() -> None:
    verdict = SCORER.score("He bought a big house.", "He bought a large house.")
    assert verdict.how == "meaning"
    assert verdict.similarity is not None
    assert verdict.similarity > 0.9


@pytest.mark.weights
def test_unrelated_statements_are_different() -> None:
    verdict = SCORER.score("Bees make honey.", "The train was late.")
    assert (verdict.same, verdict.how) == (False, "different")


def test_conflict_names_its_kind() -> None:
    verdict = SCORER.score("The door is open.", "The door is shut.")
    assert (verdict.same, verdict.how, verdict.conflict) == (False, "conflict", "opposite")


def test_empty_answer_is_wrong() -> None:
    assert not SCORER.score("", "The door is open.").same


@pytest.mark.weights
def test_mean_of_the_piece_vectors_points_where_the_sentence_vector_does() -> None:
    from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415

    text = "The old clock in the hall still works."
    pieces = default_token_encoder().encode(text)
    sentence = default_encoder().encode_exactly([text]).vectors[0]
    mean = pieces.mean(axis=0)
    assert np.allclose(np.linalg.norm(pieces, axis=1), 1, atol=1e-5)
    assert float(mean @ sentence / np.linalg.norm(mean)) > 0.98


def test_similarity_is_symmetric_and_one_for_equal_pieces() -> None:
    rng = np.random.default_rng(3)
    one, other = (rng.normal(size=(n, 8)).astype(np.float32) for n in (4, 7))
    one, other = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (one, other))
    assert statement_similarity(one, other) == pytest.approx(statement_similarity(other, one))
    assert statement_similarity(one, one) == pytest.approx(1)
    assert statement_similarity(one, one[:0]) == 0


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        ("Rome", "Rome"),
        ("(B)", "Rome"),
        ("B. Rome", "Rome"),
        ("I think that it is Rome.", "Rome"),
        ("New Rome", "New Rome"),
        ("Paris or Rome?", None),
        ("It is not Rome.", None),
        ("(Z)", None),
        ("no idea", None),
        ("", None),
    ],
)
def test_answer_names_one_option_or_none(answer: str, option: str | None) -> None:
    assert find_option(answer, ["Paris", "Rome", "New Rome"]) == option


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two hundred and five", [of("", 205)]),
        ("nineteen eighty-four", [of("", 1984)]),
        ("1.2 million", [of("", 1_200_000)]),
        ("two dozen", [of("", 24)]),
        ("World War II", [of("", 2)]),
        ("$5", [of("dollar", 5)]),
        ("COVID-19", [of("", 19)]),
        ("-5", [of("", -5)]),
        ("for a second", []),
        ("30 seconds", [of("second", 30)]),
        ("half", [of("", 0.5)]),
        ("6 four", [of("", 6, "four"), of("", 4)]),
    ],
)
def test_quantities_are_read_from_words_and_digits(
    text: str, expected: list[tuple[str, float, str]]
) -> None:
    assert list(quantities(text)) == expected


def test_numbers_are_compared_with_what_they_count() -> None:
    assert numbers_differ("12 cows and 3 horses", "3 cows and 12 horses")
    assert not numbers_differ("12 cows and 3 horses", "3 horses and 12 cows")


@pytest.mark.parametrize(
    ("answer", "truth", "same"),
    [
        ("The capital is Paris.", "Paris", True),
        ("It is Lutetia.", ["Paris", "Lutetia"], True),
        ("It is Lyon.", ["Paris", "Lutetia"], False),
        ("About 3.1, I think.", {"number": 3.14, "tolerance": 0.05}, True),
        ("About 3.3, I think.", {"number": 3.14, "tolerance": 0.05}, False),
        ("I would take the red one.", {"pattern": r"\bred\b"}, True),
        ("I would not take the red one.", {"pattern": r"\bred\b"}, False),
        ("Not red but crimson.", {"forms": ["red"], "pattern": "crimson"}, True),
    ],
)
def test_the_truth_may_be_forms_a_number_with_a_tolerance_or_a_pattern(answer, truth, same):
    assert SCORER.score(answer, read_truth(truth)).same is same


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "needs a form"),
        ({"pattern": "("}, "pattern of a truth"),
        ({"number": "three"}, "finite number"),
        ({"forms": ["Paris"], "tolerance": 1}, "must be a number, not 'Paris'"),
        ({"number": 3, "tolerance": -1}, "not 0 or more"),
        ({"regex": "x"}, "known: forms, number, tolerance, pattern"),
    ],
)
def test_empty_truth_is_rejected(value, words):
    with pytest.raises(InputError, match=words):
        read_truth(value)


def test_answer_that_names_every_value_is_wrong():
    cities = ("Rome", "Oslo", "Paris")
    everything = "It is Rome, Oslo, Paris."
    assert not any(
        SCORER.score(everything, truth, rivals=[each for each in cities if each != truth]).same
        for truth in cities
    )


SAYINGS = ("{}", "The answer is {}.", "It is {}, I am sure of it.", "{} - that is what I was told.")


def courses():
    for generator in GENERATORS.values():
        for seed in (1, 2):
            yield Layout().lay_out(generator().make(seed), 2, 0)


@pytest.mark.parametrize("free", [True, False], ids=["free", "closed"])
@pytest.mark.parametrize("saying", SAYINGS)
def test_perfect_subject_scores_one_on_every_set(saying, free):
    for course in courses():
        steps = [
            replace(step, question=replace(step.question, options=()) if free else step.question)
            for step in course.steps
        ]
        script = Script(replace(course, steps=tuple(steps)), Arm({}), 1, {})
        answers = [saying.format(step.truth) for step in steps]
        rows = [score(script, turn, answers, {}, SCORER) for turn in range(1, len(steps) + 1)]
        wrong = [(r.truth, r.response) for r in rows if not r.correct]
        assert wrong == []


@pytest.mark.parametrize("free", [True, False], ids=["free", "closed"])
def test_guessing_subject_scores_at_chance_on_every_set(free):
    rng, right, expected, asked = Random(1), 0, 0.0, 0
    for course in courses():
        steps = [
            replace(step, question=replace(step.question, options=()) if free else step.question)
            for step in course.steps
        ]
        script = Script(replace(course, steps=tuple(steps)), Arm({}), 1, {})
        wild = ["Mumbai", "Aldous Finch", "a green kite", "1931", "Neither of them.", "77"]
        answers = [rng.choice(wild if free else step.question.options) for step in steps]
        for turn, step in enumerate(steps, start=1):
            right += bool(score(script, turn, answers, {}, SCORER).correct)
            expected += 0.0 if free else 1 / len(step.question.options)
            asked += 1
    assert asked > 80
    assert right <= 0.05 * asked if free else abs(right - expected) < 3 * asked**0.5 / 2
