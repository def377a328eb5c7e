"""The numbers, evidence and caveats of a verdict."""

from collections.abc import Sequence

import pytest

from chimeralab import LOCKED, InputError, LockedRule, Trajectory, Turn, detect, detect_all

TOPICS = [
    "The lighthouse keeper counts the ships before breakfast.",
    "Bake the bread at two hundred degrees for half an hour.",
    "My sister plays the cello in a small orchestra.",
    "Glaciers carve valleys in the shape of a bowl.",
    "The committee will publish its budget in October.",
    "A kestrel hovers over the motorway verge.",
    "Tighten the four screws under the lid first.",
    "In the last chapter the detective forgives the thief.",
    "Potatoes keep best in a dark and airy cellar.",
    "The train to the coast was late again.",
]
LOOP = "Here is the revised version of the text."


def test_looping_conversation_has_the_expected_numbers() -> None:
    result = detect(TOPICS[:4] + [LOOP] * 6)
    assert result.turns == 10
    assert result.at_risk_turns == 6
    assert result.collapsed == (8, 9, 10)
    assert result.collapsed_turns == 3
    assert result.collapse_rate == pytest.approx(0.3)
    assert result.at_risk_rate == pytest.approx(0.5)
    assert result.first_collapse_turn == 8
    assert [(e.start, e.end) for e in result.episodes] == [(8, 10)]
    assert result.reason is None


def test_healthy_conversation_has_the_expected_numbers() -> None:
    result = detect(TOPICS)
    assert result.collapsed == ()
    assert result.collapsed_turns == 0
    assert result.collapse_rate == 0
    assert result.first_collapse_turn is None
    assert result.episodes == ()
    assert result.evidence == ()


def test_evidence_names_the_turn_that_is_repeated() -> None:
    alternating = detect([TOPICS[0], TOPICS[1]] * 4)
    assert [(e.turn, e.repeats) for e in alternating.evidence] == [(5, 3), (6, 4), (7, 5), (8, 6)]
    assert alternating.evidence[0].similarity == 1.0
    assert alternating.evidence[0].excerpt == TOPICS[0]
    verbatim = detect([LOOP] * 5)
    assert [(e.turn, e.repeats) for e in verbatim.evidence] == [(5, 4)]


def test_long_excerpts_are_truncated() -> None:
    excerpt = detect(["All work and no play. " * 20] * 5).evidence[0].excerpt
    assert len(excerpt) == 80
    assert excerpt.endswith("…")


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_short_conversations_get_no_verdict(turns: int) -> None:
    result = detect([LOOP] * turns)
    assert result.collapse_rate is None
    assert result.at_risk_rate is None
    assert result.collapsed_turns is None
    assert result.reason == f"no verdict: {turns} judged turns, and the rule needs 5"


def test_separate_loops_are_separate_episodes() -> None:
    result = detect([TOPICS[0]] * 5 + TOPICS[3:6] + [TOPICS[8]] * 5)
    assert [(e.start, e.end) for e in result.episodes] == [(5, 5), (12, 13)]


def caveats(texts: Sequence[str]) -> dict[str, int]:
    return {caveat.code: caveat.count for caveat in detect(texts).warnings}


def test_blank_turns_are_counted() -> None:
    assert caveats([*TOPICS, "", "  ", "..."]) == {"blank_turns": 3}


def test_truncated_turns_are_counted() -> None:
    assert caveats([*TOPICS, "word " * 300]) == {"truncated_turns": 1}


def test_broken_characters_are_counted() -> None:
    assert caveats([*TOPICS, "half \ud83d a pair"]) == {"repaired_turns": 1}


def test_longer_cycle_is_a_warning_and_does_not_count() -> None:
    result = detect(TOPICS[:3] * 5)
    assert result.collapsed == ()
    assert {caveat.code: caveat.count for caveat in result.warnings} == {"longer_cycle": 10}


def test_collapsed_turns_are_not_reported_as_a_longer_cycle() -> None:
    # Every turn repeats the third before it as well, but the rule has counted them.
    assert caveats([LOOP] * 12) == {}
    # Turns 4 to 6 repeat the three before; from turn 10 on all are collapsed.
    result = detect(TOPICS[:3] * 2 + [TOPICS[3]] * 8)
    assert result.collapsed == tuple(range(10, 15))
    assert {caveat.code: caveat.count for caveat in result.warnings} == {"longer_cycle": 1}


def test_blank_turns_can_be_left_out() -> None:
    texts = [LOOP, "", LOOP, LOOP, "", LOOP, LOOP, LOOP]
    result = detect(texts, detector=LockedRule(empty="skip"))
    assert result.turns == 6
    assert result.positions == (1, 3, 4, 6, 7, 8)
    assert result.collapsed == (5, 6)


def test_changed_setting_is_reported() -> None:
    assert detect(TOPICS).detector["operating_point"] == "locked"
    changed = detect(TOPICS, detector=LockedRule(s1=0.95))
    assert changed.detector["operating_point"] == "changed"
    assert changed.detector["changed"] == {"s1": 0.95}
    assert detect(TOPICS).detector["drift_redundant"]


def test_positions_point_into_the_whole_conversation() -> None:
    chat = Trajectory(
        "chat",
        tuple(
            turn
            for text in TOPICS[:5]
            for turn in (Turn("Go on.", "user"), Turn(text, "assistant"))
        ),
    )
    result = detect(chat)
    assert result.turns == 5
    assert result.positions == (2, 4, 6, 8, 10)
    assert result.judged == "assistant turns (chat)"
    assert detect(chat, speaker="all").positions == tuple(range(1, 11))


def test_unknown_speaker_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="its speakers: ada, bob"):
        detect(Trajectory("t", (Turn("x", "ada"), Turn("y", "bob"))), speaker="eve")


def test_trace_shows_every_turn() -> None:
    speakers = ["ada", "bob", "cyd"]
    talk = Trajectory("t", tuple(Turn(TOPICS[i % 3], speakers[i % 3]) for i in range(9)))
    trace = detect(talk, trace=True).trace
    assert trace is not None
    first, last = trace[0], trace[-1]
    assert (first.turn, first.position, first.speaker) == (1, 1, "ada")
    assert first.s1 is None
    assert first.lags == (None,) * 5
    assert last.same_speaker == last.lags[2] == 1.0
    assert last.s1 == last.lags[0]
    assert not last.collapsed


def test_many_conversations_do_not_mix() -> None:
    talks = [Trajectory(str(i), (Turn(TOPICS[i]),) * 6) for i in range(10)]
    results = list(detect_all(talks))
    assert [result.id for result in results] == [talk.id for talk in talks]
    assert all(result.collapsed == (5, 6) for result in results)


def test_retroactive_marking_counts_its_own_turns_at_risk() -> None:
    result = detect([LOOP] * 10, detector=LockedRule(marking="retroactive"))
    assert result.collapsed == tuple(range(3, 11))
    assert result.at_risk_turns == 8
    assert LOCKED.first_turn_at_risk == 5
