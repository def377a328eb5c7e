"""Any number of raters, against krippendorff and statsmodels."""

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as oracle_fleiss

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import pair_alpha, tabulate
from chimeralab.stats.raters import (
    alpha_bootstrap,
    fleiss_kappa,
    krippendorff_alpha,
    label_counts,
    raters_panel,
)
from chimeralab.stats.resample import SampleDesign


def labels_with_gaps(raters, seed, categories=2):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, categories, (50, 1)) + np.zeros((50, raters))
    noise = rng.random(labels.shape) < 0.3
    labels[noise] = rng.integers(0, categories, noise.sum())
    labels[rng.random(labels.shape) < 0.2] = np.nan
    return labels


@pytest.mark.parametrize("raters", [2, 3, 5])
@pytest.mark.parametrize("categories", [2, 4])
def test_alpha_with_missing_labels_agrees_with_krippendorff(raters, categories):
    labels = labels_with_gaps(raters, seed=raters, categories=categories)
    oracle = krippendorff.alpha(reliability_data=labels.T, level_of_measurement="nominal")
    assert krippendorff_alpha(labels) == pytest.approx(oracle)


@pytest.mark.parametrize("raters", [2, 3, 6])
def test_fleiss_kappa_of_the_complete_items_agrees_with_statsmodels(raters):
    labels = labels_with_gaps(raters, seed=10 + raters)
    complete = labels[~np.isnan(labels).any(axis=1)]
    assert fleiss_kappa(labels) == pytest.approx(oracle_fleiss(label_counts(complete)))


def test_alpha_of_two_raters_is_the_one_from_their_table():
    labels = labels_with_gaps(2, seed=4)
    table = tabulate(labels[:, 0], labels[:, 1])
    assert krippendorff_alpha(labels) == pytest.approx(pair_alpha(table))


def test_constant_labels_have_no_alpha_and_no_fleiss_kappa():
    assert krippendorff_alpha(np.ones((9, 3))) is None
    assert fleiss_kappa(np.ones((9, 3))) is None
    assert fleiss_kappa(np.array([[1, None], [None, 0]], float)) is None


def test_alpha_interval_widens_when_items_come_in_clusters():
    labels = np.repeat(labels_with_gaps(3, seed=7)[:20], 4, axis=0)
    rng = np.random.default_rng(1)
    alone = alpha_bootstrap(labels, rng=rng, resamples=4_000)
    clusters = SampleDesign(clusters=np.repeat(np.arange(20), 4))
    together = alpha_bootstrap(labels, rng=rng, design=clusters, resamples=4_000)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_panel_holds_every_pair_and_counts_missing_labels_by_rater():
    labels = labels_with_gaps(3, seed=8)
    columns = dict(zip(("ann", "ben", "cat"), labels.T, strict=True))
    result = raters_panel(columns, rng=np.random.default_rng(1), resamples=500)
    assert list(result.pairs) == [
        ("ann", "ben"),
        ("ann", "cat"),
        ("ben", "cat"),
    ]
    assert result.missing == {name: int(np.isnan(col).sum()) for name, col in columns.items()}
    assert result.n_complete < result.n_valid < result.n_total == 50
    assert result.alpha_ci.low < result.alpha < result.alpha_ci.high


def test_perfect_and_constant_raters_get_reasons():
    rng = np.random.default_rng(1)
    perfect = raters_panel({"a": [1, 0, 1], "b": [1, 0, 1]}, rng=rng, resamples=50)
    constant = raters_panel({"a": [1, 1, 1], "b": [1, 1, 1]}, rng=rng, resamples=50)
    assert perfect.alpha == 1
    assert set(perfect.reasons) == {"alpha_ci"}
    assert set(constant.reasons) == {"alpha", "alpha_ci", "fleiss"}


def test_rater_without_labels_is_rejected_by_name():
    with pytest.raises(InputError, match="'ben' gave no label"):
        raters_panel({"ann": [1, 0], "ben": [None, None]}, rng=np.random.default_rng(1))


def test_one_rater_is_not_enough():
    with pytest.raises(InputError, match="two raters"):
        raters_panel({"ann": [1, 0]}, rng=np.random.default_rng(1))
