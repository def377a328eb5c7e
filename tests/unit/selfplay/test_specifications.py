"""A specification curve estimates one contrast under every detector."""

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.locked import LOCKED, LockedRule
from chimeralab.detection.measure import MeasuredConversation
from chimeralab.selfplay.analysis import primary_contrasts
from chimeralab.selfplay.outcomes import (
    EXPLORATORY,
    Estimand,
    Outcomes,
    Settings,
    WeightedContrast,
)
from chimeralab.selfplay.specifications import (
    MeasuredTwice,
    canonicalise,
    list_detectors,
    specification_curve,
    tally,
)

TURNS = 12


def talk(condition: str, prompt: str, loop_from: int, similarity: float = 0.99) -> MeasuredTwice:
    """A conversation that loops from a turn on, measured without an encoder."""
    said = tuple(Turn(f"turn {n}") for n in range(TURNS))
    lags = np.full((TURNS, 2), 0.1)
    lags[loop_from - 1 :] = similarity
    lags[0] = lags[1, 1] = np.nan
    about = {"condition": condition, "prompt": prompt, "repeat": 1}
    positions = tuple(range(1, TURNS + 1))
    nothing = np.zeros(TURNS, dtype=bool)
    trajectory = Trajectory(f"{condition}/{prompt}/1", said, about)
    measured = MeasuredConversation(trajectory, positions, "all", lags, nothing)
    return measured, measured


TALKS = [
    *(talk("stuck", prompt, loop_from=4 + n) for n, prompt in enumerate("pqr")),
    *(talk("calm", prompt, loop_from=TURNS + 1) for prompt in "pqr"),
]


def curve(talks, estimand=None, detector=LOCKED):
    found = tally(talks, list_detectors(detector))
    weights = {"stuck": 1.0, "calm": -1.0}
    return specification_curve(found, weights, Settings(TURNS), detector, estimand)


def test_every_cell_of_the_grid_and_every_reading_is_covered() -> None:
    found = curve(TALKS)
    assert (found.cells, found.distinct_detectors) == (36 * 36, 97 * 12)
    assert sum(each.cells for each in found.specifications) == found.cells
    assert len(found.specifications) == found.distinct_detectors


def test_declared_detector_is_marked_once_and_gives_its_own_estimate() -> None:
    found = curve(TALKS)
    (declared,) = [each for each in found.specifications if each.declared]
    assert declared.settings == canonicalise(LOCKED)
    # Loops from turn 4, 5 and 6 are marked from their third turn on: 7, 6 and 5 of 12 turns.
    assert declared.estimate == pytest.approx(6 / 12)
    assert found.declared == declared.estimate


def test_retroactive_marking_finds_more_and_the_curve_is_sorted() -> None:
    found = curve(TALKS)
    estimates = [each.estimate for each in found.specifications]
    assert estimates == sorted(estimates)
    assert (found.lowest, found.highest) == (pytest.approx(6 / 12), pytest.approx(8 / 12))
    assert found.specifications[-1].settings.marking == "retroactive"
    assert found.distinct_outcomes == 2


def test_agreement_on_the_direction_and_on_certainty_is_counted() -> None:
    found = curve(TALKS)
    assert (found.same_sign, found.significant) == (1164, 1164)


def test_detectors_disagree_on_a_loop_near_the_thresholds() -> None:
    close = [talk("stuck", prompt, 4, similarity=0.91) for prompt in "pqr"]
    found = curve([*close, *TALKS[3:]])
    assert found.lowest == 0
    assert found.highest > 0.5
    assert 0 < found.same_sign < found.distinct_detectors


def test_a_declared_detector_outside_the_grid_is_added() -> None:
    found = curve(TALKS, detector=LockedRule(s1=0.8))
    (declared,) = [each for each in found.specifications if each.declared]
    assert declared.settings.s1 == 0.8
    assert found.distinct_detectors == 97 * 12 + 1


def test_curve_supports_other_measures() -> None:
    found = curve(TALKS, Estimand("incidence"))
    assert found.declared == 1
    assert all(each.ci is None and each.reason for each in found.specifications)
    times = curve(TALKS, Estimand("restricted_mean"))
    assert times.declared == pytest.approx(7 - 12)


def test_without_runs_of_a_condition_every_estimate_has_a_reason() -> None:
    found = curve(TALKS[:3])
    assert found.declared is None
    assert {each.reason for each in found.specifications} == {"no run under calm"}


def test_curve_uses_the_runs_of_its_estimand() -> None:
    everyone = Estimand("share", "primary", failed_turns="keep")
    nobody = Estimand("share", "primary", population=("elsewhere",))
    assert curve(TALKS, everyone) == curve(TALKS)
    empty = curve(TALKS, nobody)
    assert {each.runs for each in empty.specifications} == {0}
    assert all(each.reason for each in empty.specifications)


def test_contrasts_are_those_of_the_primary_estimand_or_every_pair() -> None:
    estimand = Estimand("incidence", "primary", contrast="loop", population=("x",))
    loop = WeightedContrast("loop", whole="stuck", parts=("calm",))
    outcomes = Outcomes((estimand,), (loop,), level=0.9)
    assert primary_contrasts(outcomes, ("calm", "stuck")) == [{"stuck": 1.0, "calm": -1.0}]
    every_pair = [{"c": 1.0, "b": -1.0}, {"c": 1.0, "a": -1.0}, {"b": 1.0, "a": -1.0}]
    assert primary_contrasts(EXPLORATORY, ("c", "b", "a")) == every_pair
    assert primary_contrasts(Outcomes(), ("c", "b", "a")) == every_pair


def test_grid_without_conversations_is_an_error() -> None:
    with pytest.raises(InputError, match="no conversation"):
        curve([])


def test_rates_are_those_of_the_declared_detector() -> None:
    found = tally(TALKS, list_detectors())
    assert found.rates(LOCKED) == pytest.approx([7 / 12, 6 / 12, 5 / 12, 0, 0, 0])


def test_the_table_of_a_detector_is_that_of_its_verdicts() -> None:
    runs = tally(TALKS, list_detectors()).table(canonicalise(LOCKED))
    assert runs is not None
    assert runs.at_risk.tolist() == [8] * 6
    assert runs.first.tolist()[3:] == [6, 7, 8]
