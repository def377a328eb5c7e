"""Detector against rater: sensitivity, specificity and their intervals."""

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from chimeralab.stats.clusters import share
from chimeralab.stats.panel import diagnose
from chimeralab.stats.resample import SampleDesign

VERDICTS = np.repeat([1, 1, 0, 0], [40, 10, 5, 45])
REFERENCE = np.repeat([1, 0, 1, 0], [40, 10, 5, 45])


def rng():
    return np.random.default_rng(1)


def test_rates_start_from_the_reference_and_predictive_values_from_the_detector():
    result = diagnose(VERDICTS, REFERENCE, rng=rng(), resamples=100)
    assert (result.sensitivity.hits, result.sensitivity.n) == (40, 45)
    assert (result.specificity.hits, result.specificity.n) == (45, 55)
    assert result.positive_predictive_value.value == pytest.approx(0.8)
    assert result.negative_predictive_value.value == pytest.approx(0.9)


def test_intervals_of_independent_items_are_wilson_intervals():
    result = diagnose(VERDICTS, REFERENCE, rng=rng(), resamples=100)
    oracle = proportion_confint(40, 45, method="wilson")
    assert result.sensitivity.interval == pytest.approx(oracle)


def test_reference_without_a_positive_item_gives_a_reason():
    result = diagnose([1, 0, 0], [0, 0, 0], rng=rng(), resamples=100)
    assert result.sensitivity.value is None
    assert result.reasons == {"sensitivity": "the reference has no 1"}


def test_missing_labels_do_not_count_in_any_rate():
    result = diagnose([1, 1, None, 0], [1, None, 1, 0], rng=rng(), resamples=100)
    assert result.sensitivity.n == 1
    assert result.agreement.n_valid == 2


def test_weights_correct_for_sampling_by_verdict():
    # In the population 900 of 1,000 verdicts are 1; the sample takes 50 of each.
    weights = np.where(VERDICTS == 1, 18.0, 2.0)
    result = diagnose(
        VERDICTS, REFERENCE, rng=rng(), design=SampleDesign(weights=weights), resamples=99
    )
    assert result.sensitivity.value == pytest.approx(40 * 18 / (40 * 18 + 5 * 2))
    assert result.positive_predictive_value.value == pytest.approx(0.8)


def test_copies_within_a_cluster_do_not_shorten_the_interval():
    hits, among = np.repeat([1.0, 0.0], [30, 10]), np.ones(40)
    once = share(hits, among, SampleDesign(clusters=np.arange(40))).interval
    clusters = SampleDesign(clusters=np.repeat(np.arange(40), 5))
    copied = share(np.repeat(hits, 5), np.ones(200), clusters).interval
    assert copied == pytest.approx(once)


def test_share_of_one_has_an_interval_that_allows_for_clusters():
    clusters = SampleDesign(clusters=np.arange(50) // 10)
    low = share(np.ones(50), np.ones(50), clusters).interval.low
    assert low < proportion_confint(5, 5, method="wilson")[0]
