"""Confidence intervals and tests with a closed form."""

from math import log, tanh
from typing import NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats
from chimeralab.stats.distributions import NORMAL, beta_below, student_above, student_quantile


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float


def normal_quantile(level: float = 0.95) -> float:
    """How many standard errors a two-sided normal interval reaches to each side.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return NORMAL.inv_cdf(_upper_tail(level))


def t_quantile(df: float, level: float = 0.95) -> float:
    """The same for Student's t with ``df`` degrees of freedom.

    >>> round(t_quantile(35), 4)
    2.0301
    """
    return student_quantile(1 - _upper_tail(level), df)


def normal_interval(estimate: float, standard_error: float, level: float = 0.95) -> Interval:
    """Estimate plus and minus normal standard errors (Wald).

    >>> tuple(round(bound, 3) for bound in normal_interval(0.5, 0.1))
    (0.304, 0.696)
    """
    reach = normal_quantile(level) * standard_error
    return Interval(float(estimate - reach), float(estimate + reach))


def t_interval(estimate: float, standard_error: float, df: float, level: float = 0.95) -> Interval:
    """Estimate plus and minus Student's t standard errors.

    >>> tuple(round(bound, 3) for bound in t_interval(0.5, 0.1, df=35))
    (0.297, 0.703)
    """
    reach = t_quantile(df, level) * standard_error
    return Interval(float(estimate - reach), float(estimate + reach))


def share_interval(
    share: float, standard_error: float, df: float, level: float = 0.95
) -> Interval | None:
    """Student's t interval of a mean share, taken on the scale of its log odds: it stays in range.

    The standard error is carried over by the delta method. A share of 0 or 1 has no log odds.

    >>> found = share_interval(0.05, 0.03, df=11)
    >>> round(found.low, 3), round(found.high, 3)
    (0.013, 0.174)
    """
    if not 0 < share < 1:
        return None
    odds = t_interval(log(share / (1 - share)), standard_error / (share * (1 - share)), df, level)
    return Interval(*((1 + tanh(bound / 2)) / 2 for bound in odds))


def t_p_value(estimate: float, standard_error: float, df: float) -> float:
    """Two-sided p of an estimate against zero.

    >>> round(t_p_value(0.25, 0.1, df=35), 4)
    0.0173
    """
    return 2 * student_above(abs(estimate) / standard_error, df)


def percentile_interval(draws: Floats, level: float = 0.95) -> Interval:
    """The central ``level`` share of the draws.

    >>> percentile_interval(np.arange(101.0))
    Interval(low=2.5, high=97.5)
    """
    upper = 100 * _upper_tail(level)
    low, high = np.percentile(draws, [100 - upper, upper])
    return Interval(float(low), float(high))


# Fewer clusters can't be resampled in enough ways, however wide the percentiles are taken: the
# interval of four covers 89 % instead of 95 %.
FEWEST_CLUSTERS = 5


def widened_level(clusters: int, level: float = 0.95) -> float:
    """The level to ask of a percentile interval so that over few clusters it covers ``level``.

    Resampled means of n clusters spread too little by (n - 1) / n, and know nothing of Student's t;
    asking for more of them makes up for both (Hesterberg 2015, the expanded percentile interval).

    >>> [round(widened_level(n), 4) for n in (6, 12, 1000)]
    [0.9951, 0.9785, 0.9504]
    """
    reach = (clusters / (clusters - 1)) ** 0.5 * t_quantile(clusters - 1, level)
    # Two clusters would ask for all draws and more: then it is the range of the draws.
    return min(2 * NORMAL.cdf(reach) - 1, 1 - 1e-9)


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Interval of a proportion by inverting the score test (Wilson 1927).

    >>> tuple(round(bound, 4) for bound in wilson(167, 180))
    (0.8804, 0.9573)
    """
    _check_proportion(successes, n)
    z2 = normal_quantile(level) ** 2
    share = successes / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if successes == 0 else float(middle - reach)
    high = 1.0 if successes == n else float(middle + reach)
    return Interval(low, high)


def mcnemar_exact(first_only: int, second_only: int) -> float | None:
    """Two-sided exact p that two paired yes/no answers differ; None without a differing pair.

    Source: McNemar 1947, with the binomial distribution in place of chi-square.

    >>> round(mcnemar_exact(7, 1), 4)
    0.0703
    """
    changed = first_only + second_only
    if changed == 0:
        return None
    fewer = min(first_only, second_only)
    return min(1.0, 2 * beta_below(0.5, changed - fewer, fewer + 1))


def _upper_tail(level: float) -> float:
    if not 0 < level < 1:
        raise InputError(f"level {level}: a confidence level lies between 0 and 1, such as 0.95")
    return (1 + level) / 2


def _check_proportion(successes: float, n: float) -> None:
    if n <= 0 or not 0 <= successes <= n:
        raise InputError(f"{successes} of {n} is not a proportion: give 0 <= successes <= n, n > 0")
