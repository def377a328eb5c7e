"""Budgets of a conversation, and what a loop has cost."""

from collections.abc import Iterator
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.integrations.watch import GuardAction, Watch

CALL = {"id": "c", "function": {"name": "sh", "arguments": "make"}}
USAGE = {"prompt_tokens": 900, "completion_tokens": 100}


def steps(count: int, *, loops: bool = False, usage: Any = USAGE) -> list[dict[str, Any]]:
    talk: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for n in range(count):
        call = CALL if loops else {**CALL, "function": {"name": "sh", "arguments": f"make {n}"}}
        asks = {"role": "assistant", "content": None, "tool_calls": [call]}
        talk.append({**asks, "usage": usage} if usage else asks)
        text = "1 failed" if loops else f"step {n} of many was done in {n * n} ways"
        talk.append({"role": "tool", "tool_call_id": "c", "content": text})
    return talk


def actions(watch: Watch, talk: list[dict[str, Any]]) -> list[tuple[int, GuardAction]]:
    found = ((n, watch.follow(talk[:n])) for n in range(1, len(talk) + 1))
    return [(n, action) for n, action in found if action]


def test_budget_is_nudged_at_80_percent_and_stopped_at_100() -> None:
    found = actions(Watch(budget={"tokens": 10_000}), steps(10))
    assert [(n, action.action) for n, action in found[:2]] == [(16, "nudge"), (20, "stop")]
    assert "has spent 8,000 tokens, 80 % of its budget of 10,000" in found[0][1].message
    assert found[1][1].loop.kind == "budget"
    assert [action.again for _, action in found[1:]] == [False, True]


def test_stop_never_comes_before_a_nudge() -> None:
    found = actions(Watch(budget={"tokens": 10}), steps(2))
    assert [action.action for _, action in found] == ["nudge", "stop", "stop", "stop"]


def test_message_from_the_user_gives_another_nudge() -> None:
    watch = Watch(budget={"steps": 2})
    talk = [*steps(3), {"role": "user", "content": "continue"}]
    assert [action.action for _, action in actions(watch, talk)][-2:] == ["stop", "nudge"]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"money": 0.01, "price": {"in": 2, "out": 10}}, "0.01 in money"),
        ({"steps": 4}, "4 steps"),
        ({"minutes": 4}, "4.0 minutes"),
    ],
)
def test_every_unit_has_a_budget(budget: Any, said: str) -> None:
    times: Iterator[int] = iter(range(0, 60_000, 15))
    found = actions(Watch(budget=budget, clock=lambda: next(times)), steps(10))
    assert [action.action for _, action in found[:2]] == ["nudge", "stop"]
    assert any(said in action.message for _, action in found)


def test_budget_for_loops_counts_only_what_is_spent_inside_them() -> None:
    watch = Watch(budget={"in_loops": {"tokens": 4000}})
    assert actions(watch, steps(30)) == []
    found = actions(Watch(budget={"in_loops": {"tokens": 4000}}), steps(5, loops=True))
    assert "3,000 tokens" in found[0][1].message  # the nudge about the loop
    assert "4,000 tokens inside loops" in found[1][1].message
    assert [action.action for _, action in found[:3]] == ["nudge", "nudge", "stop"]


def test_tokens_without_usage_are_estimated_and_said_to_be() -> None:
    talk = steps(40, usage=None)
    found = actions(Watch(budget={"tokens": 200}), talk)
    assert "about 1" in found[0][1].message


def test_what_a_loop_has_cost_is_told_only_when_usage_is_known() -> None:
    told = actions(Watch(), steps(5, loops=True))
    assert "That has cost 3,000 tokens so far." in told[0][1].message
    assert told[1][1].message.endswith("That has cost 5,000 tokens so far.")
    untold = actions(Watch(), steps(5, loops=True, usage=None))
    assert not any("cost" in action.message for _, action in untold)


def test_messages_before_the_guard_was_started_count() -> None:
    found = Watch(budget={"steps": 300}).follow(steps(250))
    assert found
    assert "250 steps" in found.message


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ({}, "budget is {}; expected for example"),
        (5, "budget is 5; expected for example"),
        ({"token": 5}, "budget has 'token'; expected tokens, money, steps, minutes"),
        ({"tokens": 0}, "expected a positive number"),
        ({"steps": True}, "expected a positive number"),
        ({"minutes": float("nan")}, "expected a positive number"),
        ({"money": 5}, "budget has money but no price"),
        ({"money": 5, "price": {"in": 3}}, "expected {'in': …, 'out': …}"),
        ({"money": 5, "price": {"in": 3, "out": -1}}, "expected a positive number"),
        ({"in_loops": 5}, "budget['in_loops'] is 5"),
    ],
)
def test_wrong_budget_is_refused_in_one_sentence(budget: Any, problem: str) -> None:
    with pytest.raises(InputError) as error:
        Watch(budget=budget)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
