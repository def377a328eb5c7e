"""Sessions of a trial as numbers: every measure in every session, ready to be compared."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.trial_measures import MEASURES, Tally
from chimeralab.sandbox.columns import columns_of
from chimeralab.sandbox.metrics import MetricWeights, measure
from chimeralab.sandbox.scored import Place, Placed, Scored, trials_of
from chimeralab.stats.arrays import Floats, optional
from chimeralab.stats.clusters import quotient
from chimeralab.stats.design import Units, cluster_totals
from chimeralab.stats.intervals import Interval, widened_level
from chimeralab.stats.resample import bootstrap

METRICS = ("mci", "gfq", "dfs")


class Session(NamedTuple):
    """One session: where it belongs, its rows, and what each measure says of it."""

    place: Place
    rows: tuple[Scored, ...]
    tallies: dict[str, Tally]


class Estimated(NamedTuple):
    """A value with an interval from resampled scenarios; None where nothing can be said."""

    value: float | None
    interval: Interval | None
    occasions: int


def sessions_of(trials: Iterable[Placed], weights: MetricWeights) -> list[Session]:
    """Group the trials of each session and measure it."""
    return [
        _session(place, tuple(each.row for each in group), weights)
        for place, group in groupby(trials, key=lambda each: each.place)
    ]


def _session(place: Place, rows: tuple[Scored, ...], weights: MetricWeights) -> Session:
    tallies = {name: tally(rows) for name, tally in MEASURES.items()}
    metrics = measure(columns_of(trials_of(rows, place)), weights, resamples=0)
    for name in METRICS:
        value = getattr(metrics, name).value
        tallies[name] = Tally(0, 0) if value is None else Tally(value, 1)
    return Session(place, rows, tallies)


def estimated(
    sessions: Sequence[Session], name: str, rng: np.random.Generator, resamples: int
) -> Estimated:
    """A measure over several sessions: all hits among all occasions, scenarios resampled whole."""
    totals = scenario_totals(sessions, name)
    value = optional(float(quotient(totals.sum(axis=0, keepdims=True))[0]))
    telling = int((totals[:, 1] > 0).sum())
    interval = None
    if telling > 1 and resamples:
        units, level = Units(totals, np.zeros(len(totals), np.intp)), widened_level(telling)
        interval = bootstrap(units, quotient, rng=rng, resamples=resamples, level=level).interval
    return Estimated(value, interval, int(totals[:, 1].sum()))


def scenario_totals(sessions: Sequence[Session], name: str) -> Floats:
    names = sorted({session.place.scenario for session in sessions})
    codes = np.array([names.index(s.place.scenario) for s in sessions], dtype=np.intp)
    rows = np.array([session.tallies[name] for session in sessions], dtype=np.float64)
    return cluster_totals(rows.reshape(-1, 2), codes) if len(rows) else np.zeros((1, 2))
