"""One condition by itself: how much collapses, how often, how soon, and how sure that is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chimeralab.analysis.measures import per_run
from chimeralab.analysis.runs import Runs
from chimeralab.analysis.settings import Settings
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import ClusterMean, cluster_mean, mean_bootstrap, mean_bootstrap_t
from chimeralab.stats.design import Design
from chimeralab.stats.intervals import Interval
from chimeralab.stats.restricted_mean import restricted_mean
from chimeralab.stats.shares import share
from chimeralab.stats.survival import kaplan_meier, median_time


@dataclass(frozen=True, slots=True)
class ConditionSummary(Record):
    """The runs of one condition. ``mean``, ``median`` and ``sd`` are of the share of all turns.

    ``cluster_ci`` is a t interval over seed prompts, ``bootstrap_ci`` a percentile interval and
    ``bootstrap_t_ci`` a studentised one over resampled prompts. ``se_ratio`` is the standard error
    of an analysis that takes runs for independent, over the clustered one.
    """

    n: int
    seeds: int
    mean: float
    median: float
    sd: float | None
    se: float | None
    cluster_ci: Interval | None
    bootstrap_ci: Interval | None
    bootstrap_t_ci: Interval | None
    icc: float | None
    design_effect: float | None
    se_ratio: float | None
    at_risk_mean: float | None
    at_risk_ci: Interval | None
    incidence: float
    incidence_ci: Interval | None
    km_median: float | None
    rmst: float | None
    rmst_ci: Interval | None
    reasons: Mapping[str, str] = field(default_factory=dict)


class Piece(NamedTuple):
    """Some numbers of a summary, and why any of them is missing."""

    numbers: Mapping[str, Any]
    reasons: Mapping[str, str]


def summarise(runs: Runs, settings: Settings) -> ConditionSummary:
    """Summarise runs that all belong to one condition."""
    pieces = (
        _shares(runs, settings),
        _at_risk(runs, settings.level),
        _incidence(runs, settings.level),
        _first_collapse(runs, settings),
    )
    numbers = {name: value for piece in pieces for name, value in piece.numbers.items()}
    reasons = {name: why for piece in pieces for name, why in piece.reasons.items()}
    missing = {name: reasons[name] for name, value in numbers.items() if value is None}
    return ConditionSummary(**numbers, reasons=missing)


def _shares(runs: Runs, settings: Settings) -> Piece:
    rates = runs.collapsed / runs.turns
    mean = cluster_mean(rates, runs.seed, settings.level)
    clusters = mean.reasons.get("interval", "")
    numbers = {
        "n": mean.n,
        "seeds": mean.clusters,
        "mean": mean.mean,
        "median": float(np.median(rates)),
        "sd": float(rates.std(ddof=1)) if mean.n > 1 else None,
        # Prompts that do not differ say nothing about the error, least of all that it is 0.
        "se": mean.standard_error or None,
        "cluster_ci": mean.interval,
        "icc": mean.icc,
        "design_effect": mean.design_effect,
        "se_ratio": mean.se_ratio,
        **_resampled(runs, rates, mean, settings),
    }
    reasons = {
        **mean.reasons,
        "sd": "one run has no spread",
        "se": clusters,
        "cluster_ci": clusters,
        "bootstrap_ci": clusters,
        "bootstrap_t_ci": clusters or "in no resample do the prompts differ",
    }
    return Piece(numbers, reasons)


def _resampled(
    runs: Runs, rates: Floats, mean: ClusterMean, settings: Settings
) -> dict[str, Interval | None]:
    """Intervals over resampled prompts; where prompts do not differ they would claim certainty."""
    if not mean.standard_error:
        return {"bootstrap_ci": None, "bootstrap_t_ci": None}
    rng = settings.stream("condition", str(runs.condition[0]))
    size, level = settings.resamples, settings.level
    percentile = mean_bootstrap(rates, runs.seed, rng=rng, resamples=size, level=level)
    studentised = mean_bootstrap_t(rates, runs.seed, rng=rng, resamples=size, level=level)
    return {"bootstrap_ci": percentile.interval, "bootstrap_t_ci": studentised.interval}


def _at_risk(runs: Runs, level: float) -> Piece:
    values, reason = per_run(runs, "at_risk_share", tau=0)
    if values is None:
        names = ("at_risk_mean", "at_risk_ci")
        return Piece(dict.fromkeys(names), dict.fromkeys(names, reason or ""))
    mean = cluster_mean(values, runs.seed, level)
    numbers = {"at_risk_mean": mean.mean, "at_risk_ci": mean.interval}
    return Piece(numbers, {"at_risk_ci": mean.reasons.get("interval", "")})


def _incidence(runs: Runs, level: float) -> Piece:
    hits = (runs.collapsed > 0).astype(np.float64)
    found = share(hits, np.ones(len(hits)), Design(clusters=runs.seed), level)
    numbers = {"incidence": found.value, "incidence_ci": found.interval}
    return Piece(numbers, {"incidence_ci": "one seed prompt alone tells nothing about others"})


def _first_collapse(runs: Runs, settings: Settings) -> Piece:
    mean = restricted_mean(runs.durations, settings.tau, runs.seed, settings.level)
    median = median_time(kaplan_meier(runs.durations))
    numbers = {"km_median": median, "rmst": mean.value, "rmst_ci": mean.interval}
    reasons = {
        "km_median": "fewer than half of the runs collapsed while they were followed",
        "rmst": mean.reasons.get("value", ""),
        "rmst_ci": mean.reasons.get("interval", ""),
    }
    return Piece(numbers, reasons)
