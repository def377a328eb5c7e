"""Words, numbers and contradictions in English statements.

Sentence vectors hardly change with a "not", another number or an opposite, so rules look for them.
In doubt, the rules call two statements different. The vocabulary is in `wording.toml`.
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

EDGES = " \t\r\n.,;:!?\"'“”‘’()[]*`"
# The point of ".5" is not punctuation.
LEADING = re.compile(rf"^(?:(?!\.\d)[{re.escape(EDGES)}])+")
ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
CONTRACTIONS = (
    (r"\b(?:cannot|can't)\b", "can not"), (r"\bwon't\b", "will not"), (r"\bshan't\b", "shall not"),
    (r"\bain't\b", "is not"), (r"n't\b", " not"), (r"'s\b", ""),
)  # fmt: skip
DOUBLED = re.compile(r"([bdgmnprt])\1$")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOCABULARY = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ARTICLES = word_set(_VOCABULARY["articles"])
AUXILIARIES = word_set(_VOCABULARY["auxiliaries"])
# A negation never applies to one of these.
FUNCTION_WORDS = ARTICLES | AUXILIARIES | word_set(_VOCABULARY["function_words"])
NEGATIONS = word_set(_VOCABULARY["negations"])
HARMLESS: list[str] = _VOCABULARY["harmless"]


def alternatives(role: str) -> str:
    """A regular expression for the phrases with a role in `wording.toml`."""
    escaped = map(re.escape, _VOCABULARY["phrases"][role])
    return "|".join(each.replace(r"\ ", r"\s+").replace(r"\*", r"\w*") for each in escaped)


def words(text: str) -> list[str]:
    """Split a text into lower-case words, with contractions expanded.

    >>> words("It isn’t Anna's boat.")
    ['it', 'is', 'not', 'anna', 'boat']
    """
    plain = text.casefold().replace("’", "'")
    for pattern, expansion in CONTRACTIONS:
        plain = re.sub(pattern, expansion, plain)
    return WORD.findall(plain)


def normalize(text: str) -> str:
    """Drop case, extra blanks, a leading article and surrounding punctuation.

    >>> normalize(' The  Louvre. ')
    'louvre'
    """
    return strip_edges(text.casefold())


def strip_edges(text: str) -> str:
    """Like `normalize`, but keep the case.

    >>> strip_edges(' The  Louvre. ')
    'Louvre'
    """
    return ARTICLE.sub("", LEADING.sub("", " ".join(text.split())).rstrip(EDGES))


def stem(word: str) -> str:
    """Strip a regular inflection.

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


def stems(text: str) -> set[str]:
    return {stem(word) for word in words(text)}


def literal_words(text: str) -> list[str]:
    """The words of a text without phrases such as "no doubt" that negate nothing.

    >>> literal_words("No doubt it is not Rome.")
    ['it', 'is', 'not', 'rome']
    """
    literal = " ".join(words(text))
    for phrase in HARMLESS:
        literal = re.sub(rf"\b{phrase}\b", " ", literal)
    return literal.split()


TOKEN = re.compile(
    r"(?:(?<![\w.])[-−])?(?:\d+(?:,\d{3})*(?:\.\d+)?|(?<![\w.])\.\d+)|[^\W\d_]+|[%$€£,;]"
)
NUMERALS = {
    **{word: value for value, word in enumerate(_VOCABULARY["ones"].split())},
    **{word: 10 * value for value, word in enumerate(_VOCABULARY["tens"].split(), start=2)},
    **{word: value for value, word in enumerate(_VOCABULARY["ordinals"].split(), start=1)},
}
SCALES: dict[str, int] = _VOCABULARY["scales"]
TIMES: dict[str, float] = _VOCABULARY["times"]
ROMAN: dict[str, str] = _VOCABULARY["roman"]
# "A second" is a duration, not an ordinal.
BEFORE_SECOND = word_set("a per every each")
UNITS: dict[str, tuple[str, float]] = {
    name: (base, factor)
    for base, units in _VOCABULARY["units"].items()
    for names, factor in units.items()
    for name in names.split()
}


def quantities(text: str) -> tuple[tuple[str, float, str], ...]:
    """Find quantities: base unit, value in it, and what is counted if there is no unit.

    >>> quantities("Twenty-one boats sailed 3 km")
    (('', 21.0, 'boat'), ('metre', 3000.0, ''))
    """
    return tuple(
        (UNITS[unit][0], round(number * UNITS[unit][1], 9), "") if unit else ("", number, of)
        for number, unit, of in numbers(text)
    )


def numbers(text: str) -> Iterator[tuple[float, str, str]]:
    """Find numbers as written: value, unit, and the stem of the word that follows."""
    arabic = re.sub(rf"\b(?:{'|'.join(ROMAN)})\b", lambda found: ROMAN[found[0]], text)
    tokens = [token.lower() for token in TOKEN.findall(arabic)]
    at = 0
    while at < len(tokens):
        value, end = _parse_number(tokens, at)
        if value is not None:
            behind = tokens[end] if end < len(tokens) else ""
            before = tokens[at - 1] if at else ""
            units = (behind, behind.removesuffix("s"), before if before in "$€" else "")
            unit = next((name for name in units if name in UNITS), "")
            yield round(value, 9), unit, "" if unit else stem(behind)
        at = max(end, at + 1)


def _parse_number(tokens: Sequence[str], at: int) -> tuple[float | None, int]:
    """Parse the number that starts at a token; return it, or None, and the next position."""
    word = tokens[at]
    if word in TIMES:
        return TIMES[word], at + 1
    if word in NUMERALS and not (word == "second" and BEFORE_SECOND & {*tokens[:at][-1:]}):
        return _parse_words(tokens, at)
    value, end = 1.0, at
    if re.match(r"[-−]?\.?\d", word):
        value, end = float(word.replace(",", "").replace("−", "-")), at + 1
    elif word not in SCALES:
        return None, at
    while end < len(tokens) and tokens[end] in SCALES:
        value, end = value * SCALES[tokens[end]], end + 1
    return value, end


def _parse_words(tokens: Sequence[str], at: int) -> tuple[float, int]:
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


def _read_rivals(path: Path) -> dict[str, set[str]]:
    """For each stem, the stems that exclude it on some line and never share an answer with it."""
    rivals: defaultdict[str, set[str]] = defaultdict(set)
    synonyms: defaultdict[str, set[str]] = defaultdict(set)
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        answers = [{stem(word) for word in answer.split()} for answer in line.split("|")]
        for answer in answers:
            for word in answer:
                synonyms[word] |= answer
                rivals[word] |= set().union(*answers) - answer
    return {word: others - synonyms[word] for word, others in rivals.items()}


RIVALS = _read_rivals(Path(__file__).with_name("opposites.txt"))
PREFIXES: list[str] = _VOCABULARY["prefixes"].split()
MIN_PREFIXED = 3
SCOPE = 3
Conflict = Literal["negation", "number", "opposite", "order"]


def conflict(one: str, other: str) -> Conflict | None:
    """Find the first rule by which two statements can't mean the same.

    >>> conflict("The door is open.", "The door isn't open.")
    'negation'
    >>> conflict("She has three dogs.", "She owns 3 dogs.")
    """
    return next((kind for kind, differs in RULES.items() if differs(one, other)), None)


def negation_differs(one: str, other: str) -> bool:
    """Whether one statement has more negations, or denies what the other states."""
    ones, others = literal_words(one), literal_words(other)
    if sum(word in NEGATIONS for word in ones) != sum(word in NEGATIONS for word in others):
        return True
    return any(
        _find_denied(these, 1) & (set(map(stem, those)) - _find_denied(those, SCOPE))
        for these, those in ((ones, others), (others, ones))
    )


def _find_denied(said: Sequence[str], reach: int) -> set[str]:
    """Stems of the content words after each negation, or of the one before it at a clause end."""
    found: set[str] = set()
    for at, word in enumerate(said):
        if word in NEGATIONS:
            after = [stem(w) for w in said[at + 1 :] if w not in FUNCTION_WORDS]
            before = [stem(w) for w in said[:at] if w not in FUNCTION_WORDS]
            found.update(after[:reach] or before[-1:])
    return found


def numbers_differ(one: str, other: str) -> bool:
    """Whether two texts differ in their quantities or in what they count.

    A bare 1 is ignored: "one dog", "1 dog" and "a dog" mean the same.
    """
    ones, others = ([q for q in quantities(text) if q[:2] != ("", 1)] for text in (one, other))
    if Counter(q[:2] for q in ones) != Counter(q[:2] for q in others):
        return True
    counted = {noun for _, _, noun in ones} & {noun for _, _, noun in others}
    shared = (Counter(q for q in each if q[2] in counted) for each in (ones, others))
    return next(shared) != next(shared)


def opposites_differ(one: str, other: str) -> bool:
    """Whether a word that only one statement has excludes or reverses one that only the other has.

    >>> opposites_differ("The door is open.", "The door is shut.")
    True
    """
    said, again = set(words(one)), set(words(other))
    ones, others = set(map(stem, said - again)), set(map(stem, again - said))
    pairs = [(word, rival) for word in ones for rival in others]
    return any(
        rival in RIVALS.get(word, ()) or _is_reversed(word, rival) or _is_reversed(rival, word)
        for word, rival in pairs
    )


def _is_reversed(word: str, by: str) -> bool:
    return len(word) >= MIN_PREFIXED and any(prefix + word == by for prefix in PREFIXES)


def order_differs(one: str, other: str) -> bool:
    """Whether the same words come in an order that no single move explains, as with swapped roles.

    The passive voice is accepted, since the active form does not contain "by".
    """
    ignored = ARTICLES | AUXILIARIES | {"and", "or"}
    ones, others = ([stem(w) for w in words(text) if w not in ignored] for text in (one, other))
    if ones == others or Counter(ones) != Counter(others):
        return False
    changed = [at for at, (a, b) in enumerate(zip(ones, others, strict=True)) if a != b]
    span = slice(changed[0], changed[-1] + 1)
    middle, target = ones[span], others[span]
    return not any(middle[cut:] + middle[:cut] == target for cut in range(1, len(middle)))


RULES: dict[Conflict, Callable[[str, str], bool]] = {
    "negation": negation_differs,
    "number": numbers_differ,
    "opposite": opposites_differ,
    "order": order_differs,
}
