"""A guard against statements that look alike and say something else.

Vectors hardly see a "not", a changed number or an opposite. These rules do; they read English, and
where they are in doubt they call two statements different.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from chimeralab.sandbox.opposites import opposites
from chimeralab.sandbox.quantities import quantities
from chimeralab.sandbox.wording import ARTICLES, AUXILIARIES, FUNCTION_WORDS, listed, stem, words

Conflict = Literal["negation", "number", "opposite", "order"]

NEGATIONS = listed(
    "not no never none nobody nothing nowhere neither without hardly barely scarcely unable lack"
    " lacks lacked lacking fail fails failed failing refuse refuses refused decline declines"
    " declined deny denies denied avoid avoids avoided"
)
# Phrases that hold such a word and negate nothing.
HARMLESS = (
    ("not", "only"), ("not", "just"), ("not", "merely"), ("no", "doubt"), ("nothing", "but"),
    ("without", "doubt"), ("or", "not"),
)  # fmt: skip
SCOPE = 3
JOINING = ARTICLES | AUXILIARIES | {"and", "or"}


def conflict(one: str, other: str) -> Conflict | None:
    """Why two statements can't be the same; None when no rule objects.

    >>> conflict("The door is open.", "The door isn't open.")
    'negation'
    >>> conflict("She has three dogs.", "She owns 3 dogs.")
    """
    return next((kind for kind, differs in RULES.items() if differs(one, other)), None)


def negation_differs(one: str, other: str) -> bool:
    """Whether one statement denies more than the other, or denies what the other states."""
    ones, others = _stated(words(one)), _stated(words(other))
    if _count(ones) != _count(others):
        return True
    return _denies(ones, others) or _denies(others, ones)


def numbers_differ(one: str, other: str) -> bool:
    """Whether the statements name other quantities, or as many of something else.

    A bare 1 is left out: "one dog", "1 dog" and "a dog" say the same.
    """
    ones, others = (
        [quantity for quantity in quantities(text) if quantity[:2] != ("", 1)]
        for text in (one, other)
    )
    if Counter(q[:2] for q in ones) != Counter(q[:2] for q in others):
        return True
    counted = {q.of for q in ones} & {q.of for q in others}
    return any(
        Counter(q for q in ones if q.of == noun) != Counter(q for q in others if q.of == noun)
        for noun in counted
    )


def opposites_differ(one: str, other: str) -> bool:
    """Whether a word of one statement excludes a word of the other."""
    return opposites(words(one), words(other)) is not None


def order_differs(one: str, other: str) -> bool:
    """Whether the same words stand in an order that no single move explains, as in a swap of roles.

    A passive turns the order round and keeps the sense, so a "by" in one of them lets it pass.
    """
    ones, others = _ordered(one), _ordered(other)
    if ones == others or Counter(ones) != Counter(others):
        return False
    return not _one_move_apart(ones, others)


RULES: dict[Conflict, Callable[[str, str], bool]] = {
    "negation": negation_differs,
    "number": numbers_differ,
    "opposite": opposites_differ,
    "order": order_differs,
}


def _stated(spoken: Sequence[str]) -> list[str]:
    """The words, without those of a harmless phrase."""
    kept = list(spoken)
    for first, second in HARMLESS:
        for at in range(len(kept) - 2, -1, -1):
            if kept[at : at + 2] == [first, second]:
                del kept[at : at + 2]
    return kept


def _count(spoken: Sequence[str]) -> int:
    return sum(word in NEGATIONS for word in spoken)


def _denies(ones: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the very thing that is denied in the one stands undenied in the other."""
    undenied = set(map(stem, others)) - _denied(others, SCOPE)
    return not undenied.isdisjoint(_denied(ones, 1))


def _denied(spoken: Sequence[str], reach: int) -> set[str]:
    """The first words of weight behind each negation; at the end of a clause, the one before."""
    found: set[str] = set()
    for at, word in enumerate(spoken):
        if word in NEGATIONS:
            behind = [stem(w) for w in spoken[at + 1 :] if w not in FUNCTION_WORDS]
            before = [stem(w) for w in spoken[:at] if w not in FUNCTION_WORDS]
            found.update(behind[:reach] or before[-1:])
    return found


def _ordered(text: str) -> list[str]:
    return [stem(word) for word in words(text) if word not in JOINING]


def _one_move_apart(ones: list[str], others: list[str]) -> bool:
    """Whether moving one run of words turns the one order into the other."""
    start = next(at for at, pair in enumerate(zip(ones, others, strict=True)) if pair[0] != pair[1])
    end = next(at for at in range(len(ones), start, -1) if ones[at - 1] != others[at - 1])
    middle, target = ones[start:end], others[start:end]
    return any(middle[cut:] + middle[:cut] == target for cut in range(1, len(middle)))
