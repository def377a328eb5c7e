"""Time to the first collapse: survival curves, restricted means, and the log-rank test."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, optional, ratios, same_length
from chimeralab.stats.intervals import Estimate
from chimeralab.stats.resample import (
    Column,
    Statistic,
    bootstrap,
    jackknife,
    permutation_test,
    permute_within,
)

NO_SPREAD = "needs two clusters that differ"


class Durations(NamedTuple):
    """The time of the event or of censoring of each run, and whether the event was observed."""

    times: Floats
    observed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """The survival function at each distinct time."""

    times: Floats
    at_risk: Floats
    events: Floats
    survival: Floats


def durations(first_event: Sequence[float | None] | Floats, last_turn: ArrayLike) -> Durations:
    """Durations from the turn of the event (missing if censored) and the last turn of each run.

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


def life_table(runs: Durations, code: Integers | None = None) -> tuple[Floats, Floats, Floats]:
    """The distinct times, with the runs at risk and the events at each, a row per code.

    >>> life_table(durations([2, None, 3], [3, 3, 3]))[1]
    array([[3., 2.]])
    """
    times, place = np.unique(runs.times, return_inverse=True)
    code = np.zeros(len(runs.times), np.intp) if code is None else code
    shape = (int(code.max()) + 1, len(times))
    cell = code * len(times) + place
    exits = np.bincount(cell, minlength=shape[0] * shape[1])
    events = np.bincount(cell, weights=runs.observed, minlength=shape[0] * shape[1])
    at_risk = exits.reshape(shape)[:, ::-1].cumsum(axis=1)[:, ::-1]
    return times, at_risk.astype(np.float64), events.astype(np.float64).reshape(shape)


def kaplan_meier(runs: Durations) -> SurvivalCurve:
    """The survival curve with censored runs (Kaplan, Meier 1958).

    >>> kaplan_meier(durations([2, None, 3, 5], [5, 2, 5, 5])).survival
    array([0.75 , 0.375, 0.   ])
    """
    if not len(runs.times):
        raise InputError("runs: a survival curve needs at least one")
    times, (at_risk,), (events,) = life_table(runs)
    return SurvivalCurve(times, at_risk, events, survival_shares(at_risk, events))


def median_time(curve: SurvivalCurve) -> float | None:
    """First time at which half of the runs have had the event; None if it is not reached.

    >>> median_time(kaplan_meier(durations([2, None, 3, 5], [5, 2, 5, 5])))
    3.0
    """
    # A product of fractions may miss an exact half by a rounding error.
    reached = np.flatnonzero(curve.survival <= 0.5 + 1e-12)
    return float(curve.times[reached[0]]) if reached.size else None


def survival_band(
    runs: Durations,
    clusters: Column | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> tuple[Floats, Floats]:
    """Pointwise percentile bounds of the survival curve, whole clusters resampled.

    >>> runs = durations([2, None, 3, 5], [5, 5, 5, 5])
    >>> survival_band(runs, rng=np.random.default_rng(1))[1].round(2)
    array([1.  , 1.  , 0.75])
    """
    draws = bootstrap(
        resampling_units(runs, clusters),
        lambda totals: survival_shares(*np.split(totals, 2, axis=1)),
        rng=rng,
        resamples=resamples,
    )
    tail = 50 * (1 - level)
    low, high = np.percentile(draws, [tail, 100 - tail], axis=0)
    return low, high


def survival_shares(at_risk: Floats, events: Floats) -> Floats:
    """Survival after each time, along the last axis.

    >>> survival_shares(np.array([4.0, 2.0]), np.array([1.0, 1.0]))
    array([0.75 , 0.375])
    """
    hazard = np.nan_to_num(ratios(events, at_risk))
    return np.cumprod(1 - hazard, axis=-1, dtype=np.float64)


def resampling_units(runs: Durations, clusters: Column | None = None) -> Floats:
    """Each cluster's runs at risk, then its events, at each distinct time, for resampling.

    >>> resampling_units(durations([2, None, 3], [3, 3, 3]), ["a", "a", "b"])
    array([[2., 1., 1., 0.],
           [1., 1., 0., 1.]])
    """
    same_length(runs=runs.times, clusters=clusters)
    code = np.arange(len(runs.times)) if clusters is None else encode(clusters)[1]
    return np.hstack(life_table(runs, code)[1:])


def restricted_mean(runs: Durations, tau: float, clusters: Column | None = None) -> Estimate:
    """Area under the survival curve up to ``tau`` (Royston, Parmar 2013), by cluster.

    The standard error leaves out one cluster at a time; without clusters, one run at a time.

    >>> result = restricted_mean(durations([10, None, 30], [40, 40, 40]), tau=40)
    >>> round(result.value, 2), round(result.standard_error, 2)
    (26.67, 8.82)
    """
    last = runs.times.max()
    if last < tau and not runs.observed[runs.times == last].all():
        late = f"some runs were last seen without the event before turn {tau:g}"
        return Estimate(None, None, 0, late)
    found = jackknife(resampling_units(runs, clusters), _area_under(np.unique(runs.times), tau))
    return found if found.standard_error else replace(found, reason=NO_SPREAD)


def pseudo_values(runs: Durations, tau: float) -> Floats:
    """Pseudo-values of the restricted mean, whose mean it is (Andersen et al. 2004).

    Without censoring before ``tau`` they are the times, cut at ``tau``. They make a contrast of
    restricted means a paired contrast like any other.

    >>> pseudo_values(durations([10, None, 30], [40, 40, 40]), tau=20)
    array([10., 20., 20.])
    """
    kinds, place = np.unique(
        np.column_stack([runs.times, runs.observed]), axis=0, return_inverse=True
    )
    totals = resampling_units(Durations(kinds[:, 0], kinds[:, 1] > 0))
    n = len(runs.times)
    everything = np.bincount(place.ravel(), minlength=len(kinds)) @ totals
    area = _area_under(np.unique(runs.times), tau)
    with_all, without = area(everything[None, :])[0], area(everything - totals)
    return np.asarray(n * with_all - (n - 1) * without[place.ravel()])


def _area_under(times: Floats, tau: float) -> Statistic:
    """A statistic: the area under the survival curve up to tau, from runs at risk and events."""
    edges = np.minimum(np.concatenate([[0.0], times, [max(tau, times[-1])]]), tau)
    widths = np.diff(edges)

    def area(totals: Floats) -> Floats:
        at_risk, events = np.split(totals, 2, axis=1)
        return np.asarray(widths[0] + survival_shares(at_risk, events) @ widths[1:])

    return area


@dataclass(frozen=True, slots=True)
class LogRank:
    """Chi-square of the log-rank test; its p treats every run as independent."""

    chi2: float | None
    df: int
    p: float | None
    reason: str | None = None


def logrank(runs: Durations, groups: Column) -> LogRank:
    """Compare the survival curves of two or more groups (Mantel 1966, Peto 1972).

    >>> runs = durations([2, 3, 5, 9, None, 8], [9, 9, 9, 9, 9, 9])
    >>> result = logrank(runs, ["A", "A", "A", "B", "B", "B"])
    >>> round(result.chi2, 3), result.df, round(result.p, 3)
    (5.052, 1, 0.025)
    """
    same_length(runs=runs.times, groups=groups)
    names, code = encode(groups)
    df = len(names) - 1
    if df < 1 or not runs.observed.any():
        missing = "fewer than two groups" if df < 1 else "no run had the event"
        return LogRank(None, df, None, missing)
    _, at_risk, events = life_table(runs, code)
    chi2 = optional(float(_chi_squares(at_risk[None], events[None])[0]))
    if chi2 is None:
        return LogRank(None, df, None, "no event occurred while several groups were at risk")
    return LogRank(chi2, df, float(special.chdtrc(df, chi2)))


def logrank_permutation(
    runs: Durations,
    groups: Column,
    clusters: Column,
    *,
    rng: np.random.Generator,
    permutations: int = 2_000,
) -> float | None:
    """Permutation p-value of the log-rank statistic, with conditions exchanged within clusters.

    All repeats of a prompt under one condition move together, since they are not independent.

    >>> runs = durations([2, 3, 5, 9, None, 8], [9, 9, 9, 9, 9, 9])
    >>> groups, rng = ["A", "A", "A", "B", "B", "B"], np.random.default_rng(1)
    >>> round(logrank_permutation(runs, groups, [1, 2, 3, 1, 2, 3], rng=rng), 1)
    0.2
    """
    same_length(runs=runs.times, groups=groups, clusters=clusters)
    observed = logrank(runs, groups).chi2
    if observed is None:
        return None
    names, group = encode(groups)
    cells, cell_of_run = np.unique(
        np.column_stack([encode(clusters)[1], group]), axis=0, return_inverse=True
    )
    _, at_risk, events = life_table(runs, cell_of_run.ravel().astype(np.intp))
    shuffled = permute_within(cells[:, 1], cells[:, 0], permutations, rng)
    draws = []
    for labels in np.array_split(shuffled, 1 + permutations // 250):
        member = (labels[:, None, :] == np.arange(len(names))[:, None]).astype(np.float64)
        draws.append(_chi_squares(member @ at_risk, member @ events))
    return permutation_test(observed, np.concatenate(draws))


def _chi_squares(at_risk: Floats, events: Floats) -> Floats:
    """Log-rank statistics of many life tables, indexed by table, group and time."""
    risk, happened = at_risk.sum(axis=1, keepdims=True), events.sum(axis=1, keepdims=True)
    share = at_risk / risk
    excess = (events - happened * share).sum(axis=2)[:, :-1]
    spread = (happened * (risk - happened) / np.maximum(risk - 1, 1))[:, 0, :]
    mixed = -np.einsum("rt,rgt,rht->rgh", spread, share, share)
    own = np.einsum("rt,rgt->rg", spread, share)
    variance = (mixed + np.eye(share.shape[1]) * own[:, None, :])[:, :-1, :-1]
    # The pseudo-inverse leaves out a group without variance, never at risk along with others.
    inverse = np.linalg.pinv(variance, hermitian=True)
    chi2 = np.einsum("rg,rgh,rh->r", excess, inverse, excess)
    return np.where(np.trace(variance, axis1=1, axis2=2) > 1e-12, chi2, np.nan)
