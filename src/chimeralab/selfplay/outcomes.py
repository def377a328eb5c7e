"""The table [outcomes] of a plan: what a study estimates, declared before it runs."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.core.result_words import MARK, ResultWords
from chimeralab.selfplay.runs import Runs, at_risk_turns
from chimeralab.stats.arrays import Floats
from chimeralab.stats.effects import Role
from chimeralab.stats.survival import pseudo_values, restricted_mean

Measure = Literal[
    "share", "at_risk_share", "incidence", "restricted_mean", "cycle_share", "cycle_incidence"
]
FamilyName = Literal["role", "estimand"]
FailedTurns = Literal["leave_out", "keep"]
EmptyTurns = Literal["as_judged", "leave_out"]

PAIRS = "pairs"

# Measured in every analysis; a plan may declare the others.
MEASURES: tuple[Measure, ...] = ("share", "at_risk_share", "incidence", "restricted_mean")
ROTATION = "at its own lags or at one turn per speaker"


def measure_name(measure: str, words: ResultWords) -> str:
    """Name a measure in the words that the gate allows.

    >>> measure_name("share", MARK)
    'mean share of turns marked as collapsed'
    """
    names: dict[str, str] = {
        "share": f"mean share of {words.turns}",
        "at_risk_share": f"mean share of {words.turns} among those at risk",
        "incidence": f"share of runs with any {words.event}",
        "restricted_mean": f"mean turns to the first {words.event}",
        "cycle_share": f"mean share of {words.turns} {ROTATION}",
        "cycle_incidence": f"share of runs with any {words.event} {ROTATION}",
    }
    return names[measure]


@dataclass(frozen=True, slots=True)
class WeightedContrast(Record):
    """[[outcomes.contrasts]]: a whole against the mean of its parts, or weights by condition.

    >>> WeightedContrast("rotation", whole="ROT", parts=("A", "B")).by_condition
    {'ROT': 1.0, 'A': -0.5, 'B': -0.5}
    >>> WeightedContrast("thirds", weights={"A": 1, "B": "-1/3", "C": "-2/3"}).by_condition["B"]
    -0.3333333333333333
    """

    name: str
    whole: str | None = None
    parts: tuple[str, ...] = ()
    weights: dict[str, float | str] | None = None

    def __post_init__(self) -> None:
        if (self.whole is None) != (not self.parts) or (self.whole is None) == (not self.weights):
            raise InputError(f"contrast {self.name!r} needs either whole and parts, or weights")
        if self.name == PAIRS:
            raise InputError(f"a contrast can't be called {PAIRS!r}, which stands for every pair")
        weights = self._fractions()
        if "" in weights or len(weights) < 2 or not any(weights.values()):
            raise InputError(f"contrast {self.name!r} needs two conditions with a weight")
        total = float(sum(weights.values()))
        if abs(total) > 1e-6:
            raise InputError(
                f"contrast {self.name!r}: the weights add up to {total:g}; "
                "in a contrast they add up to 0 (write thirds as 1/3)"
            )

    @property
    def by_condition(self) -> dict[str, float]:
        """The weight of each condition."""
        return {name: float(weight) for name, weight in self._fractions().items()}

    def _fractions(self) -> dict[str, Fraction]:
        if self.whole is not None:
            share = Fraction(-1, len(self.parts))
            return {self.whole: Fraction(1)} | dict.fromkeys(self.parts, share)
        found = {}
        for name, weight in (self.weights or {}).items():
            try:
                found[name] = Fraction(
                    "".join(weight.split()) if isinstance(weight, str) else weight
                )
            except (ValueError, ZeroDivisionError, OverflowError):
                raise InputError(
                    f"contrast {self.name!r}: {weight!r} is not a weight; "
                    "give a number or a fraction like -1/3"
                ) from None
        return found


@dataclass(frozen=True, slots=True)
class Estimand(Record):
    """[[outcomes.estimands]]: a measure, the runs it is taken over, and the comparison.

    ``population`` names buckets of prompts; by default, all prompts. ``failed_turns`` excludes or
    keeps conversations that a failure, overflow, refusal or empty reply cut short; ``empty_turns``
    does so for conversations with empty turns (``as_judged``: as the detector is set).
    """

    measure: Measure
    role: Role = "exploratory"
    contrast: str = PAIRS
    population: tuple[str, ...] = ()
    failed_turns: FailedTurns = "leave_out"
    empty_turns: EmptyTurns = "as_judged"

    def __post_init__(self) -> None:
        if self.role == "primary" and self.measure not in MEASURES:
            raise InputError(
                f"measure = {self.measure!r} can't be primary, since it is not what the declared "
                "detector decides; give it role = 'secondary'"
            )

    def summary(self, words: ResultWords = MARK) -> str:
        """Describe the estimand.

        >>> Estimand("incidence").summary()
        'difference in the share of runs with any marked collapse, averaged over seed prompts'
        """
        return f"difference in the {measure_name(self.measure, words)}, averaged over seed prompts"


DEFAULT_ESTIMANDS = (
    Estimand("share", "primary"),
    Estimand("at_risk_share"),
    Estimand("incidence"),
    Estimand("restricted_mean"),
)


@dataclass(frozen=True, slots=True)
class Outcomes(Record):
    """[outcomes]: the estimands, the contrasts that they name, and the settings of intervals.

    ``tau`` is the horizon of the restricted mean in turns; by default, the longest follow-up that
    all conditions share. ``family`` sets which comparisons are corrected together: those of one
    role or, in plans of earlier versions, of one estimand.
    """

    estimands: tuple[Estimand, ...] = DEFAULT_ESTIMANDS
    contrasts: tuple[WeightedContrast, ...] = ()
    tau: Annotated[int, Field(ge=1)] | None = None
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=100)] = 10_000
    permutations: Annotated[int, Field(ge=100)] = 5_000
    seed: Annotated[int, Field(ge=0)] = 1
    family: FamilyName = "role"

    def __post_init__(self) -> None:
        names = [contrast.name for contrast in self.contrasts]
        if len(set(names)) < len(names):
            raise InputError("two contrasts have the same name")
        for estimand in self.estimands:
            if estimand.contrast not in (PAIRS, *names):
                known = ", ".join((PAIRS, *names))
                raise InputError(f"unknown contrast {estimand.contrast!r}; known: {known}")
        if self.estimands and self.primary is None:
            raise InputError("no estimand is primary; give one of them role = 'primary'")

    @property
    def primary(self) -> Estimand | None:
        """The first primary estimand; None when nothing is declared."""
        return next((each for each in self.estimands if each.role == "primary"), None)

    def questions(self, role: str) -> Iterator[str]:
        """Describe the declared comparisons of a role."""
        weights = {each.name: each.by_condition for each in self.contrasts}
        for each in self.estimands:
            if each.role == role:
                sides = weights.get(each.contrast)
                said = "every pair of conditions"
                if sides:
                    terms = ", ".join(f"{name} {weight:+.3g}" for name, weight in sides.items())
                    said = f"{each.contrast} ({terms})"
                whom = f", among prompts of {', '.join(each.population)}" if each.population else ""
                yield f"{each.summary()}: {said}{whom}"

    def check(self, conditions: Collection[str], buckets: Collection[str] | None = None) -> None:
        """Reject unknown conditions and buckets."""
        for contrast in self.contrasts:
            for name in contrast.by_condition:
                _refuse_unknown(name, conditions, f"condition in contrast {contrast.name!r}")
        for estimand in self.estimands if buckets is not None else ():
            for name in estimand.population:
                _refuse_unknown(name, buckets or (), "bucket in a population")


EXPLORATORY = Outcomes(estimands=())


def parse_contrast(text: str) -> WeightedContrast:
    """Parse a contrast from the command line.

    >>> parse_contrast("ROT = A, B").by_condition
    {'ROT': 1.0, 'A': -0.5, 'B': -0.5}
    >>> parse_contrast("A: 1, B: -1").by_condition
    {'A': 1.0, 'B': -1.0}
    """
    if "=" in text:
        whole, _, rest = text.partition("=")
        parts = tuple(part.strip() for part in rest.split(",") if part.strip())
        return WeightedContrast(text, whole=whole.strip(), parts=parts)
    pairs = [part.rpartition(":") for part in text.split(",")]
    if not all(colon for _, colon, _ in pairs):
        raise InputError(
            f"contrast {text!r}: write 'WHOLE = PART, PART' or 'NAME: WEIGHT, NAME: WEIGHT'"
        )
    return WeightedContrast(text, weights={name.strip(): value for name, _, value in pairs})


def _refuse_unknown(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise InputError(f"unknown {what}: {name!r}; known: {', '.join(sorted(known))}")


@dataclass(frozen=True, slots=True)
class Settings(Record):
    """Settings of intervals and tests: horizon, level, resamples, permutations and seed."""

    tau: float
    level: float = 0.95
    resamples: int = 10_000
    permutations: int = 5_000
    seed: int = 1

    def stream(self, *question: str) -> np.random.Generator:
        """A generator for one question, independent of any other question.

        >>> Settings(40).stream("a").random() == Settings(40).stream("a").random()
        True
        """
        name = blake2b("\0".join(question).encode(errors="replace"), digest_size=8).digest()
        return np.random.default_rng([self.seed, int.from_bytes(name)])


def settings_for(runs: Runs, outcomes: Outcomes) -> Settings:
    """Resolve the declared settings; by default, tau is the follow-up that all conditions share."""
    longest = (runs.turns[runs.condition == name].max() for name in runs.conditions)
    return Settings(
        tau=float(outcomes.tau or min(longest)),
        level=outcomes.level,
        resamples=outcomes.resamples,
        permutations=outcomes.permutations,
        seed=outcomes.seed,
    )


NO_ROTATION = (
    "the table has no cycle_turns: they need a detector with the settings of the locked one and "
    "similarities at a lag of one turn per speaker"
)
# One value per run, or None and the reason if some run has none.
PerRun = tuple[Floats, None] | tuple[None, str]


def per_run(runs: Runs, measure: str, tau: float) -> PerRun:
    """The measure of every run, whose mean over a condition is the condition's measure.

    For the restricted mean these are pseudo-values, which account for runs that end before the
    horizon.
    """
    marked = runs.cycle if measure.startswith("cycle_") else runs.collapsed
    if np.isnan(marked).any():
        return None, NO_ROTATION
    if measure != "restricted_mean":
        turns = at_risk_turns(runs) if measure == "at_risk_share" else runs.turns
        if isinstance(turns, str):
            return None, turns
        short = int((turns == 0).sum())
        if short:
            return None, f"{short} runs are too short to have a turn at risk"
        shares = marked / turns
        return (shares > 0).astype(np.float64) if "incidence" in measure else shares, None
    values = np.empty(len(runs.rows))
    for name in runs.conditions:
        rows = runs.condition == name
        followed = runs.keep(rows).durations
        mean = restricted_mean(followed, tau)
        if mean.value is None:
            return None, f"{name}: {mean.reason}"
        values[rows] = pseudo_values(followed, tau)
    return values, None
