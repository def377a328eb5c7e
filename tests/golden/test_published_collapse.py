"""Every number of the published collapse study, from its 720 runs."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from chimeralab.stats.clusters import cells_of, cluster_mean, mean_bootstrap
from chimeralab.stats.contrasts import (
    contrast,
    contrast_bootstrap,
    holm,
    naive_contrast,
    rank_stability,
)
from chimeralab.stats.planning import detectable_difference, variance_components
from chimeralab.stats.survival import (
    Durations,
    durations,
    kaplan_meier,
    logrank,
    logrank_permutation,
    median_time,
    pseudo_values,
    restricted_mean,
)

RUNS = Path(__file__).parents[2] / "../shared/data/escape-velocity/analysis_bundle.csv"
CLOSED_FORM, BOOTSTRAP = 5e-5, 3e-3

A, B, C, HET = "HOMO_A", "HOMO_B", "HOMO_C", "HETERO_ROT"
ORDER = (B, A, HET, C)
ROTATION_AGAINST_PARTS = {HET: 1, A: -1 / 3, B: -1 / 3, C: -1 / 3}

# mean, median, SD, cluster t interval, bootstrap interval, incidence, median turn, RMST(40)
CONDITIONS = {
    A: (0.4568, 0.4750, 0.3115, (0.3870, 0.5266), (0.3917, 0.5249), 0.8722, 15, 18.8833),
    B: (0.7726, 0.8500, 0.2109, (0.7308, 0.8145), (0.7296, 0.8093), 0.9444, 6, 9.0778),
    C: (0.1406, 0.0250, 0.2083, (0.0948, 0.1863), (0.1014, 0.1882), 0.5056, 40, 30.5222),
    HET: (0.2501, 0.1375, 0.2816, (0.1863, 0.3139), (0.1906, 0.3132), 0.6778, 26, 25.4833),
}

# difference of mean rates, Holm-adjusted p as printed with two digits
CONTRASTS = {
    (B, A): (0.3158, "7.5e-08"),
    (B, C): (0.6321, "2.8e-22"),
    (B, HET): (0.5225, "4.9e-13"),
    (A, C): (0.3162, "1.6e-07"),
    (A, HET): (0.2067, "1.8e-06"),
    (HET, C): (0.1096, "0.016"),
}


@pytest.fixture(scope="module")
def study():
    if not RUNS.exists():
        pytest.skip("the public runs of the collapse study are not on this machine")
    with RUNS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    turns = np.array([float(row["total_turns"]) for row in rows])
    collapsed = np.array([float(row["collapsed_turns"]) for row in rows])
    first = [float(row["first_collapse_turn"] or "nan") for row in rows]
    return SimpleNamespace(
        condition=np.array([row["condition"] for row in rows]),
        seed=np.array([row["seed_id"] for row in rows]),
        bucket=np.array([row["seed_bucket"] for row in rows]),
        turns=turns,
        collapsed=collapsed,
        first=np.array(first),
        rate=collapsed / turns,
        incidence=(collapsed > 0).astype(float),
        durations=durations(first, turns),
    )


@pytest.fixture(scope="module")
def rates(study):
    return cells_of(study.rate, study.condition, study.seed)


@pytest.fixture(scope="module")
def incidences(study):
    return cells_of(study.incidence, study.condition, study.seed)


@pytest.fixture(params=CONDITIONS)
def condition(request, study):
    """One condition's runs, with what was published about them."""
    names = ("mean", "median", "sd", "t", "bootstrap", "incidence", "median_turn", "rmst")
    rows = study.condition == request.param
    return SimpleNamespace(
        rate=study.rate[rows],
        seed=study.seed[rows],
        incidence=study.incidence[rows],
        durations=Durations(study.durations.times[rows], study.durations.observed[rows]),
        published=SimpleNamespace(**dict(zip(names, CONDITIONS[request.param], strict=True))),
    )


def runs_of(study, *conditions):
    rows = np.isin(study.condition, conditions)
    runs = Durations(study.durations.times[rows], study.durations.observed[rows])
    return runs, study.condition[rows], study.seed[rows]


def test_rates_of_the_condition_are_summarised_as_published(condition):
    found = (condition.rate.mean(), np.median(condition.rate), condition.rate.std(ddof=1))
    known = condition.published
    assert found == pytest.approx((known.mean, known.median, known.sd), abs=CLOSED_FORM)


def test_cluster_t_interval_is_the_published_one(condition):
    interval = cluster_mean(condition.rate, condition.seed).interval
    assert interval == pytest.approx(condition.published.t, abs=CLOSED_FORM)


def test_cluster_bootstrap_interval_is_the_published_one(condition):
    rng = np.random.default_rng(1)
    interval = mean_bootstrap(condition.rate, condition.seed, rng=rng, resamples=50_000)
    assert interval == pytest.approx(condition.published.bootstrap, abs=BOOTSTRAP)


def test_repeats_of_one_prompt_are_as_alike_as_published(condition):
    result = cluster_mean(condition.rate, condition.seed)
    assert 0.175 < result.icc < 0.315
    assert result.se_ratio < 0.8


def test_incidence_is_the_published_one(condition):
    published = condition.published.incidence
    assert condition.incidence.mean() == pytest.approx(published, abs=CLOSED_FORM)


def test_median_turn_of_first_collapse_is_the_published_one(condition):
    assert median_time(kaplan_meier(condition.durations)) == condition.published.median_turn


def test_restricted_mean_is_the_published_one(condition):
    result = restricted_mean(condition.durations, 40, condition.seed)
    assert result.value == pytest.approx(condition.published.rmst, abs=CLOSED_FORM)
    assert result.interval().low < result.value < result.interval().high


def test_pseudo_values_are_the_times_when_all_runs_are_followed_to_the_horizon(condition):
    times = condition.durations.times
    assert pseudo_values(condition.durations, 40) == pytest.approx(np.minimum(times, 40))


def test_logrank_over_four_conditions_is_the_published_one(study):
    result = logrank(study.durations, study.condition)
    assert result.chi2 == pytest.approx(351.7143, abs=CLOSED_FORM)
    assert result.df == 3
    assert result.p == pytest.approx(6.3e-76, rel=0.01)


def test_permutation_within_prompts_tempers_the_naive_logrank(study):
    runs, groups, seeds = runs_of(study, HET, C)
    assert logrank(runs, groups).p == pytest.approx(1.7e-4, abs=5e-6)
    rng = np.random.default_rng(1)
    p = logrank_permutation(runs, groups, seeds, rng=rng, permutations=5_000)
    assert p == pytest.approx(0.02, abs=0.006)


def test_paired_contrasts_of_the_rate_are_the_published_ones(rates):
    results = [contrast(rates, {first: 1, second: -1}) for first, second in CONTRASTS]
    adjusted = holm([result.p for result in results])
    for result, p, (difference, published) in zip(
        results, adjusted, CONTRASTS.values(), strict=True
    ):
        assert result.value == pytest.approx(difference, abs=CLOSED_FORM)
        assert f"{p:.2g}" == published
    assert adjusted[-1] == pytest.approx(0.0163, abs=CLOSED_FORM)


def test_unclustered_test_would_overstate_the_smallest_contrast(rates):
    naive = naive_contrast(rates, {HET: 1, C: -1})
    assert naive.p == pytest.approx(3.5e-5, abs=5e-7)
    assert contrast(rates, {HET: 1, C: -1}).se_ratio(naive) < 0.7


def test_contrast_of_incidence_is_the_published_one(incidences):
    results = [contrast(incidences, {first: 1, second: -1}) for first, second in CONTRASTS]
    assert results[-1].value == pytest.approx(0.1722, abs=CLOSED_FORM)
    assert holm([result.p for result in results])[-1] == pytest.approx(0.0516, abs=CLOSED_FORM)


def test_rotation_against_the_mean_of_its_parts_is_the_published_contrast(rates):
    assert contrast(rates, ROTATION_AGAINST_PARTS).value == pytest.approx(-0.2065, abs=CLOSED_FORM)
    rng = np.random.default_rng(1)
    interval = contrast_bootstrap(rates, ROTATION_AGAINST_PARTS, rng=rng, resamples=50_000)
    assert interval == pytest.approx((-0.2711, -0.1382), abs=BOOTSTRAP)


def test_rotation_against_its_parts_on_incidence_is_the_published_contrast(incidences):
    result = contrast(incidences, ROTATION_AGAINST_PARTS)
    assert result.value == pytest.approx(-0.0963, abs=CLOSED_FORM)
    assert result.p == pytest.approx(0.094, abs=5e-4)


def test_published_order_holds_in_a_third_of_the_prompts(rates):
    held, tied, inverted = rank_stability(rates, ORDER)
    assert (held, held + tied + inverted) == (12, 36)


def test_published_order_is_inverted_in_half_of_the_buckets(study):
    counts = rank_stability(cells_of(study.rate, study.condition, study.bucket), ORDER)
    assert (counts[2], sum(counts)) == (3, 6)


def test_collapse_is_not_absorbing(study):
    happened = ~np.isnan(study.first)
    to_the_end = study.turns - study.first + 1
    assert happened.sum() == 540
    assert (study.collapsed[happened] < to_the_end[happened]).sum() == 262


def test_more_prompts_are_more_informative_than_more_repeats(rates):
    parts = variance_components(rates, {HET: 1, C: -1})
    assert parts is not None
    assert detectable_difference(parts, 180, 1) == pytest.approx(0.078, abs=5e-4)
    assert detectable_difference(parts, 36, 5) == pytest.approx(0.125, abs=5e-4)
