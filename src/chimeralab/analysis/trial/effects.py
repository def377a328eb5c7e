"""What the arms of a trial do: differences within scenarios, factorial effects, dose-response."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from chimeralab.analysis.trial.sessions import MeasuredSession
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.sandbox.script import Arm
from chimeralab.stats.clusters import Cells, cells_of
from chimeralab.stats.contrasts import Contrast, contrast, contrast_bootstrap, holm
from chimeralab.stats.intervals import Interval, widened_level

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Effect(Record):
    """A weighted sum of arms, taken within each scenario; `p_holm` is corrected within its family.

    An effect that can't be estimated is None, with the reason.
    """

    name: str
    measure: str
    about: tuple[str, ...]
    weights: Weights
    estimate: float | None
    interval: Interval | None
    p: float | None
    p_holm: float | None
    scenarios: int
    reason: str | None = None


# What each stressor is aimed at; accuracy concerns them all.
AIMS = {
    "amnesia": ("recall", "narrative_coherence", "relational_consistency"),
    "infallibility": ("misled", "flipped", "belief_update"),
    "conformity": ("conformity_rate",),
}


def is_aimed(effect: Effect) -> bool:
    """Whether a measure is what the stressors of an effect are aimed at."""
    aims = {measure for stressor in effect.about for measure in AIMS.get(stressor, ())}
    return effect.measure == "accuracy" or effect.measure in aims


@dataclass(frozen=True, slots=True)
class Question:
    """A named weighted sum of arms, and the stressors that it is about."""

    name: str
    weights: Weights
    about: tuple[str, ...] = ()


def against(arms: Mapping[str, Arm], reference: str) -> list[Question]:
    """Every arm minus the reference."""
    return [
        Question(f"{name} − {reference}", {name: 1.0, reference: -1.0}, tuple(arm.stressors))
        for name, arm in arms.items()
        if name != reference
    ]


def factorial(arms: Mapping[str, Arm]) -> list[Question]:
    """Main effects and interactions of the stressors that are fully crossed with each other."""
    plain = _cells_of_design(arms)
    crossed = _crossed(plain)
    cells = list(_subsets(crossed))
    return [
        Question(" × ".join(effect), _coded(effect, cells, plain), effect)
        for n in range(1, len(crossed) + 1)
        for effect in combinations(crossed, n)
    ]


def _cells_of_design(arms: Mapping[str, Arm]) -> dict[frozenset[str], str]:
    """Bare arms by their stressors; a stressor has the same settings in all of them.

    These are the settings that it has alone: an arm at another dose is not a cell of the design.
    """
    bare = {
        name: arm
        for name, arm in arms.items()
        if not arm.sham and arm.countermeasure is None and arm.dose is None
    }
    alone: dict[str, Any] = {}
    for arm in bare.values():
        if len(arm.stressors) == 1:
            alone = {**arm.stressors, **alone}
    plain: dict[frozenset[str], str] = {}
    for name, arm in bare.items():
        if all(alone.get(stressor) == part for stressor, part in arm.stressors.items()):
            plain.setdefault(frozenset(arm.stressors), name)
    return plain


def _crossed(plain: Mapping[frozenset[str], str]) -> tuple[str, ...]:
    """The most stressors of which every combination is an arm.

    None where no two are crossed, and where several sets are: then it was no factorial design.
    """
    factors = sorted({name for group in plain for name in group})
    for size in range(len(factors), 1, -1):
        groups = [g for g in combinations(factors, size) if plain.keys() >= set(_subsets(g))]
        if groups:
            return groups[0] if len(groups) == 1 else ()
    return ()


def _subsets(factors: Sequence[str]) -> Iterator[frozenset[str]]:
    for n in range(len(factors) + 1):
        yield from map(frozenset, combinations(factors, n))


def _coded(
    effect: Sequence[str], cells: Sequence[frozenset[str]], names: Mapping[frozenset[str], str]
) -> dict[str, float]:
    """A main effect is the mean of the cells with it minus that of the cells without.

    An interaction is how much more two do together than they add up to (a difference of
    differences), and one of three how much more this is under the third.
    """
    half = len(cells) / 2 ** len(effect)
    return {
        names[cell]: float(np.prod([1 if name in cell else -1 for name in effect])) / half
        for cell in cells
    }


def dose_trend(arms: Mapping[str, Arm]) -> list[Question]:
    """The slope over each dosed key, from all its doses (least squares within scenarios)."""
    families: dict[str, dict[str, float]] = {}
    for name, arm in arms.items():
        if arm.dose is not None:
            families.setdefault(dosed_key(arm), {})[name] = arm.dose
    return [
        Question(f"dose of {key}", _slope(doses), tuple(arms[next(iter(doses))].stressors))
        for key, doses in families.items()
        if len(set(doses.values())) > 1
    ]


def dosed_key(arm: Arm) -> str:
    """What the dose of an arm is a dose of: the key of its design, or all its stressors."""
    return arm.dosed or "+".join(arm.stressors)


def _slope(doses: Mapping[str, float]) -> dict[str, float]:
    """Weights that give the least-squares slope.

    >>> _slope({"low": 1.0, "high": 3.0})
    {'low': -0.5, 'high': 0.5}
    """
    centre = float(np.mean(list(doses.values())))
    spread = sum((dose - centre) ** 2 for dose in doses.values())
    return {name: (dose - centre) / spread for name, dose in doses.items()}


def measures_against(arms: Mapping[str, Arm]) -> list[Question]:
    """Each countermeasure minus the bare arm with the same stressors."""
    bare = {
        repr(dict(arm.stressors)): name
        for name, arm in arms.items()
        if arm.countermeasure is None and not arm.sham
    }
    return [
        Question(f"{name} − {bare[key]}", {name: 1.0, bare[key]: -1.0}, tuple(arm.stressors))
        for name, arm in arms.items()
        if arm.countermeasure is not None and (key := repr(dict(arm.stressors))) in bare
    ]


def effects(
    sessions: Sequence[MeasuredSession],
    questions: Sequence[Question],
    measure: str,
    rng: np.random.Generator,
    resamples: int,
) -> tuple[Effect, ...]:
    """One measure under several questions, asked together and corrected together."""
    cells = _cells(sessions, measure)
    found = [_effect(cells, question, measure, rng, resamples) for question in questions]
    corrected = holm([effect.p for effect in found])
    return tuple(replace(each, p_holm=p) for each, p in zip(found, corrected, strict=True))


def unasked(question: Question, measure: str, failed: Mapping[str, str]) -> Effect:
    """An effect that is not estimated because an arm of it failed its checks."""
    arm = next(name for name in question.weights if name in failed)
    return replace(_nothing(question, measure), reason=f"not informative: {arm}: {failed[arm]}")


def _nothing(question: Question, measure: str) -> Effect:
    about, weights = question.about, question.weights
    return Effect(question.name, measure, about, weights, None, None, None, None, 0)


def _cells(sessions: Sequence[MeasuredSession], measure: str) -> Cells | None:
    known = [s for s in sessions if s.tallies[measure].among]
    if not known:
        return None
    return cells_of(
        [s.tallies[measure].hits / s.tallies[measure].among for s in known],
        [s.place.arm for s in known],
        [s.place.scenario for s in known],
    )


def _effect(
    cells: Cells | None,
    question: Question,
    measure: str,
    rng: np.random.Generator,
    resamples: int,
) -> Effect:
    nothing = _nothing(question, measure)
    if cells is None or any(arm not in cells.conditions for arm in question.weights):
        return replace(nothing, reason="no session of some arm has an occasion for it")
    try:
        found = contrast(cells, question.weights)
    except InputError as error:
        return replace(nothing, reason=_in_scenarios(str(error)))
    interval = None
    if found.interval is not None and resamples:
        level = widened_level(found.clusters)
        drawn = contrast_bootstrap(
            cells, question.weights, rng=rng, resamples=resamples, level=level
        )
        interval = drawn.interval
    return replace(
        nothing,
        estimate=found.estimate,
        interval=interval,
        p=found.p if found.p is not None else _p_without_spread(found),
        scenarios=found.clusters,
        reason=_at_ceiling(cells, question, measure) or _in_scenarios(found.reasons.get("p")),
    )


def _p_without_spread(found: Contrast) -> float | None:
    """A difference that is the same in every scenario leaves nothing to a t test.

    Were there no effect, all its signs would agree as often as so many coins do.
    """
    same = found.estimate != 0 and found.clusters > 1
    return 2.0 ** (1 - found.clusters) if same else None


def _in_scenarios(reason: str | None) -> str | None:
    """A reason in the words of a trial, whose clusters are scenarios."""
    return reason and reason.replace("cluster", "scenario").replace("condition", "arm")


def _at_ceiling(cells: Cells, question: Question, measure: str) -> str | None:
    """A difference of 0 between arms that can't do better says less than it seems to."""
    if measure != "accuracy" or (cells.columns(list(question.weights)).means < 1).any():
        return None
    return "all arms compared are at the ceiling: right in every answer, in every scenario"
