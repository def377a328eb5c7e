"""Before money is spent: how many items, prompts and repeats a question needs."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Table2x2, kappa_score, kappa_variance
from chimeralab.stats.arrays import finite
from chimeralab.stats.clusters import Cells, design_effect
from chimeralab.stats.contrasts import Weights, differences
from chimeralab.stats.distributions import NORMAL
from chimeralab.stats.intervals import Interval, t_quantile


def items_for_kappa(
    kappa: float,
    threshold: float,
    prevalence: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """Items to rate so that a true ``kappa`` shows itself above ``threshold``.

    One-sided Wald test at ``alpha`` with the variance of Fleiss, Cohen, Everitt (1969) taken at
    the true kappa, both raters saying 1 with the same ``prevalence``. Simulated power is a few
    points lower, as the Wald error is estimated from the same few disagreements.

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
    """The same for a gate on the lower bound of the score interval, which flatters less.

    One-sided score test: the variance at the threshold decides what counts as significant, the
    variance at the true kappa how often that happens (Flack et al. 1988, Cantor 1996).

    >>> [items_for_kappa_score(0.90, 0.80, prevalence=share) for share in (0.5, 0.9083)]
    [184, 573]
    """
    _check_kappas(kappa, threshold, prevalence)
    reach = NORMAL.inv_cdf(1 - alpha) * kappa_variance(threshold, prevalence) ** 0.5
    spare = NORMAL.inv_cdf(power) * kappa_variance(kappa, prevalence) ** 0.5
    return ceil(float(((reach + spare) / (kappa - threshold)) ** 2))


def kappa_power(
    items: int, kappa: float, threshold: float, prevalence: float, *, alpha: float = 0.05
) -> float:
    """Chance that so many items show a true ``kappa`` above ``threshold`` in the Wald test.

    >>> round(kappa_power(118, 0.90, 0.80, prevalence=0.5), 3)
    0.802
    """
    _check_kappas(kappa, threshold, prevalence)
    error = (kappa_variance(kappa, prevalence) / items) ** 0.5
    return NORMAL.cdf((kappa - threshold) / error - NORMAL.inv_cdf(1 - alpha))


class RatedItems(NamedTuple):
    """So many items, each with so many ``partners`` in its cluster on average.

    What raters make of two of one cluster correlates by ``icc``.
    """

    items: int
    partners: float = 0.0
    icc: float = 0.0

    @property
    def effective(self) -> float:
        """How many independent items tell as much."""
        return self.items / design_effect(self.icc, 1 + self.partners)


@dataclass(frozen=True, slots=True)
class KappaPower:
    """What so many items can show about a kappa, at one prevalence of 1.

    They tell as much as ``effective`` independent ones. ``interval`` is the score interval of a
    kappa found on the threshold, ``best`` the most that its lower bound can be. ``good`` is
    halfway from the threshold to 1, ``poor`` a tenth below it; each has its chance of being let
    through.
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
    rated: RatedItems,
    threshold: float,
    prevalence: float,
    *,
    lower_bound: bool,
    alpha: float = 0.05,
) -> KappaPower:
    """How sharply so many items decide on kappa by its value, or by its lower score bound.

    >>> found = gate_power(RatedItems(24), 0.80, prevalence=0.5, lower_bound=True)
    >>> round(found.interval.low, 2), round(found.interval.high, 2), round(found.best, 2)
    (0.44, 0.94, 0.72)
    >>> round(found.good_passes, 2), round(found.poor_passes, 3)
    (0.06, 0.01)
    """
    good, poor = (1 + threshold) / 2, threshold - 0.1
    _check_kappas(good, threshold, prevalence)
    reach = 0.0
    if lower_bound:
        reach = NORMAL.inv_cdf(1 - alpha / 2) * kappa_variance(threshold, prevalence) ** 0.5

    def passes(kappa: float) -> float:
        spread = kappa_variance(kappa, prevalence) ** 0.5
        return NORMAL.cdf((rated.effective**0.5 * (kappa - threshold) - reach) / spread)

    def scored(kappa: float, n: float) -> Interval:
        differing = n * prevalence * (1 - prevalence) * (1 - kappa)
        ones = n * prevalence - differing
        table = Table2x2(ones, differing, differing, n - ones - 2 * differing)
        found = kappa_score(table, 1 - alpha)
        assert found is not None
        return found

    # Where no label differs a cluster counts as one item, unless one differing would tell more.
    ones = rated.items * prevalence
    one_less = kappa_score(Table2x2(max(ones - 1, 0), 1, 0, rated.items - ones), 1 - alpha)
    assert one_less is not None
    return KappaPower(
        items=rated.items,
        effective=rated.effective,
        prevalence=prevalence,
        interval=scored(threshold, rated.effective),
        best=max(scored(1.0, rated._replace(icc=1.0).effective).low, one_less.low),
        good=good,
        good_passes=passes(good),
        poor=poor,
        poor_passes=passes(poor),
    )


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Where the difference of two conditions varies: between prompts, and between repeats."""

    between: float
    within: float

    def standard_error(self, clusters: int, repeats: int) -> float:
        """Standard error of the mean difference for so many prompts and repeats of each.

        >>> round(VarianceComponents(0.0505, 0.0871).standard_error(36, 5), 4)
        0.0434
        """
        return float(((self.between + self.within / repeats) / clusters) ** 0.5)


def variance_components(cells: Cells, weights: Weights) -> VarianceComponents | None:
    """Split the variance of a contrast within clusters into its parts (Searle et al. 1992).

    A part between clusters that comes out negative is 0: repeats explain all of it. None when
    there are fewer than two clusters, or a condition without a repeat.

    >>> from chimeralab.stats.clusters import cells_of
    >>> values, seeds = [1, 2, 3, 4, 5, 9, 1, 1, 1, 1, 1, 1], ["a", "a", "b", "b", "c", "c"] * 2
    >>> variance_components(cells_of(values, ["B"] * 6 + ["A"] * 6, seeds), {"B": 1, "A": -1})
    VarianceComponents(between=6.25, within=3.0)
    """
    used = cells.columns(list(weights))
    spare = (used.counts - 1).sum(axis=0)
    if len(used.clusters) < 2 or not spare.all():
        return None
    factor = finite(list(weights.values()), "weights")
    within = factor**2 * used.squares.sum(axis=0) / spare
    noise = float((within / used.counts).sum(axis=1).mean())
    total = float(differences(cells, weights).var(ddof=1))
    return VarianceComponents(max(total - noise, 0.0), float(within.sum()))


def detectable_difference(
    components: VarianceComponents,
    clusters: int,
    repeats: int,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """The smallest true difference that a paired two-sided t test finds with this power.

    >>> parts = VarianceComponents(0.0505, 0.0871)
    >>> [round(detectable_difference(parts, *plan), 3) for plan in ((180, 1), (36, 5))]
    [0.078, 0.125]
    """
    from scipy import special  # noqa: PLC0415 - slow to import, and few ask for power

    _check_plan(clusters, repeats)
    df = clusters - 1
    noncentrality = special.nctdtrinc(df, 1 - power, t_quantile(df, 1 - alpha))
    return float(noncentrality * components.standard_error(clusters, repeats))


def contrast_power(
    components: VarianceComponents,
    difference: float,
    clusters: int,
    repeats: int,
    *,
    alpha: float = 0.05,
) -> float:
    """Chance that a paired two-sided t test finds a true difference of this size.

    >>> round(contrast_power(VarianceComponents(0.0505, 0.0871), 0.125, 36, 5), 2)
    0.8
    """
    from scipy import special  # noqa: PLC0415 - slow to import, and few ask for power

    _check_plan(clusters, repeats)
    df, critical = clusters - 1, t_quantile(clusters - 1, 1 - alpha)
    shift = abs(difference) / components.standard_error(clusters, repeats)
    power = special.nctdtr(df, -shift, -critical) + special.nctdtr(df, shift, -critical)
    # For shifts far beyond any doubt the series for the distribution fails and gives no number.
    return 1.0 if np.isnan(power) else float(power)


def _check_kappas(kappa: float, threshold: float, prevalence: float) -> None:
    if not 0 < prevalence < 1:
        raise InputError(f"prevalence {prevalence}: give a share between 0 and 1")
    if not -1 < threshold < kappa < 1:
        raise InputError(f"kappa {kappa} must lie above the threshold {threshold} and below 1")


def _check_plan(clusters: int, repeats: int) -> None:
    if clusters < 2 or repeats < 1:
        raise InputError(f"{clusters} clusters x {repeats} repeats: needs two clusters, one repeat")
