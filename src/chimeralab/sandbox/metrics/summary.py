"""From sums to records: every number with its interval, or with the reason why there is none."""

from typing import Any, NamedTuple

import numpy as np

from chimeralab.sandbox.metrics.confidence import calibrated
from chimeralab.sandbox.metrics.gathered import ByCluster, Gathered
from chimeralab.sandbox.metrics.gfq import gfq_parts
from chimeralab.sandbox.metrics.mci import MciSums, mci_parts
from chimeralab.sandbox.metrics.pressure import PressureSums
from chimeralab.sandbox.metrics.reasons import PARTS, REASONS, reason_for
from chimeralab.sandbox.metrics.records import (
    Companions,
    Coverage,
    Dfs,
    Gfq,
    Mci,
    Metrics,
    Number,
)
from chimeralab.sandbox.metrics.samples import (
    Sample,
    confidence_sample,
    frame_sample,
    intervals,
    session_sample,
    signal_sample,
    values,
)
from chimeralab.sandbox.metrics.weights import MetricWeights
from chimeralab.stats.arrays import Floats
from chimeralab.stats.intervals import Interval, mcnemar_exact

MCNEMAR = ("mcnemar_b", "mcnemar_c", "mcnemar_p")


class Estimates(NamedTuple):
    """Every number by its name, and its interval."""

    values: dict[str, Number]
    intervals: dict[str, Interval | None]


class Resampling(NamedTuple):
    """How intervals are drawn; without resamples there are none."""

    rng: np.random.Generator
    resamples: int


def summarise(
    gathered: Gathered,
    weights: MetricWeights,
    resampling: Resampling,
    notes: tuple[str, ...] = (),
) -> Metrics:
    """All that the sums say."""
    by_session, by_cluster = gathered.by_session, gathered.by_cluster
    mci, gfq = mci_parts(by_session.mci, weights.mci), gfq_parts(by_session.gfq, weights.gfq)
    found = _estimates(
        session_sample(mci, gfq, by_session.cluster), by_cluster, weights, resampling
    )
    mcnemar = _mcnemar(by_cluster.pressure)
    clusters = {"sessions": len(np.unique(by_session.cluster)), "trials": by_cluster.clusters}
    ceiling = found.values["mci.ceiling"]
    return Metrics(
        sessions=len(by_session.cluster),
        trials=gathered.trials,
        mci=Mci(**_metric("mci", found), ceiling=ceiling, sessions=_defined(mci.value)),
        gfq=Gfq(**_metric("gfq", found), sessions=_defined(gfq.value)),
        dfs=Dfs(**_metric("dfs", found), **_dfs_counts(gathered)),
        companions=_companions(found, mcnemar),
        undefined=_undefined(found.values | mcnemar, found.intervals, clusters),
        coverage=_coverage(by_session.mci),
        clusters=clusters,
        weights=weights,
        resamples=resampling.resamples,
        notes=notes,
    )


def _estimates(
    sessions: Sample, by_cluster: ByCluster, weights: MetricWeights, resampling: Resampling
) -> Estimates:
    sums = (sessions, frame_sample(by_cluster.dfs, weights.dfs), signal_sample(by_cluster.pressure))
    answers, novel = by_cluster.confidences, by_cluster.novel_confidences
    everywhere, there = calibrated(answers), calibrated(novel)
    found = {name: value for sample in sums for name, value in values(sample).items()}
    found |= {name: getattr(everywhere, name) for name in ("ece", "brier", "auroc")}
    found |= {"brier_novel": there.brier, "auroc_novel": there.auroc}
    samples = (*sums, confidence_sample(answers, by_cluster.clusters))
    drawn = {k: v for sample in samples for k, v in intervals(sample, *resampling).items()}
    on_novel = intervals(confidence_sample(novel, by_cluster.clusters), *resampling)
    drawn |= {"brier_novel": on_novel["brier"], "auroc_novel": on_novel["auroc"]}
    return Estimates(found, drawn)


def _metric(metric: str, found: Estimates) -> dict[str, Any]:
    parts = PARTS[metric]
    return {
        "value": found.values[metric],
        "interval": found.intervals[metric],
        "part_intervals": {part: found.intervals[f"{metric}.{part}"] for part in parts},
        **{part: found.values[f"{metric}.{part}"] for part in parts},
    }


def _dfs_counts(gathered: Gathered) -> dict[str, Any]:
    sums = gathered.by_cluster.dfs
    pairs = int(sums.pairs.sum())
    return {
        "pairs": pairs,
        "unanswered": gathered.matched - pairs,
        "unpaired": gathered.unpaired,
        "trials": int(sums.trials.sum()),
    }


def _mcnemar(pressure: PressureSums) -> dict[str, Any]:
    if not pressure.compared.sum():
        return dict.fromkeys(MCNEMAR)
    b, c = int(pressure.b.sum()), int(pressure.c.sum())
    return dict(zip(MCNEMAR, (b, c, mcnemar_exact(b, c)), strict=True))


def _companions(found: Estimates, mcnemar: dict[str, Any]) -> Companions:
    names = [name for name in REASONS if name in found.values and "." not in name]
    plain: dict[str, Any] = {name: found.values[name] for name in names}
    drawn = {name: found.intervals[name] for name in names}
    return Companions(**plain, **mcnemar, interval=drawn)


def _undefined(
    numbers: dict[str, Number], drawn: dict[str, Interval | None], clusters: dict[str, int]
) -> dict[str, str]:
    why = {name: reason_for(name, numbers) for name, value in numbers.items() if value is None}
    for metric, unit in (("mci", "sessions"), ("gfq", "sessions"), ("dfs", "trials")):
        if numbers[metric] is not None and drawn[metric] is None:
            alone = f"the {unit} form one cluster, which tells nothing about the spread"
            asked = alone if clusters[unit] < 2 else "no resamples were asked for"
            why[f"{metric}.interval"] = asked
    return why


def _coverage(sums: MciSums) -> Coverage:
    return Coverage(
        correct=int(sums.judged.sum()),
        confidence=int(sums.stated.sum()),
        weight=int(sums.weighed.sum()),
    )


def _defined(column: Floats) -> int:
    return int((~np.isnan(column)).sum())
