"""Numbers as functions of sums, so that one resampling of clusters gives all their intervals."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from chimeralab.sandbox.metrics.confidence import (
    Confidences,
    LevelCounts,
    calibration_rows,
    level_counts,
)
from chimeralab.sandbox.metrics.dfs import DfsSums, dfs_parts
from chimeralab.sandbox.metrics.gfq import GfqParts
from chimeralab.sandbox.metrics.mci import MciParts
from chimeralab.sandbox.metrics.pressure import PressureSums, toward_signal_rate
from chimeralab.stats.arrays import Floats, Integers, optional, ratios
from chimeralab.stats.design import Units, cluster_totals
from chimeralab.stats.intervals import Interval, percentile_interval, widened_level
from chimeralab.stats.resample import bootstrap_draws

MCI_NUMBERS = ("value", "rf", "ci", "cb", "ceiling")
GFQ_NUMBERS = ("value", "ta", "cta")

Statistic = Callable[[Floats], Mapping[str, Floats]]


class Sample(NamedTuple):
    """The sums of each cluster (rows), and the named numbers that follow from rows of sums."""

    totals: Floats
    numbers: Statistic


def values(sample: Sample) -> dict[str, float | None]:
    """The numbers of all clusters together."""
    found = sample.numbers(sample.totals.sum(axis=0, keepdims=True))
    return {name: optional(float(column[0])) for name, column in found.items()}


def intervals(
    sample: Sample, rng: np.random.Generator, resamples: int
) -> dict[str, Interval | None]:
    """A percentile interval of each number over resampled clusters; None where one has no draw.

    One cluster alone tells nothing about the spread between clusters.
    """
    names = tuple(sample.numbers(sample.totals[:1]))
    if len(sample.totals) < 2 or not resamples:
        return dict.fromkeys(names)
    units = Units(sample.totals, np.zeros(len(sample.totals), np.intp))
    draws = bootstrap_draws(
        units,
        lambda totals: np.column_stack(list(sample.numbers(totals).values())),
        rng=rng,
        resamples=resamples,
    )
    level = widened_level(len(sample.totals))
    return {name: _central(column, level) for name, column in zip(names, draws.T, strict=True)}


def session_sample(mci: MciParts, gfq: GfqParts, cluster: Integers) -> Sample:
    """Means over sessions. Parts are taken where their metric is defined, so that they add up."""
    columns = {
        **_where_defined("mci", {name: getattr(mci, name) for name in MCI_NUMBERS}),
        **_where_defined("gfq", {name: getattr(gfq, name) for name in GFQ_NUMBERS}),
        "cb_normalised": mci.cb_normalised,
        "generalisation_gap": gfq.gap,
    }
    return Sample(
        _sums_and_counts(np.column_stack(list(columns.values())), cluster),
        lambda totals: dict(zip(columns, _means(totals).T, strict=True)),
    )


def frame_sample(sums: DfsSums, weights: tuple[float, float]) -> Sample:
    """Decision frame stability over all pairs and trials."""

    def numbers(totals: Floats) -> dict[str, Floats]:
        value, fi, br, biased_only = dfs_parts(DfsSums(*totals.T), weights)
        return {"dfs": value, "dfs.fi": fi, "dfs.br": br, "br_biased_only": biased_only}

    return Sample(np.column_stack(sums), numbers)


def signal_sample(sums: PressureSums) -> Sample:
    """What signals did, over all trials."""
    return Sample(
        np.column_stack(sums),
        lambda totals: {"toward_signal_rate": toward_signal_rate(PressureSums(*totals.T))},
    )


def confidence_sample(answers: Confidences, clusters: int) -> Sample:
    """Calibration over all answers that state a confidence."""
    counts = level_counts(answers, clusters)
    half = len(counts.levels)

    def numbers(totals: Floats) -> dict[str, Floats]:
        rows = LevelCounts(counts.levels, totals[:, :half], totals[:, half:])
        return calibration_rows(rows)._asdict()

    return Sample(np.hstack([counts.wrong, counts.right]), numbers)


def _where_defined(metric: str, parts: dict[str, Floats]) -> dict[str, Floats]:
    defined = ~np.isnan(parts["value"])
    if defined.any():
        parts = {name: np.where(defined, column, np.nan) for name, column in parts.items()}
    return {metric if name == "value" else f"{metric}.{name}": c for name, c in parts.items()}


def _sums_and_counts(columns: Floats, cluster: Integers) -> Floats:
    known = ~np.isnan(columns)
    return cluster_totals(np.hstack([np.where(known, columns, 0.0), known]), cluster)


def _means(totals: Floats) -> Floats:
    half = totals.shape[1] // 2
    return ratios(totals[:, :half], totals[:, half:])


def _central(draws: Floats, level: float) -> Interval | None:
    defined = draws[~np.isnan(draws)]
    return percentile_interval(defined, level) if defined.size else None
