"""How sure does a reply say it is? A number from 0 to 1; None when it can't be told."""

import re

from chimeralab.sandbox.reading import own_words

# The scale of the question, which a reply may repeat with or without its explanations.
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
_STOP = re.compile(r"[*\"”)\]]*(?:\s*$|\s*\n|[.;:!](?!\s*\d)|\s*\(|,?\s+(?:because|since)\b)", re.I)


def read_share(text: str) -> float | None:
    """A number from 0 to 1 in a reply, also as a percentage or a fraction; None when in doubt.

    >>> read_share("About 85 %."), read_share("0.7"), read_share("I am sure"), read_share("7")
    (0.85, 0.7, None, None)
    >>> read_share("0.8. I am quite sure because 3 of 4 facts fit")
    0.8
    """
    said = _EVEN_ODDS.sub("0.5", _SCALE.sub(" ", own_words(text)))
    found = list(_NUMBER.finditer(said))
    if found and _opens(found[0], said):
        found = found[:1]
    elif _TURNED.search(said):
        return None
    shares = {_share(number) for number in found}
    return shares.pop() if len(shares) == 1 else None


def _opens(number: re.Match[str], said: str) -> bool:
    """Whether a number is the beginning of a reply, set off from all that follows."""
    nothing_before = not re.search(r"\w", said[: number.start()])
    return nothing_before and _STOP.match(said, number.end()) is not None


def _share(number: re.Match[str]) -> float | None:
    sign, digits, percent, whole = number.groups()
    parts = _value(whole) if whole else 100.0 if percent else 1.0
    share = round(_value(digits) / parts, 12) if parts else None
    return share if share is not None and share <= 1 and not sign else None


def _value(digits: str) -> float:
    return float(digits.replace(",", "."))
