"""Recovery and episodes after the first collapse."""

import pytest

from chimeralab.core.records import Episode
from chimeralab.selfplay.conditions import after_onset
from chimeralab.selfplay.runs import Run, table_of


def run(seed: str, *episodes: Episode, turns: int = 10) -> Run:
    collapsed = sum(episode.turns for episode in episodes)
    first = episodes[0].start if episodes else None
    return Run("A", seed, 0, turns, collapsed, first, episodes=episodes)


RUNS = table_of(
    [
        run("s1", Episode(5, 10)),
        run("s2", Episode(5, 6)),
        run("s3", Episode(3, 3), Episode(7, 8)),
        run("s4"),
    ],
    "test",
)


def test_a_run_recovers_when_a_later_turn_is_healthy() -> None:
    found = after_onset(RUNS)
    assert (found.runs, found.collapsed_runs, found.recovered_runs) == (4, 3, 2)
    assert found.recovered_share == pytest.approx(2 / 3)
    assert found.dwell_share == pytest.approx((6 / 6 + 2 / 6 + 3 / 8) / 3)


def test_episodes_are_counted_and_those_cut_off_by_the_end_are_censored() -> None:
    found = after_onset(RUNS)
    assert (found.episodes, found.relapsed_runs) == (4, 1)
    assert found.episodes_per_run == pytest.approx(4 / 3)
    assert found.dwell_median == 2


def test_episodes_that_mostly_last_to_the_end_have_no_median() -> None:
    found = after_onset(table_of([run("s1", Episode(5, 10)), run("s2", Episode(6, 10))], "test"))
    assert found.dwell_median is None
    assert "ended before their runs did" in found.reasons["dwell_median"]


def test_table_without_episodes_gives_reasons() -> None:
    found = after_onset(table_of([Run("A", "s1", 0, 10, 2, 5), Run("A", "s2", 0, 10, 6, 5)], "t"))
    assert (found.recovered_runs, found.collapsed_runs) == (1, 2)
    assert found.episodes is None
    assert "has no episodes" in found.reasons["episodes"]


def test_recovery_is_undefined_without_a_collapse() -> None:
    found = after_onset(table_of([run("s1"), run("s2")], "test"))
    assert (found.recovered_share, found.dwell_share, found.dwell_median) == (None, None, None)
    assert set(found.reasons.values()) == {"no run had an onset"}
