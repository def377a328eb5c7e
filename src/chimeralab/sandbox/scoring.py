"""Is an answer right? By its letters, by its number, and last by its meaning, under guard."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Record
from chimeralab.sandbox.contradiction import Conflict, conflict, negation_differs
from chimeralab.sandbox.trials import Answer, number_in
from chimeralab.sandbox.wording import EDGES, normalised, quantities

if TYPE_CHECKING:
    from chimeralab.embedding.minilm import TokenEncoder

SAME_ABOVE = 0.9

How = Literal["exact", "number", "meaning", "conflict", "different"]


@dataclass(frozen=True, slots=True)
class Verdict(Record):
    """Whether two statements say the same, how that was found, and what stood against it."""

    same: bool
    how: How
    similarity: float | None = None
    conflict: Conflict | None = None


class Scorer:
    """Compares answers with the truth. The encoder is loaded when meaning is first needed."""

    def __init__(self, tokens: "TokenEncoder | None" = None) -> None:
        self._given = tokens

    def score(self, answer: Answer, truth: Answer) -> Verdict:
        """Exact and numeric matching first, then similarity above 0.9 that no rule objects to."""
        one, other = str(answer), str(truth)
        if normalised(one) == normalised(other):
            return Verdict(True, "exact")
        number = number_in(other)
        if number is not None:
            return _by_number(one, other, number)
        if (objection := conflict(one, other)) is not None:
            return Verdict(False, "conflict", conflict=objection)
        similarity = self.similarity(one, other)
        same = similarity > SAME_ABOVE
        return Verdict(same, "meaning" if same else "different", similarity)

    def similarity(self, one: str, other: str) -> float:
        """How similar two statements are, piece by piece, from 0 to 1; blind to a "not"."""
        return statement_similarity(*(self._tokens.encode(t.strip(EDGES)) for t in (one, other)))

    @cached_property
    def _tokens(self) -> "TokenEncoder":
        from chimeralab.embedding.minilm import default_token_encoder  # noqa: PLC0415

        return self._given or default_token_encoder()


def statement_similarity(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """F-score of greedily matched piece vectors (Zhang et al. 2020); 0 when a text has none.

    >>> statement_similarity(np.eye(3, dtype=np.float32)[:2], np.eye(3, dtype=np.float32)[1:])
    0.5
    """
    if not len(one) or not len(other):
        return 0.0
    table = one.astype(np.float64) @ other.astype(np.float64).T
    recall, precision = table.max(axis=1).mean(), table.max(axis=0).mean()
    if precision + recall <= 0:
        return 0.0
    return float(2 * precision * recall / (precision + recall))


def _by_number(answer: str, truth: str, number: float) -> Verdict:
    """An answer to a question for a number: right when that is the one number it names."""
    if negation_differs(answer, truth):
        return Verdict(False, "conflict", conflict="negation")
    stated = number_in(answer)
    named = {quantity.value for quantity in quantities(answer)} if stated is None else {stated}
    same = len(named) == 1 and math.isclose(named.pop(), number, rel_tol=1e-9, abs_tol=1e-12)
    return Verdict(same, "number") if same else Verdict(False, "conflict", conflict="number")
