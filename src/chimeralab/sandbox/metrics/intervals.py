"""Numbers as functions of sums, so that one resampling of clusters gives all their intervals."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from chimeralab.sandbox.metrics.companions import (
    ConfidenceCounts,
    LevelCounts,
    PressureSums,
    calibration_rows,
)
from chimeralab.sandbox.metrics.published import DfsSums, GfqParts, MciParts, dfs_parts
from chimeralab.stats.arrays import Floats, Integers, optional, ratios
from chimeralab.stats.design import Units, cluster_totals
from chimeralab.stats.intervals import Interval, percentile_interval, widened_level
from chimeralab.stats.resample import bootstrap_draws


class Estimator(NamedTuple):
    """The sums of each cluster (rows), and the named numbers that follow from rows of sums."""

    totals: Floats
    numbers: Callable[[Floats], Mapping[str, Floats]]

    def values(self) -> dict[str, float | None]:
        """The numbers of all clusters together."""
        found = self.numbers(self.totals.sum(axis=0, keepdims=True))
        return {name: optional(float(column[0])) for name, column in found.items()}

    def intervals(self, rng: np.random.Generator, resamples: int) -> dict[str, Interval | None]:
        """A percentile interval of each number over resampled clusters; None where none is defined.

        One cluster alone tells nothing about the spread between clusters.
        """
        names = tuple(self.numbers(self.totals[:1]))
        if len(self.totals) < 2 or not resamples:
            return dict.fromkeys(names)
        draws = bootstrap_draws(
            Units(self.totals, np.zeros(len(self.totals), np.intp)),
            lambda totals: np.column_stack(list(self.numbers(totals).values())),
            rng=rng,
            resamples=resamples,
        )
        level = widened_level(len(self.totals))
        defined = {name: c[~np.isnan(c)] for name, c in zip(names, draws.T, strict=True)}
        return {
            name: percentile_interval(column, level) if column.size else None
            for name, column in defined.items()
        }


def session_means(mci: MciParts, gfq: GfqParts, cluster: Integers) -> Estimator:
    """Means over sessions. Parts are taken where their metric is defined, so that they add up."""
    columns: dict[str, Floats] = {}
    for metric, parts, names in (
        ("mci", mci, ("rf", "ci", "cb", "ceiling")),
        ("gfq", gfq, ("ta", "cta")),
    ):
        defined = ~np.isnan(parts.value)
        columns[metric] = parts.value
        for name in names:
            part = getattr(parts, name)
            columns[f"{metric}.{name}"] = np.where(defined, part, np.nan) if defined.any() else part
    columns |= {"cb_normalised": mci.cb_normalised, "generalisation_gap": gfq.gap}
    table = np.column_stack(list(columns.values()))
    known = ~np.isnan(table)
    sums = np.hstack([np.where(known, table, 0.0), known])
    means = len(columns)
    return Estimator(
        cluster_totals(sums, cluster),
        lambda totals: dict(
            zip(columns, ratios(totals[:, :means], totals[:, means:]).T, strict=True)
        ),
    )


def frame_numbers(sums: DfsSums, weights: tuple[float, float]) -> Estimator:
    """Decision frame stability over all pairs and trials."""

    def numbers(totals: Floats) -> dict[str, Floats]:
        value, fi, br, biased_only = dfs_parts(DfsSums(*totals.T), weights)
        return {"dfs": value, "dfs.fi": fi, "dfs.br": br, "br_biased_only": biased_only}

    return Estimator(np.column_stack(sums), numbers)


def signal_numbers(sums: PressureSums) -> Estimator:
    """Share of misled answers among the trials with a misleading signal."""

    def numbers(totals: Floats) -> dict[str, Floats]:
        counts = PressureSums(*totals.T)
        return {"toward_signal_rate": ratios(counts.toward, counts.signalled)}

    return Estimator(np.column_stack(sums), numbers)


def calibrations(counts: ConfidenceCounts) -> tuple[Estimator, Estimator]:
    """Calibration over all answers that state a confidence, and over those on novel trials."""
    half = len(counts.levels)

    def numbers(totals: Floats) -> dict[str, Floats]:
        return calibration_rows(
            LevelCounts(counts.levels, totals[:, :half], totals[:, half:])
        )._asdict()

    def on_novel(totals: Floats) -> dict[str, Floats]:
        found = numbers(totals)
        return {f"{name}_novel": found[name] for name in ("brier", "auroc")}

    return (
        Estimator(np.hstack(counts.everywhere[1:]), numbers),
        Estimator(np.hstack(counts.novel[1:]), on_novel),
    )
