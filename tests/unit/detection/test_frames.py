"""Frames of pandas and polars as input, in the layouts of files, and verdicts as frames."""

import json
from pathlib import Path
from typing import Any

import pytest

from chimeralab import InputError, Results, detect

pd = pytest.importorskip("pandas", reason="comes with [pandas]")
pl = pytest.importorskip("polars", reason="comes with the tests")

AGAIN = "Let me check that again."
QUESTIONS = ["And now?", "What of the second file?", "Is the build green?", "Who wrote this?",
             "When was that?", "May I go home?"]  # fmt: skip
CHAT = [
    message
    for question in QUESTIONS
    for message in (
        {"role": "user", "content": question},
        {"role": "assistant", "content": AGAIN},
    )
]


def judge(held: Any) -> Any:
    return detect(held, detector=None)


def test_column_of_texts_is_a_conversation() -> None:
    for column in (pd.Series([AGAIN] * 6), pl.Series([AGAIN] * 6)):
        assert (judge(column).looping, judge(column).turns) == (True, 6)


def test_lazy_frame_must_be_collected_first() -> None:
    with pytest.raises(InputError, match="call its collect"):
        judge(pl.LazyFrame({"text": ["a"]}))


@pytest.mark.parametrize("package", [pd, pl], ids=["pandas", "polars"])
class TestFrames:
    """A frame is a table of conversations, in the layouts of files."""

    def test_text_column_is_one_conversation(self, package: Any) -> None:
        (found,) = judge(package.DataFrame({"text": [AGAIN] * 6}))
        assert (found.looping, found.turns) == (True, 6)

    def test_row_numbers_do_not_split_a_conversation(self, package: Any) -> None:
        (found,) = judge(package.DataFrame({"id": range(6), "text": [AGAIN] * 6}))
        assert found.turns == 6

    def test_row_per_turn_is_grouped_by_its_conversation(self, package: Any) -> None:
        rows = [
            {"conversation_id": name, "role": m["role"], "content": m["content"], "model": name}
            for m in CHAT
            for name in ("a", "b")
        ]
        rows += [{"conversation_id": "c", "role": "user", "content": "Hi", "model": "c"}]
        found = judge(package.DataFrame(rows))
        assert [(each.id, each.looping) for each in found] == [
            ("a", True), ("b", True), ("c", False),
        ]  # fmt: skip
        assert found[0].judged == "assistant turns (chat)"
        assert found[0].metadata == {"model": "a"}

    def test_messages_column_is_a_conversation_per_row(self, package: Any) -> None:
        frame = package.DataFrame({"id": ["x", "y"], "messages": [CHAT, CHAT]})
        assert [(each.id, each.looping) for each in judge(frame)] == [("x", True), ("y", True)]

    def test_messages_may_be_json_in_text(self, package: Any) -> None:
        frame = package.DataFrame({"messages": [json.dumps(CHAT)]})
        (found,) = judge(frame)
        assert (found.looping, found.turns) == (True, 6)

    def test_both_sides_of_a_preference_may_be_json_in_text(self, package: Any) -> None:
        frame = package.DataFrame({"chosen": [json.dumps(CHAT)], "rejected": [json.dumps(CHAT)]})
        assert [found.turns for found in judge(frame)] == [6, 6]

    def test_frame_without_texts_or_messages_is_rejected_with_its_columns(
        self, package: Any
    ) -> None:
        frame = package.DataFrame({"prompt": ["a"], "score": [1.0]})
        with pytest.raises(InputError, match="columns: 'prompt', 'score'"):
            judge(frame)

    def test_value_that_is_not_text_is_named_with_its_row(self, package: Any) -> None:
        with pytest.raises(InputError, match="row 1 of the DataFrame: text is a number, not text"):
            judge(package.DataFrame({"text": [1, 2]}))

    def test_missing_text_is_an_empty_turn(self, package: Any) -> None:
        (found,) = judge(package.DataFrame({"text": ["Hi", None, "Ho"], "speaker": list("aba")}))
        assert found.turns == 3


def test_messages_from_parquet_are_arrays_in_pandas(tmp_path: Path) -> None:
    pd.DataFrame({"messages": [CHAT]}).to_parquet(tmp_path / "log.parquet")
    (found,) = judge(pd.read_parquet(tmp_path / "log.parquet"))
    assert (found.looping, found.turns) == (True, 6)


def test_results_become_a_pandas_frame_with_the_fields_of_the_log() -> None:
    rows = [{"id": name, "messages": CHAT, "model": name.upper()} for name in "ab"]
    frame = judge(pd.DataFrame(rows)).to_pandas()
    assert frame["id"].tolist() == ["a", "b"]
    assert frame["looping"].tolist() == [True, True]
    assert frame["model"].tolist() == ["A", "B"]
    assert frame["collapsed_turns"].isna().all()
    assert str(frame.dtypes["turns"]) == "Int64"
    assert frame.groupby("model")["looping"].mean().tolist() == [1.0, 1.0]


@pytest.mark.weights
def test_one_verdict_becomes_a_frame_and_its_trace_a_row_per_turn() -> None:
    found = detect([AGAIN] * 6, trace=True)
    assert found.to_pandas()["collapsed"].tolist() == [False] * 4 + [True] * 2
    assert len(detect([AGAIN] * 6).to_pandas()) == 1


def test_no_results_give_an_empty_frame_with_all_columns() -> None:
    assert {"id", "looping", "collapse_rate"} <= set(Results().to_pandas().columns)
