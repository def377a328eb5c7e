"""Agreement of any number of raters on nominal labels, jointly and in pairs.

Labels are a table of items (rows) by raters (columns), NaN for a missing label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Labels, label_column
from chimeralab.stats.arrays import Floats, optional, ratios, same_length
from chimeralab.stats.intervals import Interval, percentile_interval
from chimeralab.stats.panel import Panel, panel
from chimeralab.stats.resample import SampleDesign, bootstrap, units


def krippendorff_alpha(labels: ArrayLike) -> float | None:
    """Agreement beyond chance over all items with at least two labels (Krippendorff 1970).

    None when no label varies.

    >>> round(krippendorff_alpha([[1, 1], [1, 0], [0, 0], [0, None], [1, 1]]), 4)
    0.5333
    """
    totals = _alpha_rows(np.asarray(labels, dtype=np.float64)).sum(axis=0, keepdims=True)
    return optional(float(_alphas(totals)[0]))


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
    totals, strata = units(_alpha_rows(np.asarray(labels, dtype=np.float64)), design)
    return percentile_interval(bootstrap(totals, _alphas, strata, rng=rng, resamples=resamples))


def fleiss_kappa(labels: ArrayLike) -> float | None:
    """Agreement beyond chance over the items that every rater labelled (Fleiss 1971).

    None when no label varies, or no item is complete.

    >>> round(fleiss_kappa([[1, 1, 1], [1, 0, 1], [0, 0, 0], [0, 1, 0]]), 4)
    0.3333
    """
    table = np.asarray(labels, dtype=np.float64)
    counts = label_counts(table[~np.isnan(table).any(axis=1)])
    raters, n = table.shape[1], len(counts)
    if n == 0:
        return None
    observed = ((counts**2).sum() - n * raters) / (n * raters * (raters - 1))
    expected = ((counts.sum(axis=0) / (n * raters)) ** 2).sum()
    varies = (counts.sum(axis=0) > 0).sum() > 1
    return float((observed - expected) / (1 - expected)) if varies else None


def label_counts(labels: Floats) -> Floats:
    """The number of raters by item and label, a column per distinct label.

    >>> label_counts(np.array([[1, 1, 0], [0, np.nan, 0]]))
    array([[1., 2.],
           [2., 0.]])
    """
    names = np.unique(labels[~np.isnan(labels)])
    return np.asarray((labels[:, :, None] == names).sum(axis=1), dtype=np.float64)


def _alpha_rows(labels: Floats) -> Floats:
    """The disagreement and label counts of each item; an item with one label does not count."""
    counts = label_counts(labels)
    given = counts.sum(axis=1)
    counts[given < 2] = 0
    disagreement = np.nan_to_num(ratios(given**2 - (counts**2).sum(axis=1), given - 1))
    return np.column_stack([np.where(given < 2, 0, disagreement), counts])


def _alphas(totals: Floats) -> Floats:
    disagreement, counts = totals[:, 0], totals[:, 1:]
    n = counts.sum(axis=1)
    return 1 - ratios((n - 1) * disagreement, n**2 - (counts**2).sum(axis=1))


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

    Alpha uses items with at least two labels (``n_valid``), Fleiss' kappa only those that every
    rater labelled (``n_complete``).
    """

    raters: tuple[str, ...]
    n_total: int
    n_valid: int
    n_complete: int
    missing: Mapping[str, int]
    alpha: float | None
    alpha_ci: Interval | None
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
    >>> round(result.alpha, 3), round(result.fleiss, 3), result.missing["ann"]
    (0.458, 0.333, 1)
    """
    table = _label_table(labels)
    present = ~np.isnan(table)
    alpha, fleiss = krippendorff_alpha(table), fleiss_kappa(table)
    interval = alpha_bootstrap(table, rng=rng, design=design, resamples=resamples)
    if alpha is None or alpha == 1:
        interval = None
    return RatersPanel(
        raters=tuple(labels),
        n_total=len(table),
        n_valid=int((present.sum(axis=1) >= 2).sum()),
        n_complete=int(present.all(axis=1).sum()),
        missing=dict(zip(labels, (~present).sum(axis=0).tolist(), strict=True)),
        alpha=alpha,
        alpha_ci=interval,
        fleiss=fleiss,
        pairs={
            (one, two): panel(labels[one], labels[two], rng=rng, design=design, resamples=resamples)
            for one, two in combinations(labels, 2)
        },
        reasons=_reasons(alpha, interval, fleiss),
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


def _reasons(
    alpha: float | None, interval: Interval | None, fleiss: float | None
) -> dict[str, str]:
    why = {}
    if alpha is None:
        same = "no item with two labels, or no label that varies"
        why = dict.fromkeys(("alpha", "alpha_ci"), same)
    elif interval is None:
        why["alpha_ci"] = "agreement is perfect: this interval would have no width"
    if fleiss is None:
        why["fleiss"] = "no item that every rater labelled, or no label that varies"
    return why
