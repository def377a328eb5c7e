"""A report shows the most informative conversations, once each, with all turns."""

from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.core.records import Detection, Episode
from chimeralab.detection.locked import LOCKED
from chimeralab.report.messages import ShownMessage
from chimeralab.selfplay.report.page import choose, parts


def detection(name: str, turns: int, collapsed: tuple[int, ...]) -> Detection:
    return Detection(
        id=name,
        source=None,
        judged="all turns",
        turns=turns,
        at_risk_turns=turns,
        collapsed=collapsed,
        positions=tuple(range(1, turns + 1)),
        collapsed_turns=len(collapsed),
        collapse_rate=len(collapsed) / turns if turns else None,
        at_risk_rate=None,
        first_collapse_turn=collapsed[0] if collapsed else None,
        episodes=tuple(Episode(n, n) for n in collapsed),
        evidence=(),
        warnings=(),
        reason=None,
        detector=LOCKED.describe(),
        encoder={},
    )


SHARES = st.lists(st.integers(0, 6), max_size=9)


@given(SHARES)
def test_the_most_and_the_least_collapsed_are_shown_once_each(shares: list[int]) -> None:
    found = [detection(str(n), 6, tuple(range(1, k + 1))) for n, k in enumerate(shares)]
    collapsed, _, healthy = choose(found)
    shown = [each.id for each in (*collapsed, *healthy)]
    assert len(shown) == len(set(shown))
    assert all(each.collapsed for each in collapsed)
    worst = sorted(shares, reverse=True)[:2]
    assert [len(each.collapsed) for each in collapsed] == [k for k in worst if k]
    if healthy:
        assert len(healthy[0].collapsed) == min(shares)


def test_without_any_collapse_only_healthy_ones_are_shown() -> None:
    collapsed, _, healthy = choose([detection("a", 6, ()), detection("b", 6, ())])
    assert (len(collapsed), len(healthy)) == (0, 2)


def test_a_conversation_without_a_verdict_is_not_shown() -> None:
    assert choose([detection("a", 0, ())]) == ([], [], [])


def message(position: int) -> ShownMessage:
    return ShownMessage(position, position, "a", None, True, False, None, ("x", "", 0))


@settings(max_examples=50)
@given(st.integers(1, 40), st.integers(0, 40))
def test_parts_of_a_transcript_cover_it_in_order(turns: int, onset: int) -> None:
    collapsed = tuple(range(onset, turns + 1)) if 0 < onset <= turns else ()
    messages = [message(n) for n in range(1, turns + 1)]
    found = list(parts(messages, detection("a", turns, collapsed)))
    assert [item for _, part in found for item in part] == messages
    assert found[0][0], "the first messages are open"
    for is_open, part in found:
        assert collapsed[:1] == () or is_open or message(onset) not in part
