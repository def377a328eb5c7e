"""The guard says live what the batch says afterwards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab import Guard, InputError, Locked, detect

TEXTS = ["I will try again.", "I will try it again.", "Open the valve.", "The bell rings.", "..."]


def test_a_loop_is_caught_at_its_fifth_turn() -> None:
    guard = Guard()
    assert [guard.update("Let me check.").collapsed for _ in range(6)] == [False] * 4 + [True] * 2


@settings(max_examples=50)
@given(st.lists(st.sampled_from(TEXTS), max_size=14), st.sampled_from(["embed", "break"]))
def test_guard_and_batch_agree(texts: list[str], empty: str) -> None:
    detector = Locked(empty=empty)  # type: ignore[arg-type]
    guard = Guard(detector)
    live = [guard.update(text) for text in texts]
    batch = detect(texts, detector=detector, trace=True).trace
    assert batch is not None
    assert [s.collapsed for s in live] == [t.collapsed for t in batch]
    assert [s.run for s in live] == [t.run for t in batch]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(TEXTS), max_size=14))
def test_guard_skips_blank_turns_as_the_batch_does(texts: list[str]) -> None:
    detector = Locked(empty="skip")
    guard = Guard(detector)
    collapsed = [i for i, text in enumerate(texts, 1) if guard.update(text).collapsed]
    batch = detect(texts, detector=detector)
    assert collapsed == [batch.positions[turn - 1] for turn in batch.collapsed]


def test_a_guard_cannot_look_back() -> None:
    with pytest.raises(InputError, match="use marking='causal'"):
        Guard(Locked(marking="retroactive"))
