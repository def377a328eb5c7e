"""Numbers have a sign, an interval, or a reason why they are missing."""

import re

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.numbers import NONE, number, p_value
from chimeralab.report.table import (
    SHARE,
    UNITS,
    Dash,
    clip_interval,
    flatten,
    format_difference,
    format_estimate,
    make_table,
)
from chimeralab.stats.intervals import Interval

FLOATS = st.floats(-1e6, 1e6)


@given(FLOATS, st.integers(0, 4), st.booleans())
def test_number_is_never_minus_zero(value: float, digits: int, sign: bool) -> None:
    shown = number(value, digits, sign=sign)
    assert "-" not in shown
    assert not re.fullmatch(r"[−+]0(\.0+)?", shown)


@given(FLOATS)
def test_difference_has_a_sign(value: float) -> None:
    shown = format_difference(value, Interval(value, value), SHARE)
    if round(100 * value, 1):
        assert shown[0] == ("+" if value > 0 else "−")


WEIGHTS = st.dictionaries(st.text(max_size=3), st.floats(-2, 2), min_size=2, max_size=5)


@given(WEIGHTS, st.floats(-5, 5), st.floats(0, 5), st.data())
def test_interval_of_a_difference_of_shares_stays_in_reach(
    weights: dict[str, float], low: float, width: float, data: st.DataObject
) -> None:
    shares = {name: data.draw(st.floats(0, 1)) for name in weights}
    possible = sum(weights[name] * share for name, share in shares.items())
    clipped = clip_interval(Interval(low, low + width), SHARE, weights)
    assert clipped is not None
    if low <= possible <= low + width:  # what can be is never cut off
        assert clipped.low - 1e-9 <= possible <= clipped.high + 1e-9
    assert clipped.low >= sum(each for each in weights.values() if each < 0)
    assert clipped.high <= sum(each for each in weights.values() if each > 0)


def test_impossible_points_are_not_printed() -> None:
    shown = format_difference(-0.6, Interval(-1.546, 0.346), SHARE)
    assert shown.endswith("(−100.0 to +34.6)")


def test_missing_value_is_a_dash() -> None:
    assert format_estimate(None, None, SHARE) == NONE
    assert p_value(None) == NONE
    assert format_estimate(0.5, None, SHARE).endswith("(–)")


@given(st.floats(0, 1))
def test_small_p_is_never_zero(p: float) -> None:
    assert p_value(p) != "0.000"


def test_every_measure_has_a_unit() -> None:
    assert {unit.percent for unit in UNITS.values()} == {True, False}


def test_equal_reasons_share_a_note_and_others_do_not() -> None:
    found = make_table(
        "t", ("a", "b", "c"), [["x", Dash("one"), Dash("two")], ["y", Dash("one"), "1"]], []
    )
    assert [mark for mark, _ in found.notes] == ["a", "b"]
    assert [mark for row in found.rows for _, mark in row] == ["", "a", "b", "", "a", ""]


def test_more_reasons_than_letters_keep_their_own_marks() -> None:
    found = make_table("t", ("a",), [[Dash(f"reason {n}")] for n in range(60)], [])
    assert len({mark for mark, _ in found.notes}) == 60


def test_a_missing_interval_leaves_two_empty_columns() -> None:
    assert flatten({"ci": None, "reasons": {"ci": "why"}}) == {
        "ci_low": None,
        "ci_high": None,
        "reasons": "ci: why",
    }
