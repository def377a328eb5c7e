"""The two raters of the published study, to four digits."""

import numpy as np
import pytest

from chimeralab.stats.agreement import Table2x2, cohen_kappa, kappas
from chimeralab.stats.panel import table_panel
from chimeralab.stats.planning import items_for_kappa

STUDY = Table2x2(157, 7, 6, 10)

PUBLISHED = {
    "agreement": 0.9278,
    "expected_agreement": 0.8335,
    "kappa": 0.5663,
    "kappa_max": 0.9666,
    "pabak": 0.8556,
    "ac1": 0.9133,
    "alpha": 0.5675,
    "prevalence": 0.9083,
    "prevalence_index": 0.8167,
    "bias_index": 0.0056,
    "positive_agreement": 0.9602,
    "negative_agreement": 0.6061,
}

BY_CONDITION = {
    "HOMO_A": (Table2x2(41, 2, 0, 2), 0.646),
    "HOMO_C": (Table2x2(39, 0, 4, 2), 0.464),
    "HETERO_ROT": (Table2x2(32, 5, 2, 6), 0.536),
}


@pytest.fixture(scope="module")
def study():
    return table_panel(STUDY, rng=np.random.default_rng(20260218))


@pytest.mark.parametrize(("name", "value"), PUBLISHED.items())
def test_panel_gives_the_published_value(study, name, value):
    assert getattr(study, name) == pytest.approx(value, abs=5e-5)


def test_panel_counts_every_item_and_leaves_nothing_undefined(study):
    assert (study.n_valid, study.n_total, study.reasons) == (180, 180, {})


def test_wald_interval_of_kappa_is_the_published_one(study):
    assert study.kappa_ci == pytest.approx((0.3552, 0.7775), abs=5e-5)


def test_bootstrap_interval_of_kappa_is_the_published_one(study):
    assert study.kappa_ci_bootstrap == pytest.approx((0.322, 0.763), abs=5e-3)


def test_wilson_interval_of_pabak_is_the_published_one(study):
    assert study.pabak_ci == pytest.approx((0.7607, 0.9146), abs=5e-5)


@pytest.mark.parametrize("condition", BY_CONDITION)
def test_kappa_of_the_condition_is_the_published_one(condition):
    table, kappa = BY_CONDITION[condition]
    assert cohen_kappa(table) == pytest.approx(kappa, abs=5e-4)


def test_condition_tables_add_up_to_the_study():
    tables = [table.cells for table, _ in BY_CONDITION.values()] + [Table2x2(45, 0, 0, 0).cells]
    assert np.sum(tables, axis=0).tolist() == STUDY.cells.tolist()


def test_condition_without_variance_has_no_kappa_but_a_reason():
    constant = table_panel(Table2x2(45, 0, 0, 0), rng=np.random.default_rng(1))
    undefined = ("kappa", "kappa_ci", "kappa_ci_bootstrap", "kappa_max", "alpha")
    assert [getattr(constant, name) for name in undefined] == [None] * 5
    assert all("same label" in constant.reasons[name] for name in undefined)
    assert constant.agreement == 1
    assert constant.pabak_ci.low < 0.9


@pytest.mark.parametrize(("prevalence", "items"), [(0.5, 118), (109 / 120, 363)])
def test_items_needed_for_kappa_are_the_published_ones(prevalence, items):
    assert items_for_kappa(0.90, 0.80, prevalence) == items


def test_counts_behind_the_published_slips_are_as_documented():
    assert STUDY.both + STUDY.first_only + STUDY.second_only == 170
    assert STUDY.both / STUDY.n == pytest.approx(0.872, abs=5e-4)


def test_highest_kappa_over_all_margins_is_the_stated_one():
    agreed, differing = 167, 13
    tables = [
        (both, first_only, differing - first_only, agreed - both)
        for both in range(agreed + 1)
        for first_only in range(differing + 1)
    ]
    assert kappas(tables).max() == pytest.approx(0.856, abs=5e-4)
