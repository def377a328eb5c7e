"""Answers on one scale: categories, binary answers, numbers within limits."""

import pytest

from chimeralab.core.errors import InputError
from chimeralab.sandbox.columns import AnswerRange, AnswerScale


def test_categories_stand_for_themselves() -> None:
    scale = AnswerScale()
    assert [scale.place(city) for city in ("Paris", "Rome")] == ["Paris", "Rome"]


def test_zero_one_and_booleans_are_the_same_answers() -> None:
    scale = AnswerScale()
    assert scale.place(True) == scale.place(1) == 1
    assert abs(scale.place(0) - scale.place(1.0)) == 1  # type: ignore[operator]


def test_numbers_are_measured_by_their_range() -> None:
    scale = AnswerScale(AnswerRange(-10, 30))
    assert [scale.place(answer) for answer in (-10, 10, 30)] == pytest.approx([0, 0.5, 1])


@pytest.mark.parametrize("answer", [2, 0.5, -1])
def test_other_numbers_need_a_range(answer: float) -> None:
    with pytest.raises(InputError, match="--range"):
        AnswerScale().place(answer)


def test_a_number_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match="outside --range 0 10"):
        AnswerScale(AnswerRange(0, 10)).place(11)


@pytest.mark.parametrize(("first", "second"), [("red", 1), (1, "red"), (False, "red")])
def test_categories_and_numbers_do_not_mix(first: float | str, second: float | str) -> None:
    scale = AnswerScale()
    scale.place(first)
    with pytest.raises(InputError, match="apart from each other"):
        scale.place(second)


def test_categories_have_no_range() -> None:
    with pytest.raises(InputError, match="category"):
        AnswerScale(AnswerRange(0, 1)).place("red")
