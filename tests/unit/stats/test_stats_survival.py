"""Survival curves, restricted means and log-rank, against statsmodels."""

import numpy as np
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from chimeralab.core.errors import InputError
from chimeralab.stats.clusters import cluster_mean
from chimeralab.stats.survival import (
    Durations,
    durations,
    kaplan_meier,
    logrank,
    logrank_permutation,
    median_time,
    pseudo_values,
    restricted_mean,
    survival_band,
)


def censored_runs(n=80, groups=2, seed=1):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    event, last = rng.integers(1, 30, n) + 3 * group, rng.integers(5, 30, n)
    return Durations(np.minimum(event, last).astype(float), event <= last), group


def test_kaplan_meier_agrees_with_statsmodels():
    runs, _ = censored_runs()
    oracle = SurvfuncRight(runs.times, runs.observed.astype(int))
    curve = kaplan_meier(runs)
    at_events = curve.events > 0
    assert curve.times[at_events] == pytest.approx(oracle.surv_times)
    assert curve.survival[at_events] == pytest.approx(oracle.surv_prob)
    assert median_time(curve) == oracle.quantile(0.5)


def test_median_is_undefined_when_most_runs_stay_free_of_the_event():
    assert median_time(kaplan_meier(durations([3, None, None], [9, 9, 9]))) is None


def test_median_is_reached_at_exactly_half():
    assert median_time(kaplan_meier(durations([3, 5, None, None], [9, 9, 9, 9]))) == 5


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_logrank_agrees_with_statsmodels(groups):
    runs, group = censored_runs(groups=groups)
    chi2, p = survdiff(runs.times, runs.observed.astype(int), group)
    result = logrank(runs, group)
    assert (result.chi2, result.p) == pytest.approx((chi2, p))
    assert result.df == groups - 1


def test_logrank_without_an_event_or_a_second_group_is_undefined():
    runs = durations([None, None], [5, 5])
    assert logrank(runs, ["a", "b"]).reason == "no run had the event"
    assert logrank(durations([1, 2], [5, 5]), ["a", "a"]).reason == "fewer than two groups"
    rng = np.random.default_rng(1)
    assert logrank_permutation(runs, ["a", "b"], [1, 1], rng=rng) is None


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param([3, 3, 3, 3], [3, 3, 3, 3], id="all at once"),
        pytest.param([None, None, 5, 9], [1, 2, 9, 9], id="one group long gone"),
    ],
)
def test_logrank_is_undefined_when_no_event_could_have_fallen_to_another_group(first, last):
    result = logrank(durations(first, last), ["a", "a", "b", "b"])
    assert (result.chi2, result.p) == (None, None)
    assert "several groups" in result.reason


def test_logrank_of_a_group_censored_before_the_first_event_is_finite():
    runs = durations([None, 4, 5, 6, 7], [2, 9, 9, 9, 9])
    result = logrank(runs, ["early", "a", "a", "b", "b"])
    assert result.chi2 is not None
    assert np.isfinite(result.chi2)


def test_permutation_p_matches_the_naive_one_when_runs_are_independent():
    runs, group = censored_runs(n=100, seed=4)
    pairs = np.argsort(group, kind="stable")
    size = min(np.bincount(group))
    kept = np.concatenate([pairs[:size], pairs[-size:]])
    runs, group = Durations(runs.times[kept], runs.observed[kept]), group[kept]
    clusters = np.tile(np.arange(size), 2)
    rng = np.random.default_rng(1)
    p = logrank_permutation(runs, group, clusters, rng=rng, permutations=4_000)
    assert p == pytest.approx(logrank(runs, group).p, abs=0.05)


def test_permutation_test_is_not_fooled_by_copies():
    runs, group = censored_runs(n=40)
    clusters = np.arange(40) // 2
    copied = Durations(np.repeat(runs.times, 5), np.repeat(runs.observed, 5))
    rng = np.random.default_rng(1)
    once = logrank_permutation(runs, group, clusters, rng=rng)
    many = logrank_permutation(copied, np.repeat(group, 5), np.repeat(clusters, 5), rng=rng)
    assert many == pytest.approx(once, abs=0.04)
    assert logrank(copied, np.repeat(group, 5)).p < many


def test_restricted_mean_is_the_area_under_the_curve():
    runs, _ = censored_runs()
    curve = kaplan_meier(runs)
    turns = np.arange(0, 20)
    share = [np.append(1.0, curve.survival)[(curve.times <= turn).sum()] for turn in turns]
    assert restricted_mean(runs, 20).value == pytest.approx(sum(share))


def test_restricted_mean_without_early_censoring_is_a_clustered_mean():
    rng = np.random.default_rng(1)
    event = np.where(rng.random(60) < 0.7, rng.integers(1, 41, 60), np.nan)
    runs, clusters = durations(event, np.full(60, 40)), np.arange(60) // 5
    result = restricted_mean(runs, 40, clusters)
    oracle = cluster_mean(runs.times, clusters)
    assert result.value == pytest.approx(oracle.mean)
    assert result.interval() == pytest.approx(oracle.interval)


def test_restricted_mean_beyond_follow_up_is_undefined_with_a_reason():
    runs = durations([3, None], [10, 10])
    result = restricted_mean(runs, 40)
    assert (result.value, result.interval()) == (None, None)
    assert "before turn 40" in result.reason


def test_restricted_mean_of_equal_runs_has_no_interval():
    result = restricted_mean(durations([None] * 4, [9] * 4), 9)
    assert (result.value, result.interval()) == (9, None)
    assert result.reason == "needs two clusters that differ"


def test_pseudo_values_average_to_the_restricted_mean():
    runs, _ = censored_runs(n=300)
    expected = restricted_mean(runs, 20).value
    assert pseudo_values(runs, 20).mean() == pytest.approx(expected, abs=0.05)


def test_band_surrounds_the_curve():
    runs, _ = censored_runs()
    low, high = survival_band(runs, rng=np.random.default_rng(1), resamples=500)
    curve = kaplan_meier(runs)
    assert len(low) == len(high) == len(curve.times)
    assert ((low <= curve.survival) & (curve.survival <= high)).all()


@pytest.mark.parametrize(("event", "last"), [(41, 40), (0, 40), (None, 0)])
def test_events_that_do_not_fit_the_run_are_rejected(event, last):
    with pytest.raises(InputError, match="run 2"):
        durations([1, event], [40, last])


def test_band_is_wider_when_runs_come_in_clusters():
    runs, _ = censored_runs(n=60)
    copied = Durations(np.repeat(runs.times, 4), np.repeat(runs.observed, 4))
    rng = np.random.default_rng(1)
    alone = survival_band(copied, rng=rng, resamples=500)
    clustered = survival_band(copied, np.repeat(np.arange(60), 4), rng=rng, resamples=500)
    assert np.diff(clustered, axis=0).mean() > 1.7 * np.diff(alone, axis=0).mean()


def test_no_runs_have_no_curve():
    with pytest.raises(InputError, match="at least one"):
        kaplan_meier(durations([], []))
