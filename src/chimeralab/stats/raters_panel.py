"""Two or more raters in one record: all of them together, and two by two."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Labels, label_column
from chimeralab.stats.arrays import Floats, same_length
from chimeralab.stats.design import Design
from chimeralab.stats.intervals import Interval
from chimeralab.stats.panel import Panel, panel
from chimeralab.stats.raters import alpha_bootstrap, fleiss_kappa, krippendorff_alpha


@dataclass(frozen=True, slots=True)
class RaterPair:
    """Two of the raters, by name."""

    first: str
    second: str
    panel: Panel


@dataclass(frozen=True, slots=True)
class RatersPanel:
    """All raters at once.

    Alpha uses every item with at least two labels (``n_valid``), Fleiss' kappa only the items
    that every rater labelled (``n_complete``).
    """

    raters: tuple[str, ...]
    n_total: int
    n_valid: int
    n_complete: int
    missing: Mapping[str, int]
    alpha: float | None
    alpha_ci: Interval | None
    fleiss: float | None
    pairs: tuple[RaterPair, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


def raters_panel(
    labels: Mapping[str, Labels],
    *,
    rng: np.random.Generator,
    design: Design | None = None,
    resamples: int = 100_000,
) -> RatersPanel:
    """The panel of a column of labels (0, 1 or missing) for each rater.

    >>> labels = {"ann": [1, 1, 0, 0, None], "ben": [1, 1, 0, 1, 1], "cat": [1, 0, 0, 0, 1]}
    >>> result = raters_panel(labels, rng=np.random.default_rng(1))
    >>> round(result.alpha, 3), round(result.fleiss, 3), result.missing["ann"]
    (0.458, 0.333, 1)
    """
    table = _label_table(labels)
    present = ~np.isnan(table)
    alpha, fleiss = krippendorff_alpha(table), fleiss_kappa(table)
    draws = alpha_bootstrap(table, rng=rng, design=design, resamples=resamples)
    interval = None if alpha is None or alpha == 1 else draws.interval
    return RatersPanel(
        raters=tuple(labels),
        n_total=len(table),
        n_valid=int((present.sum(axis=1) >= 2).sum()),
        n_complete=int(present.all(axis=1).sum()),
        missing=dict(zip(labels, (~present).sum(axis=0).tolist(), strict=True)),
        alpha=alpha,
        alpha_ci=interval,
        fleiss=fleiss,
        pairs=tuple(
            RaterPair(
                one,
                two,
                panel(labels[one], labels[two], rng=rng, design=design, resamples=resamples),
            )
            for one, two in combinations(labels, 2)
        ),
        reasons=_reasons(alpha, interval, fleiss),
    )


def _label_table(labels: Mapping[str, Labels]) -> Floats:
    if len(labels) < 2:
        raise InputError(f"agreement needs two raters; there are {len(labels)}")
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
