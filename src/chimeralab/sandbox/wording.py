"""Words of a statement, in the plain form in which they can be compared."""

import re

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
SPELLED_OUT = (
    (re.compile(r"\bcannot\b"), "can not"),
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"\bain't\b"), "is not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'s\b"), ""),
)


def listed(text: str) -> frozenset[str]:
    """Words written one after another, as a set."""
    return frozenset(text.split())


ARTICLES = frozenset({"a", "an", "the"})
# Words that carry little of a statement: the subject of a negation is never one of them.
FUNCTION_WORDS = ARTICLES | listed(
    "and or but if then than that this these those to of in on at by for from with as is are was"
    " were be been being am do does did has have had will would can could shall should may might"
    " must it its he she they we you i him her his them their our your my me us there here so too"
    " also very just only ever yet still any some all which who whom whose what when where while"
    " about into over under up down out off again more most such own same"
)
AUXILIARIES = listed("is are was were be been being am do does did has have had will would")
DOUBLED = re.compile(r"([bdgmnprt])\1$")


def words(text: str) -> list[str]:
    """Lower-case words, with contractions spelled out.

    >>> words("It isn’t Anna's boat.")
    ['it', 'is', 'not', 'anna', 'boat']
    """
    plain = text.casefold().replace("\u2019", "'")
    for pattern, spelled in SPELLED_OUT:
        plain = pattern.sub(spelled, plain)
    return WORD.findall(plain)


def stem(word: str) -> str:
    """A word without its regular ending, so that its forms meet.

    >>> [stem(word) for word in ("reports", "reporting", "stopped", "carries")]
    ['report', 'report', 'stop', 'carry']
    """
    for ending, rest in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("ly", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _unfinished(DOUBLED.sub(r"\1", word[: -len(ending)] + rest))
    if word.endswith(("ses", "xes", "ches", "shes", "zes")):
        return _unfinished(word[:-2])
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return _unfinished(word)


def _unfinished(word: str) -> str:
    """Endings drop a final e ("close", "closing"), so every stem does."""
    return word[:-1] if word.endswith("e") and len(word) > 3 else word
