"""Verdicts become the same table of runs that a file would hold."""

from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Caveat, Detection, Episode
from chimeralab.selfplay.runs import ExcludedRuns, at_risk_turns, runs_of

HERE = {"condition": "calm", "prompt": "p1", "repeat": 2, "bucket": "x", "outcome": "completed"}


def detection(collapsed: tuple[int, ...] | None, turns: int = 12, **metadata: object) -> Detection:
    found = collapsed or ()
    return Detection(
        id="calm/p1/2",
        source=None,
        judged="all turns",
        turns=turns,
        at_risk_turns=max(0, turns - 4),
        collapsed=found,
        positions=tuple(range(1, turns + 1)),
        collapsed_turns=None if collapsed is None else len(found),
        collapse_rate=None,
        at_risk_rate=None,
        first_collapse_turn=found[0] if found else None,
        episodes=(Episode(found[0], found[-1]),) if found else (),
        evidence=(),
        warnings=(Caveat("blank_turns", 3, "three"),),
        reason=None,
        detector={},
        encoder={},
        metadata=metadata or HERE,
    )


def test_a_verdict_knows_its_episodes_its_outcome_and_its_empty_turns() -> None:
    (row,) = runs_of([detection((5, 6, 7))], "study").rows
    assert (row.condition, row.seed_id, row.repeat_index, row.seed_bucket) == (
        "calm",
        "p1",
        2,
        "x",
    )
    assert (row.total_turns, row.collapsed_turns, row.first_collapse_turn) == (12, 3, 5)
    assert (row.episodes, row.outcome, row.blank_turns) == ((Episode(5, 7),), "completed", 3)


def test_turns_at_risk_come_from_the_detector() -> None:
    runs = runs_of([detection((5, 6))], "study")
    assert at_risk_turns(runs).tolist() == [8]


def test_field_names_of_published_tables_are_accepted() -> None:
    named: dict[str, Any] = {
        "condition": "A",
        "seed_id": "s",
        "repeat_index": "4",
        "seed_bucket": "y",
    }
    (row,) = runs_of([detection((), **named)], "log").rows
    assert (row.seed_id, row.repeat_index, row.seed_bucket, row.outcome) == ("s", 4, "y", None)


def test_conversations_without_verdict_are_left_out_and_counted() -> None:
    before = ExcludedRuns("calm", "not finished", 4)
    runs = runs_of([detection(()), detection(None, turns=3)], "study", [before])
    assert len(runs.rows) == 1
    assert runs.left_out == (before, ExcludedRuns("calm", "too short for a verdict", 1))


def test_only_short_conversations_is_an_error_with_reasons() -> None:
    with pytest.raises(InputError, match="calm: 1 too short for a verdict"):
        runs_of([detection(None, turns=3)], "study")


def test_a_conversation_without_a_condition_is_named() -> None:
    with pytest.raises(InputError, match="'calm/p1/2' has no field 'condition'"):
        runs_of([detection((), prompt="p1", repeat=1)], "log")


def test_repeat_that_is_not_a_number_is_named() -> None:
    with pytest.raises(InputError, match="repeat 'first' is not a whole number"):
        runs_of([detection((), condition="A", seed="s", repeat="first")], "log")
