"""MCI, GFQ and DFS as published, each with an interval or the reason why it is undefined."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats, Integers, optional, ratios
from chimeralab.stats.calibration import calibration_rows
from chimeralab.stats.intervals import (
    Interval,
    expand_level,
    mcnemar_exact,
    percentile_interval,
)
from chimeralab.stats.resample import bootstrap, cluster_totals
from chimeralab.trial.columns import NO_LABEL, TrialColumns
from chimeralab.trial.measures import COMPANION_TEXTS, PARTS, Number, explain_undefined
from chimeralab.trial.sums import (
    MAX_LEVELS,
    Block,
    LevelTable,
    Sums,
    cluster_codes,
    dfs_parts,
    frame_sums,
    gfq_parts,
    join_counts,
    level_counts,
    mci_parts,
    merge_clusters,
    pressure_sums,
    session_sums,
    split_blocks,
)

Intervals = Mapping[str, Interval | None]
# Sums per cluster, and a function from rows of sums to named numbers: one resampling of clusters
# gives the intervals of all of them.
Estimator = tuple[Floats, Callable[[Floats], Mapping[str, Floats]]]
# The sums that count the trials with a value in a column.
COVERAGE = {"correct": "judged", "confidence": "stated", "weight": "weighed"}


@dataclass(frozen=True, slots=True)
class MetricWeights(Record):
    """The weights of the parts in each metric, by default as published.

    ``mci`` weighs recall fidelity, continuity integrity and context binding; ``gfq`` task accuracy
    and confidence-task agreement; ``dfs`` frame invariance and bias resistance.
    """

    mci: tuple[float, float, float] = (0.4, 0.3, 0.3)
    gfq: tuple[float, float] = (0.6, 0.4)
    dfs: tuple[float, float] = (0.5, 0.5)

    def __post_init__(self) -> None:
        for name in ("mci", "gfq", "dfs"):
            weights = getattr(self, name)
            shown = " ".join(f"{weight:g}" for weight in weights)
            total = sum(weights)
            if not all(0 <= weight <= 1 for weight in weights):
                raise InputError(f"{name} weights {shown}: each must be between 0 and 1")
            if not math.isclose(total, 1, abs_tol=1e-9):
                raise InputError(f"{name} weights {shown}: they must sum to 1, not {total:g}")


@dataclass(frozen=True, slots=True)
class Mci(Record):
    """Memory Coherence Index: mean over the sessions that define it."""

    value: Number
    rf: Number
    ci: Number
    cb: Number
    ceiling: Number
    sessions: int
    interval: Interval | None
    part_intervals: Intervals


@dataclass(frozen=True, slots=True)
class Gfq(Record):
    """Generalization Fidelity Quotient: mean over the sessions that define it."""

    value: Number
    ta: Number
    cta: Number
    sessions: int
    interval: Interval | None
    part_intervals: Intervals


@dataclass(frozen=True, slots=True)
class Dfs(Record):
    """Decision Frame Stability over all pairs and trials.

    ``pairs`` are matched and answered, ``unanswered`` matched but not both answered, ``unpaired``
    single members; ``trials`` is the N of bias resistance.
    """

    value: Number
    fi: Number
    br: Number
    pairs: int
    unanswered: int
    unpaired: int
    trials: int
    interval: Interval | None
    part_intervals: Intervals


@dataclass(frozen=True, slots=True)
class Companions(Record):
    """Numbers that show what the three metrics hide.

    To add one, add a field here, its text to `measures.toml`, and a number of that name to the
    estimators of `measure`.
    """

    cb_normalised: Number
    ece: Number
    brier: Number
    auroc: Number
    brier_novel: Number
    auroc_novel: Number
    generalisation_gap: Number
    br_biased_only: Number
    toward_signal_rate: Number
    mcnemar_b: int | None
    mcnemar_c: int | None
    mcnemar_p: Number
    interval: Intervals


@dataclass(frozen=True, slots=True)
class Metrics(Record):
    """The metrics of a set of trials.

    ``undefined`` has the reason for every number that is None, ``coverage`` the number of trials
    with a value in each column.
    """

    sessions: int
    trials: int
    mci: Mci
    gfq: Gfq
    dfs: Dfs
    companions: Companions
    undefined: Mapping[str, str]
    coverage: Mapping[str, int]
    clusters: Mapping[str, int]
    weights: MetricWeights
    resamples: int
    notes: tuple[str, ...] = ()


PUBLISHED = MetricWeights()


def measure(
    columns: TrialColumns,
    weights: MetricWeights = PUBLISHED,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """Compute every metric and companion, with cluster-bootstrap intervals."""
    parts = split_blocks(columns)
    session_cluster, cluster, lengths = _clusters(parts)
    found = [
        (session_sums(each), frame_sums(each), pressure_sums(each), level_counts(each.columns))
        for each in parts
    ]
    by_session, by_frame, by_signal, by_level = zip(*found, strict=True)
    sessions = _join(by_session)
    frames, pressure = (_join(each, cluster) for each in (by_frame, by_signal))
    means = _session_numbers(sessions, weights)
    clusters = {"sessions": len(np.unique(session_cluster)), "trials": len(frames["pairs"])}
    estimators = [
        _mean_estimator(means, session_cluster),
        _estimator(frames, lambda totals: dfs_parts(totals, weights.dfs)),
        _estimator(pressure, _signal_rate),
    ]
    levels = join_counts(by_level)
    values = values_of([*estimators, *calibrations(levels)]) | _mcnemar(pressure)
    if resamples:
        levels = level_counts(columns, np.repeat(cluster, lengths), clusters["trials"], MAX_LEVELS)
    rng = rng or np.random.default_rng(0)
    intervals: dict[str, Interval | None] = {}
    for estimator in (*estimators, *calibrations(levels)):
        intervals |= intervals_of(estimator, rng, resamples)
    return Metrics(
        sessions=len(session_cluster),
        trials=len(columns),
        mci=Mci(
            **_metric("mci", values, intervals),
            ceiling=values["mci.ceiling"],
            sessions=_count_defined(means["mci"]),
        ),
        gfq=Gfq(**_metric("gfq", values, intervals), sessions=_count_defined(means["gfq"])),
        dfs=Dfs(**_metric("dfs", values, intervals), **_pair_counts(parts, frames)),
        companions=_companions(values, intervals),
        undefined=explain_undefined(values, intervals, clusters),
        coverage={name: int(sessions[counted].sum()) for name, counted in COVERAGE.items()},
        clusters=clusters,
        weights=weights,
        resamples=resamples,
        notes=(
            *_anomalies(columns),
            *_note_uneven_parts("mci", means),
            *_note_uneven_parts("gfq", means),
        ),
    )


def _pair_counts(parts: Sequence[Block], frames: Sums) -> dict[str, Any]:
    """The pairs that count in DFS, and those that don't."""
    answered = int(frames["pairs"].sum())
    return {
        "pairs": answered,
        "unanswered": sum(len(each.neutral) for each in parts) - answered,
        "unpaired": sum(each.unpaired for each in parts),
        "trials": int(frames["trials"].sum()),
    }


def values_of(estimators: Sequence[Estimator]) -> dict[str, Number]:
    """Evaluate estimators on all clusters together."""
    return {
        name: optional(float(column[0]))
        for totals, numbers in estimators
        for name, column in numbers(totals.sum(axis=0, keepdims=True)).items()
    }


def intervals_of(
    estimator: Estimator, rng: np.random.Generator, resamples: int
) -> dict[str, Interval | None]:
    """Percentile intervals over resampled clusters; None for a single cluster."""
    totals, numbers = estimator
    names = tuple(numbers(totals[:1]))
    if len(totals) < 2 or not resamples:
        return dict.fromkeys(names)
    draws = bootstrap(
        totals,
        lambda drawn: np.column_stack(list(numbers(drawn).values())),
        rng=rng,
        resamples=resamples,
    )
    level = expand_level(len(totals))
    columns = zip(names, draws.T, strict=True)
    return {name: percentile_interval(column, level) for name, column in columns}


def _mcnemar(pressure: Sums) -> dict[str, Number]:
    """The counts of discordant pairs with McNemar's exact test; None if no pair is known."""
    compared, b, c = (int(pressure[name].sum()) for name in ("compared", "b", "c"))
    numbers = (b, c, mcnemar_exact(b, c)) if compared else (None, None, None)
    return dict(zip(("mcnemar_b", "mcnemar_c", "mcnemar_p"), numbers, strict=True))


def _join(parts: Sequence[Sums], cluster: Integers | None = None) -> Sums:
    """Concatenate the sums of all blocks, and add them up by cluster if given."""
    sums = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if cluster is None:
        return sums
    totals = cluster_totals(np.column_stack(list(sums.values())), cluster)
    return dict(zip(sums, totals.T, strict=True))


def _clusters(parts: Iterable[Block]) -> tuple[Integers, Integers, Integers]:
    """The cluster of each session, and of each stretch of trials with its length.

    A cluster is a scenario, or else a session; clusters that share a pair are merged. A session
    without a scenario, or with several, is its own cluster.
    """
    sessions, stretches, lengths, links = [], [], [], []
    stretch = 0
    for block in parts:
        columns, starts = block.columns, block.stretches
        if columns.scenario is None:
            alone = scenario = np.full(len(block.sessions), NO_LABEL)
        else:
            lowest = np.minimum.reduceat(columns.scenario, block.sessions)
            highest = np.maximum.reduceat(columns.scenario, block.sessions)
            alone = np.where(lowest == highest, lowest, NO_LABEL)
            scenario = columns.scenario[starts]
        sessions.append((alone, columns.session[block.sessions]))
        stretches.append((scenario, columns.session[starts]))
        lengths.append(block.lengths(starts))
        one, other = block.pair_stretches
        links.append(np.column_stack([one, other])[one != other] + stretch)
        stretch += len(starts)
    session_cluster, cluster = (
        cluster_codes(*map(np.concatenate, zip(*each, strict=True)))
        for each in (sessions, stretches)
    )
    return session_cluster, merge_clusters(cluster, np.concatenate(links)), np.concatenate(lengths)


def _session_numbers(sums: Sums, weights: MetricWeights) -> Sums:
    """The numbers that are averaged over sessions, per session."""
    gfq = gfq_parts(sums, weights.gfq)
    return {
        **mci_parts(sums, weights.mci),
        **gfq,
        "cb_normalised": ratios(sums["weighted_right"], sums["weight"]),
        "generalisation_gap": ratios(sums["seen_right"], sums["seen"]) - gfq["gfq.ta"],
    }


def _mean_estimator(numbers: Sums, cluster: Integers) -> Estimator:
    """Average each number over the sessions that define it."""
    table = np.column_stack(list(numbers.values()))
    known = ~np.isnan(table)
    sums = np.hstack([np.where(known, table, 0.0), known])
    half = len(numbers)
    return (
        cluster_totals(sums, cluster),
        lambda totals: dict(
            zip(numbers, ratios(totals[:, :half], totals[:, half:]).T, strict=True)
        ),
    )


def _estimator(sums: Sums, numbers: Callable[[Sums], Sums]) -> Estimator:
    """Combine named sums with a function of them."""
    return (
        np.column_stack(list(sums.values())),
        lambda totals: numbers(dict(zip(sums, totals.T, strict=True))),
    )


def _signal_rate(sums: Sums) -> Sums:
    """The share of answers that follow a misleading signal."""
    return {"toward_signal_rate": ratios(sums["toward"], sums["signalled"])}


def calibrations(counts: LevelTable) -> tuple[Estimator, Estimator]:
    """Calibration over all answers with a confidence, and over those on novel trials."""
    levels, table = counts
    half = len(levels)

    def numbers(totals: Floats) -> dict[str, Floats]:
        return calibration_rows(levels, totals[:, :half], totals[:, half:])

    def on_novel(totals: Floats) -> dict[str, Floats]:
        found = numbers(totals)
        return {f"{name}_novel": found[name] for name in ("brier", "auroc")}

    return (
        (np.hstack(list(table.sum(axis=1).swapaxes(0, 1))), numbers),
        (np.hstack(list(table[:, 1].swapaxes(0, 1))), on_novel),
    )


def _count_defined(numbers: Floats) -> int:
    return int((~np.isnan(numbers)).sum())


def _anomalies(columns: TrialColumns) -> Iterator[str]:
    """Notes on trials whose cells contradict each other."""
    counts = {}
    if columns.trial is not None:
        same = (np.diff(columns.session) == 0) & (np.diff(columns.trial) == 0)
        counts["the number of another trial in the same session"] = same
    if columns.bias is not None and columns.frame is not None:
        disagree = np.abs(columns.bias - columns.frame) == 1
        counts["a frame that disagrees with bias (FI uses frame, BR uses bias)"] = disagree
    if columns.pair is not None:
        frame = np.full(len(columns), np.nan) if columns.frame is None else columns.frame
        counts["a pair but no frame, and so no partner"] = (columns.pair >= 0) & np.isnan(frame)
    for what, flags in counts.items():
        count = int(np.count_nonzero(flags))
        if count:
            yield f"{plural(count, 'trial')} {'has' if count == 1 else 'have'} {what}"


def _note_uneven_parts(metric: str, numbers: Sums) -> Iterator[str]:
    """Note parts whose sessions are not those of their metric, so that they don't add up to it."""
    whole = _count_defined(numbers[metric])
    counts = {part: _count_defined(numbers[f"{metric}.{part}"]) for part in PARTS[metric]}
    if whole and all(counts.values()) and {whole} != set(counts.values()):
        sizes = ", ".join(f"{name.upper()} of {count:,}" for name, count in counts.items())
        yield (
            f"{metric.upper()} is the mean of the {whole:,} sessions with all its parts, "
            f"and its parts are means of those that define each: {sizes}"
        )


def _metric(metric: str, values: Mapping[str, Number], intervals: Intervals) -> dict[str, Any]:
    """The fields common to all three metrics."""
    parts = PARTS[metric]
    return {
        "value": values[metric],
        "interval": intervals[metric],
        "part_intervals": {part: intervals[f"{metric}.{part}"] for part in parts},
        **{part: values[f"{metric}.{part}"] for part in parts},
    }


def _companions(values: Mapping[str, Number], intervals: Intervals) -> Companions:
    plain: dict[str, Any] = {name: values[name] for name in COMPANION_TEXTS}
    drawn = {name: intervals[name] for name in COMPANION_TEXTS if name in intervals}
    return Companions(**plain, interval=drawn)
