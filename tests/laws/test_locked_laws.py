"""Laws of the locked detector on random conversations."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.records import Turn
from chimeralab.detection.locked import LOCKED, READINGS, LockedRule
from chimeralab.detection.measure import lag_similarities
from chimeralab.detection.seam import Observation


def observe(s1: float, s2: float, blank: bool = False) -> Observation:
    """A turn with these similarities to the two turns before it."""
    return Observation(Turn(""), (s1, s2), blank)


# Thresholds and similarities from one coarse grid, so that equality happens often.
levels = st.sampled_from([0.0, 0.5, 0.86, 0.88, 0.90, 0.91, 0.92, 0.93, 0.96, 1.0])
observations = st.builds(observe, levels, levels, st.booleans())
talks = st.lists(observations, max_size=60)
drifts = st.sampled_from([0.0, 0.04, 0.06, 0.08, 0.10, 0.12, 0.3])
detectors = st.builds(
    LockedRule,
    s1=levels,
    s2=levels,
    d1=drifts,
    d2=drifts,
    window=st.integers(1, 5),
    **{name: st.sampled_from(choices) for name, choices in READINGS.items()},
)


def collapsed(detector: LockedRule, talk: list[Observation]) -> set[int]:
    return {signal.turn for signal in detector.judge(talk) if signal.collapsed}


def by_definition(detector: LockedRule, talk: list[Observation]) -> set[int]:
    """The rule read off its definition, turn by turn, looking at whole windows."""

    def at_least(value: float, bound: float) -> bool:
        return value >= bound - 1e-9

    def flags(turn: int) -> tuple[bool, bool]:
        lag = talk[turn - 1]
        if turn < 3 or (detector.empty == "break" and lag.blank):
            return False, False
        return at_least(lag.s1, detector.s1), at_least(lag.s2, detector.s2)

    def holds(kind: str, turn: int) -> bool:
        p1, p2 = flags(turn)
        return {"or": p1 or p2, "p1": p1, "p2": p2}[kind]

    def low(turn: int) -> bool:
        low1 = at_least(talk[turn - 1].s1, 1 - detector.d1)
        low2 = at_least(talk[turn - 1].s2, 1 - detector.d2)
        p1, p2 = flags(turn)
        return {
            "both": low1 and low2,
            "either": low1 or low2,
            "matched": (p1 and low1) or (p2 and low2),
        }[detector.drift]

    kinds = ["or"] if detector.sustain == "either" else ["p1", "p2"]
    windows = [
        range(end - detector.window + 1, end + 1)
        for end in range(detector.window, len(talk) + 1)
        for kind in kinds
        if all(holds(kind, turn) for turn in range(end - detector.window + 1, end + 1))
    ]
    if detector.marking == "causal":
        candidates = {window[-1] for window in windows}
    else:
        candidates = {turn for window in windows for turn in window}
    return {turn for turn in candidates if low(turn)}


@given(detectors, talks)
def test_detector_follows_its_definition(detector: LockedRule, talk: list[Observation]) -> None:
    assert collapsed(detector, talk) == by_definition(detector, talk)


@given(detectors, talks)
def test_stream_and_batch_agree(detector: LockedRule, talk: list[Observation]) -> None:
    causal = replace(detector, marking="causal")
    stream = causal.start()
    assert [stream.update(lag) for lag in talk] == causal.judge(talk)


@given(detectors, talks, talks)
def test_later_turns_never_change_earlier_signals(
    detector: LockedRule, talk: list[Observation], more: list[Observation]
) -> None:
    causal = replace(detector, marking="causal")
    assert causal.judge(talk + more)[: len(talk)] == causal.judge(talk)


@given(detectors, talks, st.sampled_from(["s1", "s2"]), levels)
def test_lowering_a_similarity_threshold_never_removes_a_turn(
    detector: LockedRule, talk: list[Observation], name: str, lower: float
) -> None:
    looser = replace(detector, **{name: min(lower, getattr(detector, name))})
    assert collapsed(detector, talk) <= collapsed(looser, talk)


@given(detectors, talks, st.sampled_from(["d1", "d2"]), drifts)
def test_raising_a_drift_threshold_never_removes_a_turn(
    detector: LockedRule, talk: list[Observation], name: str, higher: float
) -> None:
    looser = replace(detector, **{name: max(higher, getattr(detector, name))})
    assert collapsed(detector, talk) <= collapsed(looser, talk)


@given(talks)
def test_nothing_collapses_before_the_fifth_turn(talk: list[Observation]) -> None:
    assert all(turn >= 5 for turn in collapsed(LOCKED, talk))


@given(detectors, talks)
def test_redundant_drift_test_changes_nothing(
    detector: LockedRule, talk: list[Observation]
) -> None:
    if detector.drift_redundant:
        without = replace(detector, d1=2.0, d2=2.0)
        assert collapsed(detector, talk) == collapsed(without, talk)


@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.floats(0.1, 50))
def test_scaling_the_vectors_changes_nothing(seed: int, turns: int, factor: float) -> None:
    rng = np.random.default_rng(seed)
    # Few directions with a little noise, so that conversations do loop.
    directions = rng.normal(size=(3, 8))
    vectors = directions[rng.integers(0, 3, turns)] + 0.05 * rng.normal(size=(turns, 8))
    scaled = (vectors * factor).astype(np.float32)
    one, other = (lag_similarities(v.astype(np.float32), 2) for v in (vectors, scaled))
    np.testing.assert_allclose(one, other, atol=1e-6)
    near = np.abs(one[:, :, None] - np.array([0.90, 0.92])) < 1e-5
    if not near.any():
        assert collapsed(LOCKED, [observe(*row) for row in one.tolist()]) == collapsed(
            LOCKED, [observe(*row) for row in other.tolist()]
        )
