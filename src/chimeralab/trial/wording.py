"""Words and numbers of a statement, in the plain form in which they can be compared."""

import re
from collections.abc import Sequence
from typing import NamedTuple

EDGES = " \t\r\n.,;:!?\"'“”‘’()[]*`"
# The point of ".5" is not one of them.
OPENING_SIGNS = re.compile(rf"^(?:(?!\.\d)[{re.escape(EDGES)}])+")
ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)

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


def normalised(text: str) -> str:
    """A statement without case, spare blanks, a leading article, and signs around it.

    >>> normalised(' The  Louvre. ')
    'louvre'
    """
    return bare(text.casefold())


def bare(text: str) -> str:
    """The same in its own case.

    >>> bare(' The  Louvre. ')
    'Louvre'
    """
    return ARTICLE.sub("", OPENING_SIGNS.sub("", " ".join(text.split())).rstrip(EDGES))


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


TOKEN = re.compile(
    r"(?:(?<![\w.])[-−])?(?:\d+(?:,\d{3})*(?:\.\d+)?|(?<![\w.])\.\d+)|[^\W\d_]+|[%$€£,;]"
)
DIGITS = re.compile(r"[-−]?\.?\d")

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
NUMERALS = {
    **{word: value for value, word in enumerate(ONES.split())},
    **{word: 10 * value for value, word in enumerate(TENS.split(), start=2)},
    **{word: value for value, word in enumerate(ORDINALS.split(), start=1)},
}
SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "dozen": 12}
TIMES = {"once": 1, "twice": 2, "thrice": 3, "double": 2, "triple": 3, "half": 0.5, "quarter": 0.25}
ROMAN_VALUES = {
    "II": 2, "III": 3, "IV": 4, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "XI": 11, "XII": 12,
    "XIII": 13, "XIV": 14, "XV": 15,
}  # fmt: skip
ROMAN = re.compile(rf"\b(?:{'|'.join(ROMAN_VALUES)})\b")
A_MOMENT = (["a"], ["per"], ["every"], ["each"])
# What each unit is counted in, and how much of that it is.
UNITS = {
    name: (base, factor)
    for names, base, factor in (
        ("mm millimetre millimeter", "metre", 0.001),
        ("cm centimetre centimeter", "metre", 0.01),
        ("m metre meter", "metre", 1.0),
        ("km kilometre kilometer", "metre", 1_000.0),
        ("mile", "metre", 1_609.344),
        ("ft foot feet", "metre", 0.3048),
        ("g gram", "gram", 1.0),
        ("kg kilo kilogram", "gram", 1_000.0),
        ("ton tonne", "gram", 1_000_000.0),
        ("lb pound", "gram", 453.59237),
        ("ml millilitre milliliter", "litre", 0.001),
        ("l litre liter", "litre", 1.0),
        ("sec second", "second", 1.0),
        ("min minute", "second", 60.0),
        ("h hour", "second", 3_600.0),
        ("day", "second", 86_400.0),
        ("week", "second", 604_800.0),
        ("month", "month", 1.0),
        ("year", "month", 12.0),
        ("decade", "month", 120.0),
        ("% percent", "percent", 1.0),
        ("am", "before noon", 1.0),
        ("pm", "after noon", 1.0),
        ("celsius", "celsius", 1.0),
        ("fahrenheit", "fahrenheit", 1.0),
        ("$ dollar", "dollar", 1.0),
        ("€ euro", "euro", 1.0),
    )
    for name in names.split()
}


class Quantity(NamedTuple):
    """A value in the unit that its kind is counted in, and the word that it stands before."""

    unit: str
    value: float
    of: str = ""


class NumberFound(NamedTuple):
    """A number among tokens, and the token behind it; None where there is no number."""

    value: float | None
    end: int


def quantities(text: str) -> tuple[Quantity, ...]:
    """Every quantity that a text names, in its order.

    >>> quantities("Twenty-one boats sailed 3 km")
    (Quantity(unit='', value=21.0, of='boat'), Quantity(unit='metre', value=3000.0, of=''))
    """
    arabic = ROMAN.sub(lambda numeral: str(ROMAN_VALUES[numeral[0]]), text)
    tokens = [token.lower() for token in TOKEN.findall(arabic)]
    found = []
    at = 0
    while at < len(tokens):
        value, end = _number(tokens, at)
        if value is not None:
            behind = tokens[end] if end < len(tokens) else ""
            before = tokens[at - 1] if at else ""
            units = (behind, behind.removesuffix("s"), before if before in "$€" else "")
            unit = next((name for name in units if name in UNITS), "")
            base, factor = UNITS.get(unit, ("", 1.0))
            counted = "" if unit else stem(behind)
            found.append(Quantity(base, round(value * factor, 9), counted))
        at = max(end, at + 1)
    return tuple(found)


def _number(tokens: Sequence[str], at: int) -> NumberFound:
    word = tokens[at]
    if DIGITS.match(word):
        value = float(word.replace(",", "").replace("−", "-"))
        return _scaled(tokens, value, at + 1)
    if word in TIMES:
        return NumberFound(TIMES[word], at + 1)
    if word in NUMERALS and not (word == "second" and tokens[at - 1 : at] in A_MOMENT):
        return _spelled(tokens, at)
    return _scaled(tokens, 1, at) if word in SCALES else NumberFound(None, at)


def _scaled(tokens: Sequence[str], value: float, end: int) -> NumberFound:
    while end < len(tokens) and tokens[end] in SCALES:
        value, end = value * SCALES[tokens[end]], end + 1
    return NumberFound(value, end)


def _spelled(tokens: Sequence[str], at: int) -> NumberFound:
    """A number in words, up to the first word that does not continue it."""
    total, part = 0.0, 0.0
    end = at
    while end < len(tokens):
        word = tokens[end]
        if word in NUMERALS and (end == at or _continues(part, NUMERALS[word])):
            value = NUMERALS[word]
            part = part + value if part % 100 == 0 or value < 10 else 100 * part + value
        elif word in SCALES:
            total, part = (
                (total, part * 100) if word == "hundred" else (total + part * SCALES[word], 0)
            )
        elif not (
            word == "and"
            and part % 100 == 0
            and tokens[end + 1 : end + 2]
            and tokens[end + 1] in NUMERALS
        ):
            break
        end += 1
    return NumberFound(total + part, end)


def _continues(part: float, value: float) -> bool:
    """Whether a numeral goes on with a number, as in "twenty-one" and "nineteen eighty"."""
    if part % 100 == 0:
        return True
    return (part % 10 == 0 and value < 10) or 10 <= part < 100 <= 10 * value
