"""Every published number of the collapse study, as `chimera analyse --json` prints it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimeralab.cli.analyse import analyse_command

RUNS = Path(__file__).parents[2] / "../shared/data/escape-velocity/analysis_bundle.csv"
CLOSED_FORM, BOOTSTRAP = 5e-5, 3e-3
A, B, C, HET = "HOMO_A", "HOMO_B", "HOMO_C", "HETERO_ROT"

CONDITIONS = {
    A: {
        "mean": 0.4568,
        "median": 0.4750,
        "sd": 0.3115,
        "cluster_ci": [0.3870, 0.5266],
        "bootstrap_ci": [0.3917, 0.5249],
        "incidence": 0.8722,
        "km_median": 15,
        "rmst": 18.8833,
    },
    B: {
        "mean": 0.7726,
        "median": 0.8500,
        "sd": 0.2109,
        "cluster_ci": [0.7308, 0.8145],
        "bootstrap_ci": [0.7296, 0.8093],
        "incidence": 0.9444,
        "km_median": 6,
        "rmst": 9.0778,
    },
    C: {
        "mean": 0.1406,
        "median": 0.0250,
        "sd": 0.2083,
        "cluster_ci": [0.0948, 0.1863],
        "bootstrap_ci": [0.1014, 0.1882],
        "incidence": 0.5056,
        "km_median": 40,
        "rmst": 30.5222,
    },
    HET: {
        "mean": 0.2501,
        "median": 0.1375,
        "sd": 0.2816,
        "cluster_ci": [0.1863, 0.3139],
        "bootstrap_ci": [0.1906, 0.3132],
        "incidence": 0.6778,
        "km_median": 26,
        "rmst": 25.4833,
    },
}
# The difference of the mean shares, and Holm's p with the digits that were published.
CONTRASTS = {
    (B, A): (0.3158, "7.5e-08"),
    (B, C): (0.6321, "2.8e-22"),
    (B, HET): (0.5225, "4.9e-13"),
    (A, C): (0.3162, "1.6e-07"),
    (A, HET): (0.2067, "1.8e-06"),
    (HET, C): (0.1096, "0.016"),
}


@pytest.fixture(scope="module")
def found():
    if not RUNS.exists():
        pytest.skip("the public runs of the collapse study are not on this machine")
    rotation = f"{HET} = {A}, {B}, {C}"
    result = CliRunner().invoke(
        analyse_command, [str(RUNS), "--json", "--contrast", rotation], catch_exceptions=False
    )
    assert result.exit_code == 0
    return json.loads(result.stdout)


def pair(comparisons, a, b):
    (one,) = [each for each in comparisons if (each["a"], each["b"]) == (a, b)]
    return one


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("key", CONDITIONS[A])
def test_condition_has_its_published_number(found, name, key) -> None:
    tolerance = BOOTSTRAP if key == "bootstrap_ci" else CLOSED_FORM
    published = CONDITIONS[name][key]
    assert found["conditions"][name][key] == pytest.approx(published, abs=tolerance)


def test_every_condition_has_180_runs_of_36_prompts(found) -> None:
    sizes = {(part["n"], part["seeds"]) for part in found["conditions"].values()}
    assert sizes == {(180, 36)}


def test_repeats_of_a_prompt_are_as_alike_as_published(found) -> None:
    alike = [part["icc"] for part in found["conditions"].values()]
    assert (round(min(alike), 2), round(max(alike), 2)) == (0.18, 0.31)


def test_contrasts_are_the_published_ones(found) -> None:
    assert len(found["contrasts"]) == 6
    for names, (difference, p) in CONTRASTS.items():
        one = pair(found["contrasts"], *names)
        assert one["difference"] == pytest.approx(difference, abs=CLOSED_FORM)
        assert f"{one['p_holm']:.2g}" == p
        assert one["ci"][0] < difference < one["ci"][1]


def test_smallest_contrast_is_tempered_by_its_clusters(found) -> None:
    one = pair(found["contrasts"], HET, C)
    assert one["p_holm"] == pytest.approx(0.0163, abs=CLOSED_FORM)
    assert one["naive_p"] == pytest.approx(3.5e-5, abs=5e-7)
    assert one["se_ratio"] < 0.61


def test_incidence_of_the_smallest_contrast_is_the_published_one(found) -> None:
    one = pair(found["measures"]["incidence"]["pairs"], HET, C)
    assert one["difference"] == pytest.approx(0.1722, abs=CLOSED_FORM)
    assert one["p_holm"] == pytest.approx(0.0516, abs=CLOSED_FORM)


def test_log_rank_is_the_published_one_and_its_p_is_labelled_naive(found) -> None:
    test = found["logrank"]
    assert (test["chi2"], test["df"]) == (pytest.approx(351.7143, abs=CLOSED_FORM), 3)
    assert test["p"] == pytest.approx(6.3e-76, rel=0.01)
    assert test["p_kind"].startswith("naive")


def test_permutation_within_prompts_tempers_the_log_rank_test(found) -> None:
    (test,) = [each for each in found["logrank_pairs"] if each["conditions"] == [HET, C]]
    assert test["p"] == pytest.approx(1.7e-4, abs=5e-6)
    assert test["permutation_p"] == pytest.approx(0.02, abs=0.005)


def test_rotation_against_the_mean_of_its_parts_is_the_published_contrast(found) -> None:
    (share,) = found["weighted"]
    assert share["difference"] == pytest.approx(-0.2065, abs=CLOSED_FORM)
    assert share["bootstrap_ci"] == pytest.approx([-0.2711, -0.1382], abs=BOOTSTRAP)
    (incidence,) = found["measures"]["incidence"]["weighted"]
    assert incidence["difference"] == pytest.approx(-0.0963, abs=CLOSED_FORM)
    assert incidence["p"] == pytest.approx(0.094, abs=5e-4)


def test_published_order_does_not_hold_below_the_means(found) -> None:
    stability = found["rank_stability"]
    assert stability["order"] == [B, A, HET, C]
    assert (stability["by_seed"]["held"], stability["by_seed"]["total"]) == (12, 36)
    assert (stability["by_bucket"]["inverted"], stability["by_bucket"]["total"]) == (3, 6)


def test_collapse_is_not_absorbing(found) -> None:
    parts = found["after_onset"].values()
    assert sum(part["collapsed_runs"] for part in parts) == 540
    assert sum(part["recovered_runs"] for part in parts) == 262


def test_more_prompts_find_more_than_more_repeats(found) -> None:
    one = pair(found["outlook"], HET, C)
    detectable = {(d["prompts"], d["repeats"]): d["detectable"] for d in one["designs"]}
    assert detectable[180, 1] == pytest.approx(0.078, abs=5e-4)
    assert detectable[36, 5] == pytest.approx(0.125, abs=5e-4)


def test_no_hazard_ratio_is_printed(found) -> None:
    assert "hazard" not in json.dumps(found)


def test_survival_curves_start_at_one_and_end_at_the_share_that_never_collapsed(found) -> None:
    for name, curve in found["curves"].items():
        incidence = found["conditions"][name]["incidence"]
        assert (curve["turns"][0], curve["survival"][0]) == (0, 1)
        assert curve["survival"][-1] == pytest.approx(1 - incidence)
        assert all(
            low <= share + 1e-9 and share <= high + 1e-9
            for low, share, high in zip(curve["low"], curve["survival"], curve["high"], strict=True)
        )
