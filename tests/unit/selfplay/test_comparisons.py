"""Comparisons agree with the textbook tests, clustered and naive."""

from operator import attrgetter

import numpy as np
import pytest
from scipy import stats as scipy_stats

from chimeralab.selfplay.comparisons import compare_family
from chimeralab.selfplay.outcomes import Settings, per_run
from chimeralab.selfplay.replication import separate_family
from chimeralab.stats.effects import ContrastSpec, list_pairs

SETTINGS = Settings(tau=40, resamples=2_000, permutations=2_000)
SEEDS, REPEATS = 12, 3
B_MINUS_A = ContrastSpec({"B": 1.0, "A": -1.0})


@pytest.fixture
def runs(make_runs):
    rng = np.random.default_rng(3)
    level = rng.integers(0, 15, SEEDS)
    rows = []
    for extra, condition in enumerate("ABC"):
        for seed in range(SEEDS):
            for repeat in range(REPEATS):
                collapsed = int(np.clip(level[seed] + 4 * extra + rng.integers(-3, 8), 0, 36))
                first = int(41 - collapsed) if collapsed else None
                rows.append((condition, f"s{seed:02}", repeat, 40, collapsed, first))
    return make_runs(rows)


def seed_means(runs, condition):
    rates = (runs.collapsed / runs.turns)[runs.condition == condition]
    return rates.reshape(SEEDS, REPEATS).mean(axis=1)


def test_a_pair_is_a_paired_t_test_over_the_means_of_the_prompts(runs) -> None:
    (found,) = compare_family(runs, "share", [B_MINUS_A], SETTINGS)
    oracle = scipy_stats.ttest_rel(seed_means(runs, "B"), seed_means(runs, "A"))
    assert found.p == pytest.approx(oracle.pvalue)
    assert found.interval == pytest.approx(tuple(oracle.confidence_interval()))


def test_the_naive_p_is_welchs_test_over_all_runs(runs) -> None:
    (found,) = compare_family(runs, "share", [B_MINUS_A], SETTINGS)
    rates = runs.collapsed / runs.turns
    oracle = scipy_stats.ttest_ind(
        rates[runs.condition == "B"], rates[runs.condition == "A"], equal_var=False
    )
    assert found.naive_p == pytest.approx(oracle.pvalue)


def test_holm_covers_the_comparisons_that_are_asked_together(runs) -> None:
    pairs = list_pairs(["C", "B", "A"])
    together = compare_family(runs, "share", pairs, SETTINGS)
    ordered = sorted(together, key=attrgetter("p"))
    assert ordered[0].p_holm == pytest.approx(3 * ordered[0].p)
    (alone,) = compare_family(runs, "share", pairs[:1], SETTINGS)
    assert alone.p_holm == alone.p


def test_bootstrap_and_permutation_lie_near_the_t_test(runs) -> None:
    (found,) = compare_family(runs, "share", [B_MINUS_A], SETTINGS)
    assert found.bootstrap == pytest.approx(found.interval, abs=0.02)
    assert abs(found.permutation_p - found.p) < 0.02


def test_reversing_a_comparison_reverses_its_signs(runs) -> None:
    one, other = (
        compare_family(runs, "restricted_mean", [ContrastSpec(weights)], SETTINGS)[0]
        for weights in ({"B": 1.0, "A": -1.0}, {"A": 1.0, "B": -1.0})
    )
    assert one.estimate == pytest.approx(-other.estimate)
    assert one.interval == pytest.approx((-other.interval.high, -other.interval.low))
    assert one.p == pytest.approx(other.p)


def test_a_weighted_contrast_is_the_t_test_of_the_weighted_means(runs) -> None:
    (found,) = compare_family(
        runs, "share", [ContrastSpec({"C": 1.0, "A": -0.5, "B": -0.5})], SETTINGS
    )
    change = seed_means(runs, "C") - (seed_means(runs, "A") + seed_means(runs, "B")) / 2
    assert found.p == pytest.approx(scipy_stats.ttest_1samp(change, 0).pvalue)
    assert (found.a, found.b) == ("C", "mean of A, B")


def test_the_restricted_mean_is_the_mean_time_when_all_are_followed(runs) -> None:
    values, _ = per_run(runs, "restricted_mean", 30)
    assert values == pytest.approx(np.minimum(np.nan_to_num(runs.first, nan=40), 30))


def test_separate_prompts_are_compared_by_welchs_test_over_prompts(runs, make_runs) -> None:
    apart = make_runs(
        [
            (row.condition, row.seed_id + row.condition, *list(row.as_dict().values())[2:6])
            for row in runs.rows
        ]
    )
    (found,) = separate_family(apart, "share", [({"B": 1.0}, {"A": -1.0})], SETTINGS)
    oracle = scipy_stats.ttest_ind(seed_means(runs, "B"), seed_means(runs, "A"), equal_var=False)
    (naive,) = compare_family(runs, "share", [B_MINUS_A], SETTINGS)
    assert found.p == pytest.approx(oracle.pvalue)
    assert found.interval == pytest.approx(tuple(oracle.confidence_interval()))
    assert found.naive_p == pytest.approx(naive.naive_p)
    assert found.bootstrap == pytest.approx(found.interval, abs=0.03)
    assert found.permutation_p is None
    assert "nothing to exchange" in found.reasons["permutation_p"]
