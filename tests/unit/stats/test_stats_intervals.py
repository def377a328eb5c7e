"""Closed-form intervals and tests, against statsmodels and scipy."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from chimeralab.core.errors import InputError
from chimeralab.stats.intervals import (
    Estimate,
    expand_level,
    mcnemar_exact,
    normal_interval,
    percentile_interval,
    t_interval,
    wilson,
)

COUNTS = [(0, 7), (3, 7), (7, 7), (1, 1), (167, 180), (0, 1000)]


@pytest.mark.parametrize(("hits", "n"), COUNTS)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_agrees_with_statsmodels(hits, n, level):
    oracle = proportion_confint(hits, n, alpha=1 - level, method="wilson")
    assert wilson(hits, n, level) == pytest.approx(oracle)


@pytest.mark.parametrize(("first", "second"), [(7, 1), (3, 3), (0, 5), (12, 30)])
def test_mcnemar_agrees_with_statsmodels(first, second):
    oracle = mcnemar([[10, first], [second, 10]], exact=True).pvalue
    assert mcnemar_exact(first, second) == pytest.approx(oracle)


def test_mcnemar_without_a_differing_pair_is_undefined():
    assert mcnemar_exact(0, 0) is None


def test_t_and_normal_intervals_agree_with_scipy():
    assert t_interval(0.4, 0.1, 35) == pytest.approx(stats.t.interval(0.95, 35, 0.4, 0.1))
    assert normal_interval(0.4, 0.1) == pytest.approx(stats.norm.interval(0.95, 0.4, 0.1))
    assert Estimate(-0.3, 0.1, 12).p == pytest.approx(2 * stats.t.sf(3, 12))


def test_percentile_interval_leaves_equal_tails():
    assert percentile_interval(np.arange(1001.0), 0.9) == pytest.approx((50, 950))


@pytest.mark.parametrize("level", [0, 1, 95])
def test_confidence_levels_outside_zero_to_one_are_rejected(level):
    with pytest.raises(InputError, match="such as"):
        wilson(1, 2, level)


@pytest.mark.parametrize(("hits", "n"), [(3, 2), (-1, 2), (0, 0)])
def test_impossible_proportions_are_rejected(hits, n):
    with pytest.raises(InputError, match="not a proportion"):
        wilson(hits, n)


def test_expanded_percentile_interval_covers_with_few_clusters():
    rng, clusters, simulations = np.random.default_rng(3), 6, 1_000
    covered = {"plain": 0, "widened": 0}
    levels = {"plain": 0.95, "widened": expand_level(clusters)}
    for _ in range(simulations):
        sample = rng.normal(size=clusters)
        means = sample[rng.integers(clusters, size=(2_000, clusters))].mean(axis=1)
        for name, level in levels.items():
            interval = percentile_interval(means, level)
            covered[name] += interval.low <= 0 <= interval.high
    assert covered["plain"] / simulations < 0.90
    assert 0.92 <= covered["widened"] / simulations <= 0.98
