"""All that the metrics need to know of a set of trials: sums by session and by cluster."""

from typing import NamedTuple

from chimeralab.sandbox.columns import TrialColumns, matched_pairs
from chimeralab.sandbox.metrics.clusters import row_clusters, session_clusters
from chimeralab.sandbox.metrics.confidence import Confidences, confidences
from chimeralab.sandbox.metrics.dfs import DfsSums, dfs_sums
from chimeralab.sandbox.metrics.gfq import GfqSums, gfq_sums
from chimeralab.sandbox.metrics.mci import MciSums, mci_sums
from chimeralab.sandbox.metrics.pressure import PressureSums, pressure_sums
from chimeralab.sandbox.metrics.sums import Sessions
from chimeralab.stats.arrays import Integers


class BySession(NamedTuple):
    """Sums with an entry a session, and the cluster that each session belongs to."""

    mci: MciSums
    gfq: GfqSums
    cluster: Integers


class ByCluster(NamedTuple):
    """Sums with an entry a cluster, and the judged confidences with theirs."""

    clusters: int
    dfs: DfsSums
    pressure: PressureSums
    confidences: Confidences
    novel_confidences: Confidences


class Gathered(NamedTuple):
    """The sums, and how many trials and lone halves of pairs there are."""

    trials: int
    matched: int
    unpaired: int
    by_session: BySession
    by_cluster: ByCluster


def gather(columns: TrialColumns) -> Gathered:
    """One pass over each column."""
    sessions, pairs = Sessions(columns.starts, len(columns)), matched_pairs(columns)
    clusters = row_clusters(columns, pairs)
    assert clusters.codes is not None
    by_session = BySession(
        mci_sums(columns, sessions),
        gfq_sums(columns, sessions),
        session_clusters(columns, sessions.starts),
    )
    by_cluster = ByCluster(
        clusters.count,
        dfs_sums(columns, pairs, clusters),
        pressure_sums(columns, pairs, clusters),
        confidences(columns, clusters.codes),
        confidences(columns, clusters.codes, novel_only=True),
    )
    return Gathered(len(columns), len(pairs.neutral), pairs.unpaired, by_session, by_cluster)
