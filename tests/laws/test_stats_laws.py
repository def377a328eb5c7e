"""Laws of the statistics on random tables and samples, and coverage of intervals."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chimeralab.stats.agreement import (
    Table2x2,
    bias_index,
    cohen_kappa,
    kappa_max,
    kappa_score,
    kappa_wald,
    pabak,
    pair_ac1,
    pair_alpha,
    prevalence_index,
)
from chimeralab.stats.arrays import ratios
from chimeralab.stats.clusters import cells_of, cluster_mean, mean_bootstrap, mean_bootstrap_t
from chimeralab.stats.contrasts import contrast, holm
from chimeralab.stats.intervals import Interval, share_interval, wilson
from chimeralab.stats.panel import panel
from chimeralab.stats.survival import durations, kaplan_meier, logrank, restricted_mean
from chimeralab.trial.sums import calibration_rows

counts = st.integers(0, 500)
tables = st.builds(Table2x2, counts, counts, counts, counts).filter(lambda table: table.n > 0)
varied = tables.filter(lambda table: cohen_kappa(table) is not None)
labels = st.lists(st.tuples(st.sampled_from([0, 1, None]), st.sampled_from([0, 1, None])))
shares = st.floats(0, 1).map(lambda share: round(share, 6))


def defined(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


@given(varied)
def test_kappa_is_pabak_corrected_for_prevalence_and_bias(table):
    lopsided, biased = prevalence_index(table) ** 2, bias_index(table) ** 2
    expected = (pabak(table) - lopsided + biased) / (1 - lopsided + biased)
    assert cohen_kappa(table) == pytest.approx(expected, abs=1e-9)


@given(tables)
def test_naming_the_labels_the_other_way_round_changes_no_coefficient(table):
    flipped = Table2x2(table.neither, table.second_only, table.first_only, table.both)
    for coefficient in (cohen_kappa, pabak, pair_ac1, pair_alpha, kappa_max):
        assert coefficient(flipped) == pytest.approx(coefficient(table))


@given(tables)
def test_exchanging_the_raters_changes_no_coefficient_but_the_sign_of_bias(table):
    exchanged = Table2x2(table.both, table.second_only, table.first_only, table.neither)
    for coefficient in (cohen_kappa, pair_ac1, pair_alpha, kappa_max):
        assert coefficient(exchanged) == pytest.approx(coefficient(table))
    assert bias_index(exchanged) == -bias_index(table)


@given(varied)
def test_coefficients_lie_between_minus_one_and_one(table):
    assert -1 <= cohen_kappa(table) <= kappa_max(table) + 1e-12 <= 1 + 2e-12
    assert -1 <= pair_ac1(table) <= 1


@given(varied)
def test_score_interval_holds_kappa_and_stays_in_range(table):
    low, high = defined(kappa_score(table))
    assert -1 <= low <= cohen_kappa(table) <= high <= 1
    assert low < high


@given(varied.filter(lambda table: table.first_only + table.second_only > 0))
def test_ten_times_the_items_give_narrower_intervals(table):
    more = Table2x2(*(10 * count for count in table.cells.tolist()))
    for interval in (kappa_wald, kappa_score):
        few, many = interval(table), interval(more)
        assert many.high - many.low <= few.high - few.low + 1e-12


@given(labels)
def test_panel_has_no_nan_and_a_reason_for_every_none(pairs):
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    result = panel(first, second, rng=np.random.default_rng(1), resamples=20)
    values = {name: getattr(result, name) for name in result.__slots__}
    assert not any(isinstance(value, float) and np.isnan(value) for value in values.values())
    assert set(result.reasons) == {name for name, value in values.items() if value is None}


@given(st.integers(1, 300), st.floats(0, 1))
def test_interval_of_a_proportion_holds_the_estimate_and_is_never_empty(n, share):
    hits = round(share * n)
    low, high = wilson(hits, n)
    assert 0 <= low <= hits / n <= high <= 1
    assert low < high


@given(st.lists(st.tuples(shares, st.integers(0, 5)), min_size=2, max_size=40), st.randoms())
def test_results_do_not_depend_on_the_order_of_rows(rows, random):
    mixed = random.sample(rows, len(rows))
    orders = [tuple(zip(*order, strict=True)) for order in (rows, mixed)]
    one, two = (cluster_mean(values, clusters) for values, clusters in orders)
    assert one.mean == pytest.approx(two.mean)
    assert one.standard_error == pytest.approx(two.standard_error, abs=1e-9)
    bounds = [
        mean_bootstrap(values, clusters, rng=np.random.default_rng(1), resamples=50)
        for values, clusters in orders
    ]
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)


@given(st.lists(shares, min_size=3, max_size=20), st.floats(-5, 5), st.floats(0.1, 9))
def test_moving_and_stretching_the_values_moves_and_stretches_the_interval(values, shift, scale):
    assume(np.ptp(values) > 1e-3)
    clusters = np.arange(len(values))
    plain = cluster_mean(values, clusters).interval
    moved = cluster_mean(scale * np.array(values) + shift, clusters).interval
    assert moved == pytest.approx([scale * bound + shift for bound in plain], abs=1e-6)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_a_p_value_and_keeps_the_order(p_values):
    adjusted = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values)
    assert (np.diff(np.array(adjusted, dtype=float)[order]) >= 0).all()


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=40))
def test_survival_falls_from_one_and_its_area_stays_below_the_horizon(runs):
    times = [time for time, _ in runs]
    sample = durations([t if seen else None for t, seen in runs], times)
    survival = kaplan_meier(sample).survival
    assert (np.diff(survival, prepend=1.0) <= 1e-12).all()
    assert (survival >= 0).all()
    horizon = max(times)
    assert 0 < restricted_mean(sample, horizon).value <= horizon


@given(st.lists(st.integers(1, 20), min_size=2, max_size=20))
def test_group_compared_with_its_copy_shows_no_difference(times):
    assume(len(set(times)) > 1)
    sample = durations(times * 2, times * 2)
    groups = ["a"] * len(times) + ["b"] * len(times)
    assert logrank(sample, groups).chi2 == pytest.approx(0, abs=1e-9)


@given(st.lists(st.tuples(shares, st.integers(0, 1)), min_size=1))
def test_calibration_numbers_stay_between_zero_and_one(answers):
    levels = sorted({level for level, _ in answers})
    wrong, right = (
        np.array([[answers.count((level, flag)) for level in levels]], float) for flag in (0, 1)
    )
    rows = calibration_rows(np.array(levels), wrong, right)
    assert 0 <= rows["ece"][0] <= 1
    assert 0 <= rows["brier"][0] <= 1
    area = rows["auroc"][0]
    assert np.isnan(area) == (len({correct for _, correct in answers}) == 1)
    assert np.isnan(area) or 0 <= area <= 1


@given(st.lists(st.integers(-5, 5), min_size=1))
def test_quotient_is_undefined_only_where_the_denominator_is_zero(denominators):
    assert (np.isnan(ratios(1.0, denominators)) == (np.array(denominators) == 0)).all()


CLUSTERS, REPEATS = 36, 5


def gaussian_clusters(rng):
    between = rng.normal(0, 0.3**0.5, (CLUSTERS, 1))
    return (between + rng.normal(0, 0.7**0.5, (CLUSTERS, REPEATS))).ravel()


@pytest.mark.slow
def test_intervals_of_a_clustered_mean_have_nominal_coverage():
    rng = np.random.default_rng(11)
    clusters = np.repeat(np.arange(CLUSTERS), REPEATS)
    hits = np.zeros(3)
    for _ in range(2_000):
        values = gaussian_clusters(rng)
        intervals = (
            cluster_mean(values, clusters).interval,
            mean_bootstrap(values, clusters, rng=rng, resamples=1_000),
            mean_bootstrap_t(values, clusters, rng=rng, resamples=1_000),
        )
        hits += [low <= 0 <= high for low, high in map(defined, intervals)]
    assert ((hits / 2_000 >= 0.92) & (hits / 2_000 <= 0.98)).all()


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 2), st.integers(1, 60))
def test_interval_of_a_share_holds_it_and_stays_between_0_and_1(share, error, df):
    low, high = defined(share_interval(share, error, df))
    assert 0 <= low <= share <= high <= 1


@pytest.mark.slow
@pytest.mark.parametrize("truth", [0.14, 0.5, 0.86])
def test_interval_of_a_mean_share_has_nominal_coverage(truth):
    rng, clusters = np.random.default_rng(13), np.repeat(np.arange(CLUSTERS), REPEATS)
    hits = 0
    for _ in range(1_000):
        prompts = np.repeat(rng.beta(4 * truth, 4 * (1 - truth), CLUSTERS), REPEATS)
        found = cluster_mean(rng.beta(3 * prompts + 1e-6, 3 * (1 - prompts) + 1e-6), clusters)
        assert found.standard_error is not None
        low, high = defined(share_interval(found.mean, found.standard_error, CLUSTERS - 1))
        hits += low <= truth <= high
    assert 0.93 <= hits / 1_000 <= 0.975


@pytest.mark.slow
def test_null_contrast_is_significant_at_the_nominal_rate():
    rng = np.random.default_rng(12)
    clusters = np.tile(np.repeat(np.arange(CLUSTERS), REPEATS), 2)
    conditions = np.repeat(["A", "B"], CLUSTERS * REPEATS)
    significant = 0
    for _ in range(2_000):
        values = np.concatenate([gaussian_clusters(rng), gaussian_clusters(rng)])
        significant += contrast(cells_of(values, conditions, clusters), {"A": 1, "B": -1}).p < 0.05
    assert 0.04 <= significant / 2_000 <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("prevalence", [0.5, 0.9083])
@pytest.mark.parametrize("kappa", [0.5663, 0.8, 0.9])
def test_score_interval_of_kappa_covers_where_wald_does_not(prevalence, kappa):
    rng = np.random.default_rng(13)
    spare = prevalence * (1 - prevalence)
    cells = [prevalence**2 + kappa * spare, *[spare * (1 - kappa)] * 2]
    draws = rng.multinomial(180, [*cells, 1 - sum(cells)], size=4_000).tolist()
    intervals = [defined(kappa_score(Table2x2(*table))) for table in draws]
    covered = np.mean([low <= kappa <= high for low, high in intervals])
    flattered = np.mean([low > kappa for low, _ in intervals])
    assert 0.93 <= covered <= 0.98
    assert flattered <= 0.035
