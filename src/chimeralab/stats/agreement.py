"""Agreement of two raters on yes/no labels. Counts in, numbers out; None when undefined."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, optional, ratios, same_length

Labels = Sequence[float | None] | Floats


@dataclass(frozen=True, slots=True)
class Table2x2:
    """How often both raters said 1, only the first, only the second, neither.

    >>> Table2x2(157, 7, 6, 10).n
    180
    """

    both: float
    first_only: float
    second_only: float
    neither: float

    def __post_init__(self) -> None:
        if not all(0 <= count < float("inf") for count in astuple(self)):
            raise InputError(f"table {astuple(self)}: counts must be finite and not negative")

    @property
    def n(self) -> float:
        return self.both + self.first_only + self.second_only + self.neither

    @property
    def cells(self) -> Floats:
        return np.array(astuple(self), dtype=np.float64)


def label_column(labels: Labels, name: str) -> Floats:
    """Labels as 0.0, 1.0 or NaN for missing; refuses every other value.

    >>> label_column([1, None, 0], "first rater")
    array([ 1., nan,  0.])
    """
    try:
        column = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: labels are 0, 1 or missing") from None
    wrong = np.flatnonzero(~(np.isnan(column) | (column == 0) | (column == 1)))
    if wrong.size:
        place = f"label {wrong[0] + 1} is {column[wrong[0]]:g}"
        raise InputError(f"{name}: {place}; labels are 0, 1 or missing")
    return column


def cell_rows(first: Labels, second: Labels) -> Floats:
    """One row an item, a 1 in its cell of the table; a pair with a missing label is all zero.

    >>> cell_rows([1, 1, None], [1, 0, 1])
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.]])
    """
    same_length(first=first, second=second)
    one, two = label_column(first, "first rater"), label_column(second, "second rater")
    pairs = ((1, 1), (1, 0), (0, 1), (0, 0))
    return np.column_stack([(one == a) & (two == b) for a, b in pairs]).astype(np.float64)


def tabulate(first: Labels, second: Labels) -> Table2x2:
    """Count the pairs that carry both labels.

    >>> tabulate([1, 1, 0, None], [1, 0, 0, 1])
    Table2x2(both=1, first_only=1, second_only=0, neither=1)
    """
    return Table2x2(*(int(count) for count in cell_rows(first, second).sum(axis=0)))


def raw_agreement(table: Table2x2) -> float | None:
    """Share of items with equal labels; None without items.

    >>> round(raw_agreement(Table2x2(157, 7, 6, 10)), 4)
    0.9278
    """
    return _ratio(table.both + table.neither, table.n)


def expected_agreement(table: Table2x2) -> float | None:
    """Agreement to expect by chance from the two raters' own margins (Cohen 1960).

    >>> round(expected_agreement(Table2x2(157, 7, 6, 10)), 4)
    0.8335
    """
    ones = (table.both + table.first_only) * (table.both + table.second_only)
    zeros = (table.second_only + table.neither) * (table.first_only + table.neither)
    return _ratio(ones + zeros, table.n**2)


def kappas(tables: ArrayLike) -> Floats:
    """Cohen's kappa of many tables at once, one in each row of four; NaN when undefined.

    >>> kappas([[157, 7, 6, 10], [45, 0, 0, 0]]).round(4)
    array([0.5663,    nan])
    """
    a, b, c, d = np.moveaxis(np.asarray(tables, dtype=np.float64), -1, 0)
    return ratios(2 * (a * d - b * c), (a + b) * (b + d) + (a + c) * (c + d))


def cohen_kappa(table: Table2x2) -> float | None:
    """Agreement of two raters beyond chance (Cohen 1960); None when both never vary.

    >>> round(cohen_kappa(Table2x2(157, 7, 6, 10)), 4)
    0.5663
    """
    return optional(float(kappas(table.cells)))


def kappa_max(table: Table2x2) -> float | None:
    """The largest kappa that the raters' margins allow (Cohen 1960).

    >>> round(kappa_max(Table2x2(157, 7, 6, 10)), 4)
    0.9666
    """
    fewer = min(table.first_only, table.second_only)
    one_sided = (table.first_only - fewer, table.second_only - fewer)
    return cohen_kappa(Table2x2(table.both + fewer, *one_sided, table.neither + fewer))


def pabak(table: Table2x2) -> float | None:
    """Kappa as it would be with balanced labels and no bias: 2 x agreement - 1 (Byrt 1993).

    >>> round(pabak(Table2x2(157, 7, 6, 10)), 4)
    0.8556
    """
    agreement = raw_agreement(table)
    return None if agreement is None else 2 * agreement - 1


def prevalence(table: Table2x2) -> float | None:
    """Share of label 1, averaged over the two raters.

    >>> round(prevalence(Table2x2(157, 7, 6, 10)), 4)
    0.9083
    """
    return _ratio(2 * table.both + table.first_only + table.second_only, 2 * table.n)


def prevalence_index(table: Table2x2) -> float | None:
    """Both-1 share minus both-0 share: how lopsided the labels are (Byrt 1993).

    >>> round(prevalence_index(Table2x2(157, 7, 6, 10)), 4)
    0.8167
    """
    return _ratio(table.both - table.neither, table.n)


def bias_index(table: Table2x2) -> float | None:
    """How much more often the first rater says 1 than the second (Byrt 1993).

    >>> round(bias_index(Table2x2(157, 7, 6, 10)), 4)
    0.0056
    """
    return _ratio(table.first_only - table.second_only, table.n)


def positive_agreement(table: Table2x2) -> float | None:
    """Chance that one rater says 1 given that the other does (Cicchetti, Feinstein 1990).

    >>> round(positive_agreement(Table2x2(157, 7, 6, 10)), 4)
    0.9602
    """
    return _ratio(2 * table.both, 2 * table.both + table.first_only + table.second_only)


def negative_agreement(table: Table2x2) -> float | None:
    """Chance that one rater says 0 given that the other does (Cicchetti, Feinstein 1990).

    >>> round(negative_agreement(Table2x2(157, 7, 6, 10)), 4)
    0.6061
    """
    return _ratio(2 * table.neither, 2 * table.neither + table.first_only + table.second_only)


def gwet_ac1(table: Table2x2) -> float | None:
    """Agreement beyond chance that stays stable under lopsided labels (Gwet 2008).

    >>> round(gwet_ac1(Table2x2(157, 7, 6, 10)), 4)
    0.9133
    """
    agreement, ones = raw_agreement(table), prevalence(table)
    if agreement is None or ones is None:
        return None
    chance = 2 * ones * (1 - ones)
    return (agreement - chance) / (1 - chance)


def pair_alpha(table: Table2x2) -> float | None:
    """Krippendorff's alpha for two raters and nominal labels; None when no label varies.

    >>> round(pair_alpha(Table2x2(157, 7, 6, 10)), 4)
    0.5675
    """
    differing = table.first_only + table.second_only
    ones, zeros = 2 * table.both + differing, 2 * table.neither + differing
    disagreement = _ratio(differing * (2 * table.n - 1), ones * zeros)
    return None if disagreement is None else 1 - disagreement


def _ratio(numerator: float, denominator: float) -> float | None:
    return None if denominator == 0 else float(numerator / denominator)
