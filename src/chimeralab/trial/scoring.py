"""Is an answer right? By its letters, its number, what it names, and last its meaning."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Record
from chimeralab.trial.contradiction import Conflict, conflict
from chimeralab.trial.naming import (
    TRUTHS,
    asserts,
    asserts_pattern,
    numeric,
    polarity,
    stated_number,
)
from chimeralab.trial.trials import Answer, TrialRow, Truth, read_truth
from chimeralab.trial.wording import EDGES, normalised, words

if TYPE_CHECKING:
    from chimeralab.embedding.minilm import TokenEncoder

SAME_ABOVE = 0.9
# A truth of so many words is a statement, and an answer that holds its words may still deny it.
STATEMENT_WORDS = 5

How = Literal["exact", "number", "yes or no", "named", "meaning", "conflict", "different"]


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

    def score(
        self,
        answer: Answer,
        truth: Answer | Truth,
        question: str = "",
        rivals: Sequence[str] = (),
    ) -> Verdict:
        """Right where any form of the truth is, and no rival is asserted beside it.

        What the `question` names is not taken for the answer to it.
        """
        accepted = read_truth(truth)
        verdicts = [
            self._against(str(answer), str(form), question, accepted.tolerance)
            for form in accepted.forms
        ]
        if accepted.pattern is not None:
            found = asserts_pattern(str(answer), accepted.pattern, question)
            verdicts.append(_named(found))
        verdict = next((each for each in verdicts if each.same), verdicts[0])
        if verdict.how == "named" and any(asserts(str(answer), each, question) for each in rivals):
            return Verdict(False, "named")  # who names everything has answered nothing
        return verdict

    def _against(self, answer: str, truth: str, question: str, tolerance: float) -> Verdict:
        """By the letters, or as a truth of its kind is: a number, a yes or no, a statement."""
        if normalised(answer) == normalised(truth):
            return Verdict(True, "exact")
        if (number := numeric(truth, tolerance)) is not None:
            said = stated_number(answer, question)
            same = said is not None and number.fits(said)
            return Verdict(same, "number", conflict=None if same else "number")
        if (wanted := TRUTHS.get(normalised(truth))) is not None:
            return Verdict(polarity(answer) == wanted, "yes or no")
        return self._statement(answer, truth, question)

    def _statement(self, answer: str, truth: str, question: str) -> Verdict:
        """Names first, then similarity above 0.9 that no rule objects to."""
        objection = conflict(answer, truth)
        if len(words(truth)) < STATEMENT_WORDS or objection is None:
            found = asserts(answer, truth, question)
            if found is not None:
                return _named(found)
        if objection is not None:
            return Verdict(False, "conflict", conflict=objection)
        if all(word[0].isupper() for word in truth.split()):
            return Verdict(False, "different")  # names that look alike are other names
        similarity = self.similarity(answer, truth)
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


def _named(found: bool | None) -> Verdict:
    """What naming the truth, or denying it, comes to."""
    return Verdict(bool(found), "different" if found is None else "named")


def judged(rows: Sequence[TrialRow], scorer: Scorer) -> tuple[list[TrialRow], str | None]:
    """The trials of a log, and a note; where none of it says what is `correct`, the scorer does.

    The truth of each becomes one answer. A free answer that is right then stands as the truth
    itself, so that it can be compared.
    """
    unjudged = all(row.correct is None for row in rows)
    known: dict[tuple[str, str], Verdict] = {}
    how: Counter[str] = Counter()
    found = []
    for row in rows:
        if row.truth is None:
            found.append(row)
            continue
        response, accepted, correct = row.response, read_truth(row.truth), row.correct
        if unjudged and response is not None:
            place = repr(response), repr(row.truth)
            if place not in known:
                known[place] = scorer.score(response, accepted)
            verdict = known[place]
            how[verdict.how if verdict.same else "wrong"] += 1
            correct = verdict.same
            response = accepted.shown if correct and isinstance(response, str) else response
        found.append(replace(row, truth=accepted.shown, response=response, correct=correct))
    if not how:
        return found, None
    ways = ", ".join(f"{count} {HOW_WORDS[name]}" for name, count in sorted(how.items()))
    return found, f"no trial states `correct`, so each answer was compared with `truth`: {ways}"


HOW_WORDS = {
    "exact": "right by their letters",
    "number": "right by their number",
    "yes or no": "right by yes or no",
    "named": "right by what they name",
    "meaning": "right by their meaning",
    "wrong": "wrong",
}
