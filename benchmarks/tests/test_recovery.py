"""The lab finds what is there: known parameters, a null that is null, doses that move their aim."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pytest

from benchmarks.validity.recovery import (
    CASES,
    covered,
    dose_results,
    interaction_covered,
    null_result,
    sham_differs,
)

RUNS = range(400)


@pytest.mark.parametrize("name", CASES)
def test_one_simulated_trial_comes_close_to_the_truth(name: str) -> None:
    assert sum(covered(name, number) for number in range(8)) >= 6


def test_an_interaction_is_found_where_amnesia_spares_the_feedback() -> None:
    assert sum(interaction_covered(number) for number in range(4)) >= 3


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_the_interval_of_an_interaction_holds_the_truth_as_often_as_it_says() -> None:
    with ProcessPoolExecutor(2) as pool:
        share = np.mean(list(pool.map(interaction_covered, RUNS, chunksize=20)))
    assert 0.92 <= share <= 0.98


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    with ProcessPoolExecutor(2) as pool:
        share = np.mean(list(pool.map(partial(covered, name), RUNS, chunksize=20)))
    assert 0.92 <= share <= 0.98


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_sham_differs_from_the_control_as_often_as_chance_has_it() -> None:
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(sham_differs, RUNS, chunksize=20))
    assert 0.02 <= np.mean(found) <= 0.08
    assert null_result([True] + [False] * 19).met


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_more_of_a_stressor_moves_what_it_is_aimed_at() -> None:
    assert [result.name for result in dose_results(20) if not result.met] == []
