"""Agreement of any number of raters on nominal labels, jointly and in pairs.

Labels are a table of items (rows) by raters (columns), NaN for a missing label.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Labels, label_column
from chimeralab.stats.arrays import Floats, Integers, optional, ratios, same_length
from chimeralab.stats.intervals import Estimate, Interval, percentile_interval
from chimeralab.stats.panel import Panel, ac1_interval, panel
from chimeralab.stats.resample import SampleDesign, Statistic, bootstrap, jackknife, units


def krippendorff_alpha(labels: ArrayLike, design: SampleDesign | None = None) -> float | None:
    """Agreement beyond chance over all items with at least two labels (Krippendorff 1970).

    None when no label varies.

    >>> round(krippendorff_alpha([[1, 1], [1, 0], [0, 0], [0, None], [1, 1]]), 4)
    0.5333
    """
    return _of_all(_alphas, _alpha_units(labels, design)[0])


def alpha_bootstrap(
    labels: ArrayLike,
    *,
    rng: np.random.Generator,
    design: SampleDesign | None = None,
    resamples: int = 100_000,
) -> Interval | None:
    """95 % percentile interval of alpha, items (or clusters of them) resampled.

    >>> labels = [[1, 1], [1, 0], [0, 0], [0, None], [1, 1]] * 10
    >>> interval = alpha_bootstrap(labels, rng=np.random.default_rng(1))
    >>> tuple(round(bound, 1) for bound in interval)
    (0.2, 0.7)
    """
    totals, strata = _alpha_units(labels, design)
    return percentile_interval(bootstrap(totals, _alphas, strata, rng=rng, resamples=resamples))


def fleiss_kappa(labels: ArrayLike, design: SampleDesign | None = None) -> float | None:
    """Agreement beyond chance over the items that every rater labelled (Fleiss 1971).

    None when no label varies, or no item is complete.

    >>> round(fleiss_kappa([[1, 1, 1], [1, 0, 1], [0, 0, 0], [0, 1, 0]]), 4)
    0.3333
    """

    def chance(shares: Floats) -> Floats:
        return np.asarray((shares**2).sum(axis=1))

    raters = np.asarray(labels, dtype=np.float64).shape[1]
    return _of_all(partial(_beyond, chance), _share_units(labels, raters, design)[0])


def gwet_ac1(labels: ArrayLike, design: SampleDesign | None = None) -> Estimate:
    """Agreement beyond chance that is stable under unbalanced labels (Gwet 2008, 2014).

    Agreement is that of the items with at least two labels; chance is computed from every item
    with a label. The standard error is a jackknife over items, or clusters of them.

    >>> found = gwet_ac1([[1, 1, 1], [1, 0, 1], [0, 0, None], [0, 1, 0], [1, None, None]])
    >>> round(found.value, 4), round(found.standard_error, 4)
    (0.359, 0.3673)
    """

    def chance(shares: Floats) -> Floats:
        return np.asarray((shares * (1 - shares)).sum(axis=1) / max(shares.shape[1] - 1, 1))

    totals, strata = _share_units(labels, 1, design)
    return jackknife(totals, partial(_beyond, chance), strata)


def label_counts(labels: Floats) -> Floats:
    """The number of raters by item and label, a column per distinct label.

    >>> label_counts(np.array([[1, 1, 0], [0, np.nan, 0]]))
    array([[1., 2.],
           [2., 0.]])
    """
    names = np.unique(labels[~np.isnan(labels)])
    return np.asarray((labels[:, :, None] == names).sum(axis=1), dtype=np.float64)


def _of_all(statistic: Statistic, totals: Floats) -> float | None:
    return optional(float(statistic(totals.sum(axis=0, keepdims=True))[0]))


def _alpha_units(labels: ArrayLike, design: SampleDesign | None) -> tuple[Floats, Integers]:
    """The disagreement and label counts of the items with at least two labels, by unit."""
    counts = label_counts(np.asarray(labels, dtype=np.float64))
    given = counts.sum(axis=1)
    disagreement = ratios(given**2 - (counts**2).sum(axis=1), given - 1)
    return _keep(np.column_stack([disagreement, counts]), given >= 2, design)


def _alphas(totals: Floats) -> Floats:
    disagreement, counts = totals[:, 0], totals[:, 1:]
    n = counts.sum(axis=1)
    return 1 - ratios((n - 1) * disagreement, n**2 - (counts**2).sum(axis=1))


def _share_units(
    labels: ArrayLike, fewest: int, design: SampleDesign | None
) -> tuple[Floats, Integers]:
    """Agreement and share of each label on the items with `fewest` labels, by unit.

    The columns are: items with a pair of labels, agreeing share of pairs, items, label shares.
    """
    counts = label_counts(np.asarray(labels, dtype=np.float64))
    given = counts.sum(axis=1)
    paired = (given >= 2).astype(np.float64)
    agreed = np.nan_to_num(ratios((counts * (counts - 1)).sum(axis=1), given * (given - 1)))
    shares = ratios(counts, given[:, None])
    rows = np.column_stack([paired, agreed, np.ones(len(counts)), shares])
    return _keep(rows, given >= fewest, design)


def _keep(
    rows: Floats, kept: NDArray[np.bool_], design: SampleDesign | None
) -> tuple[Floats, Integers]:
    return units(rows[kept], design and design.keep(kept))


def _beyond(chance: Callable[[Floats], Floats], totals: Floats) -> Floats:
    """Agreement beyond what chance gives at these shares of the labels."""
    observed = ratios(totals[:, 1], totals[:, 0])
    expected = chance(ratios(totals[:, 3:], totals[:, 2:3]))
    return ratios(observed - expected, 1 - expected)


def compare_with_majority(
    labels: Mapping[str, Sequence[int | None]],
) -> dict[str, tuple[int, int]]:
    """Each rater's labels equal to the majority of the others, and the number of such items.

    Ties and missing labels do not count.

    >>> compare_with_majority({"a": [1, 0, 1], "b": [1, 0, 0], "c": [1, 1, 0]})["a"]
    (1, 2)
    """
    found = {}
    for rater, column in labels.items():
        rest = [others for name, others in labels.items() if name != rater]
        agreed = []
        for label, *others in zip(column, *rest, strict=True):
            votes = others.count(1) - others.count(0)
            if label is not None and votes:
                agreed.append(label == (votes > 0))
        found[rater] = sum(agreed), len(agreed)
    return found


@dataclass(frozen=True, slots=True)
class RatersPanel:
    """The agreement of all raters, and of each pair.

    Alpha and AC1 use items with at least two labels (``n_valid``), Fleiss' kappa only those that
    every rater labelled (``n_complete``).
    """

    raters: tuple[str, ...]
    n_total: int
    n_valid: int
    n_complete: int
    missing: Mapping[str, int]
    alpha: float | None
    alpha_ci: Interval | None
    ac1: float | None
    ac1_ci: Interval | None
    fleiss: float | None
    pairs: Mapping[tuple[str, str], Panel]
    reasons: Mapping[str, str] = field(default_factory=dict)


def raters_panel(
    labels: Mapping[str, Labels],
    *,
    rng: np.random.Generator,
    design: SampleDesign | None = None,
    resamples: int = 100_000,
) -> RatersPanel:
    """Measure the agreement of raters, each with a column of labels (0, 1 or missing).

    >>> labels = {"ann": [1, 1, 0, 0, None], "ben": [1, 1, 0, 1, 1], "cat": [1, 0, 0, 0, 1]}
    >>> result = raters_panel(labels, rng=np.random.default_rng(1))
    >>> round(result.alpha, 3), round(result.ac1, 3), round(result.fleiss, 3), result.n_complete
    (0.458, 0.487, 0.333, 4)
    """
    table = _label_table(labels)
    present = ~np.isnan(table)
    alpha, ac1 = krippendorff_alpha(table, design), gwet_ac1(table, design)
    interval = alpha_bootstrap(table, rng=rng, design=design, resamples=resamples)
    values: dict[str, Any] = {
        "alpha": alpha,
        "alpha_ci": None if alpha in (None, 1) else interval,
        "ac1": ac1.value,
        "ac1_ci": ac1_interval(ac1),
        "fleiss": fleiss_kappa(table, design),
    }
    return RatersPanel(
        raters=tuple(labels),
        n_total=len(table),
        n_valid=int((present.sum(axis=1) >= 2).sum()),
        n_complete=int(present.all(axis=1).sum()),
        missing=dict(zip(labels, (~present).sum(axis=0).tolist(), strict=True)),
        pairs={
            (one, two): panel(labels[one], labels[two], rng=rng, design=design, resamples=resamples)
            for one, two in combinations(labels, 2)
        },
        reasons={name: _reason(name, values) for name, value in values.items() if value is None},
        **values,
    )


def _label_table(labels: Mapping[str, Labels]) -> Floats:
    if len(labels) < 2:
        raise InputError(f"agreement needs at least two raters, not {len(labels)}")
    same_length(**labels)
    columns = [label_column(column, name) for name, column in labels.items()]
    for name, column in zip(labels, columns, strict=True):
        if np.isnan(column).all():
            raise InputError(f"rater '{name}' gave no label; leave the rater out")
    return np.column_stack(columns)


def _reason(name: str, values: Mapping[str, Any]) -> str:
    if name == "fleiss":
        return "no item that every rater labelled, or no label that varies"
    if name == "ac1" or values[name.removesuffix("_ci")] is None:
        return "no item with two labels, or no label that varies"
    if values[name.removesuffix("_ci")] == 1:
        return "agreement is perfect: this interval would have no width"
    return "too few sampling units: without one of them AC1 is undefined"
