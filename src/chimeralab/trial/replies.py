"""Read the option that a reply chooses, or the confidence that it states.

A reply should be one option and nothing else. An option on its own counts first, then what the
reply calls its answer, then the one option that it names and does not deny. In doubt the reply is
unread: unread replies are counted, misread ones would go unnoticed.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from chimeralab.trial.trials import parse_number
from chimeralab.trial.wording import (
    EDGES,
    alternatives,
    negation_differs,
    normalize,
    stems,
    strip_edges,
    word_set,
    words,
)

# Small models go on with the next turn of the conversation.
_NEXT_TURN = re.compile(r"^(?:[^\S\n]|[*#>])*(?:Question|User|Human)(?:\s+\d+)?:", re.M | re.I)
_ANSWER_IS = re.compile(r"\banswer\b[*_]*\s*(?:is\b|:)[*_:]*", re.I)
_OPENS_WITH_ANSWER = re.compile(r"^\W*(?:(?:so|the|my|final)\s+)*answer\W*(?:is\b|:)", re.I)
_IT_IS = re.compile(r"\bit(?:\s+is|['’]s)\b", re.I)

# Where the writer speaks for itself again.
_NEW_START = re.compile(
    r"[.!?;\n]|\b(?:but|however|yet|so|thus|therefore|hence|I(?:['’]d|\s+would)?\s+say)\b", re.I
)
# Stems that report what somebody else thinks, and stems of those somebodies.
_REPORTS = word_set("say said told tell claim insist suggest accord assum if whether")
_OTHERS = word_set(
    "you your he his she her they their whose examiner tool manual participant expert panel other"
    " some peopl majority"
)
_DOUBT = re.compile(rf"\b(?:{alternatives('doubts')})\b", re.I)

# Yes and no count by position: "I have no idea" is not a "no". So punctuation, or the subject of a
# sentence, must follow.
_YES_NO = ("yes", "no")
_OPENS_WITH_YES_NO = re.compile(
    r"\W*(yes|no)(?=\W*$|[.,;:!?*)\"”'’–—]|\s+[-–—]\s|\s+(?:it|she|he|they|that|this|there|i)\b)",
    re.I,
)
_BEFORE_YES_NO = word_set(
    "i i'd i'm think say would believe guess so well then therefore it that is a the clear definite"
    " my final answer probably"
)
_CLAUSE_BREAK = re.compile(r"[.,;:!?\n]|\s[-–—]\s")

_OPENING = re.compile(rf"[{re.escape(EDGES)}]*(?:(?:the|in|at|line|row|option)\s+)?", re.I)
_SET_OFF = re.compile(
    r"[\"'”’)\]*`]*(?:\s*$|\s*\n|[.!;:)](?!\w)|\s+[-–—]\s|,?\s+(?:because|since|rather than)\b)",
    re.I,
)
_LETTER = re.compile(r"\W*(?:(?i:option)\s+)?([A-Z])(?=[.:,;)\]*\"”]|\s*$)")
_DENIAL = r"(?i:\b(?:not|never|rather\s+than|instead\s+of)\s+(?:(?:the|an?|in|at|line|row)\s+)?)"
# These follow a letter that opens a sentence, but not an article.
_AFTER_LETTER = (
    "is|was|has|and|or|because|since|as|but|seems|looks|appears|matches|equals|must|would|wins"
)
_NEVER = "(?!)"

# The scale in the question, which a reply may repeat.
_SCALE = re.compile(
    r"(?<![\w.,])0(?:\.0)?(?:\s*\([^)]*\))?\s*(?:to|and|[-–—])\s*1(?:\.0)?(?![\w%/]|[.,]\d)"
    r"(?:\s*\([^)]*\))?",
    re.I,
)
_EVEN_ODDS = re.compile(r"\b50\s*[-/–]\s*50\b")
_DIGITS = r"\d+(?:[.,]\d+)?|[.,]\d+"
_NUMBER = re.compile(
    rf"(?<![\w.,/])([-−]?)({_DIGITS})(?!\w)"
    rf"(?:\s*(%|per\s?cent\b)|\s*(?:/|out\s+of)\s*({_DIGITS})(?!\w))?",
    re.I,
)
# With these, a number is not the confidence in the answer.
_NOT_CONFIDENCE = re.compile(r"\bnot\b|n[’']t\b|\bwrong\b|\bincorrect\b|\boptions?\b", re.I)
_AFTER_SHARE = re.compile(
    r"[*\"”)\]]*(?:\s*$|\s*\n|[.;:!](?!\s*\d)|\s*\(|,?\s+(?:because|since)\b)", re.I
)


@lru_cache(4_096)
def read_choice(text: str, options: tuple[str, ...]) -> str | None:
    """Find the option that a reply chooses: alone on its first line, as "the answer", or by name.

    >>> read_choice("Rome or Paris? My answer: Rome.", ("Paris", "Rome"))
    'Rome'
    >>> read_choice("Rome\\n\\nQuestion: Where is Bo? Answer: Paris", ("Paris", "Rome"))
    'Rome'
    """
    reply = cut_next_turn(text)
    if reply in options:
        return reply
    line = _OPENS_WITH_ANSWER.sub("", _first_line(reply)).strip()
    found = _find_alone(line, options)
    if found is None and _LETTER.fullmatch(line.rstrip(EDGES)):
        found = _find_by_letter(line, options)
    if found is not None:
        return found
    if answers := _find_own_claims(_ANSWER_IS, reply):
        found = find_option(answers[-1], options)
    else:
        guesses = {_find_opening(line, options) for line in _find_own_claims(_IT_IS, reply)}
        guesses.discard(None)
        found = guesses.pop() if len(guesses) == 1 else None
    return found or find_option(reply, options)


def find_option(answer: str, options: Sequence[str]) -> str | None:
    """Find the one option that an answer names, in words or by its letter.

    >>> find_option("Surely Rome!", ["Paris", "Rome"])
    'Rome'
    >>> find_option("Paris or Rome", ["Paris", "Rome"])
    """
    text = _straighten(answer)
    if (found := _find_alone(text, options) or _find_opening(text, options)) is not None:
        return found
    names, mention, denial = _compile(tuple(options))

    def find_names(where: str) -> set[str]:
        return {names[(found.lastindex or 0) - 1] for found in mention.finditer(where)}

    kept = denial.sub(" ", text)
    chosen = find_names(kept)
    if not chosen:
        return _find_yes_or_no(text, options) or _find_by_letter(text, options)
    if len(chosen) > 1 or chosen & find_names(" ".join(denial.findall(text))):
        return None
    # The option itself may contain a negation; only those beyond it count.
    option = chosen.pop()
    if len(_DOUBT.findall(kept)) != len(_DOUBT.findall(option)) or negation_differs(kept, option):
        return None
    return option


def _find_alone(text: str, options: Sequence[str]) -> str | None:
    """Find the option that is the whole text, unless a question mark follows it."""
    whole = normalize(_straighten(text))
    same = [option for option in options if normalize(_straighten(option)) == whole]
    return same[0] if whole and len(same) == 1 and not text.endswith("?") else None


def cut_next_turn(text: str) -> str:
    """Cut off the turns of the conversation that a model made up after its reply.

    >>> cut_next_turn("0.8\\n\\nQuestion: What is 2 + 3?")
    '0.8'
    """
    found = _NEXT_TURN.search(text)
    lines = text[: found.start()].split("\n") if found else [text]
    while found and lines and not lines[-1].strip("*#> \t\r"):
        lines.pop()  # the marks before it, not in the pattern: it would read them once per line
    return "\n".join(lines).strip()


def _find_own_claims(lead: re.Pattern[str], reply: str) -> list[str]:
    """The rest of each line after a lead-in that neither quotes others nor expresses doubt."""
    claims = []
    starts = [0, *(each.end() for each in _NEW_START.finditer(reply))]
    for found in lead.finditer(reply):
        at = bisect_right(starts, found.start()) - 1
        sentence = reply[starts[at] : found.start()]
        clause = sentence.rpartition(",")[2]
        of_others = _REPORTS & stems(sentence) or _OTHERS & stems(clause)
        if not (of_others or _DOUBT.search(clause)):
            claims.append(_first_line(reply[found.end() :]))
    return claims


def _find_opening(text: str, options: Sequence[str]) -> str | None:
    """The option that a text opens with, set off from what follows."""
    names, mention, _ = _compile(tuple(options))
    opening = _OPENING.match(text)
    # An option may itself begin with an article or a preposition.
    for start in (0, opening.end() if opening else 0):
        found = mention.match(text, start)
        if found and _SET_OFF.match(text, found.end()):
            return names[(found.lastindex or 0) - 1]
    return None


def _find_yes_or_no(text: str, options: Sequence[str]) -> str | None:
    """A "yes" or "no" that opens a text, or that ends a clause such as "I would say no"."""
    offered = {normalize(option): option for option in options}
    if opening := _OPENS_WITH_YES_NO.match(text):
        return offered.get(opening[1].casefold())
    clauses = (words(clause) for clause in _CLAUSE_BREAK.split(text))
    said = {
        last
        for *before, last in filter(None, clauses)
        if last in _YES_NO and _BEFORE_YES_NO.issuperset(before)
    }
    return offered.get(said.pop()) if len(said) == 1 else None


def _find_by_letter(text: str, options: Sequence[str]) -> str | None:
    """The option that a capital letter stands for: A for the first."""
    letter = _LETTER.match(text)
    place = ord(letter[1]) - ord("A") if letter else len(options)
    return options[place] if place < len(options) else None


@lru_cache(4_096)
def _compile(options: tuple[str, ...]) -> tuple[list[str], re.Pattern[str], re.Pattern[str]]:
    """Options with the longest first, a pattern with a group for each, and one for denials.

    >>> _, mention, denial = _compile(("Rome", "New Rome", "Paris"))
    >>> mention.findall("New Rome, not Paris"), denial.findall("New Rome, not Paris")
    ([('New Rome', '', ''), ('', 'Paris', '')], ['not Paris'])
    """
    names = {option: strip_edges(_straighten(option)) for option in options}
    # Options that differ only in case can't be told apart within a sentence.
    alike = Counter(map(normalize, options))
    sought = [
        each
        for each in sorted(options, key=lambda option: -len(names[option]))
        if names[each] and alike[normalize(each)] == 1 and normalize(each) not in _YES_NO
    ]
    patterns = [_mention_pattern(names[option]) for option in sought] or [_NEVER]
    one = f"(?:{'|'.join(patterns)})"
    denial = rf"{_DENIAL}{one}(?:\s+(?:and|or|nor)\s+{one})*"
    return sought, re.compile("|".join(f"({each})" for each in patterns)), re.compile(denial)


def _mention_pattern(name: str) -> str:
    """A pattern for whole words, whole numbers, and single letters in their own case."""
    written = r"\s+".join(map(re.escape, name.split()))
    if parse_number(name) is not None:
        return rf"(?<![\w.,/\-−]){written}(?!\w|[.,/]\d)"
    if len(name) > 1 or not name.isalpha():
        return rf"(?<!\w)(?i:{written})(?!\w)"
    letter = rf"(?<![\w']){written}(?![\w'])"
    if name not in ("A", "I"):
        return letter
    # An article or a pronoun that opens a sentence and is followed by a noun is not a name.
    return rf"{letter}(?:(?!\s+\w)|(?=\s+(?:{_AFTER_LETTER})\b)|(?<=[a-z]\s.))"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _straighten(text: str) -> str:
    return text.strip().replace("’", "'")


def read_share(text: str) -> float | None:
    """Read a number from 0 to 1, a percentage or a fraction; None if there is none, or several.

    >>> read_share("About 85 %."), read_share("0.7"), read_share("I am sure"), read_share("7")
    (0.85, 0.7, None, None)
    >>> read_share("0.8. I am quite sure because 3 of 4 facts fit")
    0.8
    """
    reply = _EVEN_ODDS.sub("0.5", _SCALE.sub(" ", cut_next_turn(text)))
    found = list(_NUMBER.finditer(reply))
    opens = found and not re.search(r"\w", reply[: found[0].start()])
    if opens and _AFTER_SHARE.match(reply, found[0].end()):
        found = found[:1]
    elif _NOT_CONFIDENCE.search(reply):
        return None
    shares = set()
    for sign, digits, percent, whole in (number.groups() for number in found):
        parts = float(whole.replace(",", ".")) if whole else 100.0 if percent else 1.0
        share = round(float(digits.replace(",", ".")) / parts, 12) if parts else math.inf
        shares.add(share if share <= 1 and not sign else None)
    return shares.pop() if len(shares) == 1 else None
