"""The live guard agrees with the batch."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab import (
    Detector,
    Guard,
    InputError,
    LockedRule,
    Needs,
    Observation,
    Signal,
    Trajectory,
    Turn,
    detect,
)
from chimeralab.detection.seam import Cutoff
from chimeralab.embedding.encoder import Encoder

TEXTS = ["I will try again.", "I will try it again.", "Open the valve.", "The bell rings.", "..."]


def test_loop_is_caught_at_its_fifth_turn() -> None:
    guard = Guard()
    assert [guard.update("Let me check.").collapsed for _ in range(6)] == [False] * 4 + [True] * 2


@settings(max_examples=50)
@given(st.lists(st.sampled_from(TEXTS), max_size=14), st.sampled_from(["embed", "break"]))
def test_guard_and_batch_agree(texts: list[str], empty: str) -> None:
    detector = LockedRule(empty=empty)  # type: ignore[arg-type]
    guard = Guard(detector)
    live = [guard.update(text) for text in texts]
    batch = detect(texts, detector=detector, trace=True).trace
    assert batch is not None
    assert [s.collapsed for s in live] == [t.collapsed for t in batch]
    assert [s.run for s in live] == [t.run for t in batch]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(TEXTS), max_size=14))
def test_guard_skips_blank_turns_as_the_batch_does(texts: list[str]) -> None:
    detector = LockedRule(empty="skip")
    guard = Guard(detector)
    collapsed = [i for i, text in enumerate(texts, 1) if guard.update(text).collapsed]
    batch = detect(texts, detector=detector)
    assert collapsed == [batch.positions[turn - 1] for turn in batch.collapsed]


def test_guard_rejects_retroactive_marking() -> None:
    with pytest.raises(InputError, match="use marking='causal'"):
        Guard(LockedRule(marking="retroactive"))


@dataclass(frozen=True)
class Parrot(Detector):
    """A speaker says again what that speaker said before."""

    def start(self) -> "Listening":
        return Listening()


class Listening:
    def __init__(self) -> None:
        self.turns = 0
        self.said: set[tuple[str | None, str]] = set()

    def update(self, seen: Observation, /) -> Signal:
        self.turns += 1
        key = (seen.turn.speaker, seen.turn.text)
        again = key in self.said
        self.said.add(key)
        return Signal(self.turns, collapsed=again)


def test_rule_without_similarities_opens_no_encoder_live_or_in_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Encoder, "__init__", lambda *_, **__: pytest.fail("an encoder was opened"))
    turns = tuple(Turn("Yes.", speaker) for speaker in ("ann", "bob", "ann", "bob"))
    guard = Guard(Parrot())
    assert [guard.update(turn).collapsed for turn in turns] == [False, False, True, True]
    found = detect(Trajectory("talk", turns), detector=Parrot(), trace=True)
    assert found.collapsed == (3, 4)
    assert found.evidence == ()
    assert found.detector["name"] == "Parrot"
    assert found.trace is not None
    assert found.trace[-1].lags == ()


@dataclass(frozen=True)
class Far(Detector):
    """A turn is what was said six turns ago."""

    @property
    def needs(self) -> Needs:
        return Needs(lags=6, cutoffs=(Cutoff(6, 0.9),), turns=7)

    def start(self) -> "LookingBack":
        return LookingBack()


class LookingBack:
    turns = 0

    def update(self, seen: Observation, /) -> Signal:
        self.turns += 1
        again = seen.lags[5] >= 0.9
        return Signal(self.turns, collapsed=again, repeats=self.turns - 6 if again else None)


def test_similarities_reach_as_many_lags_back_as_a_rule_needs() -> None:
    texts = [f"{word} are on the table." for word in ("Apples", "Maps", "Bolts", "Keys", "Hats")]
    texts = [*texts, "It rains.", *texts]
    guard = Guard(Far())
    live = [n for n, text in enumerate(texts, 1) if guard.update(text).collapsed]
    found = detect(texts, detector=Far())
    assert live == list(found.collapsed) == [7, 8, 9, 10, 11]
    assert [(each.repeats, each.similarity) for each in found.evidence] == [
        (turn - 6, 1.0) for turn in live
    ]
