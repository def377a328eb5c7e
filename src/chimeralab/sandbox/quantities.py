"""The numbers that a statement names, in digits or in words, with their units."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from chimeralab.sandbox.wording import stem

TOKEN = re.compile(r"(?:(?<![\w.])[-−])?\d+(?:,\d{3})*(?:\.\d+)?|[^\W\d_]+|[%$€£,;]")
DIGITS = re.compile(r"[-−]?\d")

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


class Read(NamedTuple):
    """A number that was read, and the token behind it; None where there is no number."""

    value: float | None
    end: int


def quantities(text: str) -> tuple[Quantity, ...]:
    """Every quantity that a text names, in its order.

    >>> quantities("Twenty-one boats sailed 3 km")
    (Quantity(unit='', value=21.0, of='boat'), Quantity(unit='metre', value=3000.0, of=''))
    """
    tokens = [token.lower() for token in TOKEN.findall(ROMAN.sub(_arabic, text))]
    found = []
    at = 0
    while at < len(tokens):
        value, end = _number(tokens, at)
        if value is not None:
            unit = _unit(tokens, at, end)
            base, factor = UNITS.get(unit, ("", 1.0))
            counted = "" if unit else stem(next(iter(tokens[end : end + 1]), ""))
            found.append(Quantity(base, round(value * factor, 9), counted))
        at = max(end, at + 1)
    return tuple(found)


def _arabic(numeral: re.Match[str]) -> str:
    return str(ROMAN_VALUES[numeral[0]])


def _unit(tokens: Sequence[str], start: int, end: int) -> str:
    """The unit behind a number, or the currency before it."""
    behind = tokens[end] if end < len(tokens) else ""
    before = tokens[start - 1] if start else ""
    names = (behind, behind.removesuffix("s"), before if before in "$€" else "")
    return next((name for name in names if name in UNITS), "")


def _number(tokens: Sequence[str], at: int) -> Read:
    word = tokens[at]
    if DIGITS.match(word):
        value = float(word.replace(",", "").replace("−", "-"))
        return _scaled(tokens, value, at + 1)
    if word in TIMES:
        return Read(TIMES[word], at + 1)
    if word in NUMERALS and not (word == "second" and tokens[at - 1 : at] in A_MOMENT):
        return _spelled(tokens, at)
    return _scaled(tokens, 1, at) if word in SCALES else Read(None, at)


def _scaled(tokens: Sequence[str], value: float, end: int) -> Read:
    while end < len(tokens) and tokens[end] in SCALES:
        value, end = value * SCALES[tokens[end]], end + 1
    return Read(value, end)


def _spelled(tokens: Sequence[str], at: int) -> Read:
    """A number in words, up to the first word that does not continue it."""
    total, part = 0.0, 0.0
    end = at
    while end < len(tokens):
        word = tokens[end]
        if word in NUMERALS and (end == at or _continues(part, NUMERALS[word])):
            part = _continued(part, NUMERALS[word])
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
    return Read(total + part, end)


def _continues(part: float, value: float) -> bool:
    """Whether a numeral goes on with a number, as in "twenty-one" and "nineteen eighty"."""
    if part % 100 == 0:
        return True
    return (part % 10 == 0 and value < 10) or 10 <= part < 100 <= 10 * value


def _continued(part: float, value: float) -> float:
    return part + value if part % 100 == 0 or value < 10 else 100 * part + value
