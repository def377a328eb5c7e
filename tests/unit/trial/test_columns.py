"""Trials as columns: cells, the scale of answers, and matched pairs."""

from unittest.mock import patch

import numpy as np
import pytest

from chimeralab.core.errors import InputError, LogError
from chimeralab.trial.columns import (
    AnswerScale,
    TrialColumns,
    build_table,
    columns_of,
    match_pairs,
    split_groups,
)
from chimeralab.trial.metrics import measure
from chimeralab.trial.trials import Trial, parse_trial


def test_rows_are_sorted_by_session_and_trial() -> None:
    trials = [
        Trial("b", 2, confidence=0.2),
        Trial("a", 1, confidence=0.3),
        Trial("b", 1, confidence=0.1),
    ]
    columns = columns_of(trials)
    assert columns.session.tolist() == [0, 0, 1]
    assert columns.confidence is not None
    assert columns.confidence.tolist() == [0.1, 0.2, 0.3]
    assert columns.starts.tolist() == [0, 2]


def test_same_session_name_in_two_arms_is_two_sessions() -> None:
    columns = columns_of([Trial("s", 1, arm="x"), Trial("s", 1, arm="y")])
    assert len(columns.starts) == 2


def test_empty_column_is_none() -> None:
    columns = columns_of([Trial("s", 1, confidence=0.5), Trial("s", 2)])
    assert columns.weight is None
    assert columns.pair is None
    assert np.isnan(columns.confidence).tolist() == [False, True]  # type: ignore[arg-type]


def test_invalid_answer_is_reported_with_its_line() -> None:
    rows = [Trial("s", 1, bias=True, response="red"), Trial("s", 2, bias=True, response=1)]
    with pytest.raises(LogError, match=r"log.csv, line 9: response: answer 1 "):
        build_table(rows, AnswerScale(), source="log.csv", lines=[4, 9])


def test_rows_without_a_label_form_their_own_group() -> None:
    trials = [Trial("s", 1, arm="x"), Trial("t", 1), Trial("u", 1, arm="x")]
    groups = split_groups(*build_table(trials, AnswerScale()), "arm")
    assert {name: len(group) for name, group in groups.items()} == {"x": 2, "(no arm)": 1}


def framed(pair: list[int], frame: list[float]) -> TrialColumns:
    return TrialColumns(
        session=np.zeros(len(pair), np.intp), pair=np.array(pair), frame=np.array(frame)
    )


def test_pairs_are_matched_in_any_order() -> None:
    neutral, biased, unpaired = match_pairs(framed([5, 2, -1, 5, 7, 2], [0, 1, 0, 1, 0, 0]))
    assert neutral.tolist() == [5, 0]
    assert biased.tolist() == [1, 3]
    assert unpaired == 1


def test_member_without_a_frame_is_not_paired() -> None:
    neutral, _, unpaired = match_pairs(framed([1, 1], [0, np.nan]))
    assert (len(neutral), unpaired) == (0, 1)


def test_pair_with_three_members_is_rejected() -> None:
    with pytest.raises(InputError, match="row 4: the row is the third member"):
        match_pairs(framed([1, 1, 2, 1], [0, 1, 0, 1]))


def test_pair_with_two_equal_frames_is_rejected() -> None:
    with pytest.raises(InputError, match="row 2: the row is the second biased half"):
        match_pairs(framed([1, 1], [1, 1]))


def test_pair_name_may_recur_in_another_scenario_repeat_or_arm() -> None:
    for column in ("scenario", "repeat", "arm"):
        trials = [
            Trial("s", n, pair="p", frame=frame, **{column: value})  # type: ignore[arg-type]
            for n, (frame, value) in enumerate(
                (frame, value) for frame in ("neutral", "biased") for value in ("x", "y")
            )
        ]
        neutral, _, _ = match_pairs(columns_of(trials))
        assert len(neutral) == 2


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"correct": "FALSE"}, False),
        ({"correct": 1.0}, True),
        ({"confidence": "0.25"}, 0.25),
        ({"pair": 12345678}, "12345678"),
        ({"pair": 3.0}, "3"),
        ({"frame": "Biased"}, "biased"),
        ({"weight": float("nan")}, None),
        ({"weight": ""}, None),
    ],
)
def test_cells_are_converted_to_their_types(cells: dict[str, object], expected: object) -> None:
    [(name, _)] = cells.items()
    assert getattr(parse_trial({"session": 1, "trial": 1} | cells), name) == expected


@pytest.mark.parametrize(
    "cells",
    [{"confidence": True}, {"confidence": "1_0"}, {"trial": None}, {"dose": "high"}, {"novel": 2}],
)
def test_invalid_cells_are_rejected(cells: dict[str, object]) -> None:
    [(name, _)] = cells.items()
    with pytest.raises(InputError, match=name):
        parse_trial({"session": 1, "trial": 1} | cells)


def test_categories_are_kept_as_they_are() -> None:
    scale = AnswerScale()
    assert [scale.place(city) for city in ("Paris", "Rome")] == ["Paris", "Rome"]


def test_booleans_equal_zero_and_one() -> None:
    scale = AnswerScale()
    assert scale.place(True) == scale.place(1) == 1
    assert abs(scale.place(0) - scale.place(1.0)) == 1


def test_numbers_are_scaled_by_their_range() -> None:
    scale = AnswerScale((-10, 30))
    assert [scale.place(answer) for answer in (-10, 10, 30)] == pytest.approx([0, 0.5, 1])


@pytest.mark.parametrize("answer", [2, 0.5, -1])
def test_other_numbers_need_a_range(answer: float) -> None:
    with pytest.raises(InputError, match="--range"):
        AnswerScale().place(answer)


def test_number_outside_its_range_is_rejected() -> None:
    with pytest.raises(InputError, match="outside --range 0 10"):
        AnswerScale((0, 10)).place(11)


@pytest.mark.parametrize(("first", "second"), [("red", 1), (1, "red"), (False, "red")])
def test_categories_and_numbers_do_not_mix(first: float | str, second: float | str) -> None:
    scale = AnswerScale()
    scale.place(first)
    with pytest.raises(InputError, match="separately"):
        scale.place(second)


def test_categories_have_no_range() -> None:
    with pytest.raises(InputError, match="category"):
        AnswerScale((0, 1)).place("red")


def test_pair_error_has_the_row_number_in_the_whole_table() -> None:
    rows = np.arange(10)
    pair, frame = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]), np.tile([0.0, 1.0], 5)
    frame[9] = 0
    columns = TrialColumns(session=rows // 2, pair=pair, frame=frame)
    said = "row 10: the row is the second neutral half"
    with (
        patch("chimeralab.trial.sums.BLOCK_ROWS", 4),
        pytest.raises(InputError, match=said),
    ):
        measure(columns, resamples=0)


def test_answer_given_alone_is_the_neutral_member_of_the_pair() -> None:
    row = Trial(
        "s", 3, response="b", alone="a", truth="a", pair="p", frame="biased", bias=True, options=2
    )
    columns = columns_of([row])
    assert columns.trial is not None
    assert columns.frame is not None
    assert (columns.trial.tolist(), columns.frame.tolist()) == ([2.5, 3.0], [0.0, 1.0])
    _, _, unpaired = match_pairs(columns)
    assert unpaired == 0


def test_right_free_answer_equals_the_truth() -> None:
    said = Trial("s", 1, response="It is Rome.", truth="Rome", correct=True, bias=True, options=0)
    logged = Trial("s", 2, response="It is Rome.", truth="Rome", correct=True, bias=True)
    columns = columns_of([said, logged])
    assert columns.response is not None
    assert columns.truth is not None
    assert (columns.response == columns.truth).tolist() == [True, False]
