"""Covariates joined from a table, and their association with collapse."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr
from statsmodels.api import OLS, add_constant

from chimeralab.core.errors import InputError
from chimeralab.core.records import Episode
from chimeralab.selfplay.covariates import CovariateQuestion, associate
from chimeralab.selfplay.runs import Run, read_runs, table_of
from chimeralab.stats.clusters import cluster_slope, ranks

DATA = Path(__file__).parents[4] / "shared/data/escape-velocity"
published = pytest.mark.skipif(not DATA.is_dir(), reason="needs the published study")
BY_MODEL = ("seed_id", "model_id")
# Spearman's rho of the publication (bridge_results.json), by covariate and outcome.
RHO = {
    ("lambda1_mean", "share of collapsed turns"): 0.246157,
    ("lambda1_mean", "first collapse"): -0.25143,
    ("lambda1_mean", "any collapse"): 0.035843,
    ("layerwise_variance_mean", "share of collapsed turns"): 0.510527,
    ("profile_slope_mean", "share of collapsed turns"): -0.535985,
    ("profile_slope_mean", "first collapse"): 0.506808,
}


def refit(x, y, groups):
    """Slope, cluster-robust interval and p by statsmodels."""
    model = OLS(y, add_constant(x))
    found = model.fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    return found.params[1], tuple(found.conf_int()[1]), found.pvalues[1]


def standard(column):
    return (column - np.mean(column)) / np.std(column)


@published
def test_published_predictors_have_108_clusters_and_wider_intervals() -> None:
    runs = read_runs(DATA / "analysis_bundle.csv")
    names = tuple(dict.fromkeys(name for name, _ in RHO))
    found = associate(runs, DATA / "ftle_bundle.csv", CovariateQuestion(names, cluster=BY_MODEL))
    by_name = {(each.covariate, each.outcome): each for each in found.associations}
    with (DATA / "ftle_bundle.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    known = {(run.condition, run.seed_id, run.repeat_index): run for run in runs.rows}
    joined = [known[r["condition"], r["seed_id"], int(r["repeat_index"])] for r in rows]
    outcomes = {
        "share of collapsed turns": [run.collapsed_turns / run.total_turns for run in joined],
        "any collapse": [float(run.collapsed_turns > 0) for run in joined],
        "first collapse": [run.first_collapse_turn or 40 for run in joined],
    }
    _, groups = np.unique([f"{r['seed_id']}/{r['model_id']}" for r in rows], return_inverse=True)
    assert (found.matched, groups.max() + 1) == (720, 108)
    for (covariate, outcome), rho in RHO.items():
        each = by_name[covariate, outcome]
        assert (each.rows, each.clusters, each.distinct) == (720, 108, 108)
        assert each.rho == pytest.approx(rho, abs=2e-6)
        x, y = np.array([float(r[covariate]) for r in rows]), np.array(outcomes[outcome])
        slope, interval, p = refit(standard(rankdata(x)), standard(rankdata(y)), groups)
        assert each.rho == pytest.approx(slope, rel=1e-9)
        assert each.interval == pytest.approx(interval, rel=1e-8)
        assert each.p == pytest.approx(p, rel=1e-6)
        slope, interval, _ = refit(standard(x), y, groups)
        assert each.slope == pytest.approx(slope, rel=1e-9)
        assert each.slope_interval == pytest.approx(interval, rel=1e-8)
        naive = OLS(standard(rankdata(y)), add_constant(standard(rankdata(x)))).fit()
        assert each.naive_interval == pytest.approx(tuple(naive.conf_int()[1]), rel=1e-8)
        assert each.interval
        assert each.naive_interval
        assert np.ptp(each.interval) > np.ptp(each.naive_interval)


def test_slope_equals_statsmodels_on_unequal_clusters() -> None:
    rng = np.random.default_rng(5)
    groups = rng.integers(0, 9, 70)
    x, y = rng.normal(size=70) + groups, rng.normal(size=70) - groups
    found = cluster_slope(x, y, groups)
    slope, interval, p = refit(x, y, groups)
    assert found is not None
    assert found.value == pytest.approx(slope)
    assert found.interval() == pytest.approx(interval)
    assert found.p == pytest.approx(p)
    ties = rng.integers(0, 5, 70)
    assert (ranks(ties) == rankdata(ties)).all()
    assert np.corrcoef(ranks(ties), ranks(y))[0, 1] == pytest.approx(spearmanr(ties, y)[0])


@pytest.fixture
def runs():
    """Four prompts; each run collapses from turn 10 + its number to turn 15 + its number."""
    rows = []
    for place in range(4):
        for repeat in range(2):
            start = 10 + place + repeat
            episodes = (Episode(start, start + 5),)
            rows.append(Run("A", f"s{place}", repeat, 20, 6, start, episodes=episodes))
    return table_of(rows, "runs.csv")


def write_turns(path: Path, covariate, names: str = "condition,prompt,repeat,turn,heat") -> Path:
    rows = [
        f"A,s{place},{repeat},{turn},{covariate(turn, 10 + place + repeat)}"
        for place in range(4)
        for repeat in range(2)
        for turn in range(1, 21)
    ]
    path.write_text("\n".join([names, *rows]) + "\n")
    return path


def test_covariate_that_rises_two_turns_early_is_found_two_turns_ahead(runs, tmp_path) -> None:
    early = write_turns(tmp_path / "t.csv", lambda turn, onset: int(turn == onset - 2))
    found = associate(runs, early, CovariateQuestion(lags=(0, 2, 3)))
    now, ahead, beyond = found.associations
    assert [each.outcome for each in found.associations] == [
        "collapse at the turn", "collapse 2 turns ahead", "collapse 3 turns ahead"
    ]  # fmt: skip
    assert ahead.rho > 0.5
    assert now.rho < 0
    assert beyond.rho < ahead.rho
    # Turns 5 to 20 are at risk; two turns ahead, those of them that began outside of a collapse.
    assert now.rows == 8 * 16
    # That is 10 in each run, and one more in the run whose turn 13 is still outside.
    assert ahead.rows == 8 * 10 + 1
    assert now.clusters == 4


def test_blank_cells_are_left_out_and_rows_beyond_the_runs_counted(runs, tmp_path) -> None:
    path = write_turns(tmp_path / "t.csv", lambda turn, onset: "" if turn == 7 else turn % 3)
    path.write_text(path.read_text() + "A,s0,0,21,4\nB,s0,0,3,4\n")
    found = associate(runs, path, CovariateQuestion(lags=(0,)))
    assert found.associations[0].rows == 8 * 15
    assert found.notes == (f"2 rows of {path} match no turn",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("condition,prompt,repeat,turn,heat\nC,s0,0,3,1\n",
         "matches no turn of runs.csv: its first row is condition 'C', seed_id 's0', "
         "repeat_index 0, turn 3"),
        ("condition,prompt,repeat,heat\n", "matches no run of runs.csv: it has no row"),
        ("prompt,repeat,heat\ns0,0,1\n", "has no field 'condition'"),
        ("condition,prompt,repeat,turn,heat\nA,s0,0,x,1\n", "turn must be a whole number, not 'x'"),
        ("condition,prompt,repeat,turn,heat\nA,s0,0,3,1\nA,s0,0,3,1\n", "is in line 2 already"),
        ("condition,prompt,repeat,turn,heat\nA,s0,0,3,warm\n", "has no column of numbers"),
    ],
)  # fmt: skip
def test_table_that_cannot_be_joined_is_refused(runs, tmp_path, text: str, why: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        associate(runs, path)
    assert why in str(refused.value)


def test_runs_without_episodes_have_no_turns_to_compare(tmp_path) -> None:
    runs = table_of([Run("A", "s0", 0, 20, 6, 12), Run("A", "s1", 0, 20, 6, 12)], "runs.csv")
    path = write_turns(tmp_path / "t.csv", lambda turn, onset: turn)
    with pytest.raises(InputError, match="does not say which turns collapsed"):
        associate(runs, path)
