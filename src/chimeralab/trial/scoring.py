"""Score free answers: by letters, number, yes or no, what is named, and last by meaning.

An answer may name things that it denies, compares with, leaves open or has given up. Rules for
English decide which of them it asserts; in doubt, none.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Record
from chimeralab.trial.replies import cut_next_turn, read_choice
from chimeralab.trial.trials import Answer, TrialRow, Truth, parse_number, read_truth
from chimeralab.trial.wording import (
    ARTICLES,
    EDGES,
    NEGATIONS,
    RIVALS,
    UNITS,
    WORD,
    Conflict,
    alternatives,
    conflict,
    literal_words,
    normalize,
    numbers,
    stem,
    stems,
    word_set,
    words,
)

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import TokenEncoder

SAME_ABOVE = 0.9
# A truth of this length is a statement, and an answer that contains its words may still deny it.
STATEMENT_WORDS = 5

How = Literal["exact", "number", "yes or no", "named", "meaning", "conflict", "different"]


@dataclass(frozen=True, slots=True)
class Verdict(Record):
    """Whether an answer is right, which comparison decided, and what contradicted it."""

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
        """Compare an answer with every form of the truth; naming a rival as well makes it wrong.

        Words of the `question` are not taken for the answer.
        """
        accepted, said = read_truth(truth), str(answer)
        verdicts = [
            self._compare(said, str(form), question, accepted.tolerance) for form in accepted.forms
        ]
        if accepted.pattern is not None:
            found = asserts(said, accepted.pattern, question, is_pattern=True)
            verdicts.append(Verdict(bool(found), "different" if found is None else "named"))
        verdict = next((each for each in verdicts if each.same), verdicts[0])
        if verdict.how == "named" and any(asserts(said, each, question) for each in rivals):
            return Verdict(False, "named")
        return verdict

    def _compare(self, answer: str, truth: str, question: str, tolerance: float) -> Verdict:
        if normalize(answer) == normalize(truth):
            return Verdict(True, "exact")
        if (same := states_number(answer, truth, question, tolerance)) is not None:
            return Verdict(same, "number", conflict=None if same else "number")
        if (wanted := TRUTHS.get(normalize(truth))) is not None:
            return Verdict(polarity(answer) == wanted, "yes or no")
        return self._compare_statements(answer, truth, question)

    def _compare_statements(self, answer: str, truth: str, question: str) -> Verdict:
        objection = conflict(answer, truth)
        if len(words(truth)) < STATEMENT_WORDS or objection is None:
            named = asserts(answer, truth, question)
            if named is not None:
                return Verdict(named, "named")
        if objection is not None:
            return Verdict(False, "conflict", conflict=objection)
        if all(word[0].isupper() for word in truth.split()):
            return Verdict(False, "different")  # names that look alike are different names
        similarity = self.similarity(answer, truth)
        same = similarity > SAME_ABOVE
        return Verdict(same, "meaning" if same else "different", similarity)

    def similarity(self, one: str, other: str) -> float:
        """Similarity of two statements from 0 to 1; blind to a "not"."""
        return statement_similarity(*(self._tokens.encode(t.strip(EDGES)) for t in (one, other)))

    @cached_property
    def _tokens(self) -> "TokenEncoder":
        from chimeralab.embedding.encoder import default_token_encoder  # noqa: PLC0415

        return self._given or default_token_encoder()


def statement_similarity(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """F-score of greedily matched token vectors (Zhang et al. 2020); 0 if a text has none.

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


# Clause boundaries; a point, comma or minus within a number is not one.
_CLAUSE = re.compile(r"[;:!?\n]|[.,](?!\d)|(?<!\d)\s[-–—]\s|\s[-–—]\s(?!\d)")
# A single letter that is neither the article nor the pronoun.
_LETTER = r"(?<!\w){}(?=\W*$|[.,;:!?)]|\s[-–—]\s|\s+(?:is|was|because)\b)"
_PREPOSITION = re.compile(r"^(?:in|at|on|by|to)\s+(?:the\s+|an?\s+)?", re.I)
# A mention right after one of these is not the answer.
_NOT_THE_ANSWER = re.compile(
    rf"\b(?:(?:{alternatives('contrasts')})(?:\s+(?:{alternatives('contrast_links')}))*\s*"
    r"|(?:or|nor)(?:\s+(?:the|an?|in|at))?\s*"
    # "New Rome" is not Rome.
    r"|(?-i:New|(?:North|South|East|West)(?:ern)?|Upper|Lower|Port|Fort|Saint|St|San|Old)\.?\s+)$",
    re.I,
)
_OF = re.compile(r"\b(\w+)\s+of(?:\s+(?:the|an?))?\s*$", re.I)
# "The city of Oslo" is Oslo, and something made of brass is brass.
_SAME_AS_OF = word_set(
    "made out consist name town city village state river region one consists front"
)
_FROM = re.compile(r"\bfrom(?:\s+the)?\s*$", re.I)
_HEARSAY = re.compile(rf"\b(?:{alternatives('hearsay')})\b", re.I)
_CORRECTION = re.compile(rf"\b(?:{alternatives('corrections')})\b", re.I)
_VERB = "is|was|are|were|does|did|do|has|have|had|could|would"
_REJECTED = re.compile(
    rf"\s*(?:(?:{_VERB}|can|will)\s+(?:not\b(?!\s+only)|never\b)|(?:{_VERB}|ca|wo)n['’]t\b"
    r"|(?:is|was|would be|are)\s+(?:wrong|incorrect|false|a mistake|full|out)\b"
    r"|used to\b|moved\b|left\b|no longer\b)",
    re.I,
)


def asserts(answer: str, form: str, question: str = "", *, is_pattern: bool = False) -> bool | None:
    """Whether an answer asserts a form of words or a pattern; None if it never mentions it.

    >>> asserts("The capital is Paris, not Rome.", "Paris"), asserts("Not Paris but Rome.", "Paris")
    (True, False)
    """
    text = fold(answer)
    if is_pattern:
        found = [each.span() for each in re.finditer(form, text, re.I)]
    else:
        found = list(_find_mentions(text, fold(form)))
    if not found or not _is_asserted(text, *found[-1], question):
        return False if found else None
    # Another colour, say, can't be true as well.
    excluded = RIVALS.get(stem(form), set()) if form.islower() and not is_pattern else set()
    excluded = excluded - stems(question)
    return not any(
        stem(each[0].lower()) in excluded and _is_asserted(text, *each.span(), question)
        for each in WORD.finditer(text)
    )


@lru_cache(4_096)
def fold(text: str) -> str:
    """Remove accents, emphasis and curly quotes, but keep the case.

    >>> fold("**Zürich**, Mette’s")
    "Zurich, Mette's"
    """
    plain = unicodedata.normalize("NFKD", cut_next_turn(text).replace("’", "'").replace("*", ""))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def _find_mentions(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Spans in which the words of a form follow each other, ignoring articles.

    Common nouns may be inflected, and "a brass lamp" also matches "a lamp (made) of brass".
    """
    if len(form.strip()) == 1:
        letter = _LETTER.format(re.escape(form.strip()))
        yield from (each.span() for each in re.finditer(letter, text))
        return
    sought = WORD.findall(_PREPOSITION.sub("", form))
    sought = [word for word in sought if word.lower() not in ARTICLES] or sought
    said = [found for found in WORD.finditer(text) if found[0].lower() not in ARTICLES]
    orders = [sought]
    if len(sought) == 2 and form == form.lower():
        material, noun = sought
        orders += [[noun, "of", material], [noun, "made", "of", material]]
    for order in orders:
        for at in range(len(said) - len(order) + 1):
            here = said[at : at + len(order)]
            if all(_matches(one[0], other) for one, other in zip(here, order, strict=True)):
                start, end = here[0].start(), here[-1].end()
                end -= 2 if here[-1][0].endswith("'s") and not order[-1].endswith("'s") else 0
                near = text[max(start - 3, 0) : start]
                if not (re.match(r"-\w", text[end : end + 2]) or re.search(r"\w-$", near)):
                    yield start, end


def _matches(said: str, sought: str) -> bool:
    said = said if sought.endswith("'s") else said.removesuffix("'s")
    if said.casefold() == sought.casefold():
        return True
    return sought.islower() and len(sought) > 3 and stem(said.lower()) == stem(sought)


def _is_asserted(text: str, start: int, end: int, question: str) -> bool:
    """Whether a mention is neither denied nor left open nor a step towards another answer."""
    breaks = [each.span() for each in _CLAUSE.finditer(text)]
    before = text[max((last for _, last in breaks if last <= start), default=0) : start]
    behind = text[end : min((first for first, _ in breaks if first >= end), default=len(text))]
    later = text[end:]
    of = _OF.search(before)
    return not (
        _denies(before)
        or _NOT_THE_ANSWER.search(before)
        or (of is not None and of[1].lower() not in _SAME_AS_OF)
        or _REJECTED.match(behind)
        or re.match(r"\s*,?\s*\bor\b", later, re.I)
        or (re.match(r"'s?\s+\w", behind, re.I) and not question.lower().startswith("whose"))
        or (_FROM.search(before) and re.match(r"\W+to\b", behind, re.I))
        or (_HEARSAY.search(before) and _CORRECTION.search(later))
        or re.search(r"\bnow\b", later, re.I)
    )


def _denies(clause: str) -> bool:
    """Whether a clause ends within the scope of a negation, which a "but" closes."""
    said = literal_words(clause)
    last = max((at for at, word in enumerate(said) if word in NEGATIONS), default=None)
    return last is not None and "but" not in said[last:]


_BOUND = re.compile(rf"\b(?:{alternatives('bounds')})\b", re.I)


def states_number(
    answer: str, truth: str, question: str = "", tolerance: float = 0.0
) -> bool | None:
    """Whether an answer arrives at the number that the truth is; None if that is not a number.

    >>> states_number("It is 3000 m.", "3 km"), states_number("Three.", "the 3 musketeers")
    (True, None)
    """
    wanted, base = parse_number(truth), ""
    if wanted is None:
        found = list(numbers(truth))
        if len(found) != 1 or not found[0][1] or len(truth.split()) > 2:
            return None
        base, factor = UNITS[found[0][1]]
        wanted = found[0][0] * factor
    said = find_number(answer, question)
    if said is None:
        return False
    value, unit = said
    kind, factor = UNITS.get(unit, ("", 1.0))
    if base:
        values = [value * factor] if kind == base else []
    else:
        values = [value, value / 100] if kind == "percent" else [value]
    limit = max(tolerance, 1e-12)
    return any(math.isclose(each, wanted, rel_tol=1e-9, abs_tol=limit) for each in values)


def find_number(answer: str, question: str = "") -> tuple[float, str] | None:
    """Find the number that an answer arrives at: alone at its head, or the last one asserted.

    >>> find_number("You had 10, gave away 2, so 8 are left.")
    (8.0, '')
    >>> find_number("Between 10 and 12.")
    """
    clauses = [each for each in _CLAUSE.split(fold(answer)) if each.strip()]
    firm = [each for each in clauses if not (_BOUND.search(each) or _denies(each))]
    head = clauses[0] if clauses else ""
    if head in firm and len(_find_signed_numbers(head)) == 1 and len(words(head)) <= 2:
        firm = [head]
    asked = {value for value, _ in _find_signed_numbers(question)}
    said = [number for clause in firm for number in _find_signed_numbers(clause)]
    new = [number for number in said if number[0] not in asked]
    return (new or said)[-1] if said else None


def _find_signed_numbers(text: str) -> list[tuple[float, str]]:
    """Numbers with their units; a minus between two numbers is an operator, not a sign."""
    text = re.sub(r"(?<![\d\w)])\s*\bminus\s+(?=\d)", " -", text, flags=re.I)
    return [each[:2] for each in numbers(re.sub(r"(?<=\d)\s+[-−]\s*(?=\d)", " and ", text))]


_IT_IS = r"(?:that|this|it)\s*(?:is|'s)\s+"
_AFFIRMS = re.compile(
    rf"\W*(?:well\W+)?(?:{alternatives('affirmations')}|{_IT_IS}(?:true|correct|right|so))\b", re.I
)
_DENIES = re.compile(
    rf"\W*(?:well\W+)?(?:{alternatives('denials')}|{_IT_IS}(?:false|wrong|incorrect|untrue))\b",
    re.I,
)
_SUBJECT_AND_VERB = re.compile(
    r"\b(?:he|she|it|they|that|this|there|i|we|you|one)\s+"
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|must)\W*$",
    re.I,
)
_EVADES = re.compile(
    rf"\b(?:{alternatives('evasions')})\b|n't\s+(?:know|say|tell|be\s+sure|sure)\b", re.I
)
_OPENS_WITH_YES_NO = re.compile(r"\W*(?:yes\b(?!\s+(?:and|or)\b)|no\s*[.,;!-])", re.I)
TRUTHS = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}


def polarity(answer: str) -> str | None:
    """Whether an answer means yes or no, even without the word; None if neither.

    >>> polarity("She does not."), polarity("I think so."), polarity("I have no idea.")
    ('no', 'yes', None)
    """
    text = fold(answer)
    if _EVADES.search(text) and not _OPENS_WITH_YES_NO.match(text):
        return None
    if (said := read_choice(text, ("yes", "no"))) is not None:
        return said
    if _AFFIRMS.match(text):
        return "yes"
    if _DENIES.match(text) or _denies(text):
        return "no"
    return "yes" if _SUBJECT_AND_VERB.search(text) else None


def score_log(rows: Sequence[TrialRow], scorer: Scorer) -> tuple[list[TrialRow], str | None]:
    """Score the trials of a log if none states `correct`; return them and a note on how.

    Every truth is reduced to one answer, and a right free answer becomes that answer, so that
    responses can be compared.
    """
    unscored = all(row.correct is None for row in rows)
    known: dict[tuple[str, str], Verdict] = {}
    how: Counter[str] = Counter()
    scored = []
    for row in rows:
        if row.truth is None:
            scored.append(row)
            continue
        response, accepted, correct = row.response, read_truth(row.truth), row.correct
        if unscored and response is not None:
            key = repr(response), repr(row.truth)
            if key not in known:
                known[key] = scorer.score(response, accepted)
            verdict = known[key]
            how[verdict.how if verdict.same else "wrong"] += 1
            correct = verdict.same
            response = accepted.display if correct and isinstance(response, str) else response
        scored.append(replace(row, truth=accepted.display, response=response, correct=correct))
    if not how:
        return scored, None
    counts = ", ".join(f"{count} {HOW_WORDS[name]}" for name, count in sorted(how.items()))
    return scored, f"no trial states `correct`, so each answer was compared with `truth`: {counts}"


HOW_WORDS = {
    "exact": "right by their letters",
    "number": "right by their number",
    "yes or no": "right by yes or no",
    "named": "right by what they name",
    "meaning": "right by their meaning",
    "wrong": "wrong",
}
