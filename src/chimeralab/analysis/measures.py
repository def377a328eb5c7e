"""What is measured of a run: one number each, so that every comparison works alike."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.estimands import Measure
from chimeralab.analysis.runs import Runs, at_risk_turns
from chimeralab.stats.arrays import Floats
from chimeralab.stats.restricted_mean import pseudo_values, restricted_mean


class PerRun(NamedTuple):
    """One value a run; None where some run has none, with the reason."""

    values: Floats | None
    reason: str | None = None


def per_run(runs: Runs, measure: Measure, tau: float) -> PerRun:
    """The measure of every run.

    The mean of these over the runs of a condition is the measure of that condition; for the
    restricted mean they are pseudo-values, which allow for runs that end before the horizon.
    """
    return _MEASURES[measure](runs, tau)


def _share(runs: Runs, _tau: float) -> PerRun:
    return PerRun(runs.collapsed / runs.turns)


def _at_risk_share(runs: Runs, _tau: float) -> PerRun:
    turns = at_risk_turns(runs)
    if isinstance(turns, str):
        return PerRun(None, turns)
    short = int((turns == 0).sum())
    if short:
        return PerRun(None, f"{short} runs are too short to have a turn at risk")
    return PerRun(runs.collapsed / turns)


def _incidence(runs: Runs, _tau: float) -> PerRun:
    return PerRun((runs.collapsed > 0).astype(np.float64))


def _restricted_mean(runs: Runs, tau: float) -> PerRun:
    values = np.empty(len(runs.rows))
    for name in runs.conditions:
        rows = runs.condition == name
        followed = runs.keep(rows).durations
        mean = restricted_mean(followed, tau)
        if mean.value is None:
            return PerRun(None, f"{name}: {mean.reasons['value']}")
        values[rows] = pseudo_values(followed, tau)
    return PerRun(values)


_MEASURES: dict[Measure, Callable[[Runs, float], PerRun]] = {
    "share": _share,
    "at_risk_share": _at_risk_share,
    "incidence": _incidence,
    "restricted_mean": _restricted_mean,
}
