"""Paired contrasts and rank stability, against scipy and statsmodels."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from chimeralab.core.errors import InputError
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.contrasts import (
    contrast,
    contrast_bootstrap,
    differences,
    holm,
    independent_sum,
    naive_contrast,
    rank_stability,
)

PAIR = {"B": 1, "A": -1}


def runs(seeds=10, repeats=3, seed=1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, conditions and clusters of a balanced study in random order."""
    rng = np.random.default_rng(seed)
    condition, cluster = (
        part.ravel()
        for part in np.meshgrid(np.array(["A", "B", "C"]), np.repeat(np.arange(seeds), repeats))
    )
    effect = {"A": 0.0, "B": 0.5, "C": 1.0}
    values = rng.normal(size=len(condition)) + [effect[name] for name in condition]
    order = rng.permutation(len(values))
    return values[order], condition[order], cluster[order]


def cell_mean(values, condition, cluster, name):
    seeds = np.unique(cluster)
    return np.array([values[(condition == name) & (cluster == seed)].mean() for seed in seeds])


def test_paired_contrast_agrees_with_scipy_on_cluster_means():
    data = runs()
    result = contrast(cells_of(*data), PAIR)
    oracle = stats.ttest_rel(cell_mean(*data, "B"), cell_mean(*data, "A"))
    assert result.p == pytest.approx(oracle.pvalue)
    assert result.interval() == pytest.approx(tuple(oracle.confidence_interval()))


def test_naive_p_agrees_with_welch_on_all_runs():
    values, condition, cluster = runs()
    oracle = stats.ttest_ind(values[condition == "B"], values[condition == "A"], equal_var=False)
    assert naive_contrast(cells_of(values, condition, cluster), PAIR).p == pytest.approx(
        oracle.pvalue
    )


def test_linear_contrast_weighs_the_condition_means():
    data = runs()
    means = {name: cell_mean(*data, name) for name in "ABC"}
    result = contrast(cells_of(*data), {"C": 1, "A": -0.5, "B": -0.5})
    expected = means["C"] - (means["A"] + means["B"]) / 2
    assert result.value == pytest.approx(expected.mean())
    assert result.p == pytest.approx(stats.ttest_1samp(expected, 0).pvalue)


def test_contrast_bootstrap_resamples_the_clusters():
    cells = cells_of(*runs(seeds=40))
    draws = contrast_bootstrap(cells, PAIR, rng=np.random.default_rng(1))
    assert draws == pytest.approx(contrast(cells, PAIR).interval(), abs=0.06)


def test_clusters_without_a_run_under_a_condition_are_left_out_and_counted():
    values, condition, cluster = runs()
    kept = ~((condition == "A") & (cluster == 4))
    cells = cells_of(values[kept], condition[kept], cluster[kept])
    assert len(cells.clusters) == 10
    assert contrast(cells, PAIR).df + 1 == 9
    assert contrast(cells, {"B": 1, "C": -1}).df + 1 == 10


def test_conditions_without_a_common_cluster_are_rejected():
    with pytest.raises(InputError, match="no cluster has a run under all"):
        differences(cells_of([1.0, 2.0], ["A", "B"], ["x", "y"]), PAIR)


def test_unknown_conditions_are_rejected_with_the_choices():
    with pytest.raises(InputError, match="unknown condition 'D'; known: A, B"):
        contrast(cells_of([1.0, 2.0], ["A", "B"], ["x", "x"]), {"D": 1, "A": -1})


def test_one_cluster_gives_a_difference_without_p():
    cells = cells_of([1.0, 3.0], ["A", "B"], ["x", "x"])
    result, naive = contrast(cells, PAIR), naive_contrast(cells, PAIR)
    assert (result.value, result.p, result.interval()) == (2, None, None)
    assert (result.standard_error, result.se_ratio(naive), naive) == (None, None, None)


def test_same_difference_everywhere_gives_no_p():
    result = contrast(cells_of([0.0, 1.0] * 3, ["A", "B"] * 3, [1, 1, 2, 2, 3, 3]), PAIR)
    assert (result.value, result.p, result.standard_error) == (1, None, 0)


def test_difference_of_separate_clusters_agrees_with_welch_on_cluster_means():
    rng = np.random.default_rng(1)
    one, two = rng.normal(0.5, 1, (12, 4)), rng.normal(0, 2, (9, 4))
    cells = cells_of(
        np.append(one, two),
        np.repeat(["A", "B"], [one.size, two.size]),
        np.repeat(np.arange(12 + 9), 4),
    )
    oracle = stats.ttest_ind(one.mean(axis=1), two.mean(axis=1), equal_var=False)
    result = independent_sum(contrast(cells, {"A": 1}), contrast(cells, {"B": -1}))
    assert result.p == pytest.approx(oracle.pvalue)
    assert result.interval() == pytest.approx(tuple(oracle.confidence_interval()))


def test_difference_from_a_single_cluster_has_a_reason_instead_of_a_p():
    cells = cells_of([1.0, 2.0, 1.0, 3.0], ["A", "A", "B", "B"], ["a", "a", "b", "c"])
    result = independent_sum(contrast(cells, {"A": 1}), contrast(cells, {"B": -1}))
    assert (result.value, result.p) == (-0.5, None)
    assert "two clusters" in result.reason


def test_holm_agrees_with_statsmodels():
    p_values = np.random.default_rng(1).random(9) ** 3
    assert holm(p_values.tolist()) == pytest.approx(multipletests(p_values, method="holm")[1])


def test_holm_leaves_undefined_questions_out_of_the_count():
    assert holm([0.04, None, 0.03]) == (0.06, None, 0.06)
    assert holm([]) == ()


def test_order_with_equal_means_is_tied():
    cells = cells_of([2.0, 2.0, 1.0, 3.0, 2.0, 1.0], list("ABCABC"), ["x"] * 3 + ["y"] * 3)
    assert rank_stability(cells, "ABC") == (1, 1, 0)


def test_rank_stability_leaves_out_clusters_that_lack_a_condition():
    cells = cells_of([2.0, 1.0, 5.0], ["A", "B", "A"], ["x", "x", "y"])
    assert len(cells.clusters) == 2
    assert rank_stability(cells, ["A", "B"]) == (1, 0, 0)
