"""Agreement of two raters, with intervals for kappa: Wald, score, and bootstrap over items.

At high kappa and unbalanced labels the Wald interval is too short and its lower bound too high. The
score interval uses the variance at each candidate kappa, as Wilson's does for a proportion, and
keeps its level: ``benchmarks/validity/kappa_coverage.py`` prints the coverage of all three.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, optional, ratios, same_length
from chimeralab.stats.intervals import Interval, normal_interval, normal_quantile

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
    """Labels as 0.0, 1.0 or NaN for missing; any other value is refused.

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
    """A row per item with a 1 in its cell of the table; all zero if a label is missing.

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
    """Count the pairs with both labels.

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
    """Agreement expected by chance from the raters' margins (Cohen 1960).

    >>> round(expected_agreement(Table2x2(157, 7, 6, 10)), 4)
    0.8335
    """
    ones = (table.both + table.first_only) * (table.both + table.second_only)
    zeros = (table.second_only + table.neither) * (table.first_only + table.neither)
    return _ratio(ones + zeros, table.n**2)


def kappas(tables: ArrayLike) -> Floats:
    """Cohen's kappa of many tables, four counts a row; NaN if undefined.

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
    """Prevalence- and bias-adjusted kappa: 2 x agreement - 1 (Byrt 1993).

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
    """Share of both-1 minus share of both-0: how unbalanced the labels are (Byrt 1993).

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


def ac1s(tables: ArrayLike) -> Floats:
    """AC1 of many tables, four counts a row: stable under unbalanced labels (Gwet 2008).

    >>> ac1s([[157, 7, 6, 10], [45, 0, 0, 0]]).round(4)
    array([0.9133, 1.    ])
    """
    a, b, c, d = np.moveaxis(np.asarray(tables, dtype=np.float64), -1, 0)
    n = a + b + c + d
    ones = ratios(2 * a + b + c, 2 * n)
    chance = 2 * ones * (1 - ones)
    return (ratios(a + d, n) - chance) / (1 - chance)


def pair_ac1(table: Table2x2) -> float | None:
    """AC1 of two raters; None without items.

    >>> round(pair_ac1(Table2x2(157, 7, 6, 10)), 4)
    0.9133
    """
    return optional(float(ac1s(table.cells)))


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


def kappa_standard_error(table: Table2x2) -> float | None:
    """Large-sample standard error of kappa (Fleiss, Cohen, Everitt 1969).

    >>> round(kappa_standard_error(Table2x2(157, 7, 6, 10)), 4)
    0.1077
    """
    if cohen_kappa(table) is None:
        return None
    a, b, c, d = table.cells / table.n
    first, second = a + b, a + c
    observed, expected = a + d, first * second + (1 - first) * (1 - second)
    miss, room = 1 - observed, 1 - expected
    ones = a * (room - (first + second) * miss) ** 2
    zeros = d * (room - (2 - first - second) * miss) ** 2
    differing = miss**2 * (b * (second + 1 - first) ** 2 + c * (first + 1 - second) ** 2)
    centre = (observed * expected - 2 * expected + observed) ** 2
    variance = (ones + zeros + differing - centre) / room**4
    return float(np.sqrt(max(variance, 0.0) / table.n))


def kappa_wald(table: Table2x2, level: float = 0.95) -> Interval | None:
    """Wald interval of kappa; None if undefined or if agreement is perfect.

    Perfect agreement has an estimated error of 0, which would claim certainty from any sample.

    >>> tuple(round(bound, 4) for bound in kappa_wald(Table2x2(157, 7, 6, 10)))
    (0.3552, 0.7775)
    """
    kappa, error = cohen_kappa(table), kappa_standard_error(table)
    if kappa is None or error is None or is_perfect(table):
        return None
    return normal_interval(kappa, error, level)


def kappa_variance(kappa: float, prevalence: float) -> float:
    """Variance of kappa per item if both raters have the same prevalence (Fleiss et al. 1969).

    >>> round(kappa_variance(0.9, 0.5), 4)
    0.19
    """
    balance = 2 * prevalence * (1 - prevalence)
    return (1 - kappa) * ((1 - kappa) * (1 - 2 * kappa) + kappa * (2 - kappa) / balance)


def kappa_score(table: Table2x2, level: float = 0.95) -> Interval | None:
    """The kappas that a score test at the table's mean prevalence does not reject.

    >>> tuple(round(bound, 4) for bound in kappa_score(Table2x2(157, 7, 6, 10)))
    (0.3411, 0.7405)
    """
    kappa, ones = cohen_kappa(table), prevalence(table)
    if kappa is None or ones is None:
        return None
    reach = normal_quantile(level) ** 2 / table.n

    def rejected(candidate: float) -> bool:
        return (kappa - candidate) ** 2 > reach * kappa_variance(candidate, ones)

    return Interval(_boundary(rejected, -1.0, kappa), _boundary(rejected, 1.0, kappa))


def kappa_bootstrap(
    table: Table2x2, *, rng: np.random.Generator, resamples: int = 100_000
) -> Floats:
    """Kappa of tables drawn from the multinomial distribution of the items.

    Kappa takes few distinct values near its bounds, so its quantiles need many
    resamples to converge.

    >>> draws = kappa_bootstrap(Table2x2(157, 7, 6, 10), rng=np.random.default_rng(0))
    >>> float(draws.mean().round(2))
    0.56
    """
    if table.n == 0:
        return np.full(resamples, np.nan)
    return kappas(rng.multinomial(int(table.n), table.cells / table.n, size=resamples))


def is_perfect(table: Table2x2) -> bool:
    """Whether the raters agree on every item.

    >>> is_perfect(Table2x2(20, 0, 0, 5))
    True
    """
    return table.first_only == 0 and table.second_only == 0


def _boundary(rejected: Callable[[float], bool], outside: float, inside: float) -> float:
    """The value between `outside` and `inside` where rejection ends, by bisection."""
    for _ in range(60):
        middle = (outside + inside) / 2
        if rejected(middle):
            outside = middle
        else:
            inside = middle
    return inside
