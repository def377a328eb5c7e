"""Which trials are not independent of each other: those of one scenario, else of one session."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from chimeralab.sandbox.columns import MatchedPairs, TrialColumns
from chimeralab.sandbox.metrics.sums import Clusters
from chimeralab.stats.arrays import Integers


def row_clusters(columns: TrialColumns, pairs: MatchedPairs) -> Clusters:
    """Rows by scenario, or by session where no scenario is known.

    Sessions that share a pair are one cluster: drawn apart, they would tear it.
    """
    codes = _dense(columns.scenario, columns.session)
    return merged(codes, codes[pairs.neutral], codes[pairs.biased])


def session_clusters(columns: TrialColumns, starts: Integers) -> Integers:
    """The cluster of each session: its scenario, or itself when it has none or mixes several."""
    session = columns.session[starts]
    if columns.scenario is None:
        return np.arange(len(starts))
    first = np.minimum.reduceat(columns.scenario, starts)
    last = np.maximum.reduceat(columns.scenario, starts)
    return _dense(np.where(first == last, first, -1), session)


def merged(codes: Integers, one: Integers, other: Integers) -> Clusters:
    """Clusters of rows after joining those that a link holds together.

    >>> merged(np.array([0, 1, 2]), np.array([0]), np.array([2])).codes
    array([0, 1, 0])
    """
    size = int(codes.max(initial=-1)) + 1
    apart = one != other
    links = coo_array((np.ones(apart.sum()), (one[apart], other[apart])), shape=(size, size))
    count, group = connected_components(links, directed=False)
    return Clusters(int(count), len(codes), group.astype(np.intp)[codes])


def _dense(scenario: Integers | None, session: Integers) -> Integers:
    """Clusters numbered without gaps: scenarios first, then sessions without one."""
    if scenario is None:
        scenario = np.full(len(session), -1)
    scenarios = int(scenario.max(initial=-1)) + 1
    labels = np.where(scenario >= 0, scenario, scenarios + session)
    met = np.zeros(int(labels.max(initial=-1)) + 1, dtype=np.intp)
    met[labels] = 1
    return (np.cumsum(met) - 1)[labels]
