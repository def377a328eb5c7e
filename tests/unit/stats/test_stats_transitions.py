"""States after a moment: equal to statsmodels and to counting, and a law on random runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.duration.survfunc import CumIncidenceRight

from chimeralab.stats.transitions import (
    Passages,
    estimate_passage,
    is_followed,
    occupation,
    probability_left,
    pseudo_values,
    transition_counts,
    turns_free,
    turns_until_left,
)


@st.composite
def passages(draw):
    """Runs that were followed for 1 to 15 turns, some of them stopped."""
    rows = []
    for _ in range(draw(st.integers(2, 25))):
        followed = draw(st.integers(1, 15))
        escape = draw(st.one_of(st.none(), st.integers(1, followed)))
        relapse = escape and draw(st.one_of(st.none(), st.integers(escape + 1, followed + 1)))
        relapse = relapse if relapse and relapse <= followed else None
        rows.append([escape, relapse, followed, draw(st.booleans())])
    columns = np.array(rows, dtype=float).T
    return Passages(columns[0], columns[1], columns[2], columns[3] > 0)


def whole(runs, horizon):
    return transition_counts(runs, horizon).sum(axis=0, keepdims=True)


@given(passages(), st.integers(1, 12))
def test_every_run_is_in_one_state(runs, horizon):
    states = occupation(whole(runs, horizon))[0]
    assert np.allclose(states.sum(axis=0), 1)
    assert (states > -1e-12).all()


@given(passages())
def test_escape_is_the_cumulative_incidence_of_statsmodels(runs):
    horizon = int(runs.followed.max())
    escaped = ~np.isnan(runs.escape)
    times = np.where(escaped, runs.escape, runs.followed + runs.stopped)
    status = np.where(escaped, 1, np.where(runs.stopped, 2, 0))
    if not (status == 1).any():
        return
    with np.errstate(all="ignore"):  # of its standard errors
        oracle = CumIncidenceRight(times, status)
    expected = oracle.cinc[0][oracle.times <= horizon][-1:]
    assert probability_left(whole(runs, horizon)) == pytest.approx(expected)


def test_without_censoring_measures_are_counts():
    nan = np.nan
    times = np.array([[2, 4, nan, 1], [5, nan, nan, 3], [9, 9, 9, 9.0]])
    runs = Passages(times[0], times[1], times[2], np.zeros(4, bool))
    totals = whole(runs, 6)
    assert probability_left(totals) == pytest.approx(3 / 4)
    assert turns_until_left(totals) == pytest.approx((2 + 4 + 6 + 1) / 4)
    # Free in the turns from the escape to the one before the relapse.
    assert turns_free(totals) == pytest.approx((3 + 3 + 0 + 2) / 4)
    assert pseudo_values(runs, turns_free, 6) == pytest.approx([3, 3, 0, 2])


def test_a_stop_competes_and_an_end_censors():
    times = np.array([[3.0, np.nan], [np.nan, np.nan], [9, 1]])
    ended, stopped = (
        Passages(times[0], times[1], times[2], np.array([False, out])) for out in (False, True)
    )
    assert probability_left(whole(ended, 5)) == pytest.approx(1)
    assert probability_left(whole(stopped, 5)) == pytest.approx(0.5)


def test_nobody_followed_for_so_long_is_said():
    runs = Passages(np.full(2, np.nan), np.full(2, np.nan), np.full(2, 4.0), np.zeros(2, bool))
    assert not is_followed(whole(runs, 6))
    found = estimate_passage(runs, probability_left, 6)
    assert (found.value, found.reason) == (None, "no run was followed for 6 turns")


@given(passages())
def test_pseudo_values_without_censoring_have_the_measure_as_mean(runs):
    seen = runs._replace(followed=np.full_like(runs.followed, 20), stopped=runs.stopped & False)
    for measure in (probability_left, turns_until_left, turns_free):
        assert pseudo_values(seen, measure, 12).mean() == pytest.approx(measure(whole(seen, 12))[0])
