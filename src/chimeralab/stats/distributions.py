"""The distributions that intervals need, in plain Python: a light install has no scipy.

They agree with scipy to nine digits and more; the tests compare them.
"""

from functools import lru_cache
from math import exp, isinf, lgamma, log, log1p, nan, pi
from statistics import NormalDist

NORMAL = NormalDist()
_ALL_DIGITS = 1e-16


def beta_below(x: float, a: float, b: float) -> float:
    """Chance that a beta variable is below ``x``: the regularised incomplete beta function.

    The continued fraction is evaluated by Lentz's method (DLMF 8.17.22); it converges fast on one
    side of the mean, and the other side follows by symmetry.

    >>> round(beta_below(0.5, 2, 3), 4)
    0.6875
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_below(1 - x, b, a)
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


def student_above(t: float, df: float) -> float:
    """Chance that Student's t with ``df`` degrees of freedom is above ``t``.

    >>> round(student_above(2.0301, 35), 4)
    0.025
    """
    if isinf(df):
        return NORMAL.cdf(-t)
    square = t * t
    if square < 1:  # each half of the way is taken from the end where no digits are lost
        beyond = (1 - beta_below(square / (df + square), 0.5, df / 2)) / 2
    else:
        beyond = beta_below(df / (df + square), df / 2, 0.5) / 2
    return beyond if t >= 0 else 1 - beyond


@lru_cache(4096)
def student_quantile(above: float, df: float) -> float:
    """The value that Student's t exceeds with the chance ``above``, at most a half.

    Newton's steps from the normal quantile, which is too small, rise towards it and never pass it,
    as the distribution function is concave there.

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
        step = (student_above(value, df) - above) / density
        if step <= 1e-14 * value:
            return value
        value += step
