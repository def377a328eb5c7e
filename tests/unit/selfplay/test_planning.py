"""Designs of equal cost: more prompts or more repeats."""

import pytest

from chimeralab.selfplay.comparisons import equal_cost_designs, estimate_outlook

PARTS = (0.0505, 0.0871)


def test_designs_of_the_same_cost_have_the_same_number_of_runs() -> None:
    designs = equal_cost_designs(PARTS, 36, 5)
    assert {design.prompts * design.repeats for design in designs} == {180}
    assert [design.repeats for design in designs] == [1, 2, 3, 4, 5]


def test_more_prompts_find_smaller_differences_than_more_repeats() -> None:
    found = [design.detectable for design in equal_cost_designs(PARTS, 36, 5)]
    assert found == sorted(found)


def test_the_detectable_difference_is_found_with_the_power_asked_for() -> None:
    for design in equal_cost_designs(PARTS, 36, 5, power=0.9):
        (same,) = [
            other
            for other in equal_cost_designs(PARTS, 36, 5, difference=design.detectable)
            if other.repeats == design.repeats
        ]
        assert same.power == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize("difference", [0.0, 0.05, 0.5, 3.0, 100.0])
def test_power_is_always_a_probability(difference: float) -> None:
    for design in equal_cost_designs(PARTS, 36, 5, difference=difference):
        assert 0.05 - 1e-9 <= design.power <= 1


def test_runs_without_repeats_have_no_outlook_but_a_reason(make_runs) -> None:
    runs = make_runs([(c, s, 0, 40, 4 + n, 30) for n, c in enumerate("AB") for s in "xyz"])
    found = estimate_outlook(runs, "B", "A", "share", 40)
    assert (found.between, found.designs) == (None, ())
    assert "repeats" in found.reasons["between"]


def test_runs_that_never_vary_have_no_outlook_but_a_reason(make_runs) -> None:
    runs = make_runs([(c, s, r, 40, 4, 30) for c in "AB" for s in "xyz" for r in (0, 1)])
    assert (
        estimate_outlook(runs, "B", "A", "share", 40).reasons["within"]
        == "the difference does not vary"
    )
