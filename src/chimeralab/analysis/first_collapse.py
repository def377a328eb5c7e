"""How soon the first collapse comes: survival curves, and whether they differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from chimeralab.analysis.runs import Runs
from chimeralab.analysis.settings import Settings
from chimeralab.core.records import Record
from chimeralab.stats.logrank import LogRank, logrank, logrank_permutation
from chimeralab.stats.survival import kaplan_meier, survival_band

NAIVE = "naive: takes every run for independent; read permutation_p instead"
BAND_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Curve(Record):
    """Share of runs without a collapse after each turn, from turn 0, with a pointwise interval.

    ``at_risk`` counts the runs that were still followed without a collapse before that turn.
    """

    turns: tuple[float, ...]
    survival: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    at_risk: tuple[int, ...]
    censored: int
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogRankTest(Record):
    """Do the curves of these conditions differ? ``p`` ignores that repeats share a prompt."""

    conditions: tuple[str, ...]
    chi2: float | None
    df: int
    p: float | None
    p_kind: str
    permutation_p: float | None
    permutations: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def curve(runs: Runs, settings: Settings) -> Curve:
    """The survival curve of one condition's runs."""
    followed = runs.durations
    found = kaplan_meier(followed)
    low, high, reasons = None, None, {}
    if len(np.unique(runs.seed)) < 2:
        reasons = dict.fromkeys(("low", "high"), "one seed prompt alone tells nothing of others")
    else:
        rng = settings.stream("curve", str(runs.condition[0]))
        size = min(settings.resamples, BAND_RESAMPLES)
        band = survival_band(followed, runs.seed, rng=rng, resamples=size, level=settings.level)
        low, high = ((1.0, *side.tolist()) for side in (band.low, band.high))
    return Curve(
        turns=(0.0, *found.times.tolist()),
        survival=(1.0, *found.survival.tolist()),
        low=low,
        high=high,
        at_risk=(len(runs.rows), *(int(count) for count in found.at_risk)),
        censored=int((~followed.observed).sum()),
        reasons=reasons,
    )


def log_rank(runs: Runs, settings: Settings) -> LogRankTest:
    """The log-rank test over every condition of the table."""
    followed = runs.durations
    found = logrank(followed, runs.condition)
    permuted, reasons = None, _reasons(found)
    if found.chi2 is not None and not _sides_share_prompts(runs):
        reasons["permutation_p"] = "no seed prompt has runs under two of the conditions"
    elif found.chi2 is not None:
        rng = settings.stream("log-rank", *runs.conditions)
        size = settings.permutations
        test = logrank_permutation(followed, runs.condition, runs.seed, rng=rng, permutations=size)
        permuted = test.p if test else None
    return LogRankTest(
        conditions=runs.conditions,
        chi2=found.chi2,
        df=found.df,
        p=found.p,
        p_kind=NAIVE,
        permutation_p=permuted,
        permutations=settings.permutations,
        reasons=reasons,
    )


def log_rank_pairs(runs: Runs, order: Sequence[str], settings: Settings) -> tuple[LogRankTest, ...]:
    """The same for every pair of conditions."""
    return tuple(log_rank(runs.under(a, b), settings) for a, b in combinations(order, 2))


def _sides_share_prompts(runs: Runs) -> bool:
    return len(runs.cell_sizes) > len(np.unique(runs.seed))


def _reasons(found: LogRank) -> dict[str, str]:
    if found.chi2 is not None:
        return {}
    return dict.fromkeys(("chi2", "p", "permutation_p"), found.reason or "")
