"""The agreement panel with missing labels, clusters, strata and weights."""

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.stats.agreement import Table2x2, cell_rows
from chimeralab.stats.panel import design_intervals, panel, table_panel
from chimeralab.stats.resample import SampleDesign


def rng():
    return np.random.default_rng(1)


def ratings(n=120, seed=3):
    """Two raters who agree on four items in five, and 24 clusters of five items."""
    draw = np.random.default_rng(seed)
    first = draw.integers(0, 2, n)
    second = np.where(draw.random(n) < 0.8, first, 1 - first)
    return first, second, np.arange(n) // 5


def width(interval):
    return interval.high - interval.low


def test_panel_of_labels_is_the_panel_of_their_table():
    first, second, _ = ratings()
    table = Table2x2(*cell_rows(first, second).sum(axis=0).astype(int).tolist())
    assert panel(first, second, rng=rng()) == table_panel(table, rng=rng())


def test_missing_labels_are_counted_and_not_a_category():
    first, second = [1, 0, 1, None, 0, 1], [1, 0, None, None, 1, 1]
    result = panel(first, second, rng=rng())
    assert (result.n_total, result.n_valid) == (6, 4)
    assert result.table == Table2x2(2, 0, 1, 1)


def test_raters_without_a_common_item_get_reasons_instead_of_numbers():
    result = panel([1, None], [None, 1], rng=rng())
    assert result.agreement is None
    assert set(result.reasons) >= {"agreement", "kappa", "kappa_ci", "pabak_ci", "ac1"}
    assert "no item" in result.reasons["kappa"]


def test_every_undefined_entry_has_a_reason_and_no_other_has_one():
    for counts in [(45, 0, 0, 0), (20, 0, 0, 5), (0, 3, 2, 0), (0, 0, 0, 0), (9, 1, 2, 8)]:
        result = table_panel(Table2x2(*counts), rng=rng(), resamples=100)
        undefined = {name for name in result.__slots__ if getattr(result, name) is None}
        assert set(result.reasons) == undefined


def test_items_in_clusters_of_one_give_the_same_estimates_and_similar_intervals():
    first, second, _ = ratings()
    plain = panel(first, second, rng=rng())
    each = panel(first, second, rng=rng(), design=SampleDesign(clusters=np.arange(120)))
    assert each.kappa == pytest.approx(plain.kappa)
    assert each.kappa_ci == pytest.approx(plain.kappa_ci, abs=0.02)
    assert each.kappa_ci_score == pytest.approx(plain.kappa_ci_score, abs=0.02)
    assert each.kappa_ci_bootstrap == pytest.approx(plain.kappa_ci_bootstrap, abs=0.02)
    assert each.pabak_ci == pytest.approx(plain.pabak_ci, abs=0.02)


def test_copies_of_an_item_in_one_cluster_add_nothing():
    first, second, _ = ratings(60)
    once = panel(first, second, rng=rng(), design=SampleDesign(clusters=np.arange(60)))
    copied = panel(
        np.repeat(first, 3),
        np.repeat(second, 3),
        rng=rng(),
        design=SampleDesign(clusters=np.repeat(np.arange(60), 3)),
    )
    for name in ("kappa_ci", "kappa_ci_score", "kappa_ci_bootstrap", "pabak_ci"):
        assert getattr(copied, name) == pytest.approx(getattr(once, name), abs=0.01)


def test_weight_counts_an_item_that_many_times():
    first, second = [1, 1, 0, 0, 1, 0, 1, 0], [1, 0, 0, 1, 1, 0, 1, 0]
    weights = [3, 1, 2, 1, 1, 2, 1, 1]
    weighted = panel(first, second, rng=rng(), design=SampleDesign(weights=weights), resamples=100)
    repeated = panel(np.repeat(first, weights), np.repeat(second, weights), rng=rng())
    assert weighted.kappa == pytest.approx(repeated.kappa)
    assert weighted.agreement == pytest.approx(repeated.agreement)
    assert weighted.n_valid == 8


def test_weighted_kappa_of_a_balanced_sample_recovers_the_population():
    draw = np.random.default_rng(5)
    truth = (draw.random(20_000) < 0.9).astype(int)
    verdict = np.where(draw.random(20_000) < 0.9, truth, 1 - truth)
    first = np.where(draw.random(20_000) < 0.95, truth, 1 - truth)
    second = np.where(draw.random(20_000) < 0.95, truth, 1 - truth)
    population = panel(first, second, rng=rng(), resamples=100).kappa
    picked = np.concatenate(
        [draw.choice(np.flatnonzero(verdict == label), 1_500, replace=False) for label in (0, 1)]
    )
    sizes = np.bincount(verdict)
    design = SampleDesign(strata=verdict[picked], weights=sizes[verdict[picked]] / 1_500)
    sample = panel(first[picked], second[picked], rng=rng(), design=design, resamples=2_000)
    unweighted = panel(first[picked], second[picked], rng=rng(), resamples=100)
    assert sample.kappa_ci_bootstrap.low < population < sample.kappa_ci_bootstrap.high
    assert abs(sample.kappa - population) < abs(unweighted.kappa - population)
    assert width(sample.kappa_ci) == pytest.approx(width(sample.kappa_ci_bootstrap), rel=0.1)


def test_perfect_agreement_in_few_clusters_is_less_certain_than_in_many():
    labels = [1] * 30 + [0] * 30
    few = panel(labels, labels, rng=rng(), design=SampleDesign(clusters=np.arange(60) // 10))
    many = panel(labels, labels, rng=rng(), design=SampleDesign(clusters=np.arange(60)))
    assert few.kappa_ci_score.low < many.kappa_ci_score.low < 1
    assert few.pabak_ci.low < many.pabak_ci.low < 1
    assert few.kappa_ci is None
    assert "no width" in few.reasons["kappa_ci"]


def test_single_cluster_gives_no_interval():
    first, second, _ = ratings(20)
    result = panel(first, second, rng=rng(), design=SampleDesign(clusters=[1] * 20), resamples=100)
    assert (result.kappa_ci, result.pabak_ci) == (None, None)
    assert result.kappa is not None


def test_stratum_with_one_item_is_rejected():
    design = SampleDesign(strata=["x"] * 5 + ["y"])
    with pytest.raises(InputError, match="merge it"):
        panel([1, 0, 1, 0, 1, 1], [1, 0, 1, 1, 1, 0], rng=rng(), design=design)


def test_table_of_broken_counts_is_rejected():
    with pytest.raises(InputError, match="whole numbers"):
        table_panel(Table2x2(1.5, 0, 0, 2), rng=rng())


def test_weights_must_be_positive():
    with pytest.raises(InputError, match="weights: value 2 is 0"):
        panel([1, 0], [1, 0], rng=rng(), design=SampleDesign(weights=[1, 0]))


def test_design_of_another_length_is_rejected():
    with pytest.raises(InputError, match="differ in length"):
        panel([1, 0], [1, 0], rng=rng(), design=SampleDesign(clusters=["a"]))


@pytest.mark.parametrize(("items", "prompts"), [(12, 4), (24, 16), (240, 36)])
def test_full_agreement_is_never_weaker_evidence_than_one_disagreement(items, prompts):
    rng, design = np.random.default_rng(1), SampleDesign(clusters=np.arange(items) % prompts)
    same = np.eye(4)[rng.permutation(np.arange(items) % 2 * 3)]
    perfect = design_intervals(same, design, rng=rng, resamples=1)["kappa_ci_score"]
    for item in range(0, items, 5):
        nearly = same.copy()
        nearly[item] = np.eye(4)[1]
        one_less = design_intervals(nearly, design, rng=rng, resamples=1)["kappa_ci_score"]
        assert perfect.low >= one_less.low
    alone = design_intervals(same, SampleDesign(), rng=rng, resamples=1)["kappa_ci_score"]
    assert perfect.low < alone.low


def test_order_of_items_does_not_change_an_interval():
    rng = np.random.default_rng(2)
    same, clusters = np.eye(4)[[0, 0, 0] + [3] * 21], np.arange(24) % 7
    order = rng.permutation(24)
    first, second = (
        design_intervals(same[of], SampleDesign(clusters=clusters[of]), rng=rng, resamples=1)
        for of in (np.arange(24), order)
    )
    assert first["kappa_ci_score"] == pytest.approx(second["kappa_ci_score"])
