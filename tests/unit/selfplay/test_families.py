"""One Holm family per role, one row per comparison, one sign."""

from dataclasses import replace

import pytest

from chimeralab.analysis import Estimand, Outcomes, WeightedContrast, analyse
from chimeralab.stats.contrasts import holm
from chimeralab.stats.effects import key_of

HEAT = WeightedContrast("heat", weights={"warm": 1, "cool": -1})
VOICES = WeightedContrast("voices", weights={"cool": 1, "voices": -1})
PRIMARIES = (
    Estimand("share", "primary", "heat"),
    Estimand("share", "primary", "voices"),
    Estimand("incidence", "exploratory", "heat"),
)
TWO = Outcomes(PRIMARIES, (HEAT, VOICES), resamples=100, permutations=100)


@pytest.fixture
def runs(make_runs):
    shares = {"cool": (9, 3, 14, 8, 12), "warm": (3, 2, 5, 9, 6), "voices": (1, 0, 9, 2, 3)}
    return make_runs(
        (name, f"s{n}", 0, 40, turns, 41 - turns if turns else None, "b")
        for name, row in shares.items()
        for n, turns in enumerate(row)
    )


def test_several_primaries_are_corrected_against_each_other(runs):
    found = analyse(runs, TWO)
    assert len(found.primary) == 2
    assert tuple(each.p_holm for each in found.primary) == holm([each.p for each in found.primary])
    apart = analyse(runs, replace(TWO, family="estimand"))
    assert [each.p_holm for each in apart.primary] == [each.p for each in apart.primary]


def test_everything_else_is_one_family(runs):
    found = analyse(runs, TWO)
    rows = [row for measure in found.measures for row in found.rows(measure)]
    others = [row for row in rows if row.role == "exploratory"]
    assert tuple(each.p_holm for each in others) == holm([each.p for each in others])
    declared = found.answers[2].comparisons[0]
    assert declared.p_holm in [each.p_holm for each in others if each.p == declared.p]


def test_a_comparison_has_one_row_one_sign_and_one_p(runs):
    found = analyse(runs, TWO)
    rows = found.rows("share")
    assert [row.marked_name for row in rows] == [
        "warm − cool (primary)",
        "cool − voices (primary)",
        "warm − voices",
    ]
    everywhere = [*found.primary, *found.weighted_contrasts, *found.contrasts]
    for row in rows:
        same = {each.p_holm for each in everywhere if key_of(each) == key_of(row)}
        assert same == {row.p_holm}


def test_one_primary_is_corrected_as_before(runs):
    pairs = Outcomes(resamples=100, permutations=100)
    found, before = analyse(runs, pairs), analyse(runs, replace(pairs, family="estimand"))
    assert [each.p_holm for each in found.primary] == [each.p_holm for each in before.primary]
    assert [e.as_dict() for e in found.contrasts] == [e.as_dict() for e in before.contrasts]
