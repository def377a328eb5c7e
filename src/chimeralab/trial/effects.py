"""Sessions of a trial as numbers, and the contrasts between its arms."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.records import Record
from chimeralab.stats.clusters import Cells, cells_of, mean_bootstrap
from chimeralab.stats.contrasts import contrast_bootstrap
from chimeralab.stats.effects import (
    TRIAL,
    ContrastSpec,
    Effect,
    empty_effect,
    estimate_contrast,
    short,
)
from chimeralab.stats.intervals import Interval, expand_level
from chimeralab.trial.columns import columns_of
from chimeralab.trial.measures import MEASURES, METRICS, PARTS, CustomMeasure, HitRate, find_measure
from chimeralab.trial.metrics import Metrics, MetricWeights, measure
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import Stressor
from chimeralab.trial.trials import TrialRow


class MeasuredSession(NamedTuple):
    """The rows of a session, and its tally under each measure."""

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
    """A value with an interval from resampled scenarios; None if there was no occasion."""

    value: float | None
    interval: Interval | None
    occasions: int


NO_ESTIMATE = MeasureEstimate(None, None, 0)
QUARTERS = ("q1", "q2", "q3", "q4")


@dataclass(frozen=True, slots=True)
class LagPoint(Record):
    """Recall of facts stated `lag` trials ago."""

    lag: int
    recall: MeasureEstimate


def measure_sessions(
    trials: Iterable[TrialRow], weights: MetricWeights, own: Sequence[CustomMeasure] = ()
) -> list[MeasuredSession]:
    """Group trials by session and apply every measure, the plan's own included."""
    counted = MEASURES | {name: name.measure for name in own}
    found = []
    for _, group in groupby(trials, key=lambda row: (row.session, row.arm)):
        rows = tuple(group)
        tallies = {name: each.tally(rows) for name, each in counted.items() if each.tally}
        found.append(MeasuredSession(rows, tallies | tally_metrics(rows, weights, METRICS)))
    return found


def tally_metrics(
    rows: Sequence[TrialRow], weights: MetricWeights, names: Iterable[str]
) -> dict[str, HitRate]:
    """The metrics of some trials of one session, each with itself as its only occasion."""
    metrics = measure(columns_of(rows), weights, resamples=0)
    values = {name: metric_value(metrics, name) for name in names}
    return {n: HitRate(0, 0) if v is None else HitRate(v, 1) for n, v in values.items()}


def split_quarters(
    sessions: Iterable[MeasuredSession], weights: MetricWeights
) -> list[MeasuredSession]:
    """Cut sessions at 25, 50 and 75 % of their trials; each quarter is an arm of its own.

    MCI, GFQ and DFS of a quarter come from its trials alone: a pair counts where both halves are in
    one quarter.
    """
    found = []
    for each in sessions:
        length = len(each.rows)
        for place, quarter in enumerate(QUARTERS):
            rows = each.rows[place * length // 4 : (place + 1) * length // 4]
            rows = tuple(replace(row, arm=f"{row.arm} {quarter}") for row in rows)
            if rows:
                found.append(MeasuredSession(rows, tally_metrics(rows, weights, PARTS)))
    return found


def metric_value(metrics: Metrics, name: str) -> float | None:
    """Look up a metric (`mci`) or a part of one (`mci.rf`)."""
    metric, _, part = name.partition(".")
    value: float | None = getattr(getattr(metrics, metric), part or "value")
    return value


def metric_estimate(metrics: Metrics, name: str) -> MeasureEstimate:
    """A metric or part with its interval."""
    metric, _, part = name.partition(".")
    found = getattr(metrics, metric)
    interval = found.part_intervals[part] if part else found.interval
    return MeasureEstimate(metric_value(metrics, name), _drop_empty(interval), metrics.trials)


def estimate_measure(
    sessions: Sequence[MeasuredSession], name: str, rng: np.random.Generator, resamples: int
) -> MeasureEstimate:
    """Average a measure over scenarios, each counting equally, as in the contrasts."""
    known = [each for each in sessions if each.tallies[name].among]
    values = [(each.scenario, each.tallies[name].share or 0.0) for each in known]
    occasions = int(sum(each.tallies[name].among for each in known))
    return _scenario_mean(sorted(values, key=itemgetter(0)), occasions, rng, resamples)


def recall_by_lag(
    sessions: Sequence[MeasuredSession], rng: np.random.Generator, resamples: int
) -> Iterator[LagPoint]:
    """Recall of earlier facts by how many trials ago they were stated."""
    rows = [row for each in sessions for row in each.rows if row.recall_correct is not None]
    for lag in sorted({row.recall_lag for row in rows if row.recall_lag}):
        values = [
            (str(r.scenario), float(bool(r.recall_correct))) for r in rows if r.recall_lag == lag
        ]
        yield LagPoint(lag, _scenario_mean(values, len(values), rng, resamples))


def _scenario_mean(
    values: Sequence[tuple[str, float]], occasions: int, rng: np.random.Generator, resamples: int
) -> MeasureEstimate:
    """The mean of the scenarios' means, in the order in which the scenarios come."""
    by_scenario: defaultdict[str, list[float]] = defaultdict(list)
    for scenario, value in values:
        by_scenario[scenario].append(value)
    if not by_scenario:
        return NO_ESTIMATE
    means = np.array([np.mean(each) for each in by_scenario.values()])
    interval = None
    if len(means) > 1 and resamples:
        level, clusters = expand_level(len(means)), np.arange(len(means))
        interval = mean_bootstrap(means, clusters, rng=rng, resamples=resamples, level=level)
    return MeasureEstimate(float(means.mean()), _drop_empty(interval), occasions)


def _drop_empty(interval: Interval | None) -> Interval | None:
    """None for an interval of width 0, which would look exact: equal scenarios show no spread."""
    return None if interval is None or interval.low == interval.high else interval


def is_aimed(effect: Effect) -> bool:
    """Whether the stressors of an effect are aimed at its measure."""
    return find_measure(effect.measure).overall or effect.measure in effect.spec.aims


def is_listed(effect: Effect) -> bool:
    """Whether to show an effect: on MCI, GFQ or DFS, aimed at its measure, or declared."""
    return effect.measure in PARTS or is_aimed(effect) or effect.role == "primary"


@dataclass(frozen=True, slots=True)
class DeclaredEffect(Record):
    """[[outcomes.primary]]: the effect of an arm on a measure.

    `against` defaults to the reference: the sham arm of the trial, or else its control.
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


def _difference(arms: Mapping[str, Arm], name: str, other: str) -> ContrastSpec:
    """One arm minus another; the measures targeted by the first arm's stressors are its aims."""
    stressors = arms[name].stressors
    return ContrastSpec(
        {name: 1.0, other: -1.0}, about=tuple(stressors), aims=_aims(stressors.values())
    )


def _aims(stressors: Iterable[Stressor]) -> frozenset[str]:
    return frozenset(aim for part in stressors for aim in part.targets)


def primary_contrasts(
    declared: Iterable[DeclaredEffect], arms: Mapping[str, Arm], reference: str
) -> list[ContrastSpec]:
    """The comparisons that the plan declares as primary."""
    by_short = {short(name): name for name in arms}
    pairs = dict.fromkeys(each.pair(short(reference)) for each in declared)
    return [_difference(arms, by_short[arm], by_short[against]) for arm, against in pairs]


def reference_contrasts(arms: Mapping[str, Arm], reference: str) -> list[ContrastSpec]:
    """Every arm minus the reference, and minus the sham of its own stressors if it has one."""
    shams = {arm.stress: name for name, arm in arms.items() if arm.sham and name != reference}
    pairs = [(name, reference) for name in arms if name != reference]
    pairs += [
        (name, shams[arm.stress])
        for name, arm in arms.items()
        if not arm.sham and arm.countermeasure is None and arm.stress in shams
    ]
    return [_difference(arms, name, other) for name, other in pairs]


def factorial_contrasts(arms: Mapping[str, Arm]) -> list[ContrastSpec]:
    """Main effects and interactions of the fully crossed stressors.

    A main effect is the mean of the cells with a stressor minus that of the cells without. A
    two-way interaction is a difference of differences, a three-way one the change of a two-way
    interaction under the third stressor.
    """
    plain = _cells_of_design(arms)
    crossed = _find_factors(plain)
    cells = list(_subsets(crossed))
    parts = {name: part for arm in arms.values() for name, part in arm.stressors.items()}
    contrasts = []
    for n in range(1, len(crossed) + 1):
        half = len(cells) / 2**n
        for effect in combinations(crossed, n):
            weights = {
                plain[cell]: float(np.prod([1 if name in cell else -1 for name in effect])) / half
                for cell in cells
            }
            aims = _aims(parts[name] for name in effect)
            contrasts.append(ContrastSpec(weights, " × ".join(effect), effect, aims=aims))
    return contrasts


def _cells_of_design(arms: Mapping[str, Arm]) -> dict[frozenset[str], str]:
    """Arms without countermeasure, by their stressors: the cells of a factorial design.

    In a cell every stressor has the settings of its single-stressor arm, so that an arm at another
    dose is not a cell.
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


def _find_factors(plain: Mapping[frozenset[str], str]) -> tuple[str, ...]:
    """The largest set of two or more stressors of which every combination is an arm.

    Empty if there is no such set, or more than one: then the design is not a factorial.
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


def dose_contrasts(arms: Mapping[str, Arm]) -> list[ContrastSpec]:
    """The least-squares slope over the doses of each dosed key."""
    families: dict[str, dict[str, float]] = {}
    for name, arm in arms.items():
        if arm.dose is not None:
            families.setdefault(dose_key(arm), {})[name] = arm.dose
    return [
        ContrastSpec(
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
    """The setting that an arm doses, or else the names of its stressors."""
    return arm.dosed or "+".join(arm.stressors)


def _slope(doses: Mapping[str, float]) -> dict[str, float]:
    """Contrast weights of the least-squares slope.

    >>> _slope({"low": 1.0, "high": 3.0})
    {'low': -0.5, 'high': 0.5}
    """
    centre = float(np.mean(list(doses.values())))
    spread = sum((dose - centre) ** 2 for dose in doses.values())
    return {name: (dose - centre) / spread for name, dose in doses.items()}


def countermeasure_contrasts(arms: Mapping[str, Arm]) -> list[ContrastSpec]:
    """Each arm with a countermeasure minus the arm with the same stressors and none."""
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
    contrasts: Sequence[ContrastSpec],
    measure: str,
    rng: np.random.Generator,
    resamples: int,
) -> tuple[Effect, ...]:
    """Estimate several contrasts of one measure; p-values are not yet corrected."""
    known = [s for s in sessions if s.tallies[measure].among]
    if not known:
        reason = f"there is no {TRIAL.observation}"
        return tuple(empty_effect(spec, TRIAL, measure, reason) for spec in contrasts)
    cells = cells_of(
        [s.tallies[measure].hits / s.tallies[measure].among for s in known],
        [s.arm for s in known],
        [s.scenario for s in known],
    )
    return tuple(_estimate_effect(cells, spec, measure, rng, resamples) for spec in contrasts)


def skip_effect(spec: ContrastSpec, measure: str, failed: Mapping[str, str]) -> Effect:
    """An effect left empty because one of its arms failed its checks."""
    arm = next(name for name in spec.weights if name in failed)
    return empty_effect(spec, TRIAL, measure, f"not informative: {arm}: {failed[arm]}")


def _estimate_effect(
    cells: Cells, spec: ContrastSpec, measure: str, rng: np.random.Generator, resamples: int
) -> Effect:
    """Estimate one contrast, with an interval from resampled scenarios."""
    found = estimate_contrast(cells, spec, TRIAL, measure)
    if found.estimate is None:
        return found
    interval, p, reasons = None, found.p, dict(found.reasons)
    if found.interval is not None and resamples:
        level = expand_level(found.units)
        interval = contrast_bootstrap(
            cells, spec.weights, rng=rng, resamples=resamples, level=level
        )
    if p is None and found.estimate != 0 and found.units > 1:
        # A difference that is the same in every scenario has no t test: use a sign test instead.
        p = 2.0 ** (1 - found.units)
    if find_measure(measure).overall and (cells.columns(list(spec.weights)).means >= 1).all():
        reasons["p"] = (
            "all arms compared are at the ceiling: right in every answer, in every scenario"
        )
    return replace(found, interval=interval, p=p, reasons=reasons)
