"""One family of tests per role: every comparison once, all primary ones corrected together.

Self-play declares roles in its plan. In a trial, what a stressor is aimed at is primary.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from chimeralab.stats.contrasts import holm
from chimeralab.stats.effects import Effect, Role

# The measure, the weights with the first condition on the plus side, and p, which tells apart
# what is compared on other runs.
Key = tuple[str, frozenset[tuple[str, float]], float | None]


class ComparisonRow(NamedTuple):
    """A comparison where it is listed, and whether it was declared as primary."""

    effect: Effect
    role: Role

    @property
    def name(self) -> str:
        """What is compared, the primary ones marked."""
        mark = " (primary)" if self.role == "primary" else ""
        return f"{self.effect.a} − {self.effect.b}{mark}"


def key_of(effect: Effect) -> Key:
    """What a comparison is, whichever side is written first."""
    sign = 1 if effect.weights[min(effect.weights)] > 0 else -1
    weights = frozenset((name, round(sign * w, 9)) for name, w in effect.weights.items())
    return effect.measure, weights, None if effect.p is None else round(effect.p, 9)


def each_once(primary: Iterable[Effect], others: Iterable[Effect]) -> Iterator[ComparisonRow]:
    """Every comparison in one row with one sign, that of its first place; the primary ones first.

    Of others, those on the same weights as a primary one of the same measure are the same.
    """
    seen: set[Key] = set()
    listed: tuple[tuple[Role, Iterable[Effect]], ...] = (
        ("primary", primary),
        ("exploratory", others),
    )
    for role, effects in listed:
        for effect in effects:
            if key_of(effect) not in seen:
                seen.add(key_of(effect))
                yield ComparisonRow(effect, role)


class Corrected(NamedTuple):
    """The Holm-corrected p of a comparison, and the role that it was corrected in."""

    p_holm: float | None
    role: Role


class Family:
    """Holm-corrected p-values of both roles, found by what is compared."""

    def __init__(self, rows: Sequence[ComparisonRow]) -> None:
        self.corrected: dict[Key, Corrected] = {}
        roles: tuple[Role, ...] = ("primary", "exploratory")
        for role in roles:
            effects = [row.effect for row in rows if row.role == role]
            for effect, p in zip(effects, holm([each.p for each in effects]), strict=True):
                self.corrected[key_of(effect)] = Corrected(p, role)

    def correct(self, effects: Iterable[Effect]) -> tuple[Effect, ...]:
        return tuple(replace(each, **self.corrected[key_of(each)]._asdict()) for each in effects)
