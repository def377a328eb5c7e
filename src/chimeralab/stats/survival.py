"""Turns until the first collapse; runs that never collapse are censored at their last turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, ratios, same_length
from chimeralab.stats.design import Column, Units
from chimeralab.stats.resample import bootstrap_draws


class Durations(NamedTuple):
    """When each run was last seen, and whether that is when the event happened."""

    times: Floats
    observed: NDArray[np.bool_]


class LifeTable(NamedTuple):
    """Runs at risk and events at each distinct time (columns), by cluster or group (rows)."""

    times: Floats
    at_risk: Floats
    events: Floats


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """Share of runs still without the event after each distinct time."""

    times: Floats
    at_risk: Floats
    events: Floats
    survival: Floats


class SurvivalBand(NamedTuple):
    """Pointwise bounds of a survival curve."""

    times: Floats
    low: Floats
    high: Floats


def durations(first_event: Sequence[float | None] | Floats, last_turn: ArrayLike) -> Durations:
    """Times from the turn of the event (missing: it never came) and the last turn of the run.

    >>> durations([3, None], [40, 40]).times
    array([ 3., 40.])
    """
    event, last = np.asarray(first_event, dtype=np.float64), finite(last_turn, "last turn")
    same_length(first_event=event, last_turn=last)
    observed = ~np.isnan(event)
    wrong = np.flatnonzero((last <= 0) | (observed & ((event <= 0) | (event > last))))
    if wrong.size:
        turn, end = event[wrong[0]], last[wrong[0]]
        raise InputError(f"run {wrong[0] + 1}: event at turn {turn:g} does not fit {end:g} turns")
    return Durations(np.where(observed, event, last), observed)


def life_table(runs: Durations, code: Integers | None = None) -> LifeTable:
    """Count runs at risk and events at each distinct time, in one row for each code.

    >>> life_table(durations([2, None, 3], [3, 3, 3])).at_risk
    array([[3., 2.]])
    """
    times, place = np.unique(runs.times, return_inverse=True)
    code = np.zeros(len(runs.times), np.intp) if code is None else code
    shape = (int(code.max()) + 1, len(times))
    cell = code * len(times) + place
    exits = np.bincount(cell, minlength=shape[0] * shape[1])
    events = np.bincount(cell, weights=runs.observed, minlength=shape[0] * shape[1])
    at_risk = exits.reshape(shape)[:, ::-1].cumsum(axis=1)[:, ::-1]
    return LifeTable(times, at_risk.astype(np.float64), events.astype(np.float64).reshape(shape))


def kaplan_meier(runs: Durations) -> SurvivalCurve:
    """Share still without the event at each time, censored runs leaving quietly (Kaplan 1958).

    >>> kaplan_meier(durations([2, None, 3, 5], [5, 2, 5, 5])).survival
    array([0.75 , 0.375, 0.   ])
    """
    if not len(runs.times):
        raise InputError("runs: none to draw a survival curve from")
    table = life_table(runs)
    survival = survival_shares(table.at_risk, table.events)
    return SurvivalCurve(table.times, table.at_risk[0], table.events[0], survival[0])


def median_time(curve: SurvivalCurve) -> float | None:
    """First time at which half of the runs have had the event; None if that never comes.

    >>> median_time(kaplan_meier(durations([2, None, 3, 5], [5, 2, 5, 5])))
    3.0
    """
    # The survival share is a product of fractions, so an exact half may miss by a rounding error.
    reached = np.flatnonzero(curve.survival <= 0.5 + 1e-12)
    return float(curve.times[reached[0]]) if reached.size else None


def survival_band(
    runs: Durations,
    clusters: Column | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> SurvivalBand:
    """Percentile interval of the survival curve at each time, whole clusters resampled.

    >>> runs = durations([2, None, 3, 5], [5, 5, 5, 5])
    >>> survival_band(runs, rng=np.random.default_rng(1)).high.round(2)
    array([1.  , 1.  , 0.75])
    """
    units = resampling_units(runs, clusters)
    draws = bootstrap_draws(units, _curves, rng=rng, resamples=resamples)
    tail = 50 * (1 - level)
    low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
    return SurvivalBand(np.unique(runs.times), low, high)


def survival_shares(at_risk: Floats, events: Floats) -> Floats:
    """Survival after each time, along the last axis.

    >>> survival_shares(np.array([4.0, 2.0]), np.array([1.0, 1.0]))
    array([0.75 , 0.375])
    """
    hazard = np.nan_to_num(ratios(events, at_risk))
    return np.cumprod(1 - hazard, axis=-1, dtype=np.float64)


def resampling_units(runs: Durations, clusters: Column | None = None) -> Units:
    """Each cluster's runs at risk, then its events, at each distinct time, ready to be resampled.

    >>> resampling_units(durations([2, None, 3], [3, 3, 3]), ["a", "a", "b"]).totals
    array([[2., 1., 1., 0.],
           [1., 1., 0., 1.]])
    """
    same_length(runs=runs.times, clusters=clusters)
    code = np.arange(len(runs.times)) if clusters is None else encode(clusters).codes
    table = life_table(runs, code)
    totals = np.hstack([table.at_risk, table.events])
    return Units(totals, np.zeros(len(totals), np.intp))


def _curves(totals: Floats) -> Floats:
    return survival_shares(*np.split(totals, 2, axis=1))
