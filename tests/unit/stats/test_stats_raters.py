"""Any number of raters, against krippendorff and statsmodels."""

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as oracle_fleiss

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import pair_ac1, pair_alpha, tabulate
from chimeralab.stats.raters import (
    alpha_bootstrap,
    fleiss_kappa,
    gwet_ac1,
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


# Twelve units, four raters and five categories, with missing labels (Gwet 2014).
PUBLISHED = np.array(
    [
        [1, 1, None, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4],
        [4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [None, 5, 5, 5], [None, None, 1, 1],
        [None, None, 3, None],
    ],
    float,
)  # fmt: skip


def test_published_ratings_with_gaps_give_the_published_coefficients():
    assert gwet_ac1(PUBLISHED).value == pytest.approx(0.77544, abs=5e-6)
    assert krippendorff_alpha(PUBLISHED) == pytest.approx(0.74342, abs=5e-6)


@pytest.mark.parametrize("raters", [2, 3, 4, 5])
def test_ac1_with_missing_labels_agrees_with_irrcac(raters):
    raw = pytest.importorskip("irrCAC.raw", reason="the oracle pins an old scipy; --no-deps")
    pandas = pytest.importorskip("pandas")
    labels = labels_with_gaps(raters, seed=20 + raters)
    # Without the names of the categories, it takes a missing label for one.
    oracle = raw.CAC(pandas.DataFrame(labels), categories=[0, 1])
    ac1 = oracle.gwet()["est"]["coefficient_value"]
    assert gwet_ac1(labels).value == pytest.approx(ac1, abs=5e-6)
    alpha = oracle.krippendorff()["est"]["coefficient_value"]
    assert krippendorff_alpha(labels) == pytest.approx(alpha, abs=5e-6)
    complete = labels[~np.isnan(labels).any(axis=1)]
    oracle = raw.CAC(pandas.DataFrame(complete), categories=[0, 1])
    fleiss = oracle.fleiss()["est"]["coefficient_value"]
    assert fleiss_kappa(labels) == pytest.approx(fleiss, abs=5e-6)
    # With gaps its error also varies the number of items that have a pair; ours does not.
    assert gwet_ac1(complete).standard_error == pytest.approx(oracle.gwet()["est"]["se"], rel=0.1)


# AC1 of labels_with_gaps(raters, seed=20 + raters) by irrCAC 0.4.4, and the standard error of
# that of the complete items.
IRRCAC = {2: (0.82788, 0.12), 3: (0.62081, 0.11346), 4: (0.43394, 0.12782), 5: (0.55115, 0.11864)}


@pytest.mark.parametrize("raters", IRRCAC)
def test_ac1_with_missing_labels_is_what_irrcac_gave(raters):
    labels, (value, error) = labels_with_gaps(raters, seed=20 + raters), IRRCAC[raters]
    complete = labels[~np.isnan(labels).any(axis=1)]
    assert gwet_ac1(labels).value == pytest.approx(value, abs=5e-6)
    assert gwet_ac1(complete).standard_error == pytest.approx(error, rel=0.1)


def test_ac1_of_two_raters_is_the_one_from_their_table():
    labels = labels_with_gaps(2, seed=4)
    complete = labels[~np.isnan(labels).any(axis=1)]
    assert gwet_ac1(complete).value == pytest.approx(pair_ac1(tabulate(*complete.T)))


def test_alpha_of_two_raters_is_the_one_from_their_table():
    labels = labels_with_gaps(2, seed=4)
    table = tabulate(labels[:, 0], labels[:, 1])
    assert krippendorff_alpha(labels) == pytest.approx(pair_alpha(table))


def test_weight_counts_like_that_many_copies_of_an_item():
    """A weighted point estimate that ignored its weights would be one of another population."""
    labels = labels_with_gaps(3, seed=5)
    copies = np.arange(len(labels)) % 3 + 1
    repeated, weights = np.repeat(labels, copies, axis=0), SampleDesign(weights=copies.tolist())
    assert fleiss_kappa(labels, weights) == pytest.approx(fleiss_kappa(repeated))
    assert gwet_ac1(labels, weights).value == pytest.approx(gwet_ac1(repeated).value)
    # The small-sample term of alpha depends on the number of items.
    alpha = krippendorff_alpha(labels, weights)
    assert alpha == pytest.approx(krippendorff_alpha(repeated), abs=0.02)
    assert abs(alpha - krippendorff_alpha(labels)) > 0.02


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
    assert set(perfect.reasons) == {"alpha_ci", "ac1_ci"}
    assert set(constant.reasons) == {"alpha", "alpha_ci", "ac1_ci", "fleiss"}


def test_rater_without_labels_is_rejected_by_name():
    with pytest.raises(InputError, match="'ben' gave no label"):
        raters_panel({"ann": [1, 0], "ben": [None, None]}, rng=np.random.default_rng(1))


def test_one_rater_is_not_enough():
    with pytest.raises(InputError, match="two raters"):
        raters_panel({"ann": [1, 0]}, rng=np.random.default_rng(1))
