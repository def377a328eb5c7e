"""How far apart two answers are: categories match or not, numbers lie on a scale from 0 to 1."""

import math
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.sandbox.trials import Answer


class AnswerRange(NamedTuple):
    """The least and the greatest answer that a question allows."""

    low: float
    high: float


def answer_range(low: float, high: float) -> AnswerRange:
    """Check a range before it is used.

    >>> answer_range(0, 10)
    AnswerRange(low=0, high=10)
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"--range {low:g} {high:g}: both limits must be finite numbers")
    if not low < high:
        raise InputError(f"--range {low:g} {high:g}: the first number must lie below the second")
    return AnswerRange(low, high)


class AnswerScale:
    """Puts answers on one scale, and refuses what does not belong there.

    Text is a category. 0, 1 and booleans are binary and need no range; other numbers do. One
    scale holds categories or numbers, never both.
    """

    def __init__(self, given: AnswerRange | None = None) -> None:
        self._range = given
        self.categories: bool | None = None

    def place(self, answer: Answer) -> float | str:
        """Where an answer stands: a category by its name, a number from 0 to 1.

        >>> AnswerScale(AnswerRange(0, 10)).place(4), AnswerScale().place(True)
        (0.4, True)
        """
        self.settle(answer)
        if isinstance(answer, str):
            return answer
        if self._range is None:
            place: float = answer
            fits = answer in (0, 1)
        else:
            place = (answer - self._range.low) / (self._range.high - self._range.low)
            fits = 0 <= place <= 1
        if not fits:
            raise InputError(self._misplaced(answer))
        return place

    def settle(self, answer: Answer) -> None:
        """Let the first answer decide between categories and numbers, and refuse a mixture."""
        categories = isinstance(answer, str)
        if categories is self.categories:
            return
        if self.categories is not None:
            before = "categories" if self.categories else "numbers"
            raise InputError(
                f"answer {answer!r} stands among answers that are {before};"
                " measure categories and numbers apart from each other"
            )
        if categories and self._range is not None:
            raise InputError(f"answer {answer!r} is a category, and --range is for numbers")
        self.categories = categories

    def _misplaced(self, answer: Answer) -> str:
        if self._range is None:
            return f"answer {answer!r} is neither 0 nor 1; give its limits with --range LOW HIGH"
        return f"answer {answer!r} lies outside --range {self._range.low:g} {self._range.high:g}"


def distance(one: float | str, other: float | str) -> float:
    """From 0 (the same) to 1 (as far apart as can be), of two answers on one scale.

    >>> distance("red", "blue"), distance(0.25, 1.0)
    (1.0, 0.75)
    """
    if one == other:
        return 0.0
    return 1.0 if isinstance(one, str) or isinstance(other, str) else abs(one - other)
