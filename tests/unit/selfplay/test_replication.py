"""Two tables are paired if their prompts are the same, and separate otherwise."""

import json
from dataclasses import replace

import pytest
from scipy import stats as scipy_stats

from chimeralab.analysis import compare
from chimeralab.core.errors import InputError
from chimeralab.selfplay.outcomes import EXPLORATORY

QUICK = replace(EXPLORATORY, resamples=200, permutations=200)
LEVELS = {"A": (4, 9, 2, 7, 8), "B": (14, 22, 15, 13, 30)}
SHIFT = (1, 3, 0, 2, 2)


def rows(shift=(0,) * 5, seeds="abcde", conditions="AB"):
    for condition in conditions:
        for place, seed in enumerate(seeds):
            collapsed = LEVELS[condition][place] + shift[place]
            yield (condition, seed, 0, 40, collapsed, 41 - collapsed)


def test_tables_with_the_same_prompts_are_paired(make_runs) -> None:
    found = compare(make_runs(rows(SHIFT)), make_runs(rows()), QUICK)
    assert found.paired
    share = found.conditions["A"]["share"]
    assert share.estimate == pytest.approx(sum(SHIFT) / 5 / 40)
    assert share.p == pytest.approx(scipy_stats.ttest_1samp(SHIFT, 0).pvalue)


def test_tables_with_other_prompts_are_compared_as_separate_samples(make_runs) -> None:
    found = compare(make_runs(rows(SHIFT, seeds="vwxyz")), make_runs(rows()), QUICK)
    assert not found.paired
    first = [level + shift for level, shift in zip(LEVELS["A"], SHIFT, strict=True)]
    oracle = scipy_stats.ttest_ind(first, LEVELS["A"], equal_var=False)
    assert found.conditions["A"]["share"].p == pytest.approx(oracle.pvalue)


def test_same_prompts_can_be_separated_but_different_ones_not_paired(make_runs) -> None:
    a, b = make_runs(rows(SHIFT)), make_runs(rows())
    assert not compare(a, b, QUICK, paired=False).paired
    with pytest.raises(InputError, match="can't be paired: their prompts differ"):
        compare(make_runs(rows(seeds="vwxyz")), b, QUICK, paired=True)


def test_change_is_the_difference_of_differences(make_runs) -> None:
    moved = [*rows(SHIFT, conditions="B"), *rows(conditions="A")]
    (pair,) = compare(make_runs(moved), make_runs(rows()), QUICK).pairs
    assert (pair.first, pair.second, pair.same_direction) == ("B", "A", True)
    assert pair.moved.estimate == pytest.approx(sum(SHIFT) / 5 / 40)
    change = pair.in_a.estimate - pair.in_b.estimate
    assert pair.moved.estimate == pytest.approx(change)


def test_reversed_difference_is_reported(make_runs) -> None:
    turned = [(("B" if row[0] == "A" else "A"), *row[1:]) for row in rows()]
    found = compare(make_runs(rows()), make_runs(turned), QUICK)
    assert [pair.same_direction for pair in found.pairs] == [False]
    assert found.order_a == ("B", "A")
    assert found.order_b == ("A", "B")


def test_conditions_of_other_names_can_be_matched(make_runs) -> None:
    other = make_runs([("base", *row[1:]) for row in rows(conditions="A")])
    found = compare(make_runs(rows(SHIFT)), other, QUICK, match={"A": "base"})
    assert list(found.conditions) == ["A"]
    assert found.only_in_a == ("B",)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ({}, "no condition is in both tables"),
        ({"Z": "base"}, "unknown condition 'Z' in test; known: A, B"),
        ({"A": "bass"}, "unknown condition 'bass' in test; known: base"),
    ],
)
def test_impossible_match_is_rejected(make_runs, match, message) -> None:
    other = make_runs([("base", *row[1:]) for row in rows(conditions="A")])
    with pytest.raises(InputError, match=message):
        compare(make_runs(rows()), other, QUICK, match=match)


def test_two_conditions_cannot_match_one(make_runs) -> None:
    with pytest.raises(InputError, match="two conditions of test would be matched with 'A'"):
        compare(make_runs(rows()), make_runs(rows()), QUICK, match={"A": "B"})


@pytest.mark.parametrize("seeds", ["abcde", "vwxyz"])
def test_a_table_compared_with_itself_does_not_differ_and_nothing_is_nan(make_runs, seeds) -> None:
    found = compare(make_runs(rows()), make_runs(rows(seeds=seeds)), QUICK)
    json.dumps(found.as_dict(), allow_nan=False)
    assert found.conditions["A"]["share"].estimate == pytest.approx(0)
    assert found.conditions["A"]["incidence"].p is None
    assert found.conditions["A"]["incidence"].reasons["p"]
