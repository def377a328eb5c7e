"""A page lists every message, or says which it leaves out."""

from hypothesis import given
from hypothesis import strategies as st

from chimeralab import LOCKED, Detection, LockedRule, Trajectory, Turn, detect
from chimeralab.core.records import Episode
from chimeralab.report.messages import (
    MAX_MESSAGES,
    ShownMessage,
    fold,
    list_messages,
    positions_shown,
)

A, B = "The ferry sails at noon.", "Whales sleep upright."
EPISODES = st.lists(st.integers(1, 8_900), max_size=400).map(
    lambda starts: tuple(Episode(start, start + 9) for start in sorted(starts))
)

LONG = Trajectory("talk", (Turn(A),) * 9_000)


def a_detection(turns: int, episodes: tuple[Episode, ...] = ()) -> Detection:
    return Detection(
        id="talk", source=None, judged="all", turns=turns, at_risk_turns=turns, collapsed=(),
        positions=tuple(range(1, turns + 1)), collapsed_turns=0, collapse_rate=0.0,
        at_risk_rate=0.0, first_collapse_turn=None, episodes=episodes, evidence=(), warnings=(),
        reason=None, detector={}, encoder={}, trace=(),
    )  # fmt: skip


def said(items: list[ShownMessage | range]) -> list[ShownMessage]:
    return [item for item in items if isinstance(item, ShownMessage)]


def test_every_message_of_a_common_conversation_is_shown() -> None:
    assert positions_shown(MAX_MESSAGES, a_detection(5)) == list(range(1, MAX_MESSAGES + 1))


@given(EPISODES)
def test_shown_and_left_out_together_are_the_whole_conversation(
    episodes: tuple[Episode, ...],
) -> None:
    positions: list[int] = []
    for item in list_messages(LONG, a_detection(9_000, episodes)):
        here = item if isinstance(item, range) else [item.position]
        positions.extend(here)
    assert positions == list(range(1, 9_001))


@given(EPISODES)
def test_long_conversation_shows_its_head_its_tail_and_the_first_collapse(
    episodes: tuple[Episode, ...],
) -> None:
    shown = set(positions_shown(9_000, a_detection(9_000, episodes)))
    assert {1, 2, 3, 9_000} <= shown
    assert len(shown) <= MAX_MESSAGES + 40
    for episode in episodes[:50]:
        assert {episode.start - 1, episode.start, episode.end} - {0} <= shown


@given(st.text(alphabet="ab \n", max_size=4_000).map(lambda text: text * 8), st.integers(2_400))
def test_folding_neither_changes_nor_hides_a_character(text: str, most: int) -> None:
    head, folded, left_out = fold(text, most)
    assert text.startswith(head + folded)
    assert len(head) + len(folded) + left_out == len(text)


def test_text_of_many_short_lines_is_folded() -> None:
    assert fold("\n" * 1_000, 5_000)[1]


def test_text_is_cut_between_words() -> None:
    assert fold("word " * 1_000, 10_000)[0].endswith("word")


def test_short_remainder_is_not_folded() -> None:
    assert fold("x" * 1_400, 5_000)[1] == ""


def test_repeats_are_those_of_the_evidence() -> None:
    talk = [A, B, A, B, A, B, B, B, B, B]
    detection = detect(talk, trace=True)
    items = said(list_messages(_trajectory(talk), detection))
    marked = {item.turn: item.repeat for item in items if item.collapsed and item.repeat}
    assert detection.evidence
    assert {turn: repeat[:2] for turn, repeat in marked.items()} == {
        one.turn: (one.repeats, one.similarity) for one in detection.evidence
    }


def test_first_repeats_are_counted_towards_the_collapse() -> None:
    items = said(list_messages(_trajectory([A] * 5), detect([A] * 5, trace=True)))
    assert [item.repeat for item in items[:4]] == [
        None, None, (2, 1.0, 1), (3, 1.0, 2),
    ]  # fmt: skip
    assert [item.collapsed for item in items] == [False] * 4 + [True]


def test_numbers_count_judged_turns_only() -> None:
    talk = Trajectory(
        "chat",
        (
            Turn("Be kind.", "system", "system", spoken=False),
            Turn("Hi", "user", "user"),
            Turn("Hello!", "assistant", "assistant", "model-1"),
            Turn("", "assistant", "assistant"),
        ),
    )
    items = said(list_messages(talk, detect(talk, trace=True)))
    assert [item.turn for item in items] == [None, None, 1, 2]
    assert [item.spoken for item in items] == [False, True, True, True]
    assert items[2].model == "model-1"


def test_skipped_blank_turns_stay_in_place_without_a_number() -> None:
    detector = LockedRule(**LOCKED.as_dict() | {"empty": "skip"})
    talk = [A, "", B]
    items = said(list_messages(_trajectory(talk), detect(talk, detector=detector, trace=True)))
    assert [item.turn for item in items] == [1, None, 2]


def _trajectory(texts: list[str]) -> Trajectory:
    return Trajectory("conversation", tuple(Turn(text) for text in texts))
