"""Does a free answer name the truth, and stand by it?

An answer names many things: what it denies, compares with, leaves open or has given up. These rules
read English and tell which of them it asserts. Where they are in doubt, it asserts nothing.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from chimeralab.trial.contradiction import HARMLESS, NEGATIONS, RIVALS
from chimeralab.trial.replies import own_words, read_choice
from chimeralab.trial.trials import number_in
from chimeralab.trial.wording import ARTICLES, UNITS, listed, quantities, stem, words

# Where a new thought begins. A point or comma within a number is none, nor is a minus.
_CLAUSE = re.compile(r"[;:!?\n]|[.,](?!\d)|(?<!\d)\s[-–—]\s|\s[-–—]\s(?!\d)")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# Behind these, something is named that the answer is not.
_SET_ASIDE = re.compile(
    r"\b(?:than|except(?:ing)?|besides|unlike|near|beside|behind|opposite|next to|ahead of|as|if"
    r"|instead of|rather than|apart from|other than|(?:any|every)(?:thing|one|body|where) but"
    r"|beats?|whether|before|after|used to)"
    r"(?:\s+(?:the|an?|his|her|their|its|be|being|have|play|own|live in))*\s*$",
    re.IGNORECASE,
)
_BY_RELATION = re.compile(r"\b(\w+)\s+of(?:\s+(?:the|an?))?\s*$", re.IGNORECASE)
# "The city of Oslo" is Oslo, what is made of brass is brass; else a thing is not what it is of.
_SAME_THING = listed(
    "made out consist name town city village state river region one consists front"
)
_LARGER_NAME = re.compile(
    r"\b(?:New|(?:North|South|East|West)(?:ern)?|Upper|Lower|Port|Fort|Saint|St|San|Old)\.?\s+$"
)
_OR = re.compile(r"\b(?:or|nor)(?:\s+(?:the|an?|in|at))?\s*$", re.IGNORECASE)
_THEN_OR = re.compile(r"\s*,?\s*\b(?:or)\b", re.IGNORECASE)
_TURNED_DOWN = re.compile(
    r"\s*(?:(?:is|was|are|were|does|did|do|has|have|had|can|could|would|will)\s+"
    r"(?:not\b(?!\s+only)|never\b)"
    r"|(?:is|was|are|were|does|did|do|has|have|had|ca|could|would|wo)n['’]t\b"
    r"|(?:is|was|would be|are)\s+(?:wrong|incorrect|false|a mistake|full|out)\b"
    r"|used to\b|moved\b|left\b|no longer\b)",
    re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"['’]s?\s+\w", re.IGNORECASE)
_FROM = re.compile(r"\bfrom(?:\s+the)?\s*$", re.IGNORECASE)
_GOES_TO = re.compile(r"\W+to\b", re.IGNORECASE)
_HEARSAY = re.compile(r"\b(?:say|says|said|claim\w*|thought|told|some|they|people|others)\b", re.I)
_BUT = re.compile(r"\b(?:but|however|actually|in fact|now|yet)\b", re.IGNORECASE)
_NOW = re.compile(r"\bnow\b", re.IGNORECASE)
# A letter by itself, and not the article or the pronoun.
_LETTER = r"(?<!\w){}(?=\W*$|[.,;:!?)]|\s[-–—]\s|\s+(?:is|was|because)\b)"
_WEAK_START = re.compile(r"^(?:in|at|on|by|to)\s+(?:the\s+|an?\s+)?", re.IGNORECASE)


class Mention(NamedTuple):
    """Where in a text something is named."""

    start: int
    end: int


def asserts(answer: str, form: str, question: str = "") -> bool | None:
    """Whether an answer says that this is so; None where it does not name it at all.

    >>> asserts("The capital is Paris, not Rome.", "Paris"), asserts("Not Paris but Rome.", "Paris")
    (True, False)
    """
    text = folded(answer)
    found = list(_mentions(text, folded(form)))
    if not found:
        return None
    return _stands(text, found[-1], question) and not _rivalled(text, form, question)


def asserts_pattern(answer: str, pattern: str, question: str = "") -> bool | None:
    """The same for whatever a regular expression finds."""
    text = folded(answer)
    found = [Mention(*each.span()) for each in re.finditer(pattern, text, re.IGNORECASE)]
    return _stands(text, found[-1], question) if found else None


@lru_cache(4_096)
def folded(text: str) -> str:
    """A text without accents, marks of emphasis and curly signs, each letter in its own case.

    >>> folded("**Zürich**, Mette’s")
    "Zurich, Mette's"
    """
    plain = unicodedata.normalize("NFKD", own_words(text).replace("’", "'").replace("*", ""))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def _mentions(text: str, form: str) -> Iterator[Mention]:
    """Where the words of a form stand together, articles aside.

    Common nouns may be inflected, and "a brass lamp" is "a lamp (made) of brass" too.
    """
    if len(form.strip()) == 1:
        letter = _LETTER.format(re.escape(form.strip()))
        yield from (Mention(*each.span()) for each in re.finditer(letter, text))
        return
    sought = _WORD.findall(_WEAK_START.sub("", form))
    sought = [word for word in sought if word.lower() not in ARTICLES] or sought
    said = [found for found in _WORD.finditer(text) if found[0].lower() not in ARTICLES]
    orders = [sought]
    if len(sought) == 2 and form == form.lower():
        noun, of = sought[1], sought[0]
        orders += [[noun, "of", of], [noun, "made", "of", of]]
    for order in orders:
        for at in range(len(said) - len(order) + 1):
            here = said[at : at + len(order)]
            if all(_alike(one[0], other) for one, other in zip(here, order, strict=True)):
                end = here[-1].end()
                end -= 2 if text[:end].endswith("'s") and not order[-1].endswith("'s") else 0
                if not re.match(r"-\w", text[end:]) and not re.search(
                    r"\w-$", text[: here[0].start()]
                ):
                    yield Mention(here[0].start(), end)


def _alike(said: str, sought: str) -> bool:
    said = said if sought.endswith("'s") else said.removesuffix("'s")
    if said.casefold() == sought.casefold():
        return True
    return sought.islower() and len(sought) > 3 and stem(said.lower()) == stem(sought)


def _stands(text: str, found: Mention, question: str) -> bool:
    """Whether a mention is neither denied, nor left open, nor spoken of on the way to another."""
    breaks = list(_CLAUSE.finditer(text))
    start = max((each.end() for each in breaks if each.end() <= found.start), default=0)
    end = min((each.start() for each in breaks if each.start() >= found.end), default=len(text))
    before, behind = text[start : found.start], text[found.end : end]
    later = text[found.end :]
    of = _BY_RELATION.search(before)
    whose = question.lower().startswith("whose")
    return not (
        _denied(before)
        or _SET_ASIDE.search(before)
        or _LARGER_NAME.search(before)
        or (of is not None and of[1].lower() not in _SAME_THING)
        or _OR.search(before)
        or _THEN_OR.match(later)
        or _TURNED_DOWN.match(behind)
        or (_POSSESSIVE.match(behind) and not whose)
        or (_FROM.search(before) and _GOES_TO.match(behind))
        or (_HEARSAY.search(before) and _BUT.search(later))
        or _NOW.search(later)
    )


def _denied(before: str) -> bool:
    """Whether what follows in a clause is denied: "not Rome but" is over where the "but" is."""
    spoken = words(before)
    for first, second in HARMLESS:
        for at in range(len(spoken) - 2, -1, -1):
            if spoken[at : at + 2] == [first, second]:
                del spoken[at : at + 2]
    last = max((at for at, word in enumerate(spoken) if word in NEGATIONS), default=None)
    return last is not None and "but" not in spoken[last:]


def _rivalled(text: str, form: str, question: str) -> bool:
    """Whether the answer also asserts what can't be true beside a form: another colour, say."""
    rivals = RIVALS.get(stem(form.lower()), set()) if form == form.lower() else set()
    asked = {stem(word) for word in words(question)}
    return any(
        stem(found[0].lower()) in rivals - asked and _stands(text, Mention(*found.span()), question)
        for found in _WORD.finditer(text)
    )


class NumericTruth(NamedTuple):
    """A number as it is asked for: in a unit or bare, and how far an answer may be off."""

    value: float
    unit: str = ""
    tolerance: float = 0.0

    def fits(self, said: "SaidNumber") -> bool:
        if self.unit:
            return said.unit == self.unit and self._close(said.value)
        shares = [said.value / 100] if said.unit == "percent" else []
        return any(map(self._close, [said.bare, *shares]))

    def _close(self, value: float) -> bool:
        return math.isclose(value, self.value, rel_tol=1e-9, abs_tol=max(self.tolerance, 1e-12))


class SaidNumber(NamedTuple):
    """A number of an answer: in the unit that its kind is counted in, and as it was written."""

    unit: str
    value: float
    bare: float


def numeric(truth: str, tolerance: float = 0.0) -> NumericTruth | None:
    """A truth that is one number, with or without its unit; None for any other.

    >>> numeric("3 km"), numeric("the 3 musketeers")
    (NumericTruth(value=3000.0, unit='metre', tolerance=0.0), None)
    """
    if (number := number_in(truth)) is not None:
        return NumericTruth(number, "", tolerance)
    found = quantities(truth)
    if len(found) != 1 or not found[0].unit or len(truth.split()) > 2:
        return None
    return NumericTruth(found[0].value, found[0].unit, tolerance)


# What makes a number a bound, a span or a part of the way, and not the answer.
_BOUND = re.compile(
    r"\b(?:than|over|under|above|below|between|before|after|until|since|least|most|up to|or|whether"
    r"|more|less|fewer|used to|ago)\b",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?<![\d\w)])\s*\bminus\s+(?=\d)", re.IGNORECASE)
_LEAD = re.compile(r"^\W*(?:(?:the|my|final|so)\s+)*answer\s*(?:is|:)?\s*", re.IGNORECASE)


def stated_number(answer: str, question: str = "") -> SaidNumber | None:
    """The number that an answer comes to: alone at its head, or the last that it asserts.

    >>> stated_number("You had 10, gave away 2, so 8 are left.").bare
    8.0
    >>> stated_number("Between 10 and 12.")
    """
    text = folded(answer)
    clauses = [each for each in _CLAUSE.split(_LEAD.sub("", text)) if each.strip()]
    asked = {said.bare for said in _numbers(question)}
    head = clauses[0] if clauses else ""
    if len(_numbers(head)) == 1 and len(words(head)) <= 2 and not _unsure(head):
        clauses = clauses[:1]
    said = [number for clause in clauses if not _unsure(clause) for number in _numbers(clause)]
    fresh = [number for number in said if number.bare not in asked]
    return (fresh or said)[-1] if said else None


def _unsure(clause: str) -> bool:
    return bool(_BOUND.search(clause)) or _denied(clause)


def _numbers(text: str) -> list[SaidNumber]:
    signed = re.sub(r"(?<=\d)\s+[-−]\s*(?=\d)", " and ", _MINUS.sub(" -", text))
    plain = re.sub(r"[%$€£]|(?<=\d)(?=[a-zA-Z])", " ", signed)
    units, bares = quantities(signed), quantities(_UNIT_WORDS.sub(" , ", plain))
    if len(units) != len(bares):
        return [SaidNumber(each.unit, each.value, each.value) for each in units]
    return [SaidNumber(u.unit, u.value, b.value) for u, b in zip(units, bares, strict=True)]


_UNIT_WORDS = re.compile(rf"(?<=\s)(?:{'|'.join(filter(str.isalpha, UNITS))})s?\b", re.I)

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
    if _DENIED_OUTRIGHT.search(text) or _denied(text):
        return "no"
    return "yes" if _DOES.search(text) else None
