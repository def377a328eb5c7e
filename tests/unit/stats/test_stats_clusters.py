"""Clustered means, against statsmodels' cluster-robust regression."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from chimeralab.core.errors import InputError
from chimeralab.stats.clusters import (
    cluster_mean,
    intraclass_correlation,
    mean_bootstrap,
    mean_bootstrap_t,
)


def clustered(sizes, seed=1):
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=len(sizes))[clusters] + rng.normal(size=len(clusters)), clusters


@pytest.mark.parametrize("sizes", [[5] * 12, [1, 9, 3, 3, 7, 2, 5, 5]])
def test_standard_error_agrees_with_cluster_robust_regression(sizes):
    values, clusters = clustered(sizes)
    model = sm.OLS(values, np.ones(len(values)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    result = cluster_mean(values, clusters)
    assert result.mean == pytest.approx(fit.params[0])
    assert result.standard_error == pytest.approx(fit.bse[0])
    assert result.interval == pytest.approx(fit.conf_int()[0])


def test_intraclass_correlation_agrees_with_an_analysis_of_variance():
    values, clusters = clustered([4] * 10)
    ratio = stats.f_oneway(*values.reshape(10, 4)).statistic
    assert intraclass_correlation(values, clusters) == pytest.approx((ratio - 1) / (ratio + 3))


def test_design_effect_and_error_ratio_tell_the_same_story():
    result = cluster_mean(*clustered([5] * 200))
    assert result.design_effect == pytest.approx(result.se_ratio**-2, rel=0.02)


def test_percentile_bootstrap_settles_near_the_t_interval():
    values, clusters = clustered([5] * 40)
    draws = mean_bootstrap(values, clusters, rng=np.random.default_rng(1))
    assert draws == pytest.approx(cluster_mean(values, clusters).interval, abs=0.05)


def test_bootstrap_t_interval_is_longer_towards_the_long_tail():
    values = np.random.default_rng(3).exponential(size=40)
    interval = mean_bootstrap_t(values, np.arange(40), rng=np.random.default_rng(1))
    assert interval is not None
    low, high = interval
    assert high - values.mean() > 1.2 * (values.mean() - low)


def test_bootstrap_t_is_shift_invariant():
    values, clusters = clustered([3, 5, 4, 6, 2, 5])
    near = mean_bootstrap_t(values, clusters, rng=np.random.default_rng(1))
    far = mean_bootstrap_t(values + 1e6, clusters, rng=np.random.default_rng(1))
    assert far is not None
    assert np.subtract(far, 1e6) == pytest.approx(near, abs=1e-6)


def test_one_cluster_has_a_mean_but_no_interval():
    result = cluster_mean([1.0, 2.0], ["a", "a"])
    assert (result.mean, result.interval, result.icc) == (1.5, None, None)
    assert result.standard_error is None
    assert mean_bootstrap_t([1.0, 2.0], ["a", "a"], rng=np.random.default_rng(1)) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_zeros_and_all_ceiling_have_a_mean_but_no_interval(value):
    result = cluster_mean([value] * 6, [1, 1, 2, 2, 3, 3])
    assert (result.mean, result.standard_error, result.interval) == (value, 0, None)
    assert (result.se_ratio, result.icc, result.design_effect) == (None, None, None)


def test_clusters_without_repeats_have_no_intraclass_correlation():
    result = cluster_mean([0.1, 0.5, 0.9], ["a", "b", "c"])
    assert result.icc is None
    assert result.interval is not None
    assert result.se_ratio == pytest.approx(1)


def test_empty_table_is_rejected():
    with pytest.raises(InputError, match="no row"):
        cluster_mean([], [])


def test_missing_values_are_rejected():
    with pytest.raises(InputError, match="value 1 is nan"):
        cluster_mean([float("nan"), 1.0], ["a", "b"])
