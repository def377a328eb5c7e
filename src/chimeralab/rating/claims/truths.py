"""What the counts say: every quantity that a text may state about the agreement of two raters."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chimeralab.stats import agreement as pair
from chimeralab.stats.agreement import (
    Table2x2,
    kappa_bootstrap,
    kappa_score,
    kappa_standard_error,
    kappa_wald,
)
from chimeralab.stats.intervals import Interval, clopper_pearson, wilson


@dataclass(frozen=True, slots=True)
class Truth:
    """A quantity by name: its values as a share and as a count, the usual one first.

    More than one value is right where a text may mean more than one thing. None is a value that
    is undefined here: whatever number a text gives for it is wrong. `meanings` tells the shares
    apart.
    """

    name: str
    shares: tuple[float | None, ...] = ()
    counts: tuple[int, ...] = ()
    meanings: tuple[str, ...] = ()


Truths = Mapping[str, Truth]


def truths(table: Table2x2) -> dict[str, Truth]:
    """Everything that can be recomputed from four counts."""
    return {truth.name: truth for truth in (*_coefficients(table), *_groups(table))}


def _coefficients(table: Table2x2) -> list[Truth]:
    return [
        Truth("kappa", (pair.cohen_kappa(table),)),
        Truth("largest kappa with these margins", (pair.kappa_max(table),)),
        Truth(
            "largest kappa",
            (pair.kappa_max(table), kappa_ceiling(table), pair.pabak(table)),
            meanings=("with these margins", "over all margins at this agreement", "as PABAK"),
        ),
        Truth("standard error of kappa", (kappa_standard_error(table),)),
        Truth("PABAK", (pair.pabak(table),)),
        Truth("AC1", (pair.gwet_ac1(table),)),
        Truth("alpha", (pair.pair_alpha(table),)),
        Truth("expected agreement", (pair.expected_agreement(table),)),
        Truth("prevalence index", (pair.prevalence_index(table),)),
        Truth("bias index", (pair.bias_index(table),)),
        Truth("positive agreement", (pair.positive_agreement(table),)),
        Truth("negative agreement", (pair.negative_agreement(table),)),
    ]


def _groups(table: Table2x2) -> list[Truth]:
    first, second = table.both + table.first_only, table.both + table.second_only
    differing = table.first_only + table.second_only
    counts = {
        "items": table.n,
        "agreement": table.both + table.neither,
        "disagreement": differing,
        "both raters say 1": table.both,
        "both raters say 0": table.neither,
        "at least one rater says 1": table.both + differing,
        "at least one rater says 0": table.neither + differing,
        "the first rater says 0": table.n - first,
        "the second rater says 0": table.n - second,
        "only the first rater says 1": table.first_only,
        "only the second rater says 1": table.second_only,
        "the first rater says 1": first,
        "the second rater says 1": second,
    }
    groups = [
        Truth(name, (count / table.n if table.n else None,), (int(count),))
        for name, count in counts.items()
    ]
    shares = (pair.prevalence(table), *(t.shares[0] for t in groups[-2:]))
    meanings = ("as the mean of both raters", "by the first", "by the second")
    return [*groups, Truth("prevalence", shares, (int(first), int(second)), meanings)]


def kappa_ceiling(table: Table2x2) -> float | None:
    """The largest kappa that this raw agreement allows, whatever the margins.

    Chance agreement is least when one rater's share lies as far above a half as the other's
    lies below, and they can be no further apart than the items they differ on.

    >>> round(kappa_ceiling(Table2x2(157, 7, 6, 10)), 3)
    0.856
    """
    agreement = pair.raw_agreement(table)
    if agreement is None:
        return None
    chance = (1 - (1 - agreement) ** 2) / 2
    return (agreement - chance) / (1 - chance)


def intervals(table: Table2x2, level: float = 0.95) -> dict[str, dict[str, Interval | None]]:
    """The intervals that a text may give, by quantity and by method."""
    agreed, n = table.both + table.neither, table.n
    share = wilson(agreed, n, level) if n else None
    draws = kappa_bootstrap(table, rng=np.random.default_rng(0), level=level)
    return {
        "kappa": {
            "Wald": kappa_wald(table, level),
            "score": kappa_score(table, level),
            "bootstrap": draws.interval,
        },
        "PABAK": {"Wilson": share and Interval(2 * share.low - 1, 2 * share.high - 1)},
        "agreement": {
            "Wilson": share,
            "exact": clopper_pearson(int(agreed), int(n), level) if n else None,
        },
    }
