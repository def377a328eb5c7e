"""Closed-form confidence intervals and tests, and the distributions they need.

The distributions are plain Python, since a light install has no scipy; the tests compare them with
scipy to nine digits.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, isinf, lgamma, log, log1p, nan, pi, tanh
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats

NORMAL = NormalDist()
_ALL_DIGITS = 1e-16


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its standard error, None if the sample has no spread to estimate it from.

    ``df`` are the degrees of freedom of the error; ``reason`` says why something is missing.
    """

    value: float | None
    standard_error: float | None
    df: float
    reason: str | None = None

    def interval(self, level: float = 0.95) -> Interval | None:
        """The t interval; None without a standard error."""
        if self.value is None or not self.standard_error:
            return None
        return t_interval(self.value, self.standard_error, self.df, level)

    @property
    def p(self) -> float | None:
        """Two-sided p-value against zero.

        >>> round(Estimate(0.25, 0.1, df=35).p, 4)
        0.0173
        """
        if self.value is None or not self.standard_error:
            return None
        return 2 * student_sf(abs(self.value) / self.standard_error, self.df)

    def se_ratio(self, naive: "Estimate | None") -> float | None:
        """The naive standard error over this one; below 1, the naive analysis overclaims."""
        if naive is None or not naive.standard_error or not self.standard_error:
            return None
        return naive.standard_error / self.standard_error


def normal_quantile(level: float = 0.95) -> float:
    """The two-sided normal quantile: half the width of an interval in standard errors.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    return NORMAL.inv_cdf(_upper_tail(level))


def t_quantile(df: float, level: float = 0.95) -> float:
    """The two-sided quantile of Student's t with ``df`` degrees of freedom.

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
    """Student's t interval of a mean share on the log-odds scale, so that it stays within 0 and 1.

    The standard error is transformed by the delta method. A share of 0 or 1 has no log odds.

    >>> found = share_interval(0.05, 0.03, df=11)
    >>> round(found.low, 3), round(found.high, 3)
    (0.013, 0.174)
    """
    if not 0 < share < 1:
        return None
    odds = t_interval(log(share / (1 - share)), standard_error / (share * (1 - share)), df, level)
    return Interval(*((1 + tanh(bound / 2)) / 2 for bound in odds))


def percentile_interval(draws: Floats, level: float = 0.95) -> Interval | None:
    """The central ``level`` share of the defined draws; None if there are none.

    >>> percentile_interval(np.array([0.0, 40.0, np.nan]))
    Interval(low=1.0, high=39.0)
    """
    defined = draws[~np.isnan(draws)]
    if not defined.size:
        return None
    upper = 100 * _upper_tail(level)
    low, high = np.percentile(defined, [100 - upper, upper])
    return Interval(float(low), float(high))


# Fewer clusters have too few distinct resamples, whatever the level: with four, a 95 % interval
# covers 89 %.
MIN_CLUSTERS = 5


def expand_level(clusters: int, level: float = 0.95) -> float:
    """The nominal level at which a percentile interval over few clusters covers ``level``.

    Resampled means of n clusters have a variance too small by (n - 1) / n, and ignore Student's t;
    a higher level makes up for both (Hesterberg 2015, the expanded percentile interval).

    >>> [round(expand_level(n), 4) for n in (6, 12, 1000)]
    [0.9951, 0.9785, 0.9504]
    """
    reach = (clusters / (clusters - 1)) ** 0.5 * t_quantile(clusters - 1, level)
    # With two clusters the level would reach 1: take the range of the draws.
    return min(2 * NORMAL.cdf(reach) - 1, 1 - 1e-9)


def wilson(successes: float, n: float, level: float = 0.95) -> Interval:
    """Interval of a proportion by inverting the score test (Wilson 1927).

    >>> tuple(round(bound, 4) for bound in wilson(167, 180))
    (0.8804, 0.9573)
    """
    if n <= 0 or not 0 <= successes <= n:
        raise InputError(f"{successes} of {n} is not a proportion: give 0 <= successes <= n, n > 0")
    z2 = normal_quantile(level) ** 2
    share = successes / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if successes == 0 else float(middle - reach)
    high = 1.0 if successes == n else float(middle + reach)
    return Interval(low, high)


def mcnemar_exact(first_only: int, second_only: int) -> float | None:
    """Two-sided exact p-value for paired yes/no answers; None if no pair differs.

    McNemar 1947, with the binomial distribution instead of chi-square.

    >>> round(mcnemar_exact(7, 1), 4)
    0.0703
    """
    changed = first_only + second_only
    if changed == 0:
        return None
    fewer = min(first_only, second_only)
    return min(1.0, 2 * beta_cdf(0.5, changed - fewer, fewer + 1))


def _upper_tail(level: float) -> float:
    if not 0 < level < 1:
        raise InputError(f"level {level}: expected a number between 0 and 1, such as 0.95")
    return (1 + level) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """The beta distribution function, which is the regularised incomplete beta function.

    The continued fraction (DLMF 8.17.22) is evaluated by Lentz's method; it converges fast on one
    side of the mean, and the other side follows by symmetry.

    >>> round(beta_cdf(0.5, 2, 3), 4)
    0.6875
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    scale = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = below
    for step in range(1, 10_000):
        before = fraction
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            below, above = 1 / (1 + term * below), 1 + term / above
            fraction *= below * above
        if abs(fraction - before) <= _ALL_DIGITS * abs(fraction):
            break
    return exp(scale) * fraction / a


def student_sf(t: float, df: float) -> float:
    """The survival function of Student's t with ``df`` degrees of freedom.

    >>> round(student_sf(2.0301, 35), 4)
    0.025
    """
    if isinf(df):
        return NORMAL.cdf(-t)
    square = t * t
    if square < 1:  # from the side that does not cancel
        beyond = (1 - beta_cdf(square / (df + square), 0.5, df / 2)) / 2
    else:
        beyond = beta_cdf(df / (df + square), df / 2, 0.5) / 2
    return beyond if t >= 0 else 1 - beyond


@lru_cache(4096)
def student_quantile(above: float, df: float) -> float:
    """The value that Student's t exceeds with probability ``above``, at most a half.

    Newton steps from the normal quantile, which is too small, rise to it monotonically, since the
    distribution function is concave there.

    >>> round(student_quantile(0.025, 35), 4)
    2.0301
    """
    if not df > 0:
        return nan
    value = -NORMAL.inv_cdf(above)
    if isinf(df):
        return value
    scale = lgamma((df + 1) / 2) - lgamma(df / 2) - log(df * pi) / 2
    while True:
        density = exp(scale - (df + 1) / 2 * log1p(value * value / df))
        step = (student_sf(value, df) - above) / density
        if step <= 1e-14 * value:
            return value
        value += step
