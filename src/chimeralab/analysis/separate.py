"""Comparisons across sets of prompts that have none in common: each set has its own spread."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.comparisons import Comparison, Weights, adjusted, sides, undefined
from chimeralab.analysis.estimands import Measure
from chimeralab.analysis.measures import per_run
from chimeralab.analysis.runs import Runs
from chimeralab.analysis.settings import Settings
from chimeralab.stats.arrays import Floats, ratios
from chimeralab.stats.cells import Cells, cells_of
from chimeralab.stats.clusters import cluster_mean
from chimeralab.stats.contrasts import (
    Difference,
    NaiveContrast,
    differences,
    independent_difference,
    naive_contrast,
)
from chimeralab.stats.design import Units
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import bootstrap

NOTHING_TO_EXCHANGE = "the prompts differ, so there is nothing to exchange within them"


class Halves(NamedTuple):
    """A contrast whose positive half was run on some prompts and the negative half on others."""

    first: Weights
    second: Weights

    @property
    def weights(self) -> Weights:
        return {**self.first, **self.second}


def separate_family(
    runs: Runs, measure: Measure, contrasts: Sequence[Halves], settings: Settings
) -> tuple[Comparison, ...]:
    """Comparisons of means over separate prompts, their p-values adjusted together."""
    values, reason = per_run(runs, measure, settings.tau)
    if values is None:
        return tuple(undefined(halves.weights, measure, reason or "") for halves in contrasts)
    cells = cells_of(values, runs.condition, runs.seed)
    return adjusted([_compared(cells, halves, measure, settings) for halves in contrasts])


def _compared(cells: Cells, halves: Halves, measure: Measure, settings: Settings) -> Comparison:
    if not all(cells.columns(list(half)).clusters for half in halves):
        return undefined(halves.weights, measure, "no prompt has a run on all of one side")
    changes = [differences(cells, half) for half in halves]
    means = [cluster_mean(change, np.arange(len(change)), settings.level) for change in changes]
    # The second half carries its minus sign in its weights: what is subtracted is its opposite.
    opposite = replace(means[1], mean=-means[1].mean)
    found = independent_difference(means[0], opposite, settings.level)
    naive = _naive(cells, halves)
    a, b = sides(halves.weights)
    return Comparison(
        a=a,
        b=b,
        weights=dict(halves.weights),
        measure=measure,
        difference=found.estimate,
        ci=found.interval,
        bootstrap_ci=_bootstrap(changes, halves, settings) if found.interval else None,
        p=found.p,
        p_holm=None,
        naive_p=naive.p if naive else None,
        permutation_p=None,
        se_ratio=_se_ratio(naive, found),
        seeds=sum(map(len, changes)),
        left_out=0,
        reasons=_reasons(found, naive),
    )


def _naive(cells: Cells, halves: Halves) -> NaiveContrast | None:
    """Both halves as if every run were independent (Welch 1947)."""
    parts = [naive_contrast(cells, half) for half in halves]
    known = [part for part in parts if part is not None]
    if len(known) < 2:
        return None
    variances = np.array([part.standard_error**2 for part in known])
    df = variances.sum() ** 2 / sum(
        variance**2 / part.df for variance, part in zip(variances, known, strict=True)
    )
    estimate = sum(part.estimate for part in known)
    return NaiveContrast(estimate, float(variances.sum() ** 0.5), float(df))


def _se_ratio(naive: NaiveContrast | None, found: Difference) -> float | None:
    if naive is None or found.standard_error is None:
        return None
    return naive.standard_error / found.standard_error


def _bootstrap(changes: Sequence[Floats], halves: Halves, settings: Settings) -> Interval | None:
    """Percentile interval, the prompts of each half resampled among themselves."""
    first, second = changes
    totals = np.zeros((len(first) + len(second), 4))
    totals[: len(first), :2] = np.column_stack([first, np.ones(len(first))])
    totals[len(first) :, 2:] = np.column_stack([second, np.ones(len(second))])
    half = np.repeat(np.arange(2), [len(first), len(second)])
    found = bootstrap(
        Units(totals, half),
        lambda sums: ratios(sums[:, 0], sums[:, 1]) + ratios(sums[:, 2], sums[:, 3]),
        rng=settings.stream("separate", *halves.weights),
        resamples=settings.resamples,
        level=settings.level,
    )
    return found.interval


def _reasons(found: Difference, naive: NaiveContrast | None) -> dict[str, str]:
    why = {"permutation_p": NOTHING_TO_EXCHANGE}
    if found.reason:
        why |= dict.fromkeys(("ci", "bootstrap_ci", "p", "p_holm", "se_ratio"), found.reason)
    if naive is None:
        why |= dict.fromkeys(("naive_p", "se_ratio"), "the runs of a side do not differ at all")
    return why
