"""Which option does a reply choose? In doubt none: an unread reply shows, a misread one does not.

A subject was asked to reply with an option and nothing else. What stands alone counts first, then
what the reply calls its answer, then the one option that it names and does not deny.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from chimeralab.sandbox.contradiction import negation_differs
from chimeralab.sandbox.mentions import EDGES, YES_NO, alone, mentions, normalised, straightened
from chimeralab.sandbox.wording import listed, stem, words

# Small models go on with the next turn of the conversation, and it is not their answer any more.
_NEXT_TURN = re.compile(r"^[\s*#>]*(?:Question|User|Human)(?:\s+\d+)?:", re.M | re.I)
_ANSWER_IS = re.compile(r"\banswer\b[*_]*\s*(?:is\b|:)[*_:]*", re.IGNORECASE)
_CALLED_ANSWER = re.compile(r"^\W*(?:(?:so|the|my|final)\s+)*answer\W*(?:is\b|:)", re.IGNORECASE)
_IT_IS = re.compile(r"\bit(?:\s+is|['’]s)\b", re.IGNORECASE)

# Where a writer begins to speak for itself again.
_NEW_START = re.compile(
    r"[.!?;\n]|\b(?:but|however|yet|so|thus|therefore|hence|I(?:['’]d|\s+would)?\s+say)\b", re.I
)
# Stems by which a sentence tells what somebody else holds, also in an earlier clause of it.
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
_STOP = re.compile(
    r"[\"'”’)\]*`]*(?:\s*$|\s*\n|[.!;:)](?!\w)|\s+[-–—]\s|,?\s+(?:because|since|rather than)\b)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\W*(?:(?i:option)\s+)?([A-Z])(?=[.:,;)\]*\"”]|\s*$)")


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
    for read in (_alone_on_first_line, _stated, chosen_option):
        if (found := read(reply, options)) is not None:
            return found
    return None


def chosen_option(answer: str, options: Sequence[str]) -> str | None:
    """The option that an answer names, by its letter or in words; None when it names not just one.

    >>> chosen_option("Surely Rome!", ["Paris", "Rome"])
    'Rome'
    >>> chosen_option("Paris or Rome", ["Paris", "Rome"])
    """
    text = straightened(answer)
    if (found := alone(text, options) or _opening(text, options)) is not None:
        return found
    sought = mentions(tuple(options))
    kept = sought.denied.sub(" ", text)
    named = sought.named(kept)
    if not named:
        return _yes_or_no(text, options) or _by_place(text, options)
    refused = sought.named(" ".join(sought.denied.findall(text)))
    if len(named) > 1 or named & refused or _is_doubted(kept, min(named)):
        return None
    return named.pop()


def own_words(text: str) -> str:
    """A reply up to the next turn of the conversation that its writer made up.

    >>> own_words("0.8\\n\\nQuestion: What is 2 + 3?")
    '0.8'
    """
    return _NEXT_TURN.split(text, maxsplit=1)[0].strip()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _alone_on_first_line(reply: str, options: Sequence[str]) -> str | None:
    line = _CALLED_ANSWER.sub("", _first_line(reply)).strip()
    letter = _PLACE.fullmatch(line.rstrip(EDGES))
    return alone(line, options) or (_by_place(line, options) if letter else None)


def _stated(reply: str, options: Sequence[str]) -> str | None:
    """What a reply last calls the answer; without that word, what it says that "it is"."""
    if answers := _own_lines(_ANSWER_IS, reply):
        return chosen_option(answers[-1], options)
    guesses = {_opening(line, options) for line in _own_lines(_IT_IS, reply)} - {None}
    return guesses.pop() if len(guesses) == 1 else None


def _own_lines(lead: re.Pattern[str], reply: str) -> list[str]:
    """The rest of the line behind such words, wherever the reply speaks for itself."""
    leads = lead.finditer(reply)
    return [_first_line(reply[at.end() :]) for at in leads if _is_own(reply[: at.start()])]


def _is_own(before: str) -> bool:
    """Whether words that follow these are the writer's own, and not told of others or denied."""
    sentence = _NEW_START.split(before)[-1]
    clause = sentence.rpartition(",")[2]
    told = not _REPORTS.isdisjoint(map(stem, words(sentence)))
    of_others = not _OTHERS.isdisjoint(map(stem, words(clause)))
    return not (told or of_others or _DOUBT.search(clause))


def _opening(text: str, options: Sequence[str]) -> str | None:
    """The option that a text opens with, set off from all that follows."""
    sought = mentions(tuple(options))
    opening = _OPENING.match(text)
    # An option may itself begin with what usually leads up to one.
    for start in (0, opening.end() if opening else 0):
        found = sought.pattern.match(text, start)
        if found and _STOP.match(text, found.end()):
            return sought.option(found)
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
        if last in YES_NO and _BEFORE_YES_NO.issuperset(before)
    }
    return offered.get(said.pop()) if len(said) == 1 else None


def _is_doubted(text: str, option: str) -> bool:
    """Whether a text says of its option that it is not so, beyond what the option itself says."""
    doubts, inherent = (len(_DOUBT.findall(each)) for each in (text, option))
    return doubts != inherent or negation_differs(text, option)


def _by_place(text: str, options: Sequence[str]) -> str | None:
    """The option that a capital letter stands for: A for the first."""
    letter = _PLACE.match(text)
    place = ord(letter[1]) - ord("A") if letter else len(options)
    return options[place] if place < len(options) else None
