"""Coefficients for two raters, against statsmodels and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import (
    Table2x2,
    cohen_kappa,
    expected_agreement,
    kappa_bootstrap,
    kappa_max,
    kappa_score,
    kappa_standard_error,
    kappa_variance,
    kappa_wald,
    label_column,
    negative_agreement,
    pair_ac1,
    pair_alpha,
    positive_agreement,
    raw_agreement,
    tabulate,
)
from chimeralab.stats.intervals import percentile_interval
from chimeralab.stats.panel import table_intervals

TABLES = [Table2x2(*row) for row in np.random.default_rng(1).integers(0, 30, (40, 4)).tolist()]
EMPTY = Table2x2(0, 0, 0, 0)


@pytest.mark.parametrize("table", TABLES)
def test_kappa_and_its_wald_interval_agree_with_statsmodels(table):
    square = [[table.both, table.first_only], [table.second_only, table.neither]]
    oracle = cohens_kappa(square)
    assert cohen_kappa(table) == pytest.approx(oracle.kappa)
    assert kappa_max(table) == pytest.approx(oracle.kappa_max)
    assert kappa_standard_error(table) == pytest.approx(oracle.std_kappa)
    assert kappa_wald(table) == pytest.approx((oracle.kappa_low, oracle.kappa_upp))


def test_kappa_of_labels_agrees_with_scikit_learn():
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2, 60).astype(float)
    second = np.where(rng.random(60) < 0.8, first, 1 - first)
    assert cohen_kappa(tabulate(first, second)) == pytest.approx(cohen_kappa_score(first, second))


def test_pairs_with_a_missing_label_are_left_out_of_the_table():
    assert tabulate([1, None, 0, 1], [1, 1, None, 0]) == Table2x2(1, 1, 0, 0)


@pytest.mark.parametrize("statistic", [raw_agreement, expected_agreement, cohen_kappa, pair_ac1])
def test_no_items_leave_every_coefficient_undefined(statistic):
    assert statistic(EMPTY) is None


def test_agreement_on_a_label_that_nobody_gave_is_undefined():
    assert positive_agreement(Table2x2(0, 0, 0, 9)) is None
    assert negative_agreement(Table2x2(9, 0, 0, 0)) is None
    assert pair_alpha(Table2x2(9, 0, 0, 0)) is None


@pytest.mark.parametrize("bad", [2, -1, 0.5, float("inf")])
def test_labels_other_than_zero_and_one_are_rejected_with_their_place(bad):
    with pytest.raises(InputError, match="second rater: label 2 is"):
        tabulate([1, 0], [1, bad])


def test_words_are_rejected_as_labels():
    with pytest.raises(InputError, match="labels are 0, 1 or missing"):
        label_column(["yes", "no"], "ann")  # type: ignore[list-item]


def test_raters_with_different_numbers_of_labels_are_rejected():
    with pytest.raises(InputError, match="first has 2, second has 1"):
        tabulate([1, 0], [1])


@pytest.mark.parametrize("counts", [(-1, 0, 0, 0), (float("nan"), 0, 0, 1)])
def test_impossible_counts_are_rejected(counts):
    with pytest.raises(InputError, match="not negative"):
        Table2x2(*counts)


def test_perfect_agreement_has_no_wald_or_bootstrap_interval_but_a_score_one():
    table = Table2x2(20, 0, 0, 5)
    assert kappa_wald(table) is None
    assert table_intervals(table, rng=np.random.default_rng(1))["kappa_ci_bootstrap"] is None
    assert 0.5 < kappa_score(table).low < 0.9
    assert kappa_score(table).high == 1


def test_constant_labels_have_no_interval():
    table = Table2x2(45, 0, 0, 0)
    draws = kappa_bootstrap(table, rng=np.random.default_rng(1), resamples=50)
    assert (kappa_wald(table), kappa_score(table), percentile_interval(draws)) == (None,) * 3
    assert np.isnan(draws).sum() == 50


def test_score_interval_is_where_the_score_test_stops_rejecting():
    table, reach = Table2x2(157, 7, 6, 10), 1.959964
    share = 0.9083333333
    balance = 2 * share * (1 - share)
    for kappa in kappa_score(table):
        # Variance of Fleiss, Cohen and Everitt for raters with the same margins, expanded.
        variance = (1 - kappa) * ((1 - kappa) * (1 - 2 * kappa) + kappa * (2 - kappa) / balance)
        distance = abs(cohen_kappa(table) - kappa) / (variance / table.n) ** 0.5
        assert distance == pytest.approx(reach, rel=1e-6)


def test_variance_for_equal_margins_is_the_general_one_on_such_a_table():
    table = Table2x2(600, 50, 50, 300)
    kappa = cohen_kappa(table)
    assert kappa is not None
    assert kappa_standard_error(table) ** 2 * table.n == pytest.approx(kappa_variance(kappa, 0.65))
