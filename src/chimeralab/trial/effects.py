"""What the arms of a trial do: sessions as numbers, and the differences between them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import Cells, cells_of, mean_bootstrap
from chimeralab.stats.contrasts import contrast_bootstrap
from chimeralab.stats.effects import (
    TRIAL,
    AskedContrast,
    Effect,
    estimated_contrast,
    short,
    undefined,
)
from chimeralab.stats.intervals import Interval, widened_level
from chimeralab.trial.columns import columns_of
from chimeralab.trial.meanings import PARTS
from chimeralab.trial.measures import MEASURES, METRICS, HitRate, OwnMeasure, words_of
from chimeralab.trial.metrics import Metrics, MetricWeights, measure
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import Stressor
from chimeralab.trial.trials import TrialRow


class MeasuredSession(NamedTuple):
    """One session: its rows, and what each measure says of it."""

    rows: tuple[TrialRow, ...]
    tallies: dict[str, HitRate]

    @property
    def arm(self) -> str:
        return str(self.rows[0].arm)

    @property
    def scenario(self) -> str:
        return str(self.rows[0].scenario)


@dataclass(frozen=True, slots=True)
class MeasureEstimate(Record):
    """A value with an interval from resampled scenarios; None where nothing can be said."""

    value: float | None
    interval: Interval | None
    occasions: int


@dataclass(frozen=True, slots=True)
class LagPoint(Record):
    """Recall of facts that were told so many trials ago."""

    lag: int
    recall: MeasureEstimate


def measure_sessions(
    trials: Iterable[TrialRow], weights: MetricWeights, own: Sequence[OwnMeasure] = ()
) -> list[MeasuredSession]:
    """Group the trials of each session and measure it, also by measures of your own."""
    counted = MEASURES | {name: name.measure for name in own}
    found = []
    for _, group in groupby(trials, key=lambda row: (row.session, row.arm)):
        rows = tuple(group)
        tallies = {name: each.tally(rows) for name, each in counted.items() if each.tally}
        metrics = measure(columns_of(rows), weights, resamples=0)
        for name in METRICS:
            value = metric_value(metrics, name)
            tallies[name] = HitRate(0, 0) if value is None else HitRate(value, 1)
        found.append(MeasuredSession(rows, tallies))
    return found


def metric_value(metrics: Metrics, name: str) -> float | None:
    """A metric, or a part of one, by its name."""
    metric, _, part = name.partition(".")
    value: float | None = getattr(getattr(metrics, metric), part or "value")
    return value


def metric_estimate(metrics: Metrics, name: str) -> MeasureEstimate:
    """A metric or part with its interval, as `chimera measure` has it."""
    metric, _, part = name.partition(".")
    found = getattr(metrics, metric)
    interval = found.part_intervals[part] if part else found.interval
    return MeasureEstimate(metric_value(metrics, name), _with_width(interval), metrics.trials)


def estimate_measure(
    sessions: Sequence[MeasuredSession], name: str, rng: np.random.Generator, resamples: int
) -> MeasureEstimate:
    """A measure over several sessions: the mean of the scenarios that have an occasion for it.

    Every scenario counts equally, as it does in the contrasts between arms.
    """
    known = [session.tallies[name] for session in sessions if session.tallies[name].among]
    occasions = int(sum(tally.among for tally in known))
    return _mean(scenario_means(sessions, name), occasions, rng, resamples)


def _mean(
    means: Floats, occasions: int, rng: np.random.Generator, resamples: int
) -> MeasureEstimate:
    if not len(means):
        return MeasureEstimate(None, None, 0)
    interval = None
    if len(means) > 1 and resamples:
        level, clusters = widened_level(len(means)), np.arange(len(means))
        interval = mean_bootstrap(means, clusters, rng=rng, resamples=resamples, level=level)
    return MeasureEstimate(float(means.mean()), _with_width(interval), occasions)


def _with_width(interval: Interval | None) -> Interval | None:
    """Scenarios that all say the same tell nothing of others: no width would look exact."""
    return None if interval is None or interval.low == interval.high else interval


def scenario_means(sessions: Sequence[MeasuredSession], name: str) -> Floats:
    """The mean of each scenario over its sessions, where any has an occasion."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for session in sessions:
        share = session.tallies[name].share
        if share is not None:
            found[session.scenario].append(share)
    return np.array([np.mean(values) for _, values in sorted(found.items())], dtype=np.float64)


def recall_by_lag(
    sessions: Sequence[MeasuredSession], rng: np.random.Generator, resamples: int
) -> Iterator[LagPoint]:
    """Recall of earlier facts by how many trials ago they were told."""
    asked = [row for session in sessions for row in session.rows if row.recall_lag]
    for lag in sorted({row.recall_lag for row in asked if row.recall_lag}):
        found: defaultdict[str, list[bool]] = defaultdict(list)
        for row in asked:
            if row.recall_lag == lag and row.recall_correct is not None:
                found[str(row.scenario)].append(row.recall_correct)
        means = np.array([np.mean(flags) for flags in found.values()], dtype=np.float64)
        point = _mean(means, sum(map(len, found.values())), rng, resamples)
        if point.value is not None:
            yield LagPoint(lag, point)


HEADLINES = tuple(PARTS)


def is_aimed(effect: Effect) -> bool:
    """Whether a measure is what the stressors of an effect are aimed at."""
    return words_of(effect.measure).overall or effect.measure in effect.asked.aims


def is_listed(effect: Effect) -> bool:
    """Whether an effect is shown: on MCI, GFQ or DFS, on what is aimed at, or as declared."""
    return effect.measure in HEADLINES or is_aimed(effect) or effect.role == "primary"


@dataclass(frozen=True, slots=True)
class DeclaredEffect(Record):
    """[[outcomes.primary]]: the effect of an arm on a measure, against another arm.

    Without `against` that is the reference: the sham of the trial, or its control.
    """

    measure: str
    arm: str
    against: str | None = None

    def pair(self, reference: str) -> tuple[str, str]:
        return self.arm, self.against or reference

    def is_of(self, effect: Effect, reference: str) -> bool:
        weights = {short(name): weight for name, weight in effect.weights.items()}
        arm, against = self.pair(reference)
        return effect.measure == self.measure and weights == {arm: 1.0, against: -1.0}


def _difference(arms: Mapping[str, Arm], name: str, other: str) -> AskedContrast:
    """One arm minus another, on what the stressors of the first are about."""
    stressors = arms[name].stressors
    return AskedContrast(
        {name: 1.0, other: -1.0}, about=tuple(stressors), aims=_aims(stressors.values())
    )


def _aims(stressors: Iterable[Stressor]) -> frozenset[str]:
    return frozenset(aim for part in stressors for aim in part.aimed_at)


def primary_contrasts(
    declared: Iterable[DeclaredEffect], arms: Mapping[str, Arm], reference: str
) -> list[AskedContrast]:
    """The comparisons that a plan declares, whatever else is compared."""
    by_short = {short(name): name for name in arms}
    pairs = dict.fromkeys(each.pair(short(reference)) for each in declared)
    return [_difference(arms, by_short[arm], by_short[against]) for arm, against in pairs]


def reference_contrasts(arms: Mapping[str, Arm], reference: str) -> list[AskedContrast]:
    """Every arm minus the reference, and minus the sham of its own stressors where there is one."""
    shams = {arm.stress: name for name, arm in arms.items() if arm.sham and name != reference}
    pairs = [(name, reference) for name in arms if name != reference]
    pairs += [
        (name, shams[arm.stress])
        for name, arm in arms.items()
        if not arm.sham and arm.countermeasure is None and arm.stress in shams
    ]
    return [_difference(arms, name, other) for name, other in pairs]


def factorial_contrasts(arms: Mapping[str, Arm]) -> list[AskedContrast]:
    """Main effects and interactions of the stressors that are fully crossed with each other.

    A main effect is the mean of the cells with it minus that of the cells without. An interaction
    is how much more two do together than they add up to (a difference of differences), and one of
    three how much more this is under the third.
    """
    plain = _cells_of_design(arms)
    crossed = _crossed_factors(plain)
    cells = list(_subsets(crossed))
    parts = {name: part for arm in arms.values() for name, part in arm.stressors.items()}
    asked = []
    for n in range(1, len(crossed) + 1):
        half = len(cells) / 2**n
        for effect in combinations(crossed, n):
            weights = {
                plain[cell]: float(np.prod([1 if name in cell else -1 for name in effect])) / half
                for cell in cells
            }
            aims = _aims(parts[name] for name in effect)
            asked.append(AskedContrast(weights, " × ".join(effect), effect, aims=aims))
    return asked


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


def _crossed_factors(plain: Mapping[frozenset[str], str]) -> tuple[str, ...]:
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


def dose_contrasts(arms: Mapping[str, Arm]) -> list[AskedContrast]:
    """The slope over each dosed key, from all its doses (least squares within scenarios)."""
    families: dict[str, dict[str, float]] = {}
    for name, arm in arms.items():
        if arm.dose is not None:
            families.setdefault(dose_key(arm), {})[name] = arm.dose
    return [
        AskedContrast(
            _slope(doses),
            f"dose of {key}",
            tuple(arms[next(iter(doses))].stressors),
            key,
            _aims(arms[next(iter(doses))].stressors.values()),
        )
        for key, doses in families.items()
        if len(set(doses.values())) > 1
    ]


def dose_key(arm: Arm) -> str:
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


def countermeasure_contrasts(arms: Mapping[str, Arm]) -> list[AskedContrast]:
    """Each countermeasure minus the bare arm with the same stressors."""
    bare = {
        arm.stress: name
        for name, arm in arms.items()
        if arm.countermeasure is None and not arm.sham
    }
    return [
        _difference(arms, name, bare[arm.stress])
        for name, arm in arms.items()
        if arm.countermeasure is not None and arm.stress in bare
    ]


def estimate_effects(
    sessions: Sequence[MeasuredSession],
    questions: Sequence[AskedContrast],
    measure: str,
    rng: np.random.Generator,
    resamples: int,
) -> tuple[Effect, ...]:
    """One measure under several questions; what is asked together is corrected later."""
    known = [s for s in sessions if s.tallies[measure].among]
    if not known:
        reason = f"there is no {TRIAL.observation}"
        return tuple(undefined(asked, TRIAL, measure, reason) for asked in questions)
    cells = cells_of(
        [s.tallies[measure].hits / s.tallies[measure].among for s in known],
        [s.arm for s in known],
        [s.scenario for s in known],
    )
    return tuple(_effect(cells, asked, measure, rng, resamples) for asked in questions)


def skip_effect(asked: AskedContrast, measure: str, failed: Mapping[str, str]) -> Effect:
    """An effect that is not estimated because an arm of it failed its checks."""
    arm = next(name for name in asked.weights if name in failed)
    return undefined(asked, TRIAL, measure, f"not informative: {arm}: {failed[arm]}")


def _effect(
    cells: Cells, asked: AskedContrast, measure: str, rng: np.random.Generator, resamples: int
) -> Effect:
    """One effect with an interval from resampled scenarios."""
    found = estimated_contrast(cells, asked, TRIAL, measure)
    if found.estimate is None:
        return found
    interval, p, reasons = None, found.p, dict(found.reasons)
    if found.interval is not None and resamples:
        level = widened_level(found.units)
        interval = contrast_bootstrap(
            cells, asked.weights, rng=rng, resamples=resamples, level=level
        )
    if p is None and found.estimate != 0 and found.units > 1:
        # A difference that is the same in every scenario leaves nothing to a t test. Were there
        # no effect, all its signs would agree as often as so many coins do.
        p = 2.0 ** (1 - found.units)
    if words_of(measure).overall and (cells.columns(list(asked.weights)).means >= 1).all():
        # A difference of 0 between arms that can't do better says less than it seems to.
        reasons["p"] = (
            "all arms compared are at the ceiling: right in every answer, in every scenario"
        )
    return replace(found, interval=interval, p=p, reasons=reasons)
