"""Is an answer right: exact, numeric, by meaning, and against the guard."""

import numpy as np
import pytest

from chimeralab.embedding.minilm import default_token_encoder
from chimeralab.sandbox.contradiction import numbers_differ
from chimeralab.sandbox.replies import chosen_option
from chimeralab.sandbox.scoring import Scorer, statement_similarity
from chimeralab.sandbox.trials import Answer
from chimeralab.sandbox.wording import Quantity, quantities

SCORER = Scorer()


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
def test_other_words_for_the_same_count_as_the_same() -> None:
    verdict = SCORER.score("He bought a big house.", "He bought a large house.")
    assert verdict.how == "meaning"
    assert verdict.similarity is not None
    assert verdict.similarity > 0.9


@pytest.mark.weights
def test_unrelated_statements_are_different() -> None:
    verdict = SCORER.score("Bees make honey.", "The train was late.")
    assert (verdict.same, verdict.how) == (False, "different")


def test_a_conflict_names_its_kind() -> None:
    verdict = SCORER.score("The door is open.", "The door is shut.")
    assert (verdict.same, verdict.how, verdict.conflict) == (False, "conflict", "opposite")


def test_an_empty_answer_is_wrong() -> None:
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
def test_an_answer_names_one_option_or_none(answer: str, option: str | None) -> None:
    assert chosen_option(answer, ["Paris", "Rome", "New Rome"]) == option


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two hundred and five", [Quantity("", 205)]),
        ("nineteen eighty-four", [Quantity("", 1984)]),
        ("1.2 million", [Quantity("", 1_200_000)]),
        ("two dozen", [Quantity("", 24)]),
        ("World War II", [Quantity("", 2)]),
        ("$5", [Quantity("dollar", 5)]),
        ("COVID-19", [Quantity("", 19)]),
        ("-5", [Quantity("", -5)]),
        ("for a second", []),
        ("30 seconds", [Quantity("second", 30)]),
        ("half", [Quantity("", 0.5)]),
        ("6 four", [Quantity("", 6, "four"), Quantity("", 4)]),
    ],
)
def test_quantities_are_read_from_words_and_digits(text: str, expected: list[Quantity]) -> None:
    assert list(quantities(text)) == expected


def test_as_many_of_something_else_is_another_number() -> None:
    assert numbers_differ("12 cows and 3 horses", "3 cows and 12 horses")
    assert not numbers_differ("12 cows and 3 horses", "3 horses and 12 cows")
