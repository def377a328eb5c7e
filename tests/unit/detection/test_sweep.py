"""A sweep judges every cell from one set of similarities and counts distinct detectors."""

import pytest

from chimeralab import LOCKED, LockedRule, Trajectory, Turn, detect
from chimeralab.detection.measure import measure
from chimeralab.detection.sweep import STUDY_GRID, Sweeper, all_cutoffs, distinct, grid_of
from chimeralab.embedding.encoder import default_encoder

LOOP = "Here is the revised version of the text."
WORDS = ["anchor", "bread", "cello", "desert", "engine", "forest", "garden", "harbour"]


def talk(name: str, condition: str, seed: str, loops: int) -> Trajectory:
    texts = [f"Tell me about the {word}." for word in WORDS] + [LOOP] * loops
    return Trajectory(name, tuple(map(Turn, texts)), {"condition": condition, "seed": seed})


TALKS = [
    talk("a1", "A", "1", 8),
    talk("b1", "B", "1", 5),
    talk("a2", "A", "2", 4),
    talk("b2", "B", "2", 6),
]


def swept(grid: list[LockedRule], talks: list[Trajectory]) -> Sweeper:
    sweeper = Sweeper(grid, ["seed"])
    for measured in measure(talks, default_encoder(), all_cutoffs(grid)):
        sweeper.add(measured, str(measured.trajectory.metadata["condition"]))
    return sweeper


def test_study_grid_has_36_cells_but_25_detectors() -> None:
    result = swept(grid_of(LOCKED, STUDY_GRID), TALKS).result(LOCKED)
    assert (result.cells, result.distinct_detectors) == (36, 25)
    assert sum(point.cells for point in result.points) == 36


def test_every_point_is_what_that_detector_finds() -> None:
    result = swept(grid_of(LOCKED, STUDY_GRID), TALKS).result(LOCKED)
    for point in result.points:
        rates = [detect(t, detector=point.settings).collapse_rate or 0 for t in TALKS]
        assert point.rate == pytest.approx(sum(rates) / 4)
        assert point.rates == pytest.approx(
            {"A": (rates[0] + rates[2]) / 2, "B": (rates[1] + rates[3]) / 2}
        )


def test_order_and_its_stability_by_seed() -> None:
    result = swept([LOCKED], TALKS).result(LOCKED)
    assert result.reference_order == ("A", "B")
    [by_seed] = result.stability
    assert by_seed == {"field": "seed", "units": 2, "fewest": 1, "most": 1}


def test_looser_drift_than_flag_is_the_same_detector() -> None:
    assert len(distinct([LockedRule(), LockedRule(d1=0.5), LockedRule(d2=1.0)])) == 1
    assert len(distinct([LockedRule(drift="both"), LockedRule(drift="both", d1=0.5)])) == 2


def test_short_conversations_are_counted_separately() -> None:
    short = Trajectory("s", (Turn("Hi"),) * 3, {"condition": "A", "seed": "1"})
    result = swept([LOCKED], [short]).result(LOCKED)
    assert (result.conversations, result.without_verdict) == (1, 1)
    assert result.lowest_rate is None
