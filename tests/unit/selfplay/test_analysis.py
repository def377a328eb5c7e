"""Every number of an analysis is an estimate or has a reason why not."""

import json
from dataclasses import replace

import numpy as np
import pytest

from chimeralab.analysis import Outcomes, WeightedContrast, analyse
from chimeralab.core.errors import InputError
from chimeralab.selfplay.analysis import as_json
from chimeralab.selfplay.outcomes import EXPLORATORY

QUICK = replace(EXPLORATORY, resamples=200, permutations=200)
SEEDS = ("s1", "s2", "s3")


def grid(rate, conditions=("A", "B"), seeds=SEEDS, repeats=2, turns=40):
    """One row a run; `rate(condition, seed, repeat)` is the number of collapsed turns."""
    for condition in conditions:
        for place, seed in enumerate(seeds):
            for repeat in range(repeats):
                collapsed = rate(condition, place, repeat)
                first = turns - collapsed + 1 if collapsed else None
                yield (condition, seed, repeat, turns, collapsed, first, f"b{place % 2}")


def mixed(condition, place, repeat):
    return {"A": 4, "B": 12}[condition] * (place + 1) // 2 + 3 * repeat


def missing_values(record, path=""):
    """The paths of all nulls, and of all reasons, in a record as JSON."""
    if isinstance(record, dict):
        for key, value in record.items():
            if value is None and key not in ("buckets", "power", "reason"):
                yield f"{path}/{key}", record.get("reasons", {}).get(key)
            if key != "reasons":
                yield from missing_values(value, f"{path}/{key}")
    elif isinstance(record, list):
        for place, value in enumerate(record):
            yield from missing_values(value, f"{path}[{place}]")


TABLES = {
    "ordinary": list(grid(mixed)),
    "all zeros": list(grid(lambda *_: 0)),
    "all ceiling": list(grid(lambda *_: 36)),
    "one condition": list(grid(mixed, conditions=("A",))),
    "one seed": list(grid(mixed, seeds=("s1",))),
    "one seed under one condition": [row for row in grid(mixed) if row[0] == "A" or row[1] == "s1"],
    "one run": [("A", "s1", 0, 40, 6, 12, "x")],
    "no repeats": list(grid(mixed, repeats=1)),
    "no prompt in common": [
        row if row[0] == "A" else (row[0], row[1] + "'", *row[2:]) for row in grid(mixed)
    ],
    "constant difference": list(grid(lambda c, s, r: {"A": 4, "B": 8}[c] * (s + 1))),
    "short runs": list(grid(lambda *_: 0, turns=4)),
    "early collapse of another detector": list(grid(lambda c, s, r: 38 - s * (c == "A"))),
    "unequal lengths": [*grid(mixed), ("A", "s1", 9, 20, 0, None, "b0")],
    "followed less than the horizon": [
        *grid(lambda *_: 0, conditions=("A",)),
        *grid(lambda *_: 9, conditions=("B",)),
    ],
}


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_every_null_has_its_reason_and_nothing_is_nan(make_runs, rows) -> None:
    found = as_json(analyse(make_runs(rows), QUICK))
    json.dumps(found, allow_nan=False)
    unexplained = [path for path, reason in missing_values(found) if not reason]
    assert unexplained == []


def test_all_zeros_have_no_interval(make_runs) -> None:
    found = analyse(make_runs(TABLES["all zeros"]), QUICK)
    calm = found.conditions["A"]
    assert (calm.mean, calm.incidence, calm.rmst) == (0, 0, 40)
    assert (calm.cluster_ci, calm.bootstrap_ci, calm.se, calm.km_median) == (None,) * 4
    assert calm.incidence_ci is not None
    assert calm.incidence_ci.high > 0.3
    assert found.contrasts[0].p is None
    assert found.logrank.chi2 is None
    assert any("A has a share of 0 in every run" in note for note in found.notes)


def test_one_seed_alone_has_no_interval(make_runs) -> None:
    found = analyse(make_runs(TABLES["one seed"]), QUICK)
    assert found.conditions["A"].cluster_ci is None
    assert found.contrasts[0].interval is None
    assert found.contrasts[0].bootstrap is None
    assert any("only one seed prompt under A, B" in note for note in found.notes)


def test_unbalanced_cells_are_named(make_runs) -> None:
    found = analyse(make_runs(list(grid(mixed))[1:]), QUICK)
    (note,) = [note for note in found.notes if note.startswith("unbalanced")]
    assert "A x s1 has 1" in note


def test_prompts_that_lack_a_side_are_left_out_of_the_contrast_and_counted(make_runs) -> None:
    rows = [row for row in grid(mixed) if row[:2] != ("A", "s3")]
    found = analyse(make_runs(rows), QUICK)
    assert (found.contrasts[0].units, found.contrasts[0].left_out) == (2, 1)
    assert any("A lacks 1 of 3" in note for note in found.notes)


def test_conditions_without_a_common_prompt_are_not_compared(make_runs) -> None:
    found = analyse(make_runs(TABLES["no prompt in common"]), QUICK)
    assert found.contrasts[0].estimate is None
    assert "no seed prompt" in found.contrasts[0].reasons["estimate"]
    assert found.logrank.permutation_p is None
    assert found.logrank.p is not None


def test_a_collapse_before_the_fifth_turn_leaves_the_at_risk_share_unknown(make_runs) -> None:
    found = analyse(make_runs(TABLES["early collapse of another detector"]), QUICK)
    assert found.conditions["A"].at_risk_mean is None
    assert "at_risk_turns" in found.conditions["A"].reasons["at_risk_mean"]


def test_the_order_of_the_rows_does_not_matter(make_runs) -> None:
    rows = list(grid(mixed))
    shuffled = [rows[place] for place in np.random.default_rng(1).permutation(len(rows))]
    assert as_json(analyse(make_runs(rows), QUICK)) == as_json(analyse(make_runs(shuffled), QUICK))


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(make_runs) -> None:
    runs = make_runs(grid(mixed, seeds=tuple("abcde")))
    first, again = analyse(runs, QUICK), analyse(runs, QUICK)
    other = analyse(runs, replace(QUICK, seed=2))
    assert first == again
    assert first.conditions["A"].bootstrap_t_ci != other.conditions["A"].bootstrap_t_ci


def test_asking_for_a_weighted_contrast_changes_no_other_number(make_runs) -> None:
    runs = make_runs(TABLES["ordinary"])
    asked = replace(QUICK, contrasts=(WeightedContrast("x", whole="B", parts=("A",)),))
    with_it, without = analyse(runs, asked), analyse(runs, QUICK)
    assert with_it.contrasts == without.contrasts
    assert with_it.weighted_contrasts[0].estimate == without.contrasts[0].estimate


def test_horizon_is_the_follow_up_all_conditions_share(make_runs) -> None:
    rows = [*grid(mixed), *(("C", seed, 0, 30, 0, None, "b0") for seed in SEEDS)]
    assert analyse(make_runs(rows), QUICK).settings.tau == 30
    assert analyse(make_runs(rows), replace(QUICK, tau=25)).settings.tau == 25


def test_a_horizon_beyond_the_runs_leaves_the_restricted_mean_unknown(make_runs) -> None:
    found = analyse(make_runs(TABLES["all zeros"]), replace(QUICK, tau=50))
    assert found.conditions["A"].rmst is None
    assert "before turn 50" in found.conditions["A"].reasons["rmst"]
    assert found.measures["restricted_mean"].pairs[0].estimate is None


def test_contrast_of_unknown_conditions_is_rejected(make_runs) -> None:
    asked = replace(QUICK, contrasts=(WeightedContrast("x", whole="Z", parts=("A",)),))
    with pytest.raises(InputError, match="unknown condition in contrast 'x': 'Z'; known: A, B"):
        analyse(make_runs(TABLES["ordinary"]), asked)


def test_declared_outcomes_are_answered_and_their_primary_runs_described(make_runs) -> None:
    rows = list(grid(mixed))
    cut = ("A", "s1", 9, 7, 0, None, "b0", None, None, "failed", 0)
    found = analyse(make_runs([*rows, cut]), replace(QUICK, estimands=Outcomes().estimands))
    assert [each.estimand.measure for each in found.answers] == [
        "share",
        "at_risk_share",
        "incidence",
        "restricted_mean",
    ]
    assert found.runs == len(rows)
    assert found.left_out[0].reason == "cut short (failed)"
    assert not any("exploratory" in note for note in found.notes)
    assert found.answers[0].comparisons == found.contrasts


def test_without_declaration_everything_is_exploratory(make_runs) -> None:
    found = analyse(make_runs(TABLES["ordinary"]), QUICK)
    assert found.answers == ()
    assert "exploratory" in found.notes[0]
