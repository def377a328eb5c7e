"""The locked rule on hand-made vectors: the published test vectors and every named reading."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Turn
from chimeralab.detection.locked import LOCKED, LockedRule, Marking
from chimeralab.detection.measure import lag_similarities
from chimeralab.detection.seam import Observation, Signal

UNRELATED = list(range(40))


def observe(s1: float, s2: float, blank: bool = False) -> Observation:
    """A turn with these similarities to the two turns before it."""
    return Observation(Turn(""), (s1, s2), blank)


def collapsed(turns: list[int], detector: LockedRule = LOCKED) -> list[int]:
    """Collapsed turns of a conversation in which equal numbers stand for equal texts."""
    vectors = np.eye(max(turns) + 1, dtype=np.float32)[turns]
    table = lag_similarities(vectors, 2)
    signals = detector.judge(observe(s1, s2) for s1, s2 in table.tolist())
    return [signal.turn for signal in signals if signal.collapsed]


def with_repeat(first: int, last: int) -> list[int]:
    """Forty unrelated turns, but those from `first` to `last` (counted from 1) are the same."""
    return [first if first <= turn <= last else turn for turn in range(1, 41)]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        pytest.param([0] * 40, list(range(5, 41)), id="40 identical"),
        pytest.param([0, 1] * 20, list(range(5, 41)), id="alternating A B"),
        pytest.param(([0, 1, 2] * 14)[:40], [], id="cycle A B C"),
        pytest.param(with_repeat(11, 13), [], id="three identical"),
        pytest.param(with_repeat(11, 14), [14], id="four identical"),
        pytest.param(with_repeat(11, 15), [14, 15], id="five identical"),
        pytest.param(UNRELATED, [], id="unrelated"),
    ],
)
def test_published_vectors_collapse_as_published(turns: list[int], expected: list[int]) -> None:
    assert collapsed(turns) == expected


def test_alternation_is_not_collapse_if_both_drifts_must_be_low() -> None:
    assert collapsed([0, 1] * 20, replace(LOCKED, drift="both")) == []


def test_retroactive_marking_goes_back_to_the_first_periodic_turn() -> None:
    assert collapsed(with_repeat(11, 14), replace(LOCKED, marking="retroactive")) == [12, 13, 14]


def test_retroactive_marking_leaves_short_runs_alone() -> None:
    assert collapsed(with_repeat(11, 13), replace(LOCKED, marking="retroactive")) == []


def test_same_flag_reading_needs_three_of_one_kind() -> None:
    # Turns 3 and 4 repeat at lag 1, turn 5 at lag 2 only: three periodic turns, no three alike.
    lags = [
        observe(np.nan, np.nan),
        observe(0, np.nan),
        observe(1, 0),
        observe(1, 0),
        observe(0, 1),
    ]
    assert [s.turn for s in LOCKED.judge(lags) if s.collapsed] == [5]
    same = replace(LOCKED, sustain="same")
    assert not any(signal.collapsed for signal in same.judge(lags))
    retroactive = replace(same, marking="retroactive")
    assert not any(signal.collapsed for signal in retroactive.judge(lags))


@pytest.mark.parametrize("marking", ["causal", "retroactive"])
def test_same_flag_reading_counts_three_at_the_second_lag(marking: Marking) -> None:
    detector = replace(LOCKED, sustain="same", marking=marking)
    first = detector.first_turn_at_risk
    assert collapsed([0, 1] * 20, detector) == list(range(first, 41))
    # Two at the second lag, one at the first, then one at the second again: never three alike.
    mixed = [
        observe(0, 0),
        observe(0, 0),
        observe(0, 1),
        observe(0, 1),
        observe(1, 0),
        observe(0, 1),
        observe(0, 1),
    ]
    assert not any(signal.collapsed for signal in detector.judge(mixed))


def test_blank_turns_can_break_a_run() -> None:
    lags = [observe(1.0, 1.0, blank=turn == 5) for turn in range(1, 8)]
    breaking = replace(LOCKED, empty="break")
    assert [s.turn for s in LOCKED.judge(lags) if s.collapsed] == [5, 6, 7]
    assert [s.turn for s in breaking.judge(lags) if s.collapsed] == []


def test_similarity_on_the_threshold_counts() -> None:
    on_it = [observe(0.92, 0.0)] * 5
    under_it = [observe(0.92 - 1e-6, 0.0)] * 5
    assert LOCKED.judge(on_it)[-1].collapsed
    assert not LOCKED.judge(under_it)[-1].collapsed


def test_drift_on_the_threshold_is_low() -> None:
    # 1 - 0.90 is above 0.10 in binary arithmetic.
    assert LOCKED.judge([observe(0.0, 0.90)] * 5)[-1].collapsed


def test_drift_tighter_than_the_flags_takes_turns_out_of_the_run() -> None:
    tight = replace(LOCKED, d1=0.02, d2=0.02)
    lags = [observe(0.93, 0.0)] * 6 + [observe(0.99, 0.0)]
    assert [s.turn for s in tight.judge(lags) if s.collapsed] == [7]
    assert not tight.drift_redundant


def test_locked_operating_point_reports_its_drift_test_as_redundant() -> None:
    assert LOCKED.drift_redundant
    assert not replace(LOCKED, drift="both").drift_redundant


def test_operating_point_is_the_preregistered_one() -> None:
    point = (LOCKED.s1, LOCKED.s2, LOCKED.d1, LOCKED.d2, LOCKED.window)
    assert point == (0.92, 0.90, 0.08, 0.10, 3)


def test_changed_settings_are_named() -> None:
    assert LOCKED.changed == {}
    assert LockedRule(s1=0.9, drift="both").changed == {"s1": 0.9, "drift": "both"}


def test_every_cutoff_is_listed_for_the_guard_band() -> None:
    cutoffs = {(cutoff.lag, round(cutoff.value, 6)) for cutoff in LockedRule(d1=0.06).cutoffs}
    assert cutoffs == {(1, 0.92), (1, 0.94), (2, 0.90)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"s1": 1.5}, "s1 must be a number from -1 to 1, not 1.5"),
        ({"d2": -0.1}, "d2 must be a number from 0 to 2, not -0.1"),
        ({"s2": float("nan")}, "s2 must be a number from -1 to 1, not nan"),
        ({"window": 0}, "window must be at least 1, not 0"),
        ({"drift": "loose"}, "unknown drift 'loose'; known: matched, both, either"),
    ],
)
def test_impossible_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", "\\(")):
        LockedRule(**settings)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Stricter(LockedRule):
    window: int = 5


@dataclass(frozen=True)
class Silent(LockedRule):
    def judge(self, seen: Iterable[Observation]) -> list[Signal]:
        return []


def test_subclass_has_its_own_name_and_no_thresholds_to_vary() -> None:
    stricter = Stricter()
    assert (stricter.name, stricter.standard, stricter.changed) == ("Stricter", "default", {})
    assert stricter.describe()["operating_point"] == "default"
    assert Stricter(window=4).describe()["operating_point"] == "changed"
    assert stricter.thresholds is None
    assert LOCKED.thresholds is LOCKED


def test_subclass_with_another_rule_describes_itself() -> None:
    assert "from the third repeat in a row on" in LOCKED.rule
    assert "from the 5th repeat in a row on" in Stricter().rule
    assert Silent().rule == "a rule without a description"
