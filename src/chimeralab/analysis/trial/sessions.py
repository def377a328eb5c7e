"""Sessions of a trial as numbers: every measure in every session, ready to be compared."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.trial.measures import MEASURES, METRICS, HitRate, OwnMeasure
from chimeralab.core.records import Record
from chimeralab.sandbox.columns import columns_of
from chimeralab.sandbox.metrics import Metrics, MetricWeights, measure
from chimeralab.sandbox.scored import PlacedTrial, Scored, SessionPlace, trials_of
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import mean_bootstrap
from chimeralab.stats.intervals import Interval, widened_level


class MeasuredSession(NamedTuple):
    """One session: where it belongs, its rows, and what each measure says of it."""

    place: SessionPlace
    rows: tuple[Scored, ...]
    tallies: dict[str, HitRate]


@dataclass(frozen=True, slots=True)
class Estimated(Record):
    """A value with an interval from resampled scenarios; None where nothing can be said."""

    value: float | None
    interval: Interval | None
    occasions: int


@dataclass(frozen=True, slots=True)
class LagPoint(Record):
    """Recall of facts that were told so many trials ago."""

    lag: int
    recall: Estimated


def sessions_of(
    trials: Iterable[PlacedTrial], weights: MetricWeights, own: Sequence[OwnMeasure] = ()
) -> list[MeasuredSession]:
    """Group the trials of each session and measure it, also by measures of one's own."""
    counted = MEASURES | {name: name.measure for name in own}
    found = []
    for place, group in groupby(trials, key=lambda each: each.place):
        rows = tuple(each.row for each in group)
        tallies = {name: each.tally(rows) for name, each in counted.items() if each.tally}
        metrics = measure(columns_of(trials_of(rows, place)), weights, resamples=0)
        for name in METRICS:
            value = value_of(metrics, name)
            tallies[name] = HitRate(0, 0) if value is None else HitRate(value, 1)
        found.append(MeasuredSession(place, rows, tallies))
    return found


def value_of(metrics: Metrics, name: str) -> float | None:
    """A metric, or a part of one, by its name."""
    metric, _, part = name.partition(".")
    value: float | None = getattr(getattr(metrics, metric), part or "value")
    return value


def measured(metrics: Metrics, name: str) -> Estimated:
    """A metric or part with its interval, as `chimera measure` has it."""
    metric, _, part = name.partition(".")
    found = getattr(metrics, metric)
    interval = found.part_intervals[part] if part else found.interval
    return Estimated(value_of(metrics, name), _with_width(interval), metrics.trials)


def estimated(
    sessions: Sequence[MeasuredSession], name: str, rng: np.random.Generator, resamples: int
) -> Estimated:
    """A measure over several sessions: the mean of the scenarios that have an occasion for it.

    Every scenario counts alike, as it does in the contrasts between arms.
    """
    known = [session.tallies[name] for session in sessions if session.tallies[name].among]
    occasions = int(sum(tally.among for tally in known))
    return _mean(scenario_means(sessions, name), occasions, rng, resamples)


def _mean(means: Floats, occasions: int, rng: np.random.Generator, resamples: int) -> Estimated:
    if not len(means):
        return Estimated(None, None, 0)
    interval = None
    if len(means) > 1 and resamples:
        level, clusters = widened_level(len(means)), np.arange(len(means))
        interval = mean_bootstrap(
            means, clusters, rng=rng, resamples=resamples, level=level
        ).interval
    return Estimated(float(means.mean()), _with_width(interval), occasions)


def _with_width(interval: Interval | None) -> Interval | None:
    """Scenarios that all say the same tell nothing of others: no width would look exact."""
    return None if interval is None or interval.low == interval.high else interval


def scenario_means(sessions: Sequence[MeasuredSession], name: str) -> Floats:
    """The mean of each scenario over its sessions, where any has an occasion."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for session in sessions:
        tally = session.tallies[name]
        if tally.among:
            found[session.place.scenario].append(tally.hits / tally.among)
    return np.array([np.mean(values) for _, values in sorted(found.items())], dtype=np.float64)


def by_lag(
    sessions: Sequence[MeasuredSession], rng: np.random.Generator, resamples: int
) -> Iterator[LagPoint]:
    """Recall of earlier facts by how many trials ago they were told."""
    asked = [
        (session.place.scenario, row.recalled)
        for session in sessions
        for row in session.rows
        if row.recalled and row.recalled.lag
    ]
    for lag in sorted({recalled.lag for _, recalled in asked if recalled.lag}):
        found: defaultdict[str, list[bool]] = defaultdict(list)
        for scenario, recalled in asked:
            if recalled.lag == lag and recalled.correct is not None:
                found[scenario].append(recalled.correct)
        means = np.array([np.mean(flags) for flags in found.values()], dtype=np.float64)
        point = _mean(means, sum(map(len, found.values())), rng, resamples)
        if point.value is not None:
            yield LagPoint(lag, point)
