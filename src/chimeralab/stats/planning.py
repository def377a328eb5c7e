"""Sample sizes and power: how many items, prompts and repeats a question needs."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Table2x2, kappa_score, kappa_variance
from chimeralab.stats.arrays import finite
from chimeralab.stats.clusters import Cells, design_effect
from chimeralab.stats.contrasts import Weights, differences
from chimeralab.stats.intervals import NORMAL, Interval, normal_quantile, t_quantile


def items_for_kappa(
    kappa: float,
    threshold: float,
    prevalence: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """Items to rate for a true ``kappa`` to be significantly above ``threshold``.

    One-sided Wald test at ``alpha`` with the variance of Fleiss, Cohen, Everitt (1969) at the true
    kappa and equal ``prevalence``. Simulated power is a few points lower, since the Wald error is
    estimated from the same few disagreements.

    >>> [items_for_kappa(0.90, 0.80, prevalence=share) for share in (0.5, 0.9083)]
    [118, 363]
    """
    _check_kappas(kappa, threshold, prevalence)
    distance = NORMAL.inv_cdf(1 - alpha) + NORMAL.inv_cdf(power)
    items = distance**2 * kappa_variance(kappa, prevalence) / (kappa - threshold) ** 2
    return ceil(float(items))


def items_for_kappa_score(
    kappa: float,
    threshold: float,
    prevalence: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """Items to rate for a gate on the lower bound of the score interval, which is stricter.

    One-sided score test: the variance at the threshold decides what is significant, the variance
    at the true kappa how often (Flack et al. 1988, Cantor 1996).

    >>> [items_for_kappa_score(0.90, 0.80, prevalence=share) for share in (0.5, 0.9083)]
    [184, 573]
    """
    _check_kappas(kappa, threshold, prevalence)
    reach = NORMAL.inv_cdf(1 - alpha) * kappa_variance(threshold, prevalence) ** 0.5
    spare = NORMAL.inv_cdf(power) * kappa_variance(kappa, prevalence) ** 0.5
    return ceil(float(((reach + spare) / (kappa - threshold)) ** 2))


# The assumed correlation of labels on two conversations with one prompt: that of the shares in the
# published study, the only known figure.
WITHIN_PROMPTS = 0.25


@dataclass(frozen=True, slots=True)
class KappaPower:
    """What a number of items can show about kappa, at one prevalence of 1.

    They are worth ``effective`` independent ones. ``interval`` is the score interval of a kappa at
    the threshold, ``best`` the highest possible lower bound. ``good`` is halfway from the threshold
    to 1, ``poor`` a tenth below it, each with its probability of passing.
    """

    items: int
    effective: float
    prevalence: float
    interval: Interval
    best: float
    good: float
    good_passes: float
    poor: float
    poor_passes: float


def gate_power(
    items: int, threshold: float, prevalence: float, *, lower_bound: bool, partners: float = 0.0
) -> KappaPower:
    """The power of a gate on kappa, or on its lower 95 % score bound, with this many items.

    ``partners`` is the mean number of other items on the same prompt.

    >>> found = gate_power(24, 0.80, prevalence=0.5, lower_bound=True)
    >>> round(found.interval.low, 2), round(found.interval.high, 2), round(found.best, 2)
    (0.44, 0.94, 0.72)
    >>> round(found.good_passes, 2), round(found.poor_passes, 3)
    (0.06, 0.01)
    """
    good, poor = (1 + threshold) / 2, threshold - 0.1
    _check_kappas(good, threshold, prevalence)
    effective = items / design_effect(WITHIN_PROMPTS, 1 + partners)
    reach = 0.0
    if lower_bound:
        reach = normal_quantile() * kappa_variance(threshold, prevalence) ** 0.5

    def passes(kappa: float) -> float:
        spread = kappa_variance(kappa, prevalence) ** 0.5
        return NORMAL.cdf((effective**0.5 * (kappa - threshold) - reach) / spread)

    def score_interval(kappa: float, n: float) -> Interval:
        differing = n * prevalence * (1 - prevalence) * (1 - kappa)
        ones = n * prevalence - differing
        found = kappa_score(Table2x2(ones, differing, differing, n - ones - 2 * differing))
        assert found is not None
        return found

    # If no label differs, a cluster counts as one item, unless one disagreement would show more.
    ones = items * prevalence
    one_less = kappa_score(Table2x2(max(ones - 1, 0), 1, 0, items - ones))
    assert one_less is not None
    return KappaPower(
        items=items,
        effective=effective,
        prevalence=prevalence,
        interval=score_interval(threshold, effective),
        best=max(score_interval(1.0, items / (1 + partners)).low, one_less.low),
        good=good,
        good_passes=passes(good),
        poor=poor,
        poor_passes=passes(poor),
    )


# The variance of a difference between prompts, and between repeats of one prompt.
VarianceComponents = tuple[float, float]


def variance_components(cells: Cells, weights: Weights) -> VarianceComponents | None:
    """Variance components of a contrast, between and within clusters (Searle et al. 1992).

    A negative component between clusters is set to 0. None for fewer than two clusters, or a
    condition without a repeat.

    >>> from chimeralab.stats.clusters import cells_of
    >>> values, seeds = [1, 2, 3, 4, 5, 9, 1, 1, 1, 1, 1, 1], ["a", "a", "b", "b", "c", "c"] * 2
    >>> variance_components(cells_of(values, ["B"] * 6 + ["A"] * 6, seeds), {"B": 1, "A": -1})
    (6.25, 3.0)
    """
    used = cells.columns(list(weights))
    spare = (used.counts - 1).sum(axis=0)
    if len(used.clusters) < 2 or not spare.all():
        return None
    factor = finite(list(weights.values()), "weights")
    within = factor**2 * used.squares.sum(axis=0) / spare
    noise = float((within / used.counts).sum(axis=1).mean())
    total = float(differences(cells, weights).var(ddof=1))
    return max(total - noise, 0.0), float(within.sum())


def difference_error(components: VarianceComponents, clusters: int, repeats: int) -> float:
    """Standard error of the mean difference for a number of prompts and repeats of each.

    >>> round(difference_error((0.0505, 0.0871), 36, 5), 4)
    0.0434
    """
    if clusters < 2 or repeats < 1:
        raise InputError(f"{clusters} clusters x {repeats} repeats: needs two clusters, one repeat")
    between, within = components
    return float(((between + within / repeats) / clusters) ** 0.5)


def detectable_difference(
    components: VarianceComponents, clusters: int, repeats: int, *, power: float = 0.8
) -> float:
    """The smallest true difference that a paired two-sided t test at 5 % detects with this power.

    >>> designs = ((180, 1), (36, 5))
    >>> [round(detectable_difference((0.0505, 0.0871), *design), 3) for design in designs]
    [0.078, 0.125]
    """
    from scipy import special  # noqa: PLC0415 - slow to import, rarely needed

    error, df = difference_error(components, clusters, repeats), clusters - 1
    return float(special.nctdtrinc(df, 1 - power, t_quantile(df)) * error)


def contrast_power(
    components: VarianceComponents, difference: float, clusters: int, repeats: int
) -> float:
    """The power of a paired two-sided t test at 5 % for a true difference of this size.

    >>> round(contrast_power((0.0505, 0.0871), 0.125, 36, 5), 2)
    0.8
    """
    from scipy import special  # noqa: PLC0415 - slow to import, rarely needed

    df, critical = clusters - 1, t_quantile(clusters - 1)
    shift = abs(difference) / difference_error(components, clusters, repeats)
    power = special.nctdtr(df, -shift, -critical) + special.nctdtr(df, shift, -critical)
    # For very large shifts the series diverges and gives NaN.
    return 1.0 if np.isnan(power) else float(power)


def _check_kappas(kappa: float, threshold: float, prevalence: float) -> None:
    if not 0 < prevalence < 1:
        raise InputError(f"prevalence {prevalence}: give a share between 0 and 1")
    if not -1 < threshold < kappa < 1:
        raise InputError(f"kappa must be above the threshold {threshold} and below 1, not {kappa}")
