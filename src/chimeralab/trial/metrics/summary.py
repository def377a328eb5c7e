"""From trials to metrics: every number with its interval, or with the reason why there is none."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chimeralab.stats.arrays import Floats, Integers, optional, ratios
from chimeralab.stats.calibration import calibration_rows
from chimeralab.stats.intervals import (
    Interval,
    mcnemar_exact,
    percentile_interval,
    widened_level,
)
from chimeralab.stats.resample import bootstrap, cluster_totals
from chimeralab.trial.columns import NO_LABEL, TrialColumns
from chimeralab.trial.metrics.records import (
    COMPANION_MEANINGS,
    METRIC_MEANINGS,
    PARTS,
    Companions,
    Coverage,
    Dfs,
    Gfq,
    Intervals,
    Mci,
    Metrics,
    MetricWeights,
    Number,
)
from chimeralab.trial.metrics.sums import (
    MOST_LEVELS,
    Block,
    LevelTable,
    Sums,
    blocks,
    cluster_codes,
    dfs_parts,
    frame_sums,
    gfq_parts,
    joined_counts,
    level_counts,
    mci_parts,
    merged,
    pressure_sums,
    session_sums,
)

PUBLISHED = MetricWeights()
# What a reader of the numbers should know, after the number of trials that it is true of.
ODDITIES = (
    "carries the number of another trial of its session",
    "has a frame that disagrees with bias (FI goes by frame, BR by bias)",
    "names a pair but no frame, and is in no pair",
)


class Estimator(NamedTuple):
    """The sums of each cluster (rows), and the named numbers that follow from rows of sums.

    So that one resampling of clusters gives the intervals of all the numbers.
    """

    totals: Floats
    numbers: Callable[[Floats], Mapping[str, Floats]]

    def values(self) -> dict[str, Number]:
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
        draws = bootstrap(
            self.totals,
            lambda totals: np.column_stack(list(self.numbers(totals).values())),
            rng=rng,
            resamples=resamples,
        )
        level = widened_level(len(self.totals))
        columns = zip(names, draws.T, strict=True)
        return {name: percentile_interval(column, level) for name, column in columns}


def measure(
    columns: TrialColumns,
    weights: MetricWeights = PUBLISHED,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """Everything that the trials say, each number with a cluster-bootstrap interval."""
    sums = _gathered(columns)
    means = _session_numbers(sums.sessions, weights)
    estimators = [
        _mean_estimator(means, sums.session_cluster),
        _estimator(sums.frames, lambda totals: dfs_parts(totals, weights.dfs)),
        _estimator(sums.pressure, _signal_numbers),
    ]
    rng = rng or np.random.default_rng(0)
    values, intervals = _estimates(estimators, sums, columns, rng, resamples)
    frames = {name: int(column.sum()) for name, column in sums.frames.items()}
    clusters = {
        "sessions": len(np.unique(sums.session_cluster)),
        "trials": len(sums.frames["pairs"]),
    }
    return Metrics(
        sessions=len(sums.session_cluster),
        trials=len(columns),
        mci=Mci(
            **_metric("mci", values, intervals),
            ceiling=values["mci.ceiling"],
            sessions=_defined(means["mci"]),
        ),
        gfq=Gfq(**_metric("gfq", values, intervals), sessions=_defined(means["gfq"])),
        dfs=Dfs(
            **_metric("dfs", values, intervals),
            pairs=frames["pairs"],
            unanswered=sums.matched - frames["pairs"],
            unpaired=sums.unpaired,
            trials=frames["trials"],
        ),
        companions=_companions(values, intervals),
        undefined=_undefined(values, intervals, clusters),
        coverage=Coverage(
            correct=int(sums.sessions["judged"].sum()),
            confidence=int(sums.sessions["stated"].sum()),
            weight=int(sums.sessions["weighed"].sum()),
        ),
        clusters=clusters,
        weights=weights,
        resamples=resamples,
        notes=(*_oddities(columns), *_uneven("mci", means), *_uneven("gfq", means)),
    )


class _Gathered(NamedTuple):
    """Sums by session and by cluster of trials, which cluster each row is in, and counts."""

    sessions: Sums
    session_cluster: Integers
    frames: Sums
    pressure: Sums
    row_cluster: Integers
    levels: LevelTable
    matched: int
    unpaired: int


def _gathered(columns: TrialColumns) -> _Gathered:
    """The sums of all blocks together."""
    parts = blocks(columns)
    sessions, frames, pressure, levels = zip(
        *(
            (session_sums(each), frame_sums(each), pressure_sums(each), level_counts(each.columns))
            for each in parts
        ),
        strict=True,
    )
    session_cluster, cluster, lengths = _clusters(parts)
    return _Gathered(
        sessions=_joined(sessions),
        session_cluster=session_cluster,
        frames=_by_cluster(_joined(frames), cluster),
        pressure=_by_cluster(_joined(pressure), cluster),
        row_cluster=np.repeat(cluster, lengths),
        levels=joined_counts(levels),
        matched=sum(len(each.pairs.neutral) for each in parts),
        unpaired=sum(each.pairs.unpaired for each in parts),
    )


def _estimates(
    estimators: Sequence[Estimator],
    sums: _Gathered,
    columns: TrialColumns,
    rng: np.random.Generator,
    resamples: int,
) -> tuple[dict[str, Number], dict[str, Interval | None]]:
    """Every number of all trials together, and its interval over resampled clusters."""
    compared, b, c = (int(sums.pressure[name].sum()) for name in ("compared", "b", "c"))
    values: dict[str, Number] = dict.fromkeys(("mcnemar_b", "mcnemar_c", "mcnemar_p"))
    if compared:
        values = {"mcnemar_b": b, "mcnemar_c": c, "mcnemar_p": mcnemar_exact(b, c)}
    levels = sums.levels
    for estimator in (*estimators, *calibrations(levels)):
        values |= estimator.values()
    if resamples:
        levels = level_counts(columns, sums.row_cluster, len(sums.frames["pairs"]), MOST_LEVELS)
    intervals: dict[str, Interval | None] = {}
    for estimator in (*estimators, *calibrations(levels)):
        intervals |= estimator.intervals(rng, resamples)
    return values, intervals


def _joined(parts: Sequence[Sums]) -> Sums:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _by_cluster(sums: Sums, cluster: Integers) -> Sums:
    totals = cluster_totals(np.column_stack(list(sums.values())), cluster)
    return dict(zip(sums, totals.T, strict=True))


def _clusters(parts: Iterable[Block]) -> tuple[Integers, Integers, Integers]:
    """The cluster of each session, and of each stretch of trials with its length.

    Trials of one scenario are a cluster, else those of one session; clusters that share a pair are
    one. A session's cluster is its scenario, or itself when it has none or mixes several.
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
    return session_cluster, merged(cluster, np.concatenate(links)), np.concatenate(lengths)


def _session_numbers(sums: Sums, weights: MetricWeights) -> Sums:
    """All that is a mean over sessions, an entry per session."""
    gfq = gfq_parts(sums, weights.gfq)
    return {
        **mci_parts(sums, weights.mci),
        **gfq,
        "cb_normalised": ratios(sums["weighted_right"], sums["weight"]),
        "generalisation_gap": ratios(sums["seen_right"], sums["seen"]) - gfq["gfq.ta"],
    }


def _mean_estimator(numbers: Sums, cluster: Integers) -> Estimator:
    """Means over the sessions where each number is defined: a part that one trial defines counts
    there, though its metric needs more."""
    table = np.column_stack(list(numbers.values()))
    known = ~np.isnan(table)
    sums = np.hstack([np.where(known, table, 0.0), known])
    half = len(numbers)
    return Estimator(
        cluster_totals(sums, cluster),
        lambda totals: dict(
            zip(numbers, ratios(totals[:, :half], totals[:, half:]).T, strict=True)
        ),
    )


def _estimator(sums: Sums, numbers: Callable[[Sums], Sums]) -> Estimator:
    """Numbers that follow from named sums."""
    return Estimator(
        np.column_stack(list(sums.values())),
        lambda totals: numbers(dict(zip(sums, totals.T, strict=True))),
    )


def calibrations(counts: LevelTable) -> tuple[Estimator, Estimator]:
    """Calibration over all answers that state a confidence, and over those on novel trials."""
    levels, table = counts
    half = len(levels)

    def numbers(totals: Floats) -> dict[str, Floats]:
        return calibration_rows(levels, totals[:, :half], totals[:, half:])

    def on_novel(totals: Floats) -> dict[str, Floats]:
        found = numbers(totals)
        return {f"{name}_novel": found[name] for name in ("brier", "auroc")}

    return (
        Estimator(np.hstack(list(table.sum(axis=1).swapaxes(0, 1))), numbers),
        Estimator(np.hstack(list(table[:, 1].swapaxes(0, 1))), on_novel),
    )


def _signal_numbers(sums: Sums) -> Sums:
    """Share of misled answers among the trials with a misleading signal."""
    return {"toward_signal_rate": ratios(sums["toward"], sums["signalled"])}


def _defined(numbers: Floats) -> int:
    return int((~np.isnan(numbers)).sum())


def _oddities(columns: TrialColumns) -> Iterator[str]:
    """One sentence for each of the `ODDITIES` that occurs."""
    counts = [0, 0, 0]
    if columns.trial is not None:
        same = (np.diff(columns.session) == 0) & (np.diff(columns.trial) == 0)
        counts[0] = int(np.count_nonzero(same))
    if columns.bias is not None and columns.frame is not None:
        counts[1] = int(np.count_nonzero(np.abs(columns.bias - columns.frame) == 1))
    if columns.pair is not None:
        frame = np.full(len(columns), np.nan) if columns.frame is None else columns.frame
        counts[2] = int(np.count_nonzero((columns.pair >= 0) & np.isnan(frame)))
    for count, words in zip(counts, ODDITIES, strict=True):
        if count:
            yield f"{'1 trial' if count == 1 else f'each of {count:,} trials'} {words}"


def _uneven(metric: str, numbers: Sums) -> Iterator[str]:
    """A note where parts rest on other sessions than their metric, and so do not add up to it."""
    whole = _defined(numbers[metric])
    counts = {part: _defined(numbers[f"{metric}.{part}"]) for part in PARTS[metric]}
    if whole and all(counts.values()) and {whole} != set(counts.values()):
        parted = ", ".join(f"{name.upper()} of {count:,}" for name, count in counts.items())
        yield (
            f"{metric.upper()} is the mean of the {whole:,} sessions with all its parts, "
            f"and its parts are means of those that define each: {parted}"
        )


def _metric(metric: str, values: Mapping[str, Number], intervals: Intervals) -> dict[str, Any]:
    """The fields that all three metrics have."""
    parts = PARTS[metric]
    return {
        "value": values[metric],
        "interval": intervals[metric],
        "part_intervals": {part: intervals[f"{metric}.{part}"] for part in parts},
        **{part: values[f"{metric}.{part}"] for part in parts},
    }


def _companions(values: Mapping[str, Number], intervals: Intervals) -> Companions:
    plain: dict[str, Any] = {name: values[name] for name in COMPANION_MEANINGS}
    drawn = {name: intervals[name] for name in COMPANION_MEANINGS if name in intervals}
    return Companions(**plain, interval=drawn)


def _undefined(
    values: Mapping[str, Number], intervals: Intervals, clusters: Mapping[str, int]
) -> dict[str, str]:
    """Why each number that is None is so; a metric is for the reasons of its parts."""
    why = {}
    for name, meaning in COMPANION_MEANINGS.items():
        if values[name] is None:
            why[name] = meaning.undefined
    for metric, meanings in METRIC_MEANINGS.items():
        reasons = {
            name: meaning.undefined
            for name, meaning in meanings.items()
            if name != "value" and values[f"{metric}.{name}"] is None
        }
        why |= {f"{metric}.{name}": reason for name, reason in reasons.items()}
        unit = "trials" if metric == "dfs" else "sessions"
        if values[metric] is None:
            lacking = [
                f"{part} is undefined: {reasons[part]}" for part in PARTS[metric] if part in reasons
            ]
            whole = f"no session defines all of {', '.join(PARTS[metric])}"
            why[metric] = "; ".join(lacking) or whole
        elif intervals[metric] is None:
            alone = f"the {unit} form one cluster, which tells nothing about the spread"
            why[f"{metric}.interval"] = (
                alone if clusters[unit] < 2 else "no resamples were asked for"
            )
    return why
