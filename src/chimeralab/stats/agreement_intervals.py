"""Intervals for Cohen's kappa: Wald, score, and bootstrap over items.

At high kappa and lopsided labels the Wald interval is too short and its lower bound too high; the
score interval takes the variance at each candidate kappa, as Wilson does for a proportion, and
keeps its level. ``benchmarks/validity/kappa_coverage.py`` prints the coverage of all three.
"""

from collections.abc import Callable

import numpy as np

from chimeralab.stats.agreement import Table2x2, cohen_kappa, kappas, prevalence
from chimeralab.stats.intervals import Interval, normal_interval, normal_quantile
from chimeralab.stats.resample import Bootstrap, summarise


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
    """Kappa plus and minus its standard error; None when undefined or when agreement is perfect.

    Perfect agreement has an estimated error of 0, which would claim certainty from any sample.

    >>> tuple(round(bound, 4) for bound in kappa_wald(Table2x2(157, 7, 6, 10)))
    (0.3552, 0.7775)
    """
    kappa, error = cohen_kappa(table), kappa_standard_error(table)
    if kappa is None or error is None or is_perfect(table):
        return None
    return normal_interval(kappa, error, level)


def kappa_variance(kappa: float, prevalence: float) -> float:
    """Variance of kappa for one item when both raters say 1 equally often (Fleiss et al. 1969).

    >>> round(kappa_variance(0.9, 0.5), 4)
    0.19
    """
    balance = 2 * prevalence * (1 - prevalence)
    return (1 - kappa) * ((1 - kappa) * (1 - 2 * kappa) + kappa * (2 - kappa) / balance)


def kappa_score(table: Table2x2, level: float = 0.95) -> Interval | None:
    """All kappas that a score test with the table's mean prevalence would not reject.

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
    table: Table2x2,
    *,
    rng: np.random.Generator,
    resamples: int = 100_000,
    level: float = 0.95,
) -> Bootstrap:
    """Percentile interval over resampled items: tables are drawn whole, not item by item.

    Kappa takes few distinct values near its bounds, so they settle only over many resamples.

    >>> result = kappa_bootstrap(Table2x2(157, 7, 6, 10), rng=np.random.default_rng(0))
    >>> tuple(round(bound, 2) for bound in result.interval)
    (0.32, 0.76)
    """
    if table.n == 0:
        return Bootstrap(None, resamples, resamples)
    tables = rng.multinomial(int(table.n), table.cells / table.n, size=resamples)
    result = summarise(kappas(tables), level)
    return Bootstrap(None, resamples, result.undefined) if is_perfect(table) else result


def is_perfect(table: Table2x2) -> bool:
    """True when the raters differ on no item.

    >>> is_perfect(Table2x2(20, 0, 0, 5))
    True
    """
    return table.first_only == 0 and table.second_only == 0


def _boundary(rejected: Callable[[float], bool], outside: float, inside: float) -> float:
    for _ in range(60):
        middle = (outside + inside) / 2
        if rejected(middle):
            outside = middle
        else:
            inside = middle
    return inside
