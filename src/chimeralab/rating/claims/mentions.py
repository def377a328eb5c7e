"""Numbers in a text as claims state them: 0.57, 92.8 %, 167 of 180, [0.36, 0.78], thirteen."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from chimeralab.rating.claims.passages import Passage

KindOfNumber = Literal["decimal", "percent", "count", "fraction", "interval"]
Relation = Literal["is", "about", "above", "below"]

_DIGITS = r"(?:\d+(?:\.\d+)?|\.\d+)(?!\w|\.\d|,\d{3})"
_NUMBER = rf"(?:(?<![\w.,−-])|(?<=[\s(\[=~≈])[−-]){_DIGITS}"
_SMALL = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = {
    **{word: value for value, word in enumerate(_SMALL, 1) if value > 2},
    **{word: value for value, word in zip(range(20, 100, 10), _TENS, strict=True)},
    **{
        f"{ten}-{unit}": value + n
        for value, ten in zip(range(20, 100, 10), _TENS, strict=True)
        for n, unit in enumerate(_SMALL[:9], 1)
    },
}
_COUNT = rf"(?:{_NUMBER}|(?<!-)\b(?:{'|'.join(sorted(WORDS, key=len, reverse=True))})\b)"
_PERCENT = r"\s?(?:%|percent\b|per\scent\b)"

PATTERNS: tuple[tuple[KindOfNumber, re.Pattern[str]], ...] = (
    (
        "interval",
        re.compile(
            rf"({_NUMBER})(?:{_PERCENT})?\s*(?:–|—|-|…|to\b)\s*([−-]?{_DIGITS})({_PERCENT})?"
            rf"|(?<=[\[(])({_NUMBER})\s*[,;]\s*({_NUMBER})(?=[\])])"
            rf"|\b(?:CI|interval)\b\W{{1,3}}({_NUMBER})\s*[,;]\s*({_NUMBER})"
            rf"|\b(?:limits|bounds)\b[^.\d]{{0,40}}?({_NUMBER})\s+and\s+({_NUMBER})"
            rf"|(?<=between\s)({_NUMBER})(?:{_PERCENT})?\s+and\s+({_NUMBER})({_PERCENT})?"
        ),
    ),
    (
        "fraction",
        re.compile(
            rf"({_COUNT})\s*(?:/|(?:out\s)?of(?:\s(?:the|all|these|our))?(?:\stotal)?)\s*({_NUMBER})",
            re.IGNORECASE,
        ),
    ),
    ("percent", re.compile(rf"({_COUNT}){_PERCENT}", re.IGNORECASE)),
    ("decimal", re.compile(rf"({_NUMBER})")),
    ("count", re.compile(rf"({_COUNT})", re.IGNORECASE)),
)

_LINK = r"(?:\s*(?:the|a|an|its|our|planned|preregistered|required|customary|target|threshold|bar|criterion|gate|cut-?off|level|value|of|at)\b)*\s*$"  # noqa: E501
BEFORE: tuple[tuple[Relation, re.Pattern[str]], ...] = (
    (
        "above",
        re.compile(
            r"(?:[>≥]=?|at\sleast|more\sthan|\bover|above|exceed\w*|greater\sthan|higher\sthan"
            rf"|no\sless\sthan|surpass\w*|upwards\sof){_LINK}",
            re.IGNORECASE,
        ),
    ),
    (
        "below",
        re.compile(
            r"(?:[<≤]=?|below|\bunder|less\sthan|lower\sthan|fewer\sthan|at\smost|no\smore\sthan"
            r"|short\sof|shy\sof|far\sfrom|(?:not|n't|never|fail(?:s|ed|ing)?\sto)\s(?:\w+\s)?"
            rf"(?:reach|meet|clear|attain|pass|exceed|achieve)\w*){_LINK}",
            re.IGNORECASE,
        ),
    ),
    (
        "about",
        re.compile(
            r"(?:[~≈]|\b(?:about|around|roughly|approximately|approx\.|circa|ca\.|nearly|almost"
            r"|close\sto|some))\s*$",
            re.IGNORECASE,
        ),
    ),
)
# Numbers that name or measure something else than a result.
NOT_BEFORE = re.compile(
    r"(?:\b(?:raters?|version|section|table|figure|fig\.|appendix|step|turns?|line|page|chapter"
    r"|equation|rubric|seed|rounds?|attempt|rule|example|p|label|kind|phase|level)\s*[=<>≤≥:]?"
    r"|\bby(?:\s(?:about|more\sthan|less\sthan|only|over|some))?|\+|±|±\s)\s*$",
    re.IGNORECASE,
)
NOT_AFTER = re.compile(
    r"\s?\+|\s?(?:%|percent)?\s?-?\s?(?:CI\b|confidence|credible|interval|level|Wald|bootstrap|score\b"
    r"|Wilson|power\b|turns?\b|words?\b|raters?\b|models?\b|conditions?\b|prompts?\b|resamples"
    r"|repeats\b|seeds\b|dimension|tokens?\b|years?\b|days\b|minutes\b|hours\b|seconds\b|points?\b"
    r"|times\b|[x×]\s?\d|-?fold\b|rounds?\b|tenths?\b|stars?\b|steps\b|versions?\b|labels\b|quarters?\b"
    r"|or\smore\b|adjacent|consecutive|in\sa\srow)",
    re.IGNORECASE,
)
# Sentences that plan or suppose state no result.
SUPPOSED = re.compile(
    r"%\s?power|\bpower\sof\b|items\sneeded|would\s(?:need|require|have)|\bsuppose|were\sto\b",
    re.IGNORECASE,
)
LISTED = re.compile(rf"\((?:\s*{_NUMBER}\s*,){{2,}}\s*{_NUMBER}\s*\)")
NAME_BEFORE = re.compile(r"\S\s*\b[A-Z][a-z]+\s$")


class Mention(NamedTuple):
    """A number or a pair of numbers in its place, and how firmly it is stated."""

    start: int
    end: int
    kind: KindOfNumber
    values: tuple[float, ...]
    units: tuple[float, ...]
    relation: Relation
    stated: str


def mentions(passage: Passage) -> list[Mention]:
    """The numbers of a passage that may state a result, in order.

    >>> [m.stated for m in mentions(Passage("Rater 1 saw 164 of 180, or about 91 %.", 1))]
    ['164 of 180', 'about 91 %']
    """
    if SUPPOSED.search(passage.text):
        return []
    taken = [match.span() for match in LISTED.finditer(passage.text)]
    found: list[Mention] = []
    for kind, pattern in PATTERNS:
        for match in pattern.finditer(passage.text, passage.numbers_from):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            if _fits_kind(kind, match):
                taken.append(match.span())
                found.extend(_mention(passage, kind, match))
    return sorted(found)


def _fits_kind(kind: KindOfNumber, match: re.Match[str]) -> bool:
    numbers = [part for part in match.groups() if part and _value(part) is not None]
    if kind == "interval":
        return "%" in match[0] or all("." in number for number in numbers)
    if kind == "decimal":
        return "." in match[0]
    return kind != "fraction" or not any("." in number for number in numbers)


def _mention(passage: Passage, kind: KindOfNumber, match: re.Match[str]) -> Iterator[Mention]:
    # A pattern may begin with words that announce the number.
    place = min(match.start(n) for n in range(1, len(match.groups()) + 1) if match[n])
    before, after = passage.text[:place], passage.text[match.end() :]
    if NOT_BEFORE.search(before) or NOT_AFTER.match(after):
        return
    numbers = [part for part in match.groups() if part and _value(part) is not None]
    values = [_value(part) or 0.0 for part in numbers]
    if kind == "count" and (values[0] < 2 or NAME_BEFORE.search(before)):
        return
    scale = 100.0 if kind == "percent" or (kind == "interval" and "%" in match[0]) else 1.0
    relation, start = _relation(before, place)
    yield Mention(
        start=place,
        end=match.end(),
        kind=kind,
        values=tuple(value / scale for value in values),
        units=tuple(_unit(part, relation) / scale for part in numbers),
        relation=relation,
        stated=passage.text[start : match.end()].strip(),
    )


def _relation(before: str, start: int) -> tuple[Relation, int]:
    for relation, pattern in BEFORE:
        found = pattern.search(before)
        if found:
            return relation, found.start()
    return "is", start


def _value(part: str) -> float | None:
    if part.lower() in WORDS:
        return float(WORDS[part.lower()])
    try:
        return float(part.replace("−", "-"))
    except ValueError:
        return None


def _unit(part: str, relation: Relation) -> float:
    """The place value of the last digit that is meant: tens in "about 90", a hundredth in 0.57."""
    if "." in part:
        return float(10.0 ** -len(part.partition(".")[2]))
    zeros = len(part) - len(part.rstrip("0")) if part.isdigit() else 0
    return float(10.0**zeros) if relation == "about" else 1.0
