"""Words and numbers of a statement, and whether two statements contradict each other.

Vectors hardly see a "not", a changed number or an opposite. These rules do; they read English, and
where they are in doubt they call two statements different.
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

EDGES = " \t\r\n.,;:!?\"'“”‘’()[]*`"
# The point of ".5" is not one of them.
OPENING_SIGNS = re.compile(rf"^(?:(?!\.\d)[{re.escape(EDGES)}])+")
ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
SPELLED_OUT = (
    (r"\b(?:cannot|can't)\b", "can not"), (r"\bwon't\b", "will not"), (r"\bshan't\b", "shall not"),
    (r"\bain't\b", "is not"), (r"n't\b", " not"), (r"'s\b", ""),
)  # fmt: skip
DOUBLED = re.compile(r"([bdgmnprt])\1$")


def listed(text: str) -> frozenset[str]:
    """Words written one after another, as a set."""
    return frozenset(text.split())


_LISTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ARTICLES = listed(_LISTS["articles"])
AUXILIARIES = listed(_LISTS["auxiliaries"])
# Words that carry little of a statement: the subject of a negation is never one of them.
FUNCTION_WORDS = ARTICLES | AUXILIARIES | listed(_LISTS["function_words"])
NEGATIONS = listed(_LISTS["negations"])
HARMLESS: list[str] = _LISTS["harmless"]


def words(text: str) -> list[str]:
    """Lower-case words, with contractions spelled out.

    >>> words("It isn’t Anna's boat.")
    ['it', 'is', 'not', 'anna', 'boat']
    """
    plain = text.casefold().replace("’", "'")
    for pattern, spelled in SPELLED_OUT:
        plain = re.sub(pattern, spelled, plain)
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
            word = DOUBLED.sub(r"\1", word[: -len(ending)] + rest)
            break
    else:
        if word.endswith(("ses", "xes", "ches", "shes", "zes")):
            word = word[:-2]
        elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
            word = word[:-1]
    # Endings drop a final e ("close", "closing"), so every stem does.
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def stated(text: str) -> list[str]:
    """The words of a text, without those of a harmless phrase.

    >>> stated("No doubt it is not Rome.")
    ['it', 'is', 'not', 'rome']
    """
    spoken = " ".join(words(text))
    for phrase in HARMLESS:
        spoken = re.sub(rf"\b{phrase}\b", " ", spoken)
    return spoken.split()


TOKEN = re.compile(
    r"(?:(?<![\w.])[-−])?(?:\d+(?:,\d{3})*(?:\.\d+)?|(?<![\w.])\.\d+)|[^\W\d_]+|[%$€£,;]"
)
NUMERALS = {
    **{word: value for value, word in enumerate(_LISTS["ones"].split())},
    **{word: 10 * value for value, word in enumerate(_LISTS["tens"].split(), start=2)},
    **{word: value for value, word in enumerate(_LISTS["ordinals"].split(), start=1)},
}
SCALES: dict[str, int] = _LISTS["scales"]
TIMES: dict[str, float] = _LISTS["times"]
ROMAN: dict[str, str] = _LISTS["roman"]
A_MOMENT = listed("a per every each")
UNITS: dict[str, tuple[str, float]] = {
    name: (base, factor)
    for base, units in _LISTS["units"].items()
    for names, factor in units.items()
    for name in names.split()
}


def quantities(text: str) -> tuple[tuple[str, float, str], ...]:
    """Every quantity that a text names, in its order: unit, value, and what is counted.

    >>> quantities("Twenty-one boats sailed 3 km")
    (('', 21.0, 'boat'), ('metre', 3000.0, ''))
    """
    return tuple(
        (UNITS[unit][0], round(number * UNITS[unit][1], 9), "") if unit else ("", number, of)
        for number, unit, of in numbers(text)
    )


def numbers(text: str) -> Iterator[tuple[float, str, str]]:
    """Every number of a text as it is written, its unit, and the word that it stands before."""
    arabic = re.sub(rf"\b(?:{'|'.join(ROMAN)})\b", lambda found: ROMAN[found[0]], text)
    tokens = [token.lower() for token in TOKEN.findall(arabic)]
    at = 0
    while at < len(tokens):
        value, end = _number(tokens, at)
        if value is not None:
            behind = tokens[end] if end < len(tokens) else ""
            before = tokens[at - 1] if at else ""
            units = (behind, behind.removesuffix("s"), before if before in "$€" else "")
            unit = next((name for name in units if name in UNITS), "")
            yield round(value, 9), unit, "" if unit else stem(behind)
        at = max(end, at + 1)


def _number(tokens: Sequence[str], at: int) -> tuple[float | None, int]:
    """The number that begins at a token, and the place behind it; None where there is none."""
    word = tokens[at]
    if word in TIMES:
        return TIMES[word], at + 1
    if word in NUMERALS and not (word == "second" and A_MOMENT.intersection(tokens[:at][-1:])):
        return _spell(tokens, at)
    value, end = 1.0, at
    if re.match(r"[-−]?\.?\d", word):
        value, end = float(word.replace(",", "").replace("−", "-")), at + 1
    elif word not in SCALES:
        return None, at
    while end < len(tokens) and tokens[end] in SCALES:
        value, end = value * SCALES[tokens[end]], end + 1
    return value, end


def _spell(tokens: Sequence[str], at: int) -> tuple[float, int]:
    """A number in words, up to the first word that does not continue it."""
    total, part, end = 0.0, 0.0, at
    while end < len(tokens):
        word, value = tokens[end], NUMERALS.get(tokens[end])
        whole = part % 100 == 0
        if word == "hundred":
            part *= 100
        elif word in SCALES:
            total, part = total + part * SCALES[word], 0.0
        elif value is not None and (whole or (part % 10 == 0 and value < 10)):
            part += value
        elif value is not None and 10 <= part < 100 and value >= 10:
            part = 100 * part + value  # as in "nineteen eighty"
        elif not (word == "and" and whole and NUMERALS.keys() & {*tokens[end + 1 : end + 2]}):
            break
        end += 1
    return total + part, end


def _read_rivals(choices: str) -> dict[str, set[str]]:
    """For the stem of each word, the stems that it excludes in some line and meets in none."""
    rivals: defaultdict[str, set[str]] = defaultdict(set)
    friends: defaultdict[str, set[str]] = defaultdict(set)
    for line in choices.splitlines()[1:]:
        answers = [{stem(word) for word in answer.split()} for answer in line.split("|")]
        for answer in answers:
            for word in answer:
                friends[word] |= answer
                rivals[word] |= set().union(*answers) - answer
    return {word: others - friends[word] for word, others in rivals.items()}


RIVALS = _read_rivals(Path(__file__).with_name("opposites.txt").read_text(encoding="utf-8"))
# "able" and "unable": so short a word may take a prefix and turn round.
MIN_PREFIXED = 3
PREFIXES: list[str] = _LISTS["prefixes"].split()
SCOPE = 3
Conflict = Literal["negation", "number", "opposite", "order"]


def conflict(one: str, other: str) -> Conflict | None:
    """Why two statements can't be the same; None when no rule objects.

    >>> conflict("The door is open.", "The door isn't open.")
    'negation'
    >>> conflict("She has three dogs.", "She owns 3 dogs.")
    """
    return next((kind for kind, differs in RULES.items() if differs(one, other)), None)


def negation_differs(one: str, other: str) -> bool:
    """Whether one statement denies more than the other, or denies what the other states."""
    ones, others = stated(one), stated(other)
    if sum(word in NEGATIONS for word in ones) != sum(word in NEGATIONS for word in others):
        return True
    return any(
        _denied(these, 1) & (set(map(stem, those)) - _denied(those, SCOPE))
        for these, those in ((ones, others), (others, ones))
    )


def _denied(spoken: Sequence[str], reach: int) -> set[str]:
    """The first words of weight behind each negation; at the end of a clause, the one before."""
    found: set[str] = set()
    for at, word in enumerate(spoken):
        if word in NEGATIONS:
            behind = [stem(w) for w in spoken[at + 1 :] if w not in FUNCTION_WORDS]
            before = [stem(w) for w in spoken[:at] if w not in FUNCTION_WORDS]
            found.update(behind[:reach] or before[-1:])
    return found


def numbers_differ(one: str, other: str) -> bool:
    """Whether the statements name other quantities, or as many of something else.

    A bare 1 is left out: "one dog", "1 dog" and "a dog" say the same.
    """
    ones, others = ([q for q in quantities(text) if q[:2] != ("", 1)] for text in (one, other))
    if Counter(q[:2] for q in ones) != Counter(q[:2] for q in others):
        return True
    counted = {of for _, _, of in ones} & {of for _, _, of in others}
    return Counter(q for q in ones if q[2] in counted) != Counter(
        q for q in others if q[2] in counted
    )


def opposites_differ(one: str, other: str) -> bool:
    """Whether a word of one statement alone excludes a word of the other alone: a rival, or itself
    turned round by a prefix.

    >>> opposites_differ("The door is open.", "The door is shut.")
    True
    """
    said, again = set(words(one)), set(words(other))
    ones, others = set(map(stem, said - again)), set(map(stem, again - said))
    return any(
        not RIVALS.get(word, set()).isdisjoint(others)
        or any(prefix + word in others for prefix in PREFIXES if len(word) >= MIN_PREFIXED)
        or any(
            word.removeprefix(prefix) in others - {word}
            for prefix in PREFIXES
            if len(word) >= len(prefix) + MIN_PREFIXED
        )
        for word in ones
    )


def order_differs(one: str, other: str) -> bool:
    """Whether the same words stand in an order that no single move explains, as in a swap of roles.

    A passive turns the order round and keeps the sense, so a "by" in one of them lets it pass.
    """
    joining = ARTICLES | AUXILIARIES | {"and", "or"}
    ones, others = ([stem(w) for w in words(text) if w not in joining] for text in (one, other))
    if ones == others or Counter(ones) != Counter(others):
        return False
    start = next(at for at, pair in enumerate(zip(ones, others, strict=True)) if pair[0] != pair[1])
    end = next(at for at in range(len(ones), start, -1) if ones[at - 1] != others[at - 1])
    middle, target = ones[start:end], others[start:end]
    return not any(middle[cut:] + middle[:cut] == target for cut in range(1, len(middle)))


RULES: dict[Conflict, Callable[[str, str], bool]] = {
    "negation": negation_differs,
    "number": numbers_differ,
    "opposite": opposites_differ,
    "order": order_differs,
}
