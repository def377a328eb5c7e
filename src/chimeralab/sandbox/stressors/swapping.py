"""Who gets whose value when a memory is corrupted: a swap among the facts that are hit together."""

from collections.abc import Sequence
from typing import Any

from chimeralab.sandbox.draws import uniform
from chimeralab.sandbox.scenarios.items import Fact


def swapped_values(facts: Sequence[Fact], *chance: Any) -> dict[str, str]:
    """The new values of facts of one relation, by fact. Each value is given to one fact at most.

    As many facts as possible get another's value; for the rest there is none that fits.

    >>> ada = Fact("1", "Ada", "owns", "a bell", "Ada owns a bell.")
    >>> bo = Fact("2", "Bo", "owns", "a lamp", "Bo owns a lamp.")
    >>> swapped_values([ada, bo], 7)
    {'1': 'a lamp', '2': 'a bell'}
    """
    # Places in the ring hang on each fact alone: one more fact hit disturbs few of the others.
    ring = sorted(facts, key=lambda fact: uniform(*chance, fact.id))
    takers: dict[int, int] = {}
    for taker in range(len(ring)):
        _find_giver(taker, ring, takers, set())
    values = {ring[taker].id: ring[giver].value for giver, taker in takers.items()}
    return {fact.id: values[fact.id] for fact in facts if fact.id in values}


def fits(value: str, fact: Fact) -> bool:
    """Whether a fact with this value is wrong, and does not relate somebody to themselves."""
    return value not in (fact.value, fact.subject)


def _find_giver(taker: int, ring: Sequence[Fact], takers: dict[int, int], tried: set[int]) -> bool:
    """Find a value for a fact, the next in the ring first; who has it already may have to move on.

    This is the search for augmenting paths, which gives a value to as many as can have one.
    """
    for step in range(1, len(ring)):
        giver = (taker + step) % len(ring)
        if giver in tried or not fits(ring[giver].value, ring[taker]):
            continue
        tried.add(giver)
        if giver not in takers or _find_giver(takers[giver], ring, takers, tried):
            takers[giver] = taker
            return True
    return False
