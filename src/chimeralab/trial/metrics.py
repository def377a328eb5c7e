"""MCI, GFQ and DFS as published, each with an interval or the reason why it is undefined.

`measure` computes them from columns, `measure_once` from a stream of trials that it reads once:
sums stay in memory, trials do not.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats, Integers, optional, ratios
from chimeralab.stats.intervals import (
    Interval,
    expand_level,
    mcnemar_exact,
    percentile_interval,
)
from chimeralab.stats.resample import bootstrap, cluster_totals
from chimeralab.trial.columns import NO_LABEL, AnswerScale, TrialColumns, build_table
from chimeralab.trial.measures import COMPANION_TEXTS, PARTS, Number, explain_undefined
from chimeralab.trial.sums import (
    MAX_LEVELS,
    Block,
    LevelTable,
    Sums,
    calibration_rows,
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
from chimeralab.trial.trials import TrialRow

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


class MetricSums(NamedTuple):
    """What the metrics are functions of: sums by cluster, and counts.

    ``means`` averages over sessions, the cluster of a session being its scenario or itself;
    ``frames`` and ``pressure`` have sums by cluster of trials. ``levels`` has the answers at each
    confidence altogether, ``level_clusters`` by cluster of trials. ``defined`` counts the sessions
    that define each number, ``anomalies`` the trials whose cells contradict each other.
    """

    means: Estimator
    frames: Sums
    pressure: Sums
    levels: LevelTable
    level_clusters: LevelTable
    clusters: Mapping[str, int]
    pairs: Mapping[str, int]
    sessions: int
    trials: int
    coverage: Mapping[str, int]
    defined: Mapping[str, int]
    anomalies: Mapping[str, int]


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
    numbers = _session_numbers(sessions, weights)
    clusters = {"sessions": len(np.unique(session_cluster)), "trials": len(frames["pairs"])}
    levels = level_clusters = join_counts(by_level)
    if resamples:
        spread = np.repeat(cluster, lengths)
        level_clusters = level_counts(columns, spread, clusters["trials"], MAX_LEVELS)
    reduced = MetricSums(
        means=_mean_estimator(
            tuple(numbers), cluster_totals(_session_table(numbers), session_cluster)
        ),
        frames=frames,
        pressure=pressure,
        levels=levels,
        level_clusters=level_clusters,
        clusters=clusters,
        pairs={
            "matched": sum(len(each.neutral) for each in parts),
            "unpaired": sum(each.unpaired for each in parts),
        },
        sessions=len(session_cluster),
        trials=len(columns),
        coverage={name: int(sessions[counted].sum()) for name, counted in COVERAGE.items()},
        defined={name: int((~np.isnan(each)).sum()) for name, each in numbers.items()},
        anomalies=_count_anomalies(columns),
    )
    return _conclude(reduced, weights, rng=rng, resamples=resamples)


def _conclude(
    sums: MetricSums,
    weights: MetricWeights,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """Compute the metrics from sums."""
    estimators = [
        sums.means,
        _estimator(sums.frames, lambda totals: dfs_parts(totals, weights.dfs)),
        _estimator(sums.pressure, _signal_rate),
    ]
    values = values_of([*estimators, *calibrations(sums.levels)]) | _mcnemar(sums.pressure)
    if not sums.defined["mci"]:
        values["mci.ceiling"] = values["mci.possible"]
    rng = rng or np.random.default_rng(0)
    intervals: dict[str, Interval | None] = {}
    for estimator in (*estimators, *calibrations(sums.level_clusters)):
        intervals |= intervals_of(estimator, rng, resamples)
    answered, defined = int(sums.frames["pairs"].sum()), sums.defined
    return Metrics(
        sessions=sums.sessions,
        trials=sums.trials,
        mci=Mci(
            **_metric("mci", values, intervals),
            ceiling=values["mci.ceiling"],
            sessions=defined["mci"],
        ),
        gfq=Gfq(**_metric("gfq", values, intervals), sessions=defined["gfq"]),
        dfs=Dfs(
            **_metric("dfs", values, intervals),
            pairs=answered,
            unanswered=sums.pairs["matched"] - answered,
            unpaired=sums.pairs["unpaired"],
            trials=int(sums.frames["trials"].sum()),
        ),
        companions=_companions(values, intervals),
        undefined=explain_undefined(values, intervals, sums.clusters),
        coverage=sums.coverage,
        clusters=sums.clusters,
        weights=weights,
        resamples=resamples,
        notes=(
            *(
                f"{plural(count, 'trial')} {'has' if count == 1 else 'have'} {what}"
                for what, count in sorted(sums.anomalies.items())
                if count
            ),
            *_note_uneven_parts("mci", defined),
            *_note_uneven_parts("gfq", defined),
        ),
    )


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


def _session_table(numbers: Sums) -> Floats:
    """The numbers of each session with 0 where undefined, then flags for the defined ones."""
    table = np.column_stack(list(numbers.values()))
    known = ~np.isnan(table)
    return np.hstack([np.where(known, table, 0.0), known])


def _mean_estimator(names: Sequence[str], totals: Floats) -> Estimator:
    """Average each number over the sessions that define it, from totals by cluster."""
    half = len(names)
    return (
        totals,
        lambda rows: dict(zip(names, ratios(rows[:, :half], rows[:, half:]).T, strict=True)),
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


def _count_anomalies(columns: TrialColumns) -> dict[str, int]:
    """Count the trials whose cells contradict each other, by what is wrong with them."""
    flags = {}
    if columns.trial is not None:
        same = (np.diff(columns.session) == 0) & (np.diff(columns.trial) == 0)
        flags["the number of another trial in the same session"] = same
    if columns.bias is not None and columns.frame is not None:
        disagree = np.abs(columns.bias - columns.frame) == 1
        flags["a frame that disagrees with bias (FI uses frame, BR uses bias)"] = disagree
    if columns.pair is not None:
        frame = np.full(len(columns), np.nan) if columns.frame is None else columns.frame
        flags["a pair but no frame, and so no partner"] = (columns.pair >= 0) & np.isnan(frame)
    return {what: int(np.count_nonzero(each)) for what, each in flags.items()}


def _note_uneven_parts(metric: str, defined: Mapping[str, int]) -> Iterator[str]:
    """Note parts whose sessions are not those of their metric, so that they don't add up to it."""
    counts = {part: defined[f"{metric}.{part}"] for part in PARTS[metric]}
    if defined[metric] and all(counts.values()) and {defined[metric]} != set(counts.values()):
        sizes = ", ".join(f"{name.upper()} of {count:,}" for name, count in counts.items())
        yield (
            f"{metric.upper()} is the mean of the {defined[metric]:,} sessions with all its parts, "
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


# A scenario (0) or a session without one (1).
Cluster = tuple[int, Hashable]


class RunningMetrics:
    """Adds up trials, session by session, for the metrics that `measure` computes from columns.

    What it keeps grows with the clusters and the levels of confidence, which intervals need, and
    with the halves of pairs whose other half is in a later session. Resampling depends on the order
    of `scenarios`, which is that of their first trials unless given.
    """

    def __init__(
        self,
        weights: MetricWeights = PUBLISHED,
        scale: AnswerScale | None = None,
        scenarios: Iterable[str] = (),
    ) -> None:
        self._weights, self._scale = weights, scale or AnswerScale()
        self._names: dict[str, tuple[str, ...]] = {}
        self._totals: defaultdict[str, dict[Cluster, Floats]] = defaultdict(dict)
        self._levels: Counter[tuple[Cluster, int, int, float]] = Counter()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._known: dict[Cluster, int] = {(0, name): n for n, name in enumerate(scenarios)}
        self._halves: dict[Hashable, tuple[TrialRow, Cluster]] = {}
        self._links: set[tuple[Cluster, Cluster]] = set()

    def add(self, session: Sequence[TrialRow]) -> None:
        """Add the trials of one session."""
        columns, _ = build_table(session, self._scale)
        block, alone = Block(columns), (1, (session[0].arm, session[0].session))
        named: list[Cluster] = [(0, row.scenario) for row in session if row.scenario is not None]
        named = list(dict.fromkeys(named))
        codes = [NO_LABEL] if columns.scenario is None else columns.scenario[block.stretches]
        clusters = [named[code] if code >= 0 else alone for code in codes]
        sums = session_sums(block)
        numbers = _session_numbers(sums, self._weights)
        sole = clusters[:1] if len({*clusters}) == 1 else [alone]
        for cluster in (*named, *sole, *clusters):
            self._known.setdefault(cluster, len(self._known))
        self._names["means"] = tuple(numbers)
        self._put("means", sole, _session_table(numbers))
        self._put_sums("frames", clusters, frame_sums(block))
        self._put_sums("pressure", clusters, pressure_sums(block))
        place = np.repeat(np.arange(len(clusters)), block.lengths(block.stretches))
        levels, table = level_counts(columns, place, len(clusters))
        for at, novel, right, level in np.argwhere(table).tolist():
            key = clusters[at], novel, right, float(levels[level])
            self._levels[key] += int(table[at, novel, right, level])
        self._counts["size"].update(sessions=1, trials=len(columns), matched=len(block.neutral))
        self._counts["anomalies"].update(_count_anomalies(columns))
        for name, counted in COVERAGE.items():
            self._counts["coverage"][name] += int(sums[counted].sum())
        for name, found in numbers.items():
            self._counts["defined"][name] += int((~np.isnan(found)).sum())
        self._match_halves(session, alone)

    def measure(self, *, rng: np.random.Generator | None = None, resamples: int = 2_000) -> Metrics:
        """Compute the metrics of all sessions so far."""
        if not self._names:
            raise InputError("there is no trial to measure")
        means, trials = self._in_order("means"), self._in_order("frames")
        places = {cluster: place for place, cluster in enumerate(trials)}
        links = [(places[a], places[b]) for a, b in self._links]
        merged = merge_clusters(
            np.arange(len(trials)), np.array(links, dtype=np.intp).reshape(-1, 2)
        )
        frames, pressure = (
            dict(
                zip(
                    self._names[name],
                    cluster_totals(np.array([self._totals[name][c] for c in trials]), merged).T,
                    strict=True,
                )
            )
            for name in ("frames", "pressure")
        )
        size = self._counts["size"]
        return _conclude(
            MetricSums(
                means=_mean_estimator(
                    self._names["means"], np.array([self._totals["means"][c] for c in means])
                ),
                frames=frames,
                pressure=pressure,
                levels=self._level_table(dict.fromkeys(trials, 0), None),
                level_clusters=self._level_table(
                    dict(zip(trials, merged.tolist(), strict=True)), MAX_LEVELS
                ),
                clusters={"sessions": len(means), "trials": len(frames["pairs"])},
                pairs={"matched": size["matched"], "unpaired": len(self._halves)},
                sessions=size["sessions"],
                trials=size["trials"],
                coverage=dict(self._counts["coverage"]),
                defined=self._counts["defined"],
                anomalies=self._counts["anomalies"],
            ),
            self._weights,
            rng=rng,
            resamples=resamples,
        )

    def _in_order(self, name: str) -> list[Cluster]:
        """Scenarios, then sessions, each in their order."""
        return sorted(self._totals[name], key=lambda cluster: (cluster[0], self._known[cluster]))

    def _put_sums(self, name: str, clusters: Sequence[Cluster], sums: Sums) -> None:
        self._names[name] = tuple(sums)
        self._put(name, clusters, np.column_stack(list(sums.values())))

    def _put(self, name: str, clusters: Sequence[Cluster], rows: Floats) -> None:
        totals = self._totals[name]
        for cluster, row in zip(clusters, rows, strict=True):
            totals[cluster] = totals[cluster] + row if cluster in totals else row

    def _match_halves(self, session: Sequence[TrialRow], alone: Cluster) -> None:
        """Count the pairs whose halves lie in two sessions."""
        halves: defaultdict[Hashable, list[TrialRow]] = defaultdict(list)
        for row in session:
            if row.pair is not None and row.frame is not None and row.alone is None:
                halves[row.arm, row.scenario, row.repeat, row.pair].append(row)
        for key, rows in halves.items():
            if len(rows) > 1:
                continue
            cluster: Cluster = alone if rows[0].scenario is None else (0, rows[0].scenario)
            if key not in self._halves:
                self._halves[key] = rows[0], cluster
                continue
            other, before = self._halves.pop(key)
            # Without bias, they are counted as a pair but not again as trials.
            pair = [replace(row, bias=None) for row in (other, rows[0])]
            block = Block(build_table(pair, self._scale)[0])
            owner = before if other.frame == "neutral" else cluster
            for name, sums in (("frames", frame_sums(block)), ("pressure", pressure_sums(block))):
                self._put_sums(name, [owner], {k: v.sum(keepdims=True) for k, v in sums.items()})
            self._counts["size"]["matched"] += 1
            if before != cluster:
                self._links.add((before, cluster))

    def _level_table(self, rows: dict[Cluster, int], limit: int | None) -> LevelTable:
        """The counts of answers at each level of confidence, in the rows of their clusters."""
        exact = {level for *_, level in self._levels}
        rounds = limit is not None and len(exact) > limit
        shown = {level: round(level, 2) if rounds else level for level in exact}
        places = {level: place for place, level in enumerate(sorted({*shown.values()}))}
        table = np.zeros((max(rows.values()) + 1, 2, 2, len(places)))
        for (cluster, novel, right, level), count in self._levels.items():
            table[rows[cluster], novel, right, places[shown[level]]] += count
        return np.array([*places]), table


def measure_once(
    trials: Iterable[TrialRow],
    weights: MetricWeights = PUBLISHED,
    *,
    scale: AnswerScale | None = None,
    rng: np.random.Generator | None = None,
    resamples: int = 2_000,
) -> Metrics:
    """Compute every metric from trials that come session by session, in one pass over them."""
    running = RunningMetrics(weights, scale)
    for _, session in groupby(trials, key=lambda row: (row.arm, row.session)):
        running.add(tuple(session))
    return running.measure(rng=rng, resamples=resamples)
