"""Words that tell what a number is about: "raw agreement", "by at least one rater", "ceiling"."""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LISTS = tomllib.loads(Path(__file__).with_name("cues.toml").read_text(encoding="utf-8"))

# Which label both raters gave is often said after the number.
NEGATIVE = re.compile(
    r"non-?\s?collaps\w*|not\s(?:\w+\s)?collaps\w*|no\scollapse|free\s(?:of|from)\scollapse"
    r"|\bnegatives?\b|\bzeros?\b|healthy|clear\sof|uncollapsed|intact"
    r"|\b(?:label|labell?ed|as|a|say|said|says|rated|assigned|scored|gave|chose)\s(?:a\s)?0\b",
    re.IGNORECASE,
)
MARGINS = re.compile(r"(?<!all\s)(?<!any\s)\bmargin(?:s|al\w*)\b", re.IGNORECASE)


class Cue(NamedTuple):
    """A phrase in its place that names a quantity."""

    start: int
    end: int
    quantity: str


def cues(text: str, raters: Sequence[str] = ()) -> list[Cue]:
    """The quantities that a text names, in order; raters may go by names of their own.

    >>> [cue.quantity for cue in cues("Raw agreement is high, Cohen's kappa is not.")]
    ['agreement', 'kappa']
    """
    found: list[Cue] = []
    for quantity, pattern in _patterns(tuple(raters)):
        for match in pattern.finditer(text):
            if not any(match.start() < cue.end and cue.start < match.end() for cue in found):
                found.append(Cue(match.start(), match.end(), quantity))
    return sorted(cue for cue in found if cue.quantity)


class Pattern(NamedTuple):
    """All phrases for one quantity as one expression."""

    quantity: str
    expression: re.Pattern[str]


@cache
def _patterns(raters: tuple[str, ...]) -> tuple[Pattern, ...]:
    """The phrases with the raters' names put in; without names, with what never matches."""
    first, second = (*(rf"\b{re.escape(name)}\b" for name in raters), "(?!)", "(?!)")[:2]
    words = {**_LISTS["words"], "FIRST_NAME": first, "SECOND_NAME": second}
    return tuple(
        Pattern(cue["quantity"], re.compile(_expanded("|".join(cue["phrases"]), words), re.I))
        for cue in _LISTS["cue"]
    )


def _expanded(phrase: str, words: dict[str, str]) -> str:
    for _ in range(2):  # a group may name another group
        for name, alternatives in words.items():
            phrase = re.sub(rf"\b{name}\b", lambda _, group=alternatives: group, phrase)  # type: ignore[misc]
    return phrase.replace(" ", r"\s+")
