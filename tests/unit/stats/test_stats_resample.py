"""Resampling of whole units: bootstrap, jackknife, permutations."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from chimeralab.core.errors import InputError
from chimeralab.stats import resample
from chimeralab.stats.arrays import encode, finite, same_length
from chimeralab.stats.clusters import quotient
from chimeralab.stats.intervals import percentile_interval
from chimeralab.stats.resample import (
    SampleDesign,
    bootstrap,
    effective_units,
    jackknife,
    permutation_test,
    permute_within,
    sign_flip_test,
    units,
)


def rows_of(values):
    return np.column_stack([values, np.ones(len(values))])


def test_spread_of_bootstrap_draws_agrees_with_theory():
    values = np.random.default_rng(1).normal(size=50)
    draws = bootstrap(rows_of(values), quotient, rng=np.random.default_rng(2), resamples=20_000)
    assert draws.mean() == pytest.approx(values.mean(), abs=0.005)
    assert draws.std() == pytest.approx(values.std() / 50**0.5, rel=0.02)


def test_strata_are_resampled_separately():
    values, strata = np.repeat([0.0, 10.0], 20), np.repeat(["low", "high"], 20)
    totals, stratum = units(rows_of(values), SampleDesign(strata=strata))
    draws = bootstrap(totals, quotient, stratum, rng=np.random.default_rng(1))
    assert percentile_interval(draws) == (5, 5)
    assert jackknife(totals, quotient, stratum).standard_error == 0


def test_clusters_across_strata_are_resampled_whole():
    design = SampleDesign(clusters=["a", "a", "b", "b"], strata=[0, 1, 0, 1])
    assert units(rows_of([1.0, 2.0, 3.0, 4.0]), design)[1].tolist() == [0, 0]


def test_draws_in_portions_have_the_same_distribution(monkeypatch):
    sample = rows_of(np.arange(30.0))
    whole = percentile_interval(bootstrap(sample, quotient, rng=np.random.default_rng(1)))
    monkeypatch.setattr(resample, "PORTION", 1_000)
    portions = bootstrap(sample, quotient, rng=np.random.default_rng(1))
    assert percentile_interval(portions) == pytest.approx(whole, abs=0.3)


def test_undefined_resamples_are_left_out_and_counted():
    sample = np.array([[1.0, 1.0], [0.0, 0.0]])
    draws = bootstrap(sample, quotient, rng=np.random.default_rng(1), resamples=4_000)
    assert percentile_interval(draws) == (1, 1)
    assert np.isnan(draws).sum() == pytest.approx(1_000, abs=100)


def test_jackknife_error_of_a_mean_is_the_textbook_one():
    values = np.random.default_rng(1).normal(size=30)
    result = jackknife(rows_of(values), quotient)
    assert result.standard_error == pytest.approx(values.std(ddof=1) / 30**0.5)
    assert result.df == 29


def test_stratified_jackknife_error_adds_up_over_strata():
    rng = np.random.default_rng(1)
    values, strata = rng.normal(size=50), np.repeat([0, 1], [20, 30])
    expected = sum(
        (part.size / 50) ** 2 * part.var(ddof=1) / part.size for part in (values[:20], values[20:])
    )
    result = jackknife(rows_of(values), quotient, strata)
    assert result.standard_error == pytest.approx(expected**0.5)
    assert result.df == 48


def test_units_of_equal_weight_count_fully():
    assert effective_units(np.full(7, 3.0)) == 7


def test_permutation_moves_labels_only_within_their_block():
    labels, blocks = np.arange(12), np.array([2, 0, 1] * 4)
    shuffled = permute_within(labels, blocks, 200, np.random.default_rng(1))
    for block in range(3):
        inside = blocks == block
        assert (np.sort(shuffled[:, inside], axis=1) == labels[inside]).all()
    assert len(np.unique(shuffled, axis=0)) > 190


def test_every_order_within_a_block_is_equally_likely():
    shuffled = permute_within(np.arange(3), np.zeros(3, np.intp), 6_000, np.random.default_rng(1))
    _, counts = np.unique(shuffled, axis=0, return_counts=True)
    assert counts.tolist() == pytest.approx([1_000] * 6, abs=120)


def test_sign_flip_p_of_equal_signs_is_the_exact_one():
    p = sign_flip_test([1.0] * 6, rng=np.random.default_rng(1), permutations=50_000)
    assert p == pytest.approx(2 / 64, abs=0.003)


def test_permutation_p_is_never_zero():
    assert permutation_test(5.0, np.zeros(99)) == 0.01


def test_columns_of_different_length_are_rejected():
    with pytest.raises(InputError, match="rate has 1, seed has 2"):
        same_length(rate=[1], seed=[1, 2])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_values_that_are_not_finite_are_rejected_with_their_position(bad):
    with pytest.raises(InputError, match="rate: value 2 is"):
        finite([0.5, bad], "rate")


def test_words_are_rejected_as_values():
    with pytest.raises(InputError, match="must be a number"):
        finite(["often"], "rate")


def test_missing_labels_of_groups_are_rejected():
    with pytest.raises(InputError, match="all be present"):
        encode(["a", None])


def test_codes_do_not_depend_on_the_order_of_rows():
    assert encode(["b", "a"])[0] == encode(["a", "b", "a"])[0] == ("a", "b")


@pytest.mark.parametrize("seed", range(5))
def test_few_sign_flips_are_counted_instead_of_drawn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes = rng.normal(0.4, 1, 12)
    found = sign_flip_test(changes, rng=rng, permutations=4_096)
    oracle = scipy_stats.permutation_test(
        (changes,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert found == pytest.approx(oracle.pvalue)
    assert found * 4_096 == int(found * 4_096)
    assert sign_flip_test(changes, rng=rng, permutations=4_095) == pytest.approx(found, abs=0.05)
