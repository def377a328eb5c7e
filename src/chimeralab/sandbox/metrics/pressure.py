"""What a signal did: answers that went its way, and pairs that it turned."""

from typing import NamedTuple

import numpy as np

from chimeralab.sandbox.columns import MatchedPairs, TrialColumns
from chimeralab.sandbox.metrics.dfs import answer_gap
from chimeralab.sandbox.metrics.sums import Clusters, filled
from chimeralab.stats.arrays import Floats, ratios


class PressureSums(NamedTuple):
    """Counts, an entry a cluster.

    ``signalled`` are the biased trials whose signal is not the truth, ``toward`` those answered
    nearer to the signal than to the truth. Of the ``compared`` pairs, in ``b`` only the neutral
    half is right and in ``c`` only the biased one (McNemar 1947).
    """

    signalled: Floats
    toward: Floats
    compared: Floats
    b: Floats
    c: Floats


def toward_signal_rate(sums: PressureSums) -> Floats:
    """Share of misled answers among the trials with a misleading signal; NaN without any."""
    return ratios(sums.toward, sums.signalled)


def pressure_sums(columns: TrialColumns, pairs: MatchedPairs, clusters: Clusters) -> PressureSums:
    """The counts of every cluster."""
    toward = filled(_toward(columns), clusters.rows)
    right = _right(columns)
    neutral, biased = right[pairs.neutral], right[pairs.biased]
    turned_wrong = filled(neutral * (1 - biased), len(neutral))
    turned_right = filled((1 - neutral) * biased, len(neutral))
    by_pair = clusters.of(pairs.neutral)
    return PressureSums(
        signalled=clusters.total(toward.known),
        toward=clusters.total(toward.number),
        compared=by_pair.total(turned_wrong.known),
        b=by_pair.total(turned_wrong.number),
        c=by_pair.total(turned_right.number),
    )


def _toward(columns: TrialColumns) -> Floats | None:
    """1 where a misleading signal was followed, 0 where it was not, NaN elsewhere."""
    to_signal = answer_gap(columns, columns.response, columns.signal)
    to_truth = answer_gap(columns, columns.response, columns.truth)
    misled_by = answer_gap(columns, columns.signal, columns.truth)
    if to_signal is None or to_truth is None or misled_by is None:
        return None
    misleading = (columns.bias == 1) & (misled_by > 0) & ~np.isnan(to_signal)
    return np.where(misleading, to_signal < to_truth, np.nan)


def _right(columns: TrialColumns) -> Floats:
    """Whether each answer is right: as stated, else whether it equals the truth."""
    stated = np.full(len(columns), np.nan) if columns.correct is None else columns.correct
    missed = answer_gap(columns, columns.response, columns.truth)
    if missed is None:
        return stated
    equal = np.where(np.isnan(missed), np.nan, missed == 0)
    return np.where(np.isnan(stated), equal, stated)
