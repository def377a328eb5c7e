"""From trials to metrics: every number with its interval, or with the reason why there is none."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from chimeralab.stats.arrays import Integers
from chimeralab.stats.intervals import Interval, mcnemar_exact
from chimeralab.stats.resample import cluster_totals
from chimeralab.trial.columns import NO_LABEL, TrialColumns
from chimeralab.trial.metrics.companions import (
    MOST_LEVELS,
    ConfidenceCounts,
    PressureSums,
    calibrations,
    confidences,
    joined,
    level_counts,
    pressure_sums,
    signal_numbers,
)
from chimeralab.trial.metrics.intervals import Estimator
from chimeralab.trial.metrics.published import (
    DfsSums,
    GfqParts,
    GfqSums,
    MciParts,
    MciSums,
    dfs_sums,
    frame_numbers,
    gfq_parts,
    gfq_sums,
    mci_parts,
    mci_sums,
    session_means,
)
from chimeralab.trial.metrics.records import (
    COMPANION_MEANINGS,
    METRIC_MEANINGS,
    PARTS,
    Companions,
    Coverage,
    Dfs,
    Gfq,
    Mci,
    Metrics,
    MetricWeights,
    Number,
)
from chimeralab.trial.metrics.sums import Block, blocks, cluster_codes, merged

PUBLISHED = MetricWeights()
# What a reader of the numbers should know, after the number of trials that it is true of.
ODDITIES = (
    "carries the number of another trial of its session",
    "has a frame that disagrees with bias (FI goes by frame, BR by bias)",
    "names a pair but no frame, and is in no pair",
)


class BlockSums(NamedTuple):
    """What a block adds up to: by session, by stretch of one scenario, and altogether.

    A session that mixes scenarios has none. Links are pairs between two stretches.
    """

    session: Integers
    session_scenario: Integers
    mci: MciSums
    gfq: GfqSums
    stretch_session: Integers
    stretch_scenario: Integers
    stretch_rows: Integers
    dfs: DfsSums
    pressure: PressureSums
    links: Integers
    confidences: ConfidenceCounts
    matched: int
    unpaired: int
    oddities: Integers


class RowClusters(NamedTuple):
    """The cluster of each stretch of rows, and how long each is."""

    codes: Integers
    rows: Integers


class Gathered(NamedTuple):
    """Sums by session and by cluster of trials, which cluster each row is in, and counts."""

    mci: MciSums
    gfq: GfqSums
    session_cluster: Integers
    dfs: DfsSums
    pressure: PressureSums
    row_cluster: RowClusters
    confidences: ConfidenceCounts
    matched: int
    unpaired: int
    oddities: Integers

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each oddity that occurs."""
        return tuple(
            f"{'1 trial' if count == 1 else f'each of {count:,} trials'} {words}"
            for count, words in zip(self.oddities.tolist(), ODDITIES, strict=True)
            if count
        )


class Estimates(NamedTuple):
    """Every number by its name, and its interval."""

    values: dict[str, Number]
    intervals: dict[str, Interval | None]


def measure(
    columns: TrialColumns,
    weights: MetricWeights = PUBLISHED,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """Everything that the trials say, each number with a cluster-bootstrap interval."""
    sums = _gathered([_block_sums(block) for block in blocks(columns)])
    mci, gfq = mci_parts(sums.mci, weights.mci), gfq_parts(sums.gfq, weights.gfq)
    estimators = [
        session_means(mci, gfq, sums.session_cluster),
        frame_numbers(sums.dfs, weights.dfs),
        signal_numbers(sums.pressure),
    ]
    rng = rng or np.random.default_rng(0)
    found = _estimates(estimators, sums, columns, rng, resamples)
    clusters = {"sessions": len(np.unique(sums.session_cluster)), "trials": len(sums.dfs.pairs)}
    return Metrics(
        sessions=len(sums.session_cluster),
        trials=len(columns),
        mci=Mci(
            **_metric("mci", found),
            ceiling=found.values["mci.ceiling"],
            sessions=int((~np.isnan(mci.value)).sum()),
        ),
        gfq=Gfq(**_metric("gfq", found), sessions=int((~np.isnan(gfq.value)).sum())),
        dfs=Dfs(
            **_metric("dfs", found),
            pairs=int(sums.dfs.pairs.sum()),
            unanswered=sums.matched - int(sums.dfs.pairs.sum()),
            unpaired=sums.unpaired,
            trials=int(sums.dfs.trials.sum()),
        ),
        companions=_companions(found),
        undefined=_undefined(found, clusters),
        coverage=Coverage(
            correct=int(sums.mci.judged.sum()),
            confidence=int(sums.mci.stated.sum()),
            weight=int(sums.mci.weighed.sum()),
        ),
        clusters=clusters,
        weights=weights,
        resamples=resamples,
        notes=(*sums.notes, *_uneven("mci", mci), *_uneven("gfq", gfq)),
    )


def _uneven(metric: str, parts: MciParts | GfqParts) -> Iterator[str]:
    """A note where parts rest on other sessions than their metric, and so do not add up to it."""
    names = PARTS[metric]
    counts = [int((~np.isnan(getattr(parts, name))).sum()) for name in ("value", *names)]
    if all(counts) and len(set(counts)) > 1:
        each = zip(names, counts[1:], strict=True)
        parted = ", ".join(f"{name.upper()} of {count:,}" for name, count in each)
        yield (
            f"{metric.upper()} is the mean of the {counts[0]:,} sessions with all its parts, "
            f"and its parts are means of those that define each: {parted}"
        )


def _block_sums(block: Block) -> BlockSums:
    """All that one block adds to the metrics and their companions."""
    columns, pairs = block.columns, block.pairs
    sessions, stretches = block.sessions.starts, block.stretches.starts
    if columns.scenario is None:
        alone = stretch_scenario = np.full(len(sessions), NO_LABEL)
    else:
        lowest = np.minimum.reduceat(columns.scenario, sessions)
        highest = np.maximum.reduceat(columns.scenario, sessions)
        alone = np.where(lowest == highest, lowest, NO_LABEL)
        stretch_scenario = columns.scenario[stretches]
    one, other, _ = block.pair_stretches
    apart = one != other
    return BlockSums(
        session=columns.session[sessions],
        session_scenario=alone,
        mci=mci_sums(block),
        gfq=gfq_sums(block),
        stretch_session=columns.session[stretches],
        stretch_scenario=stretch_scenario,
        stretch_rows=np.diff(stretches, append=len(columns)),
        dfs=dfs_sums(block),
        pressure=pressure_sums(block),
        links=np.column_stack([one[apart], other[apart]]),
        confidences=level_counts(confidences(columns)),
        matched=len(pairs.neutral),
        unpaired=pairs.unpaired,
        oddities=_oddities(columns),
    )


def _oddities(columns: TrialColumns) -> Integers:
    """How many trials each of the `ODDITIES` is true of."""
    counts = np.zeros(len(ODDITIES), np.intp)
    if columns.trial is not None:
        same = (np.diff(columns.session) == 0) & (np.diff(columns.trial) == 0)
        counts[0] = np.count_nonzero(same)
    if columns.bias is not None and columns.frame is not None:
        counts[1] = np.count_nonzero(np.abs(columns.bias - columns.frame) == 1)
    if columns.pair is not None:
        frame = np.full(len(columns), np.nan) if columns.frame is None else columns.frame
        counts[2] = np.count_nonzero((columns.pair >= 0) & np.isnan(frame))
    return counts


def _gathered(parts: Sequence[BlockSums]) -> Gathered:
    """The sums of all blocks together, those of trials by cluster.

    Trials of one scenario are a cluster, else those of one session; clusters that share a pair are
    one. A session's cluster is its scenario, or itself when it has none or mixes several.
    """

    def column(name: str) -> Any:
        cells = [getattr(part, name) for part in parts]
        if isinstance(cells[0], np.ndarray):
            return np.concatenate(cells)
        return type(cells[0])(*map(np.concatenate, zip(*cells, strict=True)))

    first = np.cumsum([0, *(len(part.stretch_session) for part in parts)])
    links = np.concatenate([part.links + at for part, at in zip(parts, first, strict=False)])
    cluster = merged(cluster_codes(column("stretch_scenario"), column("stretch_session")), links)
    return Gathered(
        mci=column("mci"),
        gfq=column("gfq"),
        session_cluster=cluster_codes(column("session_scenario"), column("session")),
        dfs=DfsSums(*cluster_totals(np.column_stack(column("dfs")), cluster).T),
        pressure=PressureSums(*cluster_totals(np.column_stack(column("pressure")), cluster).T),
        row_cluster=RowClusters(cluster, column("stretch_rows")),
        confidences=joined([part.confidences for part in parts]),
        matched=sum(part.matched for part in parts),
        unpaired=sum(part.unpaired for part in parts),
        oddities=np.sum([part.oddities for part in parts], axis=0),
    )


def _estimates(
    estimators: Sequence[Estimator],
    sums: Gathered,
    columns: TrialColumns,
    rng: np.random.Generator,
    resamples: int,
) -> Estimates:
    """Every number of all trials together, and its interval over resampled clusters."""
    compared, b, c = (int(counts.sum()) for counts in sums.pressure[2:])
    values: dict[str, Number] = dict.fromkeys(("mcnemar_b", "mcnemar_c", "mcnemar_p"))
    if compared:
        values = {"mcnemar_b": b, "mcnemar_c": c, "mcnemar_p": mcnemar_exact(b, c)}
    counts = sums.confidences
    for estimator in (*estimators, *calibrations(counts)):
        values |= estimator.values()
    if resamples:
        row = np.repeat(*sums.row_cluster)
        counts = level_counts(confidences(columns, row), len(sums.dfs.pairs), MOST_LEVELS)
    intervals: dict[str, Interval | None] = {}
    for estimator in (*estimators, *calibrations(counts)):
        intervals |= estimator.intervals(rng, resamples)
    return Estimates(values, intervals)


def _metric(metric: str, found: Estimates) -> dict[str, Any]:
    """The fields that all three metrics have."""
    parts = PARTS[metric]
    return {
        "value": found.values[metric],
        "interval": found.intervals[metric],
        "part_intervals": {part: found.intervals[f"{metric}.{part}"] for part in parts},
        **{part: found.values[f"{metric}.{part}"] for part in parts},
    }


def _companions(found: Estimates) -> Companions:
    plain: dict[str, Any] = {name: found.values[name] for name in COMPANION_MEANINGS}
    drawn = {name: found.intervals[name] for name in COMPANION_MEANINGS if name in found.intervals}
    return Companions(**plain, interval=drawn)


def _undefined(found: Estimates, clusters: dict[str, int]) -> dict[str, str]:
    """Why each number that is None is so; a metric is for the reasons of its parts."""
    values, why = found.values, {}
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
        elif found.intervals[metric] is None:
            alone = f"the {unit} form one cluster, which tells nothing about the spread"
            why[f"{metric}.interval"] = (
                alone if clusters[unit] < 2 else "no resamples were asked for"
            )
    return why
