"""Contrasts: weighted sums of groups within each unit, averaged over units.

Conditions of self-play and arms of a trial are compared by the same code; a vocabulary says what
the parts are called.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

from chimeralab.core.records import Record, plain_value
from chimeralab.stats.clusters import Cells
from chimeralab.stats.contrasts import contrast, holm, naive_contrast
from chimeralab.stats.intervals import Interval


class ArmKey(str):
    """The name of a condition with its subject and arm.

    >>> key = ArmKey("y.sham", subject="y", arm="sham")
    >>> key, key.arm, key == "y.sham"
    ('y.sham', 'sham', True)
    """

    subject: str
    arm: str

    def __new__(cls, condition: str, subject: str, arm: str) -> "ArmKey":
        key = super().__new__(cls, condition)
        key.subject, key.arm = subject, arm
        return key

    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        return str(self), self.subject, self.arm


Weights = Mapping[str, float]
Role = Literal["primary", "secondary", "exploratory"]


class Vocabulary(NamedTuple):
    """What the parts of a contrast are called, in sentences and as JSON fields."""

    unit: str
    observation: str
    unpaired: str
    fields: Mapping[str, str]


SELF_PLAY = Vocabulary(
    unit="prompt",
    observation="run",
    unpaired="no seed prompt has a run on every side; compare separate prompts as two tables",
    fields={
        "a": "a",
        "b": "b",
        "weights": "weights",
        "measure": "measure",
        "difference": "estimate",
        "ci": "interval",
        "bootstrap_ci": "bootstrap",
        "p": "p",
        "p_holm": "p_holm",
        "naive_p": "naive_p",
        "permutation_p": "permutation_p",
        "se_ratio": "se_ratio",
        "seeds": "units",
        "left_out": "left_out",
        "reasons": "reasons",
    },
)
TRIAL = Vocabulary(
    unit="scenario",
    observation="session with an occasion for it",
    unpaired="no scenario has a session with an occasion for it under every arm",
    fields={
        "name": "name",
        "measure": "measure",
        "about": "about",
        "weights": "weights",
        "estimate": "estimate",
        "interval": "interval",
        "p": "p",
        "p_holm": "p_holm",
        "role": "role",
        "scenarios": "units",
        "reason": "reason",
    },
)


@dataclass(frozen=True, slots=True)
class ContrastSpec:
    """A contrast to estimate: a weighted sum of groups.

    `title` names one that is not a difference of two sides, such as a slope over a dose. `about`
    are its stressors, `dosed` is the key whose slope it is, and `aims` are the measures that its
    stressors target.
    """

    weights: Weights
    title: str | None = None
    about: tuple[str, ...] = ()
    dosed: str | None = None
    aims: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The full name, with groups as they are stored."""
        return self.title or " − ".join(sides(self.weights))

    @property
    def short_name(self) -> str:
        """The name without the subject."""
        return self.title or " − ".join(sides(self.weights, short))


@dataclass(frozen=True, slots=True)
class Effect(Record):
    """An estimated contrast; `p_holm` is Holm-corrected over all contrasts of its `role`.

    ``p`` comes from a t test over units, ``permutation_p`` from exchanging the sides within units,
    ``naive_p`` treats every observation as independent. ``se_ratio`` is the naive standard error
    over the clustered one. ``left_out`` counts units that lack an observation on one side.
    ``reasons`` explain the numbers that are None.
    """

    spec: ContrastSpec
    words: Vocabulary
    measure: str
    estimate: float | None = None
    interval: Interval | None = None
    bootstrap: Interval | None = None
    p: float | None = None
    p_holm: float | None = None
    role: Role | None = None
    naive_p: float | None = None
    permutation_p: float | None = None
    se_ratio: float | None = None
    units: int = 0
    left_out: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> Weights:
        return self.spec.weights

    @property
    def about(self) -> tuple[str, ...]:
        return self.spec.about

    @property
    def a(self) -> str:
        return sides(self.weights)[0]

    @property
    def b(self) -> str:
        return sides(self.weights)[1]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def short_name(self) -> str:
        return self.spec.short_name

    @property
    def marked_name(self) -> str:
        """What is compared, marked if declared as primary or secondary."""
        marked = self.role in ("primary", "secondary")
        return f"{self.a} − {self.b}{f' ({self.role})' if marked else ''}"

    @property
    def reason(self) -> str | None:
        """Why there is no p-value, or a caveat about it."""
        return self.reasons.get("p")

    def as_dict(self) -> dict[str, Any]:
        found = {name: plain_value(getattr(self, own)) for name, own in self.words.fields.items()}
        if "reasons" in found:
            names = {own: name for name, own in self.words.fields.items()}
            found["reasons"] = {names[own]: why for own, why in self.reasons.items()}
        return found


NUMBERS = (
    "estimate",
    "interval",
    "bootstrap",
    "p",
    "p_holm",
    "naive_p",
    "permutation_p",
    "se_ratio",
)
TESTED = ("interval", "bootstrap", "p", "p_holm", "permutation_p")


def short(group: str) -> str:
    """The name of a group without its subject.

    >>> short(ArmKey("y.conformity", subject="y", arm="conformity")), short("HOMO")
    ('conformity', 'HOMO')
    """
    return group.arm if isinstance(group, ArmKey) else group


def sides(weights: Weights, named: Callable[[str], str] = str) -> tuple[str, str]:
    """Describe the two sides of a contrast.

    >>> sides({"ROT": 1.0, "A": -1 / 3, "B": -2 / 3})
    ('ROT', '1/3 A + 2/3 B')
    >>> sides({"ROT": 1.0, "A": -0.5, "B": -0.5})
    ('ROT', 'mean of A, B')
    """

    def side(parts: dict[str, float]) -> str:
        if len(parts) == 1 and sum(parts.values()) == 1:
            return next(iter(parts))
        if len(set(parts.values())) == 1 and abs(sum(parts.values()) - 1) < 1e-9:
            return f"mean of {', '.join(parts)}"
        shown = (f"{Fraction(w).limit_denominator(1000)} {name}" for name, w in parts.items())
        return " + ".join(part.removeprefix("1 ") for part in shown)

    plus = {named(group): weight for group, weight in weights.items() if weight > 0}
    minus = {named(group): -weight for group, weight in weights.items() if weight < 0}
    return side(plus), side(minus)


def list_pairs(order: Sequence[str]) -> list[ContrastSpec]:
    """Every pair of groups, earlier minus later.

    >>> [spec.weights for spec in list_pairs(["B", "A"])]
    [{'B': 1.0, 'A': -1.0}]
    """
    return [ContrastSpec({a: 1.0, b: -1.0}) for a, b in combinations(order, 2)]


def empty_effect(spec: ContrastSpec, words: Vocabulary, measure: str, reason: str) -> Effect:
    """A contrast that can't be estimated, with the reason for every number."""
    return Effect(spec, words, measure, reasons=dict.fromkeys(NUMBERS, reason))


def estimate_contrast(
    cells: Cells, spec: ContrastSpec, words: Vocabulary, measure: str, level: float = 0.95
) -> Effect:
    """Estimate a contrast with a t test over units, uncorrected and not resampled."""
    absent = [name for name in spec.weights if name not in cells.conditions]
    if absent:
        reason = f"no {words.observation} under {', '.join(absent)}"
        return empty_effect(spec, words, measure, reason)
    if not cells.columns(list(spec.weights)).clusters:
        nothing = empty_effect(spec, words, measure, words.unpaired)
        return replace(nothing, left_out=len(cells.clusters))
    found, naive = contrast(cells, spec.weights), naive_contrast(cells, spec.weights)
    units = int(found.df) + 1
    why: dict[str, str] = {}
    if units < 2:
        alone = f"one {words.unit} alone says nothing about the spread between {words.unit}s"
        why = dict.fromkeys((*TESTED, "se_ratio"), alone)
    elif found.p is None:
        same = f"the difference is the same in every {words.unit}"
        why = dict.fromkeys((*TESTED, "se_ratio"), same)
    if naive is None:
        why |= dict.fromkeys(
            ("naive_p", "se_ratio"), f"no {words.observation} differs from another"
        )
    return Effect(
        spec=spec,
        words=words,
        measure=measure,
        estimate=found.value,
        interval=found.interval(level),
        p=found.p,
        naive_p=naive.p if naive else None,
        se_ratio=found.se_ratio(naive),
        units=units,
        left_out=len(cells.clusters) - units,
        reasons=why,
    )


def correct_with_holm(family: Sequence[Effect]) -> tuple[Effect, ...]:
    """Correct the p-values of a family of effects together (Holm 1979)."""
    corrected = holm([each.p for each in family])
    return tuple(replace(each, p_holm=p) for each, p in zip(family, corrected, strict=True))


# The measure, the weights with the first condition positive, and p, which differs between sets of
# runs.
Key = tuple[str, frozenset[tuple[str, float]], float | None]


def key_of(effect: Effect) -> Key:
    """The identity of a comparison, whichever side comes first."""
    sign = 1 if effect.weights[min(effect.weights)] > 0 else -1
    weights = frozenset((name, round(sign * w, 9)) for name, w in effect.weights.items())
    return effect.measure, weights, None if effect.p is None else round(effect.p, 9)


def deduplicate_effects(
    primary: Iterable[Effect], others: Iterable[Effect], secondary: Iterable[Effect] = ()
) -> Iterator[Effect]:
    """Yield every comparison once, with its role; primary ones first, then secondary ones."""
    known: set[Key] = set()
    by_role: tuple[tuple[Role, Iterable[Effect]], ...] = (
        ("primary", primary),
        ("secondary", secondary),
        ("exploratory", others),
    )
    for role, effects in by_role:
        for effect in effects:
            if key_of(effect) not in known:
                known.add(key_of(effect))
                yield replace(effect, role=role)


class Family:
    """Holm-corrected p-values by comparison, with one family per role."""

    def __init__(self, listed: Sequence[Effect]) -> None:
        self._corrected: dict[Key, dict[str, Any]] = {}
        for role in get_args(Role):
            effects = [effect for effect in listed if effect.role == role]
            for effect, p in zip(effects, holm([each.p for each in effects]), strict=True):
                self._corrected[key_of(effect)] = {"p_holm": p, "role": role}

    def correct(self, effects: Iterable[Effect]) -> tuple[Effect, ...]:
        return tuple(replace(each, **self._corrected[key_of(each)]) for each in effects)
