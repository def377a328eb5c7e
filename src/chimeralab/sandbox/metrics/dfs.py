"""Decision Frame Stability: the same decision in a neutral and in a biased wording.

Source: the sandbox's methods, section 3.2.3. It writes one N for both parts; here frame invariance
runs over the matched pairs and bias resistance over all trials.
"""

from typing import NamedTuple

import numpy as np

from chimeralab.sandbox.columns import MatchedPairs, TrialColumns
from chimeralab.sandbox.metrics.sums import Clusters, filled
from chimeralab.sandbox.metrics.weights import weighted
from chimeralab.stats.arrays import Floats, ratios


class DfsSums(NamedTuple):
    """What pairs and trials add up to, an entry a cluster."""

    pairs: Floats
    shift: Floats
    trials: Floats
    flagged: Floats
    biased: Floats
    error: Floats


class DfsParts(NamedTuple):
    """The metric and its parts; NaN where undefined."""

    value: Floats
    fi: Floats
    br: Floats
    br_biased_only: Floats


def dfs_parts(sums: DfsSums, weights: tuple[float, float]) -> DfsParts:
    """Frame invariance, bias resistance, and the latter without the neutral trials.

    >>> sums = DfsSums(*np.array([[5.0], [2.0], [10.0], [5.0], [5.0], [1.0]]))
    >>> [float(part[0].round(3)) for part in dfs_parts(sums, (0.5, 0.5))]
    [0.75, 0.6, 0.9, 0.8]
    """
    fi = 1 - ratios(sums.shift, sums.pairs)
    # Where biased trials were run but none can be judged, the neutral ones alone say nothing.
    trials = np.where((sums.flagged > 0) & (sums.biased == 0), 0, sums.trials)
    br = 1 - ratios(sums.error, trials)
    return DfsParts(
        value=weighted(weights, fi, br),
        fi=fi,
        br=br,
        br_biased_only=1 - ratios(sums.error, sums.biased),
    )


def dfs_sums(columns: TrialColumns, pairs: MatchedPairs, clusters: Clusters) -> DfsSums:
    """The sums of every cluster.

    A pair counts when both halves are answered. A neutral trial adds nothing to the error and
    always counts; a biased one counts when its answer and the truth are known.
    """
    by_pair = clusters.of(pairs.neutral)
    shift = filled(_shifts(columns, pairs), by_pair.rows)
    bias = filled(columns.bias, clusters.rows)
    error = filled(answer_gap(columns, columns.response, columns.truth), clusters.rows)
    flagged, biased = clusters.total(bias.number), clusters.total(bias.number, error.known)
    return DfsSums(
        pairs=by_pair.total(shift.known),
        shift=by_pair.total(shift.number),
        trials=clusters.total(bias.known) - flagged + biased,
        flagged=flagged,
        biased=biased,
        error=clusters.total(bias.number, error.number),
    )


def answer_gap(columns: TrialColumns, one: Floats | None, other: Floats | None) -> Floats | None:
    """How far apart two columns of answers are, row by row; NaN where either is missing."""
    if one is None or other is None:
        return None
    if not columns.categories:
        return np.abs(one - other)
    return np.where(np.isnan(one) | np.isnan(other), np.nan, one != other)


def _shifts(columns: TrialColumns, pairs: MatchedPairs) -> Floats | None:
    if columns.response is None:
        return None
    return answer_gap(columns, columns.response[pairs.neutral], columns.response[pairs.biased])
