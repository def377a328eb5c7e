"""Do survival curves differ? The log-rank test, and a permutation p that respects clusters."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from chimeralab.stats.arrays import Floats, Integers, encode, optional, same_length
from chimeralab.stats.design import Column
from chimeralab.stats.permutation import PermutationTest, permutation_test, permute_within
from chimeralab.stats.survival import Durations, LifeTable, life_table


@dataclass(frozen=True, slots=True)
class LogRank:
    """Chi-square of the log-rank test; its p takes every run for independent."""

    chi2: float | None
    df: int
    p: float | None
    reason: str | None = None


def logrank(runs: Durations, groups: Column) -> LogRank:
    """Compare the survival curves of two or more groups (Mantel 1966, Peto 1972).

    >>> from chimeralab.stats.survival import durations
    >>> runs = durations([2, 3, 5, 9, None, 8], [9, 9, 9, 9, 9, 9])
    >>> result = logrank(runs, ["A", "A", "A", "B", "B", "B"])
    >>> round(result.chi2, 3), result.df, round(result.p, 3)
    (5.052, 1, 0.025)
    """
    same_length(runs=runs.times, groups=groups)
    code = encode(groups)
    df = len(code.names) - 1
    if df < 1 or not runs.observed.any():
        missing = "fewer than two groups" if df < 1 else "no run had the event"
        return LogRank(None, df, None, missing)
    times, at_risk, events = life_table(runs, code.codes)
    chi2 = optional(float(_chi_squares(LifeTable(times, at_risk[None], events[None]))[0]))
    if chi2 is None:
        return LogRank(None, df, None, "no event came while several groups were at risk")
    return LogRank(chi2, df, float(special.chdtrc(df, chi2)))


def logrank_permutation(
    runs: Durations,
    groups: Column,
    clusters: Column,
    *,
    rng: np.random.Generator,
    permutations: int = 2_000,
) -> PermutationTest | None:
    """P-value of the log-rank statistic when conditions change places within each cluster.

    All repeats of a prompt under one condition move together: they share whatever that prompt
    and condition have in common, so moving them one by one would overstate the evidence.

    >>> from chimeralab.stats.survival import durations
    >>> runs = durations([2, 3, 5, 9, None, 8], [9, 9, 9, 9, 9, 9])
    >>> groups, rng = ["A", "A", "A", "B", "B", "B"], np.random.default_rng(1)
    >>> round(logrank_permutation(runs, groups, [1, 2, 3, 1, 2, 3], rng=rng).p, 1)
    0.2
    """
    same_length(runs=runs.times, groups=groups, clusters=clusters)
    observed = logrank(runs, groups)
    if observed.chi2 is None:
        return None
    cells, cell_of_run = np.unique(
        np.column_stack([encode(clusters).codes, encode(groups).codes]),
        axis=0,
        return_inverse=True,
    )
    table = life_table(runs, cell_of_run.ravel().astype(np.intp))
    draws = [
        _chi_squares(_regroup(table, labels, observed.df + 1))
        for labels in np.array_split(
            permute_within(cells[:, 1], cells[:, 0], permutations, rng), 1 + permutations // 250
        )
    ]
    return permutation_test(observed.chi2, np.concatenate(draws))


def _regroup(table: LifeTable, labels: Integers, groups: int) -> LifeTable:
    """Life tables of the groups under each row of cell labels."""
    member = (labels[:, None, :] == np.arange(groups)[:, None]).astype(np.float64)
    return LifeTable(table.times, member @ table.at_risk, member @ table.events)


def _chi_squares(tables: LifeTable) -> Floats:
    """Log-rank statistics of many life tables, indexed by table, group and time."""
    _, at_risk, events = tables
    risk, happened = at_risk.sum(axis=1, keepdims=True), events.sum(axis=1, keepdims=True)
    share = at_risk / risk
    excess = (events - happened * share).sum(axis=2)[:, :-1]
    spread = (happened * (risk - happened) / np.maximum(risk - 1, 1))[:, 0, :]
    mixed = -np.einsum("rt,rgt,rht->rgh", spread, share, share)
    own = np.einsum("rt,rgt->rg", spread, share)
    variance = (mixed + np.eye(share.shape[1]) * own[:, None, :])[:, :-1, :-1]
    # A group that is never at risk with others has no variance; the pseudo-inverse leaves it out.
    inverse = np.linalg.pinv(variance, hermitian=True)
    chi2 = np.einsum("rg,rgh,rh->r", excess, inverse, excess)
    return np.where(np.trace(variance, axis1=1, axis2=2) > 1e-12, chi2, np.nan)
