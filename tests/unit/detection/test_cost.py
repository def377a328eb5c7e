"""What a loop cost, and why it began, on small logs."""

import json
from typing import Any

import pytest

from chimeralab import detect
from chimeralab.core.errors import InputError
from chimeralab.core.records import (
    KIND_NAMES,
    Call,
    Cost,
    Loop,
    Tokens,
    Trajectory,
    Turn,
    list_verdicts,
)
from chimeralab.detection.advice import ADVICE
from chimeralab.detection.cause import CAUSES, find_cause
from chimeralab.detection.classes import PATIENCE
from chimeralab.detection.cost import LoopTotals, Prices, cost_messages, parse_prices
from chimeralab.detection.judging import Judge
from chimeralab.detection.verdict import as_json, from_json

SAID = "Let me look at the same file again."


def talk(*turns: Turn, **about: Any) -> Trajectory:
    return Trajectory("a", turns, **about)


def test_usage_of_the_log_is_what_a_loop_cost() -> None:
    usage = Tokens(1_000, 50, 1_050)
    found = detect(talk(*[Turn(SAID, role="assistant", tokens=usage)] * 6), detector=None)
    assert found.loops[0].cost == Cost(6_300, estimated=False)
    assert found.cost == found.loop_cost == Cost(6_300, estimated=False)
    assert found.after_notice == Cost(2_100, estimated=False)  # noticed at the fourth of six


def test_prices_apply_to_what_was_read_and_written() -> None:
    turns = [Turn(SAID, role="assistant", tokens=Tokens(1_000, 100, 1_100))] * 4
    judge = Judge(None, prices=Prices(3, 15))
    [(_, found)] = judge.judge([talk(*turns)])
    assert found.cost is not None
    assert found.cost.money == pytest.approx(4 * (1_000 * 3 + 100 * 15) / 1_000_000)


def test_costs_of_the_log_come_before_prices() -> None:
    turns = [Turn(SAID, tokens=Tokens(9, 9, 18), cost=0.25), Turn("Well.", tokens=Tokens(9, 9, 18))]
    money = [each.money for each in cost_messages(talk(*turns), Prices(3, 15))]
    assert money == [0.25, None]


def test_without_usage_the_length_of_texts_is_an_estimate() -> None:
    [cost] = cost_messages(talk(Turn("x" * 40)))
    assert cost == Cost(10, estimated=True)


def test_answer_without_usage_is_estimated_where_others_are_measured() -> None:
    turns = (
        Turn("Hello?", role="user"),
        Turn("x" * 40, role="assistant"),
        Turn("Yes.", role="assistant", tokens=Tokens(30, 2, 32)),
    )
    costs = cost_messages(talk(*turns))
    # The user's question is part of what the measured answer read.
    assert costs == [Cost(0, False), Cost(10, True), Cost(32, False)]


def test_total_of_a_log_is_shared_out_by_length() -> None:
    found = detect(talk(*[Turn(SAID)] * 6, tokens=Tokens(total=601)), detector=None)
    assert found.cost == Cost(601, estimated=False)
    assert found.loops[0].cost == Cost(601, estimated=True)


def test_time_that_a_person_takes_to_answer_is_not_counted() -> None:
    turns = [
        Turn("Go.", role="user", at="2026-01-01T10:00:00Z"),
        Turn("Done.", role="assistant", at="2026-01-01T10:00:20Z"),
        Turn("Thanks.", role="user", at="2026-01-01T18:00:00Z"),
        Turn("Sure.", role="assistant", at="2026-01-01T18:00:05Z"),
    ]
    assert [each.seconds for each in cost_messages(talk(*turns))] == [None, 20.0, 0.0, 5.0]


@pytest.mark.parametrize("text", ["", "3", "in=3", "in=3,out=x", "in=3,out=-1", "in=1,out=2,a=3"])
def test_prices_that_are_not_prices_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="in=3,out=15"):
        parse_prices(text)


def test_costs_and_causes_survive_json() -> None:
    call = Call("read", {"path": "a.txt"}, "Error: no such file")
    found = detect(talk(*[Turn("", role="assistant", calls=(call,))] * 4), detector=None)
    row = json.loads(json.dumps(as_json(found)))
    assert row["loops"][0]["cost"] == {
        "tokens": row["cost"]["tokens"], "estimated": True, "seconds": None, "money": None,
    }  # fmt: skip
    assert row["loops"][0]["cause"] == {
        "kind": "failure", "messages": [1], "excerpt": "Error: no such file",
    }  # fmt: skip
    assert from_json(row) == found


def cause_of(*turns: Turn, stream: str = "calls", began: int = 2, kind: str = "tool") -> Any:
    call = turns[began - 1].calls[0].name if turns[began - 1].calls else ""
    loop = Loop("verdict", kind, stream, began, len(turns), None, 1, (), call, 0.8)
    return find_cause(turns, loop)


def called(result: str | None, error: bool | None = None) -> Turn:
    return Turn("", role="assistant", calls=(Call("find", {"name": "x"}, result, error),))


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("bash: pytest: command not found", "failure"),
        ("Traceback (most recent call last):\n  File", "failure"),
        ("python: can't open file 'a.py': [Errno 2] No such file or directory", "failure"),
        ("The user doesn't want to proceed with this tool use.", None),
        ("Error: unknown tool 'look_up'", None),
        ("No matches found", "empty"),
        ("[]", "empty"),
        ("", "empty"),
        ("12 passed in 0.3 s, no error", None),
        ("The failure rate is 3 %", None),
        ("def test_error(): raise ValueError", None),
        (None, None),
    ],
)
def test_what_went_wrong_with_the_call_at_the_start_is_the_cause(
    result: str | None, kind: str | None
) -> None:
    found = cause_of(Turn("Go.", role="user"), called(result))
    assert (found and found.kind) == kind
    assert found is None or found.messages == (2,)


def test_empty_result_of_another_call_is_not_a_cause() -> None:
    found = cause_of(called(""), Turn("", calls=(Call("read", {}, "some text"),)))
    assert found is None


def test_mark_of_the_log_comes_before_words() -> None:
    assert cause_of(Turn("Go."), called("Error: as expected", error=False)) is None
    assert cause_of(Turn("Go."), called("no luck", error=True)).kind == "failure"


def test_farewell_needs_both_sides() -> None:
    bye, back = Turn("It was lovely. Goodbye!", "A"), Turn("You too! Take care.", "B")
    assert cause_of(bye, back, stream="all").kind == "farewell"
    assert cause_of(bye, Turn("And another thing: trains.", "B"), stream="all") is None


def test_cut_message_is_a_cause_if_the_next_one_says_so() -> None:
    cut = Turn("There are three kinds of climbing, and they differ in their dem", "A")
    told = Turn("Your message stopped mid-sentence; what are the kinds?", "B")
    assert cause_of(cut, told, stream="all").kind == "cut"
    assert cause_of(cut, Turn("Which of them is the safest?", "B"), stream="all") is None


def test_one_failure_in_two_streams_is_one_loop() -> None:
    call, said = (
        Loop("verdict", "tool", "calls", 5, 9, None, 1, (), "", 0.9),
        Loop("verdict", "verbatim", "all", 5, 8, None, 1, (), "", 0.9),
    )
    later = Loop("verdict", "verbatim", "all", 30, 33, None, 1, (), "", 0.9)
    assert list_verdicts([said, call]) == [call]
    assert list_verdicts([call, later]) == [call, later]


def test_every_kind_has_a_plain_name() -> None:
    # What the guard has advice for, but for its words on calls with true numbers.
    kinds = {kind for kind in ADVICE if " " not in kind} | set(PATIENCE)
    assert kinds == KIND_NAMES.keys()
    assert all(name == name.lower() and "_" not in name for name in KIND_NAMES.values())
    assert all(name.islower() for name in CAUSES.values())


def test_headline_marks_what_loops_take_of_a_known_total_as_estimated() -> None:
    turns = [Turn("Once more, from the top, please.") for _ in range(6)]
    [(_, found)] = Judge(None).judge([talk(*turns, tokens=Tokens(total=600))])
    assert (found.cost, found.loop_cost) == (
        Cost(600, estimated=False),
        Cost(600, estimated=True),
    )
    sums = LoopTotals()
    sums.add(found)
    assert sums.costs().startswith("Inside loops: ~600 tokens")
