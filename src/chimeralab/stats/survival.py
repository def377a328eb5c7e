"""Time to the first collapse: survival curves, their restricted means, and the log-rank test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, encode, finite, optional, ratios, same_length
from chimeralab.stats.design import Column, Units
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import (
    PermutationTest,
    Statistic,
    bootstrap_draws,
    jackknife,
    permutation_test,
    permute_within,
)


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


@dataclass(frozen=True, slots=True)
class RestrictedMean:
    """Mean time without the event up to ``tau``, with a t interval over clusters."""

    tau: float
    value: float | None
    standard_error: float | None
    interval: Interval | None
    clusters: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def restricted_mean(
    runs: Durations, tau: float, clusters: Column | None = None, level: float = 0.95
) -> RestrictedMean:
    """Area under the survival curve up to ``tau`` (Royston, Parmar 2013), by cluster.

    The standard error leaves out one cluster at a time; without clusters, one run at a time.

    >>> from chimeralab.stats.survival import durations
    >>> result = restricted_mean(durations([10, None, 30], [40, 40, 40]), tau=40)
    >>> round(result.value, 2), round(result.standard_error, 2)
    (26.67, 8.82)
    """
    units, area = resampling_units(runs, clusters), _area_under(np.unique(runs.times), tau)
    if _follow_up_ends_before(runs, tau):
        late = f"some runs were last seen without the event before turn {tau:g}"
        undefined = dict.fromkeys(("value", "standard_error", "interval"), late)
        return RestrictedMean(tau, None, None, None, len(units.totals), undefined)
    result = jackknife(units, area)
    interval = result.interval(level) if result.standard_error else None
    reasons = {} if interval else {"interval": "needs two clusters that differ"}
    error = result.standard_error
    return RestrictedMean(tau, result.estimate, error, interval, len(units.totals), reasons)


def pseudo_values(runs: Durations, tau: float) -> Floats:
    """One number per run whose mean is the restricted mean (Andersen et al. 2004).

    Where nothing is censored before ``tau`` it is the time itself, cut at ``tau``. With these, a
    contrast of restricted means is a paired contrast like any other.

    >>> from chimeralab.stats.survival import durations
    >>> pseudo_values(durations([10, None, 30], [40, 40, 40]), tau=20)
    array([10., 20., 20.])
    """
    kinds, place = np.unique(
        np.column_stack([runs.times, runs.observed]), axis=0, return_inverse=True
    )
    one_of_each = life_table(
        Durations(kinds[:, 0], kinds[:, 1] > 0), np.arange(len(kinds), dtype=np.intp)
    )
    totals = np.hstack([one_of_each.at_risk, one_of_each.events])
    n = len(runs.times)
    everything = np.bincount(place.ravel(), minlength=len(kinds)) @ totals
    area = _area_under(one_of_each.times, tau)
    with_all, without = area(everything[None, :])[0], area(everything - totals)
    return np.asarray(n * with_all - (n - 1) * without[place.ravel()])


def _area_under(times: Floats, tau: float) -> Statistic:
    """Area under the survival curve up to tau, from sums of runs at risk and of events."""
    edges = np.minimum(np.concatenate([[0.0], times, [max(tau, times[-1])]]), tau)
    widths = np.diff(edges)

    def area(totals: Floats) -> Floats:
        at_risk, events = np.split(totals, 2, axis=1)
        return np.asarray(widths[0] + survival_shares(at_risk, events) @ widths[1:])

    return area


def _follow_up_ends_before(runs: Durations, tau: float) -> bool:
    last = runs.times.max()
    return bool(last < tau and not runs.observed[runs.times == last].all())


@dataclass(frozen=True, slots=True)
class LogRank:
    """Chi-square of the log-rank test; its p treats every run as independent."""

    chi2: float | None
    df: int
    p: float | None
    reason: str | None = None


def logrank(runs: Durations, groups: Column) -> LogRank:
    """Compare the survival curves of two or more groups (Mantel 1966, Peto 1972).

    >>> from chimeralab.stats.survival import durations
    >>> runs = durations([2, 3, 5, 9, None, 8], [9, 9, 9, 9, 9, 9])
    >>> result = logrank(runs, ["A", "A", "A", "B", "B", "B"])
    >>> round(result.chi2, 3), result.df, round(result.p, 3)
    (5.052, 1, 0.025)
    """
    same_length(runs=runs.times, groups=groups)
    code = encode(groups)
    df = len(code.names) - 1
    if df < 1 or not runs.observed.any():
        missing = "fewer than two groups" if df < 1 else "no run had the event"
        return LogRank(None, df, None, missing)
    times, at_risk, events = life_table(runs, code.codes)
    chi2 = optional(float(_chi_squares(LifeTable(times, at_risk[None], events[None]))[0]))
    if chi2 is None:
        return LogRank(None, df, None, "no event came while several groups were at risk")
    return LogRank(chi2, df, float(special.chdtrc(df, chi2)))


def logrank_permutation(
    runs: Durations,
    groups: Column,
    clusters: Column,
    *,
    rng: np.random.Generator,
    permutations: int = 2_000,
) -> PermutationTest | None:
    """P-value of the log-rank statistic when conditions change places within each cluster.

    All repeats of a prompt under one condition move together: they share whatever that prompt
    and condition have in common, so moving them one by one would overstate the evidence.

    >>> from chimeralab.stats.survival import durations
    >>> runs = durations([2, 3, 5, 9, None, 8], [9, 9, 9, 9, 9, 9])
    >>> groups, rng = ["A", "A", "A", "B", "B", "B"], np.random.default_rng(1)
    >>> round(logrank_permutation(runs, groups, [1, 2, 3, 1, 2, 3], rng=rng).p, 1)
    0.2
    """
    same_length(runs=runs.times, groups=groups, clusters=clusters)
    observed = logrank(runs, groups)
    if observed.chi2 is None:
        return None
    cells, cell_of_run = np.unique(
        np.column_stack([encode(clusters).codes, encode(groups).codes]),
        axis=0,
        return_inverse=True,
    )
    table = life_table(runs, cell_of_run.ravel().astype(np.intp))
    draws = [
        _chi_squares(_regroup(table, labels, observed.df + 1))
        for labels in np.array_split(
            permute_within(cells[:, 1], cells[:, 0], permutations, rng), 1 + permutations // 250
        )
    ]
    return permutation_test(observed.chi2, np.concatenate(draws))


def _regroup(table: LifeTable, labels: Integers, groups: int) -> LifeTable:
    """Life tables of the groups under each row of cell labels."""
    member = (labels[:, None, :] == np.arange(groups)[:, None]).astype(np.float64)
    return LifeTable(table.times, member @ table.at_risk, member @ table.events)


def _chi_squares(tables: LifeTable) -> Floats:
    """Log-rank statistics of many life tables, indexed by table, group and time."""
    _, at_risk, events = tables
    risk, happened = at_risk.sum(axis=1, keepdims=True), events.sum(axis=1, keepdims=True)
    share = at_risk / risk
    excess = (events - happened * share).sum(axis=2)[:, :-1]
    spread = (happened * (risk - happened) / np.maximum(risk - 1, 1))[:, 0, :]
    mixed = -np.einsum("rt,rgt,rht->rgh", spread, share, share)
    own = np.einsum("rt,rgt->rg", spread, share)
    variance = (mixed + np.eye(share.shape[1]) * own[:, None, :])[:, :-1, :-1]
    # A group that is never at risk with others has no variance; the pseudo-inverse leaves it out.
    inverse = np.linalg.pinv(variance, hermitian=True)
    chi2 = np.einsum("rg,rgh,rh->r", excess, inverse, excess)
    return np.where(np.trace(variance, axis1=1, axis2=2) > 1e-12, chi2, np.nan)
