"""The metrics while trials come in: a few additions a trial, the same sums as over whole columns.

Trials of one session come in their order; sessions and arms may be interleaved.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np

from chimeralab.sandbox.columns import AnswerRange, AnswerScale
from chimeralab.sandbox.metrics.cluster_tally import ClusterTally, PairTally
from chimeralab.sandbox.metrics.clusters import merged
from chimeralab.sandbox.metrics.confidence import Confidences
from chimeralab.sandbox.metrics.dfs import DfsSums
from chimeralab.sandbox.metrics.gathered import ByCluster, BySession, Gathered
from chimeralab.sandbox.metrics.gfq import GfqSums
from chimeralab.sandbox.metrics.mci import MciSums
from chimeralab.sandbox.metrics.pressure import PressureSums
from chimeralab.sandbox.metrics.session_tally import SessionTally
from chimeralab.sandbox.metrics.sums import Clusters
from chimeralab.sandbox.trials import Trial
from chimeralab.stats.arrays import Floats
from chimeralab.stats.design import cluster_totals


class LiveMetrics:
    """Adds up trials one by one; `gathered` holds the sums at any time."""

    def __init__(self, answers: AnswerRange | None = None) -> None:
        self._trials = 0
        self._scale = AnswerScale(answers)
        self._pairs = PairTally()
        self._sessions: dict[tuple[str | None, str], SessionTally] = {}
        self._clusters: dict[Hashable, ClusterTally] = {}

    def update(self, trial: Trial) -> None:
        """Take in the next trial."""
        self._trials += 1
        key = (trial.arm, trial.session)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = SessionTally(trial.scenario)
        session.update(trial)
        label = key if trial.scenario is None else trial.scenario
        cluster = self._clusters.get(label)
        if cluster is None:
            cluster = self._clusters[label] = ClusterTally(len(self._clusters))
        if (confidence := trial.confidence) is not None and (correct := trial.correct) is not None:
            cluster.state(confidence, correct, trial.novel)
        paired = trial.pair is not None and trial.frame is not None
        if paired or trial.bias is not None:
            self._compare(trial, cluster, paired)

    def _compare(self, trial: Trial, cluster: ClusterTally, paired: bool) -> None:
        """Hold the answer against the truth, the signal and the other half of its pair."""
        place, response, truth = self._scale.place, trial.response, trial.truth
        if response is not None:
            response = place(response)
        if truth is not None:
            truth = place(truth)
        if trial.bias:
            signal = None if trial.signal is None else place(trial.signal)
            cluster.expose(response, truth, signal)
        elif trial.bias is not None:
            cluster.trials += 1
        if paired:
            right = trial.correct
            if right is None and response is not None and truth is not None:
                right = response == truth
            self._pairs.update((trial, response, right, cluster))

    @property
    def gathered(self) -> Gathered:
        clusters = tuple(self._clusters.values())
        links = np.array(sorted(self._pairs.links), dtype=np.intp).reshape(-1, 2)
        joined = merged(np.arange(len(clusters)), links[:, 0], links[:, 1])
        return Gathered(
            self._trials,
            self._pairs.whole,
            self._pairs.waiting,
            _by_session(self._sessions),
            _by_cluster(clusters, joined),
        )


def _by_session(sessions: Mapping[tuple[str | None, str], SessionTally]) -> BySession:
    labels = [key if s.scenario is None else s.scenario for key, s in sessions.items()]
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return BySession(
        MciSums(*_table(sessions.values(), MciSums._fields).T),
        GfqSums(*_table(sessions.values(), GfqSums._fields).T),
        np.array([codes[label] for label in labels], dtype=np.intp),
    )


def _by_cluster(clusters: Collection[ClusterTally], joined: Clusters) -> ByCluster:
    assert joined.codes is not None
    frames = cluster_totals(_table(clusters, DfsSums._fields), joined.codes)
    signals = cluster_totals(_table(clusters, PressureSums._fields), joined.codes)
    rows = [
        (level, *counts, joined.codes[cluster.number])
        for cluster in clusters
        for level, counts in cluster.levels.items()
    ]
    level, wrong, right, novel_wrong, novel_right, code = np.array(rows).reshape(-1, 6).T
    cluster = code.astype(np.intp)
    return ByCluster(
        joined.count,
        DfsSums(*frames.T),
        PressureSums(*signals.T),
        Confidences(level, wrong + novel_wrong, right + novel_right, cluster),
        Confidences(level, novel_wrong, novel_right, cluster),
    )


def _table(tallies: Collection[object], names: Sequence[str]) -> Floats:
    rows = [[getattr(tally, name) for name in names] for tally in tallies]
    return np.array(rows, dtype=np.float64).reshape(-1, len(names))
