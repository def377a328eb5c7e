"""What does a reply say: which option does it choose, and how sure does it call itself?

In doubt nothing: an unread reply shows, a misread one does not. A subject was asked to reply with
an option and nothing else. What stands alone counts first, then what the reply calls its answer,
then the one option that it names and does not deny.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from chimeralab.trial.trials import parse_number
from chimeralab.trial.wording import (
    EDGES,
    bare,
    listed,
    negation_differs,
    normalised,
    stem,
    words,
)

# Small models go on with the next turn of the conversation, and it is not their answer any more.
_NEXT_TURN = re.compile(r"^[\s*#>]*(?:Question|User|Human)(?:\s+\d+)?:", re.M | re.I)
_ANSWER_IS = re.compile(r"\banswer\b[*_]*\s*(?:is\b|:)[*_:]*", re.IGNORECASE)
_CALLED_ANSWER = re.compile(r"^\W*(?:(?:so|the|my|final)\s+)*answer\W*(?:is\b|:)", re.IGNORECASE)
_IT_IS = re.compile(r"\bit(?:\s+is|['’]s)\b", re.IGNORECASE)

# Where a writer begins to speak for itself again.
_NEW_START = re.compile(
    r"[.!?;\n]|\b(?:but|however|yet|so|thus|therefore|hence|I(?:['’]d|\s+would)?\s+say)\b", re.I
)
# Stems by which a sentence tells what somebody else thinks, also in an earlier clause of it.
_REPORTS = listed("say said told tell claim insist suggest accord assum if whether")
# Stems of those to whom an answer belongs that is not the writer's.
_OTHERS = listed(
    "you your he his she her they their whose examiner tool manual participant expert panel other"
    " some peopl majority"
)
_DOUBT = re.compile(
    r"\b(?:disagree\w*|I\s+doubt|wrong\w*|incorrect\w*|false\w*|untrue|mistaken|unlikely|reject\w*)\b",
    re.IGNORECASE,
)

# They answer by where they stand, not by being named: "I have no idea" is not a "no".
_YES_NO = ("yes", "no")
# "No idea" and "no information" answer nothing: a sign or the subject of a sentence must follow.
_OPENS_WITH_YES_NO = re.compile(
    r"\W*(yes|no)(?=\W*$|[.,;:!?*)\"”'’–—]|\s+[-–—]\s|\s+(?:it|she|he|they|that|this|there|i)\b)",
    re.IGNORECASE,
)
_BEFORE_YES_NO = listed(
    "i i'd i'm think say would believe guess so well then therefore it that is a the clear definite"
    " my final answer probably"
)
_CLAUSE_BREAK = re.compile(r"[.,;:!?\n]|\s[-–—]\s")

_OPENING = re.compile(rf"[{re.escape(EDGES)}]*(?:(?:the|in|at|line|row|option)\s+)?", re.I)
_SET_OFF = re.compile(
    r"[\"'”’)\]*`]*(?:\s*$|\s*\n|[.!;:)](?!\w)|\s+[-–—]\s|,?\s+(?:because|since|rather than)\b)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\W*(?:(?i:option)\s+)?([A-Z])(?=[.:,;)\]*\"”]|\s*$)")
_DENIAL = r"(?i:\b(?:not|never|rather\s+than|instead\s+of)\s+(?:(?:the|an?|in|at|line|row)\s+)?)"
# What may follow a letter that opens a sentence, and could not follow the article.
_AFTER_LETTER = (
    "is|was|has|and|or|because|since|as|but|seems|looks|appears|matches|equals|must|would|wins"
)
_NEVER = "(?!)"

# The scale of a question for confidence, which a reply may repeat with or without explanations.
_SCALE = re.compile(
    r"(?<![\w.,])0(?:\.0)?(?:\s*\([^)]*\))?\s*(?:to|and|[-–—])\s*1(?:\.0)?(?![\w%/]|[.,]\d)"
    r"(?:\s*\([^)]*\))?",
    re.IGNORECASE,
)
_EVEN_ODDS = re.compile(r"\b50\s*[-/–]\s*50\b")
_DIGITS = r"\d+(?:[.,]\d+)?|[.,]\d+"
_NUMBER = re.compile(
    rf"(?<![\w.,/])([-−]?)({_DIGITS})(?!\w)"
    rf"(?:\s*(%|per\s?cent\b)|\s*(?:/|out\s+of)\s*({_DIGITS})(?!\w))?",
    re.IGNORECASE,
)
# Words that make a number mean something else than how sure the reply is of its answer.
_TURNED = re.compile(r"\bnot\b|n[’']t\b|\bwrong\b|\bincorrect\b|\boptions?\b", re.IGNORECASE)
_AFTER_SHARE = re.compile(
    r"[*\"”)\]]*(?:\s*$|\s*\n|[.;:!](?!\s*\d)|\s*\(|,?\s+(?:because|since)\b)", re.I
)


@lru_cache(4_096)
def read_choice(text: str, options: tuple[str, ...]) -> str | None:
    """The option that a reply chooses: alone on its first line, as "the answer", or by name.

    >>> read_choice("Rome or Paris? My answer: Rome.", ("Paris", "Rome"))
    'Rome'
    >>> read_choice("Rome\\n\\nQuestion: Where is Bo? Answer: Paris", ("Paris", "Rome"))
    'Rome'
    """
    reply = own_words(text)
    if reply in options:
        return reply
    line = _CALLED_ANSWER.sub("", _first_line(reply)).strip()
    found = alone(line, options)
    if found is None and _PLACE.fullmatch(line.rstrip(EDGES)):
        found = _by_place(line, options)
    if found is not None:
        return found
    if answers := _own_lines(_ANSWER_IS, reply):
        guesses = {chosen_option(answers[-1], options)}
    else:
        guesses = {_opening(line, options) for line in _own_lines(_IT_IS, reply)} - {None}
    found = guesses.pop() if len(guesses) == 1 else None
    return found or chosen_option(reply, options)


def chosen_option(answer: str, options: Sequence[str]) -> str | None:
    """The option that an answer names, by its letter or in words; None when it names not just one.

    >>> chosen_option("Surely Rome!", ["Paris", "Rome"])
    'Rome'
    >>> chosen_option("Paris or Rome", ["Paris", "Rome"])
    """
    text = _straightened(answer)
    if (found := alone(text, options) or _opening(text, options)) is not None:
        return found
    sought, pattern, denied = _patterns(tuple(options))

    def named(where: str) -> set[str]:
        return {sought[(found.lastindex or 0) - 1] for found in pattern.finditer(where)}

    kept = denied.sub(" ", text)
    chosen = named(kept)
    if not chosen:
        return _yes_or_no(text, options) or _by_place(text, options)
    if len(chosen) > 1 or chosen & named(" ".join(denied.findall(text))):
        return None
    # An option may itself say that something is not so; what counts is what is said beyond it.
    option = chosen.pop()
    doubts, inherent = (len(_DOUBT.findall(each)) for each in (kept, option))
    return None if doubts != inherent or negation_differs(kept, option) else option


def alone(text: str, options: Sequence[str]) -> str | None:
    """The option that is all of a text; one with a question mark is weighed, not chosen.

    >>> alone("**Rome**", ["Paris", "Rome"])
    'Rome'
    """
    whole = normalised(_straightened(text))
    same = [option for option in options if normalised(_straightened(option)) == whole]
    return same[0] if whole and len(same) == 1 and not text.endswith("?") else None


def own_words(text: str) -> str:
    """A reply up to the next turn of the conversation that its writer made up.

    >>> own_words("0.8\\n\\nQuestion: What is 2 + 3?")
    '0.8'
    """
    return _NEXT_TURN.split(text, maxsplit=1)[0].strip()


def _own_lines(lead: re.Pattern[str], reply: str) -> list[str]:
    """The rest of the line behind such words, wherever they are not told of others or denied."""
    lines = []
    for found in lead.finditer(reply):
        sentence = _NEW_START.split(reply[: found.start()])[-1]
        clause = sentence.rpartition(",")[2]
        told = not _REPORTS.isdisjoint(map(stem, words(sentence)))
        of_others = not _OTHERS.isdisjoint(map(stem, words(clause)))
        if not (told or of_others or _DOUBT.search(clause)):
            lines.append(_first_line(reply[found.end() :]))
    return lines


def _opening(text: str, options: Sequence[str]) -> str | None:
    """The option that a text opens with, set off from all that follows."""
    sought, pattern, _ = _patterns(tuple(options))
    opening = _OPENING.match(text)
    # An option may itself begin with what usually leads up to one.
    for start in (0, opening.end() if opening else 0):
        found = pattern.match(text, start)
        if found and _SET_OFF.match(text, found.end()):
            return sought[(found.lastindex or 0) - 1]
    return None


def _yes_or_no(text: str, options: Sequence[str]) -> str | None:
    """A "yes" or "no" that opens a text, or that is a clause by itself ("I would say no")."""
    offered = {normalised(option): option for option in options}
    if opening := _OPENS_WITH_YES_NO.match(text):
        return offered.get(opening[1].casefold())
    clauses = (words(clause) for clause in _CLAUSE_BREAK.split(text))
    said = {
        last
        for *before, last in filter(None, clauses)
        if last in _YES_NO and _BEFORE_YES_NO.issuperset(before)
    }
    return offered.get(said.pop()) if len(said) == 1 else None


def _by_place(text: str, options: Sequence[str]) -> str | None:
    """The option that a capital letter stands for: A for the first."""
    letter = _PLACE.match(text)
    place = ord(letter[1]) - ord("A") if letter else len(options)
    return options[place] if place < len(options) else None


@lru_cache(4_096)
def _patterns(options: tuple[str, ...]) -> tuple[list[str], re.Pattern[str], re.Pattern[str]]:
    """Options, the longest first; what finds each as the group of its place; what finds those that
    are denied, with their denial.

    >>> sought, pattern, denied = _patterns(("Rome", "New Rome", "Paris"))
    >>> pattern.findall("New Rome, not Paris"), denied.findall("New Rome, not Paris")
    ([('New Rome', '', ''), ('', 'Paris', '')], ['not Paris'])
    """
    names = {option: bare(_straightened(option)) for option in options}
    # Options that differ in case alone can't be told apart within a sentence.
    alike = Counter(map(normalised, options))
    sought = [
        each
        for each in sorted(options, key=lambda option: -len(names[option]))
        if names[each] and alike[normalised(each)] == 1 and normalised(each) not in _YES_NO
    ]
    each = [_mention(names[option]) for option in sought] or [_NEVER]
    one = f"(?:{'|'.join(each)})"
    denied = rf"{_DENIAL}{one}(?:\s+(?:and|or|nor)\s+{one})*"
    return sought, re.compile("|".join(f"({pattern})" for pattern in each)), re.compile(denied)


def _mention(name: str) -> str:
    """A pattern for whole words, whole numbers, and letters in their own case."""
    written = r"\s+".join(map(re.escape, name.split()))
    if parse_number(name) is not None:
        return rf"(?<![\w.,/\-−]){written}(?!\w|[.,/]\d)"
    if len(name) > 1 or not name.isalpha():
        return rf"(?<!\w)(?i:{written})(?!\w)"
    letter = rf"(?<![\w']){written}(?![\w'])"
    if name not in ("A", "I"):
        return letter
    # The article and the pronoun: no name where they open a sentence that goes on with a noun.
    return rf"{letter}(?:(?!\s+\w)|(?=\s+(?:{_AFTER_LETTER})\b)|(?<=[a-z]\s.))"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _straightened(text: str) -> str:
    """A text with one kind of apostrophe, and no blanks around it."""
    return text.strip().replace("’", "'")


def read_share(text: str) -> float | None:
    """A number from 0 to 1 in a reply, also as a percentage or a fraction; None when in doubt.

    >>> read_share("About 85 %."), read_share("0.7"), read_share("I am sure"), read_share("7")
    (0.85, 0.7, None, None)
    >>> read_share("0.8. I am quite sure because 3 of 4 facts fit")
    0.8
    """
    said = _EVEN_ODDS.sub("0.5", _SCALE.sub(" ", own_words(text)))
    found = list(_NUMBER.finditer(said))
    first = found[0] if found else None
    nothing_before = first is not None and not re.search(r"\w", said[: first.start()])
    if first is not None and nothing_before and _AFTER_SHARE.match(said, first.end()):
        found = [first]
    elif _TURNED.search(said):
        return None
    shares = set()
    for sign, digits, percent, whole in (number.groups() for number in found):
        parts = _decimal(whole) if whole else 100.0 if percent else 1.0
        share = round(_decimal(digits) / parts, 12) if parts else None
        shares.add(share if share is not None and share <= 1 and not sign else None)
    return shares.pop() if len(shares) == 1 else None


def _decimal(digits: str) -> float:
    return float(digits.replace(",", "."))
