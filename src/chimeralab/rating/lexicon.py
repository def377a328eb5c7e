"""English words by the part they play: without content, numbers, and groups of synonyms."""

import tomllib
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))

FILLERS = frozenset(_LISTS["fillers"].split())
LY_NOUNS = frozenset(_LISTS["ly_nouns"].split())
NEGATIONS = frozenset(_LISTS["negations"].split())
NUMBER_WORDS = frozenset(_LISTS["numbers"].split())
SYNONYMS: list[list[str]] = [line.split() for line in _LISTS["synonyms"].splitlines() if line]

ENDINGS = ("ings", "ing", "ies", "ed", "es", "s", "ly")


def stem(word: str) -> str:
    """A word without its ending, roughly.

    >>> stem("improving"), stem("improved"), stem("improve"), stem("cities"), stem("class")
    ('improv', 'improv', 'improv', 'cit', 'class')
    """
    if len(word) <= 4 or word.endswith("ss"):
        return word
    ending = next((end for end in ENDINGS if word.endswith(end) and len(word) > len(end) + 2), "")
    return (word[: len(word) - len(ending)]).rstrip("ey")


def sense(word: str) -> str:
    """One name for all synonyms and forms of a word.

    >>> sense("wonderful") == sense("great"), sense("improving") == sense("enhanced")
    (True, True)
    """
    if word in NEGATIONS:
        return word
    root = stem(word)
    return _GROUPS.get(root, root)


_GROUPS: dict[str, str] = {stem(word): group[0] for group in SYNONYMS for word in group}
