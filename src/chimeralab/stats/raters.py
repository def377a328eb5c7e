"""Agreement of any number of raters on nominal labels, any number of labels missing.

Labels are a table of items (rows) by raters (columns), NaN where a label is missing.
"""

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.stats.arrays import Floats, optional, ratios
from chimeralab.stats.design import Design, units
from chimeralab.stats.resample import Bootstrap, bootstrap


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
    design: Design | None = None,
    resamples: int = 100_000,
) -> Bootstrap:
    """95 % percentile interval of alpha, items (or clusters of them) resampled.

    >>> labels = [[1, 1], [1, 0], [0, 0], [0, None], [1, 1]] * 10
    >>> interval = alpha_bootstrap(labels, rng=np.random.default_rng(1)).interval
    >>> tuple(round(bound, 1) for bound in interval)
    (0.2, 0.7)
    """
    rows = _alpha_rows(np.asarray(labels, dtype=np.float64))
    return bootstrap(units(rows, design), _alphas, rng=rng, resamples=resamples)


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
    """How many raters gave each item each label; one column a distinct label.

    >>> label_counts(np.array([[1, 1, 0], [0, np.nan, 0]]))
    array([[1., 2.],
           [2., 0.]])
    """
    names = np.unique(labels[~np.isnan(labels)])
    return np.asarray((labels[:, :, None] == names).sum(axis=1), dtype=np.float64)


def _alpha_rows(labels: Floats) -> Floats:
    """Each item's disagreement and label counts; an item with one label has no part in it."""
    counts = label_counts(labels)
    given = counts.sum(axis=1)
    counts[given < 2] = 0
    disagreement = np.nan_to_num(ratios(given**2 - (counts**2).sum(axis=1), given - 1))
    return np.column_stack([np.where(given < 2, 0, disagreement), counts])


def _alphas(totals: Floats) -> Floats:
    disagreement, counts = totals[:, 0], totals[:, 1:]
    n = counts.sum(axis=1)
    return 1 - ratios((n - 1) * disagreement, n**2 - (counts**2).sum(axis=1))
