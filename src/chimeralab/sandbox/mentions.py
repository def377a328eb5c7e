"""Where a text names an option: whole words, whole numbers, and letters in their own case."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from chimeralab.sandbox.trials import number_in

EDGES = " \t\r\n.,;:!?\"'“”‘’()[]*`"
# They answer by where they stand, not by being named: "I have no idea" is no "no".
YES_NO = ("yes", "no")
# The point of ".5" is not one of them.
_OPENING_SIGNS = re.compile(rf"^(?:(?!\.\d)[{re.escape(EDGES)}])+")
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_DENIAL = r"(?i:\b(?:not|never|rather\s+than|instead\s+of)\s+(?:(?:the|an?|in|at|line|row)\s+)?)"
# What may follow a letter that opens a sentence, and could not follow the article.
_AFTER_LETTER = (
    "is|was|has|and|or|because|since|as|but|seems|looks|appears|matches|equals|must|would|wins"
)
_NEVER = "(?!)"


class Mentions(NamedTuple):
    """Finds options in a text; the longest are tried first, so that none is found in another."""

    options: tuple[str, ...]
    pattern: re.Pattern[str]
    denied: re.Pattern[str]

    def named(self, text: str) -> set[str]:
        return {self.option(found) for found in self.pattern.finditer(text)}

    def option(self, found: re.Match[str]) -> str:
        assert found.lastindex is not None
        return self.options[found.lastindex - 1]


@lru_cache(4_096)
def mentions(options: tuple[str, ...]) -> Mentions:
    """What finds these options, and what finds those that are denied, with their denial.

    >>> found = mentions(("Rome", "New Rome", "Paris"))
    >>> sorted(found.named("New Rome, not Paris")), found.denied.findall("New Rome, not Paris")
    (['New Rome', 'Paris'], ['not Paris'])
    """
    bare = {option: _bare(straightened(option)) for option in options}
    alike = Counter(map(normalised, options))
    # Options that differ in case alone can't be told apart within a sentence.
    sought = [each for each in options if bare[each] and alike[normalised(each)] == 1]
    sought = [each for each in sought if normalised(each) not in YES_NO]
    sought.sort(key=lambda option: -len(bare[option]))
    patterns = [_mention(bare[option]) for option in sought]
    either = "|".join(f"({pattern})" for pattern in patterns) or _NEVER
    one = f"(?:{'|'.join(patterns) or _NEVER})"
    denied = rf"{_DENIAL}{one}(?:\s+(?:and|or|nor)\s+{one})*"
    return Mentions(tuple(sought), re.compile(either), re.compile(denied))


def alone(text: str, options: Sequence[str]) -> str | None:
    """The option that is all of a text; one with a question mark is weighed, not chosen.

    >>> alone("**Rome**", ["Paris", "Rome"])
    'Rome'
    """
    whole = normalised(straightened(text))
    same = [option for option in options if normalised(straightened(option)) == whole]
    return same[0] if whole and len(same) == 1 and not text.endswith("?") else None


def normalised(text: str) -> str:
    """A statement without case, spare blanks, a leading article, and signs around it.

    >>> normalised(' The  Louvre. ')
    'louvre'
    """
    return _bare(text.casefold())


def straightened(text: str) -> str:
    """A text with one kind of apostrophe, and no blanks around it."""
    return text.strip().replace("’", "'")


def _bare(text: str) -> str:
    return _ARTICLE.sub("", _OPENING_SIGNS.sub("", " ".join(text.split())).rstrip(EDGES))


def _mention(bare: str) -> str:
    written = r"\s+".join(map(re.escape, bare.split()))
    if number_in(bare) is not None:
        return rf"(?<![\w.,/\-−]){written}(?!\w|[.,/]\d)"
    if len(bare) > 1 or not bare.isalpha():
        return rf"(?<!\w)(?i:{written})(?!\w)"
    letter = rf"(?<![\w']){written}(?![\w'])"
    if bare not in ("A", "I"):
        return letter
    # The article and the pronoun: no name where they open a sentence that goes on with a noun.
    return rf"{letter}(?:(?!\s+\w)|(?=\s+(?:{_AFTER_LETTER})\b)|(?<=[a-z]\s.))"
