"""Laws of what loops cost, on random logs: totals equal sums, and overlaps are counted once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.records import Cost, Detection, Loop, Tokens, Trajectory
from chimeralab.detection.cost import (
    LoopTotals,
    Prices,
    attach_costs,
    cost_messages,
    split_costs,
    sum_costs,
)
from chimeralab.detection.judging import detect
from tests.laws.test_loops_laws import talks

START = datetime(2026, 1, 30, 23, 50, tzinfo=UTC)
COUNTS = st.integers(0, 9_000)
USAGE = st.one_of(
    st.none(),
    st.builds(lambda read, wrote: Tokens(read, wrote, read + wrote), COUNTS, COUNTS),
    st.builds(lambda total: Tokens(total=total), COUNTS),
)
PRICES = st.one_of(st.none(), st.just(Prices(3.0, 15.0)))


@st.composite
def logs(draw: st.DrawFn) -> Trajectory:
    """Logs with usage, prices and times for all of their messages, some, or none."""
    has_usage, has_costs, has_times = (draw(st.booleans()) for _ in range(3))
    turns, at = [], START
    for turn in draw(talks()):
        at += timedelta(seconds=draw(st.integers(0, 900)))
        about: dict[str, Any] = {
            "role": draw(st.sampled_from(["user", "assistant", "tool", None])),
            "tokens": draw(USAGE) if has_usage else None,
            "cost": draw(st.one_of(st.none(), st.floats(0, 2))) if has_costs else None,
            "at": at.isoformat() if has_times and draw(st.booleans()) else None,
        }
        turns.append(replace(turn, **about))
    whole = draw(st.one_of(st.none(), st.builds(Tokens, COUNTS, COUNTS)))
    return Trajectory("a", tuple(turns), tokens=whole, cost=draw(st.sampled_from([None, 0.7])))


SPANS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=4
)


def loops_in(spans: list[tuple[int, int, int, bool]], last: int) -> list[Loop]:
    """Loops at random places of a conversation, which may overlap."""
    found = []
    for began, more, rest, is_over in spans:
        first = min(began, last)
        noticed = min(first + more, last)
        ended = min(noticed + rest, last) if is_over else None
        level = "verdict" if rest != 3 else "notice"
        found.append(Loop(level, "tool", "calls", first, noticed, ended, 1, (), "", 0.8))
    return found


def same(found: Cost, expected: Cost) -> bool:
    floats = [(found.seconds, expected.seconds), (found.money, expected.money)]
    return found.tokens == expected.tokens and all(
        (a is None) == (b is None) and (a is None or b is None or a == pytest.approx(b))
        for a, b in floats
    )


@given(logs(), SPANS, PRICES)
def test_cost_of_loops_is_that_of_their_messages_each_counted_once(
    talk: Trajectory, spans: list[tuple[int, int, int, bool]], prices: Prices | None
) -> None:
    costs, last = cost_messages(talk, prices), len(talk.turns)
    fields = attach_costs(talk, loops_in(spans, last), prices)
    assert same(fields["cost"], sum_costs(costs))
    inside, late = set[int](), set[int]()
    for loop in fields["loops"]:
        positions = range(loop.began, (loop.ended or last) + 1)
        assert same(loop.cost, sum_costs(costs[n - 1] for n in positions))
        if loop.level == "verdict":
            inside |= set(positions)
            late |= {n for n in positions if n > loop.noticed}
    assert same(fields["loop_cost"], sum_costs(costs[n - 1] for n in sorted(inside)))
    assert same(fields["after_notice"], sum_costs(costs[n - 1] for n in sorted(late)))
    assert (fields["messages"], fields["looping_messages"]) == (last, len(inside))
    assert fields["after_notice"].tokens <= fields["loop_cost"].tokens <= fields["cost"].tokens


@given(logs(), PRICES)
def test_tokens_are_measured_or_say_that_they_are_estimated(
    talk: Trajectory, prices: Prices | None
) -> None:
    known = [turn.tokens for turn in talk.turns]
    costs = cost_messages(talk, prices)
    for usage, cost in zip(known, costs, strict=True):
        if usage is not None:
            assert (cost.tokens, cost.estimated) == (usage.total, False)
        elif not any(known):
            assert cost.estimated
    whole = talk.tokens
    if whole and not any(known):  # what the log gives as a total stays the total
        assert sum(cost.tokens for cost in costs) == (whole.input or 0) + (whole.output or 0)


@given(logs(), st.sampled_from(["tool", "day"]), PRICES)
def test_parts_by_tool_or_day_add_up_to_the_conversation(
    talk: Trajectory, field: str, prices: Prices | None
) -> None:
    found = detect(talk, detector=None)
    fields = attach_costs(talk, found.loops, prices)
    parts = [part for _, part in split_costs(talk, found, field, prices)]
    for name in ("cost", "loop_cost", "after_notice"):
        assert same(sum_costs(getattr(part, name) for part in parts), fields[name])
    assert sum(part.messages or 0 for part in parts) == len(talk.turns)
    assert sum(part.looping_messages or 0 for part in parts) == fields["looping_messages"]


def is_estimated(verdict: Detection) -> bool:
    return any(each.estimated for each in (verdict.cost, verdict.loop_cost) if each)


@given(st.lists(logs(), min_size=1, max_size=4))
def test_totals_over_conversations_keep_measured_and_estimated_apart(
    found: list[Trajectory],
) -> None:
    totals, verdicts = LoopTotals(), [detect(talk, detector=None) for talk in found]
    for verdict in verdicts:
        totals.add(verdict)
    for estimated, (inside, late, whole) in totals.tokens.items():
        # A share of a known total is an estimate.
        own = [each for each in verdicts if is_estimated(each) == estimated]
        assert whole == sum(each.cost.tokens for each in own if each.cost)
        assert inside == sum(each.loop_cost.tokens for each in own if each.loop_cost)
        assert late == sum(each.after_notice.tokens for each in own if each.after_notice)
    assert totals.looping == sum(bool(each.looping) for each in verdicts)
    shown = totals.headline()
    known = [kind for kind, sums in totals.tokens.items() if sums[2]]
    if totals.looping and len(known) == 2:
        assert "of all measured and ~" in shown
    elif totals.looping and known:
        assert ("~" in shown) == known[0]
