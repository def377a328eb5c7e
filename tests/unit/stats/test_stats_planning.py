"""Power and sample size, against statsmodels and simulation."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Table2x2, cohen_kappa, kappa_score, kappa_variance
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.panel import design_intervals
from chimeralab.stats.planning import (
    contrast_power,
    detectable_difference,
    difference_error,
    gate_power,
    items_for_kappa,
    items_for_kappa_score,
    variance_components,
)
from chimeralab.stats.resample import SampleDesign

Z_95 = stats.norm.ppf(0.95)  # one-sided
PARTS = (0.05, 0.09)


@pytest.mark.parametrize(("clusters", "repeats"), [(36, 5), (180, 1), (6, 2)])
def test_power_of_a_paired_contrast_agrees_with_statsmodels(clusters, repeats):
    spread = difference_error(PARTS, clusters, repeats) * clusters**0.5
    oracle = TTestPower().power(0.1 / spread, clusters, 0.05)
    assert contrast_power(PARTS, 0.1, clusters, repeats) == pytest.approx(oracle, rel=1e-6)


@pytest.mark.parametrize(("clusters", "repeats"), [(36, 5), (180, 1), (6, 2)])
def test_detectable_difference_is_found_with_the_asked_power(clusters, repeats):
    difference = detectable_difference(PARTS, clusters, repeats, power=0.9)
    assert contrast_power(PARTS, difference, clusters, repeats) == pytest.approx(0.9, abs=1e-4)


def test_power_against_no_difference_is_the_level_of_the_test():
    assert contrast_power(PARTS, 0.0, 36, 5) == pytest.approx(0.05)


def test_variance_components_are_recovered_from_simulated_runs():
    rng = np.random.default_rng(1)
    shape = (4_000, 3)
    first = rng.normal(0, 0.5, (shape[0], 1)) + rng.normal(0, 1.0, shape)
    second = rng.normal(0, 2.0, shape)
    cluster = np.tile(np.repeat(np.arange(shape[0]), 3), 2)
    condition = np.repeat(["B", "A"], first.size)
    values = np.concatenate([first.ravel(), second.ravel()])
    parts = variance_components(cells_of(values, condition, cluster), {"B": 1, "A": -1})
    assert parts is not None
    between, within = parts
    assert within == pytest.approx(5, rel=0.05)
    assert between == pytest.approx(0.25, abs=0.12)


def test_variance_components_need_repeats():
    cells = cells_of([1.0, 2.0, 3.0, 5.0], ["A", "B"] * 2, ["x", "x", "y", "y"])
    assert variance_components(cells, {"A": 1, "B": -1}) is None


def test_planned_items_reach_the_power_and_one_less_does_not():
    n = items_for_kappa(0.85, 0.7, 0.7, power=0.9)
    reach = (0.85 - 0.7) / kappa_variance(0.85, 0.7) ** 0.5
    power, one_less = (stats.norm.cdf(items**0.5 * reach - Z_95) for items in (n, n - 1))
    assert power >= 0.9 > one_less


def test_gate_on_the_score_bound_needs_more_items_than_the_wald_formula_says():
    assert items_for_kappa_score(0.9, 0.8, 0.5) > items_for_kappa(0.9, 0.8, 0.5)


def test_unbalanced_labels_need_more_items():
    assert items_for_kappa(0.9, 0.8, 0.95) > items_for_kappa(0.9, 0.8, 0.5)
    assert items_for_kappa(0.9, 0.8, 0.2) == items_for_kappa(0.9, 0.8, 0.8)


@pytest.mark.parametrize("prevalence", [0, 1, 91])
def test_prevalence_must_be_a_share(prevalence):
    with pytest.raises(InputError, match="prevalence"):
        items_for_kappa(0.9, 0.8, prevalence)


def test_kappa_must_be_above_the_threshold():
    with pytest.raises(InputError, match="above the threshold"):
        items_for_kappa(0.8, 0.8, 0.5)


def test_plan_needs_two_clusters():
    with pytest.raises(InputError, match="two clusters"):
        detectable_difference(PARTS, 1, 5)


@pytest.mark.parametrize("bound", [True, False])
def test_power_of_a_gate_is_how_often_simulated_raters_meet_it(bound):
    rng, n, threshold, ones = np.random.default_rng(3), 150, 0.6, 0.5
    found = gate_power(n, threshold, ones, lower_bound=bound)
    for kappa, told in ((found.good, found.good_passes), (found.poor, found.poor_passes)):
        differing = ones * (1 - ones) * (1 - kappa)
        cells = [ones - differing, differing, differing, 1 - ones - differing]
        tables = (Table2x2(*row) for row in rng.multinomial(n, cells, size=400).tolist())
        met = [
            (kappa_score(table).low if bound else cohen_kappa(table)) >= threshold
            for table in tables
        ]
        assert np.mean(met) == pytest.approx(told, abs=0.06)


def test_items_that_share_a_prompt_decide_as_sharply_as_the_gate_on_clusters_does():
    """Raters simulated prompt by prompt; the gate reads the score bound of the clustered panel."""
    rng, prompts, repeats, icc = np.random.default_rng(5), 50, 4, 0.25
    items = prompts * repeats
    told = gate_power(items, 0.6, 0.5, lower_bound=True, partners=repeats - 1)
    careless = gate_power(items, 0.6, 0.5, lower_bound=True)
    design = SampleDesign(clusters=np.repeat(np.arange(prompts), repeats))
    differing = 0.25 * (1 - told.good)
    cells = [0.5 - differing, differing, differing, 0.5 - differing]
    met = []
    for _ in range(300):
        # An item says what its prompt says with a chance whose square is the correlation.
        own = rng.choice(4, size=(prompts, repeats), p=cells)
        common = rng.choice(4, size=(prompts, 1), p=cells)
        said = np.where(rng.random((prompts, repeats)) < icc**0.5, common, own).ravel()
        rows = np.eye(4)[said]
        met.append(
            design_intervals(rows, design, rng=rng, resamples=1)["kappa_ci_score"].low >= 0.6
        )
    assert np.mean(met) == pytest.approx(told.good_passes, abs=0.08)
    assert careless.good_passes - np.mean(met) > 0.15


def test_more_items_narrow_the_interval_of_kappa():
    few, many = (gate_power(n, 0.8, 0.91, lower_bound=True) for n in (24, 800))
    assert few.interval.low < 0.25
    assert few.interval.high > 0.95
    assert few.best < 0.8 < many.best
    assert few.good_passes < 0.1
    assert many.good_passes > 0.8
