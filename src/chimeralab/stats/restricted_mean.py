"""Mean time without the event up to a horizon: a headline that needs no proportional hazards."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from chimeralab.stats.arrays import Floats
from chimeralab.stats.design import Column
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import Bootstrap, Statistic, bootstrap, jackknife
from chimeralab.stats.survival import Durations, life_table, resampling_units, survival_shares


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


def restricted_mean_bootstrap(
    runs: Durations,
    tau: float,
    clusters: Column | None = None,
    *,
    rng: np.random.Generator,
    resamples: int = 10_000,
) -> Bootstrap:
    """95 % percentile interval of the restricted mean, whole clusters resampled.

    >>> from chimeralab.stats.survival import durations
    >>> runs = durations([10, None, 30], [40, 40, 40])
    >>> restricted_mean_bootstrap(runs, tau=40, rng=np.random.default_rng(1)).interval
    Interval(low=10.0, high=40.0)
    """
    units, area = resampling_units(runs, clusters), _area_under(np.unique(runs.times), tau)
    if _follow_up_ends_before(runs, tau):
        return Bootstrap(None, resamples, resamples)
    return bootstrap(units, area, rng=rng, resamples=resamples)


def pseudo_values(runs: Durations, tau: float) -> Floats:
    """One number a run whose mean is the restricted mean (Andersen et al. 2004).

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
