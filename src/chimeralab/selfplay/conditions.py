"""Summary, survival curve and recovery of a single condition, with intervals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chimeralab.core.records import Record
from chimeralab.selfplay.outcomes import Settings, per_run
from chimeralab.selfplay.runs import Run, Runs
from chimeralab.stats.clusters import (
    cluster_mean,
    mean_bootstrap,
    mean_bootstrap_t,
    share,
)
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import SampleDesign
from chimeralab.stats.survival import (
    durations,
    kaplan_meier,
    median_time,
    restricted_mean,
    survival_band,
)

ONE_PROMPT = "one seed prompt alone says nothing about others"
NO_SPREAD = "no variation between prompts"
UNJUDGED = "the loop detector has not judged every run; analyse the study itself"


@dataclass(frozen=True, slots=True)
class ConditionSummary(Record):
    """Estimates for one condition. ``mean``, ``median`` and ``sd`` are of the share of all turns.

    ``share_ci`` is a t interval over seed prompts on the log-odds scale, within 0 and 1;
    ``cluster_ci`` is the plain t interval. ``bootstrap_ci`` is a percentile interval and
    ``bootstrap_t_ci`` a studentised one over resampled prompts. ``se_ratio`` is the naive standard
    error over the clustered one. ``unseen_share`` is the share of runs with a cycle that the loop
    detector sees and the declared rule can't count; ``mean_if_seen`` is the mean if it did.
    """

    n: int
    seeds: int
    mean: float
    median: float
    sd: float | None
    se: float | None
    share_ci: Interval | None
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
    unseen_runs: int | None = None
    unseen_share: float | None = None
    unseen_ci: Interval | None = None
    mean_if_seen: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


def summarise(runs: Runs, settings: Settings) -> ConditionSummary:
    """Summarise runs that all belong to one condition."""
    level, hits = settings.level, (runs.collapsed > 0).astype(np.float64)
    numbers, reasons = _shares(runs, settings)
    at_risk, why_not = per_run(runs, "at_risk_share", tau=0)
    risk = None if at_risk is None else cluster_mean(at_risk, runs.seed, level)
    ever = share(hits, np.ones(len(hits)), SampleDesign(clusters=runs.seed), level)
    wait = restricted_mean(runs.durations, settings.tau, runs.seed)
    unknown = wait.reason if wait.value is None else None
    numbers |= {
        "at_risk_mean": risk.mean if risk else None,
        "at_risk_ci": risk.share_interval(level) if risk else None,
        "incidence": ever.value,
        "incidence_ci": ever.interval,
        "km_median": median_time(kaplan_meier(runs.durations)),
        "rmst": wait.value,
        "rmst_ci": wait.interval(level),
    }
    reasons |= {
        "at_risk_mean": why_not or "",
        "at_risk_ci": why_not or reasons["cluster_ci"] or NO_SPREAD,
        "incidence_ci": ONE_PROMPT,
        "km_median": "fewer than half of the runs had an onset while they were followed",
        "rmst": unknown or "",
        "rmst_ci": unknown or "needs two prompts that differ",
    }
    numbers |= _unseen(runs, level)
    reasons |= dict.fromkeys(("unseen_runs", "unseen_share", "unseen_ci", "mean_if_seen"), UNJUDGED)
    if numbers["unseen_runs"] is not None:
        reasons["unseen_ci"] = ONE_PROMPT
    missing = {name: reasons[name] for name, value in numbers.items() if value is None}
    return ConditionSummary(**numbers, reasons=missing)


def _unseen(runs: Runs, level: float) -> dict[str, Any]:
    """Estimate how many runs have a cycle that the rule can't count."""
    if np.isnan(runs.unseen).any():
        return dict.fromkeys(("unseen_runs", "unseen_share", "unseen_ci", "mean_if_seen"))
    hits = (runs.unseen > 0).astype(np.float64)
    found = share(hits, np.ones(len(hits)), SampleDesign(clusters=runs.seed), level)
    return {
        "unseen_runs": found.hits,
        "unseen_share": found.value,
        "unseen_ci": found.interval,
        "mean_if_seen": float(((runs.collapsed + runs.unseen) / runs.turns).mean()),
    }


def _shares(runs: Runs, settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    """Estimate the share of collapsed turns with its intervals, and why any is missing."""
    rates, level = runs.collapsed / runs.turns, settings.level
    mean = cluster_mean(rates, runs.seed, level)
    percentile = studentised = None
    # Without variation between prompts the error is unknown, not 0.
    if mean.standard_error:
        rng, size = settings.stream("condition", str(runs.condition[0])), settings.resamples
        percentile, studentised = (
            draw(rates, runs.seed, rng=rng, resamples=size, level=level)
            for draw in (mean_bootstrap, mean_bootstrap_t)
        )
    numbers = {
        "n": mean.n,
        "seeds": mean.clusters,
        "mean": mean.mean,
        "median": float(np.median(rates)),
        "sd": float(rates.std(ddof=1)) if mean.n > 1 else None,
        "se": mean.standard_error or None,
        "share_ci": mean.share_interval(level),
        "cluster_ci": mean.interval,
        "bootstrap_ci": percentile,
        "bootstrap_t_ci": studentised,
        "icc": mean.icc,
        "design_effect": mean.design_effect,
        "se_ratio": mean.se_ratio,
    }
    alike = "" if mean.interval else (NO_SPREAD if mean.clusters > 1 else ONE_PROMPT)
    reasons = dict.fromkeys(("se", "share_ci", "cluster_ci", "bootstrap_ci", "se_ratio"), alike)
    few = "needs two prompts, repeats of one, and values that differ"
    reasons |= dict.fromkeys(("icc", "design_effect"), few)
    reasons |= {
        "sd": "one run has no spread",
        "bootstrap_t_ci": alike or "in no resample do the prompts differ",
    }
    return numbers, reasons


NO_TURNS = "the table has no episodes; analyse the study itself"
NO_ONSET = "no run had an onset"


@dataclass(frozen=True, slots=True)
class AfterOnset(Record):
    """What happens to runs after their first collapse.

    A run recovered if any later turn is not collapsed. ``dwell_share`` is the mean share of
    collapsed turns from the onset on. ``dwell_median`` is the length of an episode in turns, with
    those that last to the end of their run censored. ``relapsed_runs`` counts recovered runs that
    collapsed again.
    """

    runs: int
    collapsed_runs: int
    recovered_runs: int
    recovered_share: float | None
    recovered_ci: Interval | None
    dwell_share: float | None
    episodes: int | None
    episodes_per_run: float | None
    dwell_median: float | None
    relapsed_runs: int | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def after_onset(runs: Runs, level: float = 0.95) -> AfterOnset:
    """Summarise the runs of one condition after their onset; episodes may be unknown."""
    happened = ~np.isnan(runs.first)
    left = (runs.turns - runs.first + 1)[happened]
    collapsed = runs.collapsed[happened]
    recovered = (collapsed < left).astype(np.float64)
    found = share(
        recovered, np.ones(len(recovered)), SampleDesign(clusters=runs.seed[happened]), level
    )
    known, unknown = _episodes(runs.rows)
    why = {}
    if found.value is None:
        why = dict.fromkeys(("recovered_share", "recovered_ci", "dwell_share"), NO_ONSET)
    elif found.interval is None:
        why["recovered_ci"] = "the runs with an onset come from one seed prompt alone"
    return AfterOnset(
        runs=len(runs.rows),
        collapsed_runs=int(happened.sum()),
        recovered_runs=found.hits,
        recovered_share=found.value,
        recovered_ci=found.interval,
        dwell_share=float((collapsed / left).mean()) if len(left) else None,
        **known,
        reasons=why | unknown,
    )


def _episodes(rows: Iterable[Run]) -> tuple[dict[str, Any], dict[str, str]]:
    """Count the episodes and estimate their length, with reasons for what is unknown."""
    names = ("episodes", "episodes_per_run", "dwell_median", "relapsed_runs")
    turns, ended, by_run = [], [], []
    for row in rows:
        if row.episodes is None:
            return dict.fromkeys(names), dict.fromkeys(names, NO_TURNS)
        turns += [episode.turns for episode in row.episodes]
        ended += [episode.end < row.total_turns for episode in row.episodes]
        by_run += [len(row.episodes)] if row.episodes else []
    if not by_run:
        none = dict.fromkeys(("episodes_per_run", "dwell_median"), NO_ONSET)
        return dict(zip(names, (0, None, None, 0), strict=True)), none
    lengths = np.array(turns, float)
    ends = np.where(ended, lengths, np.nan)
    median = median_time(kaplan_meier(durations(ends, lengths)))
    relapsed = sum(count > 1 for count in by_run)
    found = (len(turns), len(turns) / len(by_run), median, relapsed)
    late = {"dwell_median": "fewer than half of the episodes ended before their runs did"}
    return dict(zip(names, found, strict=True)), late if median is None else {}


BAND_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class OnsetCurve(Record):
    """Share of runs without a collapse after each turn, from turn 0, with pointwise intervals.

    ``at_risk`` counts the runs without a collapse that were followed up to that turn.
    """

    turns: tuple[float, ...]
    survival: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    at_risk: tuple[int, ...]
    censored: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def estimate_curve(runs: Runs, settings: Settings) -> OnsetCurve:
    """Estimate the survival curve of one condition (Kaplan-Meier)."""
    followed = runs.durations
    found = kaplan_meier(followed)
    low, high, reasons = None, None, {}
    if len(np.unique(runs.seed)) < 2:
        reasons = dict.fromkeys(("low", "high"), ONE_PROMPT)
    else:
        rng = settings.stream("curve", str(runs.condition[0]))
        size = min(settings.resamples, BAND_RESAMPLES)
        band = survival_band(followed, runs.seed, rng=rng, resamples=size, level=settings.level)
        low, high = ((1.0, *side.tolist()) for side in band)
    return OnsetCurve(
        turns=(0.0, *found.times.tolist()),
        survival=(1.0, *found.survival.tolist()),
        low=low,
        high=high,
        at_risk=(len(runs.rows), *(int(count) for count in found.at_risk)),
        censored=int((~followed.observed).sum()),
        reasons=reasons,
    )
