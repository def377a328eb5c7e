"""A turn's text as the rules compare it: without dress, in words, and by what it talks about.

The word lists are English. In another language every word counts as content, so verbatim loops
are found as well as ever, and template loops only when nothing but numbers changes.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from chimeralab.rating.farewell import is_farewell
from chimeralab.rating.lexicon import FILLERS, LY_NOUNS, NUMBER_WORDS, sense

# Written without spaces: each character stands for a word.
UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
NUMBER = re.compile(r"\d+(st|nd|rd|th)?")
STRETCHED = re.compile(r"(\w)\1{2,}")
NAME = re.compile(r"(?<=[\w,;] )[A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Wording:
    """One text, taken apart once.

    Texts with the same `key` differ in white space, punctuation and capitals alone. `words` has
    one entry a word, equal for synonyms and forms of one word; `content` holds those that mean
    something.
    """

    text: str
    key: str
    words: tuple[str, ...]
    content: frozenset[str]
    numbers: frozenset[str]
    farewell: bool

    @property
    def names(self) -> frozenset[str]:
        """Words with a capital inside a sentence."""
        return frozenset(sense(name.casefold()) for name in NAME.findall(self.text))


class Word(NamedTuple):
    """What one word is to the rules: its sense, and whether it is a number or content."""

    sense: str
    number: bool
    content: bool


def wording(text: str) -> Wording:
    """Take a text apart.

    >>> wording("Well, GOODBYE!").key == wording("well goodbye...").key
    True
    """
    key = verbatim_key(text)
    plain = key.split()
    words = [_word(word) for word in plain]
    return Wording(
        text=text,
        key=key,
        words=tuple(word.sense for word in words),
        content=frozenset(word.sense for word in words if word.content),
        numbers=frozenset(word.sense for word in words if word.number),
        farewell=is_farewell(key, len(plain)),
    )


def verbatim_key(text: str) -> str:
    """The text without white space, punctuation and capitals, which change along with it.

    >>> verbatim_key("It's  **over**.")
    'its over'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().translate(_DRESS).split())


def short_key(key: str) -> str:
    """A key without emoji and with stretched letters let go.

    >>> short_key("nooooo 😀")
    'no'
    """
    letters = "".join(char for char in key if not unicodedata.category(char).startswith("S"))
    return " ".join(STRETCHED.sub(r"\1", letters).split())


@lru_cache(maxsize=1 << 16)
def _word(word: str) -> Word:
    if word in FILLERS:
        return Word(word, number=False, content=False)
    if word in NUMBER_WORDS or NUMBER.fullmatch(word):
        return Word(word, number=True, content=False)
    manner = word.endswith("ly") and word not in LY_NOUNS
    return Word(sense(word), number=False, content=word[0].isalnum() and not manner)


class _Dress(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = replacement = _undressed(chr(code))
        return replacement


def _undressed(char: str) -> str:
    """Apostrophes and invisible characters vanish, other punctuation parts words."""
    kind = unicodedata.category(char)
    if char in "'’‘ʼ" or kind == "Cf" or "\ufe00" <= char <= "\ufe0f":
        return ""
    if kind[0] in "PZC" or kind == "Sk":
        return " "
    return f" {char} " if kind[0] == "S" or UNSPACED.match(char) else char


_DRESS = _Dress()
