"""Is an answer right? By its letters, its number, what it names, and last its meaning.

An answer names many things: what it denies, compares with, leaves open or has given up. These rules
read English and tell which of them it asserts. Where they are in doubt, it asserts nothing.
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
from chimeralab.trial.replies import own_words, read_choice
from chimeralab.trial.trials import Answer, TrialRow, Truth, parse_number, read_truth
from chimeralab.trial.wording import (
    ARTICLES,
    EDGES,
    NEGATIONS,
    RIVALS,
    UNITS,
    Conflict,
    conflict,
    listed,
    normalised,
    numbers,
    stated,
    stem,
    words,
)

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import TokenEncoder

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
        accepted, said = read_truth(truth), str(answer)
        verdicts = [
            self._against(said, str(form), question, accepted.tolerance) for form in accepted.forms
        ]
        if accepted.pattern is not None:
            verdicts.append(_named(asserts(said, accepted.pattern, question, is_pattern=True)))
        verdict = next((each for each in verdicts if each.same), verdicts[0])
        if verdict.how == "named" and any(asserts(said, each, question) for each in rivals):
            return Verdict(False, "named")  # who names everything has answered nothing
        return verdict

    def _against(self, answer: str, truth: str, question: str, tolerance: float) -> Verdict:
        """By the letters, or as a truth of its kind is: a number, a yes or no, a statement."""
        if normalised(answer) == normalised(truth):
            return Verdict(True, "exact")
        if (same := states_number(answer, truth, question, tolerance)) is not None:
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
        from chimeralab.embedding.encoder import default_token_encoder  # noqa: PLC0415

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


# Where a new thought begins. A point or comma within a number is none, nor is a minus.
_CLAUSE = re.compile(r"[;:!?\n]|[.,](?!\d)|(?<!\d)\s[-–—]\s|\s[-–—]\s(?!\d)")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# A letter by itself, and not the article or the pronoun.
_LETTER = r"(?<!\w){}(?=\W*$|[.,;:!?)]|\s[-–—]\s|\s+(?:is|was|because)\b)"
_WEAK_START = re.compile(r"^(?:in|at|on|by|to)\s+(?:the\s+|an?\s+)?", re.IGNORECASE)
# Behind these, something is named that the answer is not.
_ASIDE = re.compile(
    r"\b(?:(?:than|except(?:ing)?|besides|unlike|near|beside|behind|opposite|next to|ahead of|as|if"
    r"|instead of|rather than|apart from|other than|(?:any|every)(?:thing|one|body|where) but"
    r"|beats?|whether|before|after|used to)"
    r"(?:\s+(?:the|an?|his|her|their|its|be|being|have|play|own|live in))*\s*"
    # What is one of two is left open.
    r"|(?:or|nor)(?:\s+(?:the|an?|in|at))?\s*"
    # "New Rome" is not Rome.
    r"|(?-i:New|(?:North|South|East|West)(?:ern)?|Upper|Lower|Port|Fort|Saint|St|San|Old)\.?\s+)$",
    re.IGNORECASE,
)
_OF = re.compile(r"\b(\w+)\s+of(?:\s+(?:the|an?))?\s*$", re.IGNORECASE)
# "The city of Oslo" is Oslo, what is made of brass is brass; else a thing is not what it is of.
_SAME_THING = listed(
    "made out consist name town city village state river region one consists front"
)
_FROM = re.compile(r"\bfrom(?:\s+the)?\s*$", re.IGNORECASE)
_HEARSAY = re.compile(r"\b(?:say|says|said|claim\w*|thought|told|some|they|people|others)\b", re.I)
_BUT = re.compile(r"\b(?:but|however|actually|in fact|now|yet)\b", re.IGNORECASE)
_VERB = "is|was|are|were|does|did|do|has|have|had|could|would"
_TURNED_DOWN = re.compile(
    rf"\s*(?:(?:{_VERB}|can|will)\s+(?:not\b(?!\s+only)|never\b)|(?:{_VERB}|ca|wo)n['’]t\b"
    r"|(?:is|was|would be|are)\s+(?:wrong|incorrect|false|a mistake|full|out)\b"
    r"|used to\b|moved\b|left\b|no longer\b)",
    re.IGNORECASE,
)


def asserts(answer: str, form: str, question: str = "", *, is_pattern: bool = False) -> bool | None:
    """Whether an answer says that this is so, a form of words or what a regular expression finds;
    None where it does not name it at all.

    >>> asserts("The capital is Paris, not Rome.", "Paris"), asserts("Not Paris but Rome.", "Paris")
    (True, False)
    """
    text = folded(answer)
    if is_pattern:
        found = [each.span() for each in re.finditer(form, text, re.IGNORECASE)]
    else:
        found = list(_mentions(text, folded(form)))
    if not found or not _stands(text, *found[-1], question):
        return False if found else None
    # Another colour, say, can't be true beside it.
    excluded = RIVALS.get(stem(form), set()) if form.islower() and not is_pattern else set()
    excluded = excluded - set(map(stem, words(question)))
    return not any(
        stem(each[0].lower()) in excluded and _stands(text, *each.span(), question)
        for each in _WORD.finditer(text)
    )


@lru_cache(4_096)
def folded(text: str) -> str:
    """A text without accents, marks of emphasis and curly signs, each letter in its own case.

    >>> folded("**Zürich**, Mette’s")
    "Zurich, Mette's"
    """
    plain = unicodedata.normalize("NFKD", own_words(text).replace("’", "'").replace("*", ""))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def _mentions(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Where the words of a form stand together, articles aside.

    Common nouns may be inflected, and "a brass lamp" is "a lamp (made) of brass" too.
    """
    if len(form.strip()) == 1:
        letter = _LETTER.format(re.escape(form.strip()))
        yield from (each.span() for each in re.finditer(letter, text))
        return
    sought = _WORD.findall(_WEAK_START.sub("", form))
    sought = [word for word in sought if word.lower() not in ARTICLES] or sought
    said = [found for found in _WORD.finditer(text) if found[0].lower() not in ARTICLES]
    orders = [sought]
    if len(sought) == 2 and form == form.lower():
        of, noun = sought
        orders += [[noun, "of", of], [noun, "made", "of", of]]
    for order in orders:
        for at in range(len(said) - len(order) + 1):
            here = said[at : at + len(order)]
            if all(_alike(one[0], other) for one, other in zip(here, order, strict=True)):
                start, end = here[0].start(), here[-1].end()
                end -= 2 if here[-1][0].endswith("'s") and not order[-1].endswith("'s") else 0
                if not (re.match(r"-\w", text[end:]) or re.search(r"\w-$", text[:start])):
                    yield start, end


def _alike(said: str, sought: str) -> bool:
    said = said if sought.endswith("'s") else said.removesuffix("'s")
    if said.casefold() == sought.casefold():
        return True
    return sought.islower() and len(sought) > 3 and stem(said.lower()) == stem(sought)


def _stands(text: str, start: int, end: int, question: str) -> bool:
    """Whether a mention is neither denied, nor left open, nor spoken of on the way to another."""
    breaks = [each.span() for each in _CLAUSE.finditer(text)]
    before = text[max((last for _, last in breaks if last <= start), default=0) : start]
    behind = text[end : min((first for first, _ in breaks if first >= end), default=len(text))]
    later = text[end:]
    of = _OF.search(before)
    return not (
        _denies(before)
        or _ASIDE.search(before)
        or (of is not None and of[1].lower() not in _SAME_THING)
        or _TURNED_DOWN.match(behind)
        or re.match(r"\s*,?\s*\bor\b", later, re.I)
        or (re.match(r"['’]s?\s+\w", behind, re.I) and not question.lower().startswith("whose"))
        or (_FROM.search(before) and re.match(r"\W+to\b", behind, re.I))
        or (_HEARSAY.search(before) and _BUT.search(later))
        or re.search(r"\bnow\b", later, re.I)
    )


def _denies(clause: str) -> bool:
    """Whether what follows in a clause is denied: "not Rome but" is over where the "but" is."""
    spoken = stated(clause)
    last = max((at for at, word in enumerate(spoken) if word in NEGATIONS), default=None)
    return last is not None and "but" not in spoken[last:]


# What makes a number a bound, a span or a part of the way, and not the answer.
_BOUND = re.compile(
    r"\b(?:than|over|under|above|below|between|before|after|until|since|least|most|up to|or|whether"
    r"|more|less|fewer|used to|ago)\b",
    re.IGNORECASE,
)


def states_number(
    answer: str, truth: str, question: str = "", tolerance: float = 0.0
) -> bool | None:
    """Whether an answer comes to a truth that is one number; None where the truth is not.

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
    said = stated_number(answer, question)
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


def stated_number(answer: str, question: str = "") -> tuple[float, str] | None:
    """The number that an answer comes to and its unit: alone at its head, or the last asserted.

    >>> stated_number("You had 10, gave away 2, so 8 are left.")
    (8.0, '')
    >>> stated_number("Between 10 and 12.")
    """
    clauses = [each for each in _CLAUSE.split(folded(answer)) if each.strip()]
    firm = [each for each in clauses if not (_BOUND.search(each) or _denies(each))]
    head = clauses[0] if clauses else ""
    if head in firm and len(_signed(head)) == 1 and len(words(head)) <= 2:
        firm = [head]
    asked = {value for value, _ in _signed(question)}
    said = [number for clause in firm for number in _signed(clause)]
    fresh = [number for number in said if number[0] not in asked]
    return (fresh or said)[-1] if said else None


def _signed(text: str) -> list[tuple[float, str]]:
    """The numbers of a text, where a minus is a sign and not a step of a sum."""
    text = re.sub(r"(?<![\d\w)])\s*\bminus\s+(?=\d)", " -", text, flags=re.IGNORECASE)
    return [each[:2] for each in numbers(re.sub(r"(?<=\d)\s+[-−]\s*(?=\d)", " and ", text))]


_AFFIRMED = re.compile(
    r"^\W*(?:well\W+)?(?:(?:yes|yep|yeah|true|correct|right|absolutely|certainly|definitely|indeed"
    r"|sure(?:ly)?|exactly|of course|naturally)\b"
    r"|(?:i\s+)?(?:think|believe|guess|suppose|assume)\s+so\b"
    r"|(?:that|this|it)\s*(?:is|'s)\s+(?:true|correct|right|so)\b)",
    re.IGNORECASE,
)
_DENIED_OUTRIGHT = re.compile(
    r"^\W*(?:well\W+)?(?:(?:no|nope|nah|false|incorrect|wrong|never|hardly"
    r"|not (?:at all|really|yet|so|true))\b"
    r"|(?:that|this|it)\s*(?:is|'s)\s+(?:false|wrong|incorrect|untrue)\b)",
    re.IGNORECASE,
)
_DOES = re.compile(
    r"\b(?:he|she|it|they|that|this|there|i|we|you|one)\s+"
    r"(?:is|are|was|were|does|do|did|has|have|had|can|could|will|would|should|must)\W*$",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"\bno\s+(?:idea|clue|information|way\s+(?:to|of)|one)\b|\bnobody\b|\bnothing\b"
    r"|\bnot\s+(?:sure|certain|clear|known|say|know|tell)\b"
    r"|n't\s+(?:know|say|tell|be\s+sure|sure)\b"
    r"|\bunclear\b|\bunknown\b|\bmaybe\b|\bperhaps\b|\bwhether\b|\byes\s+and\s+no\b",
    re.IGNORECASE,
)
_OPENS = re.compile(r"\W*(?:yes\b(?!\s+(?:and|or)\b)|no\s*[.,;!-])", re.IGNORECASE)
TRUTHS = {"yes": "yes", "no": "no", "true": "yes", "false": "no"}


def polarity(answer: str) -> str | None:
    """Whether an answer says yes or no, also without the word; None when it does neither.

    >>> polarity("She does not."), polarity("I think so."), polarity("I have no idea.")
    ('no', 'yes', None)
    """
    text = folded(answer)
    if _NO_ANSWER.search(text) and not _OPENS.match(text):
        return None
    if (said := read_choice(text, ("yes", "no"))) is not None:
        return said
    if _AFFIRMED.search(text):
        return "yes"
    if _DENIED_OUTRIGHT.search(text) or _denies(text):
        return "no"
    return "yes" if _DOES.search(text) else None


def score_log(rows: Sequence[TrialRow], scorer: Scorer) -> tuple[list[TrialRow], str | None]:
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
