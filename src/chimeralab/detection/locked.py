"""The locked collapse detector: similarity to the last two turns, sustained for three turns.

A turn is periodic when it is close to the turn before it (s1) or to the one before that (s2). A
turn is collapsed when it ends a run of `window` periodic turns and has drifted little. Thresholds
are preregistered; the named readings are the places where the preregistration leaves room.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple, get_args

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import cutoff
from chimeralab.core.records import Record
from chimeralab.detection.seam import Cutoff, Detector, Needs, Observation, Signal, docstring_of

# 1 - 0.90 <= 0.10 is false in binary arithmetic: all tests are written on s, with this slack.
TOLERANCE = 1e-9

FIRST_FLAGGED_TURN = 3

LOOKS_BACK = "it marks turns that have passed; use marking='causal'"

Sustain = Literal["either", "same"]
DriftTest = Literal["matched", "both", "either"]
Marking = Literal["causal", "retroactive"]
Empty = Literal["embed", "break", "skip"]

READINGS: dict[str, tuple[str, ...]] = {
    "sustain": get_args(Sustain),
    "drift": get_args(DriftTest),
    "marking": get_args(Marking),
    "empty": get_args(Empty),
}


class Lags(NamedTuple):
    """What the detector sees of one turn: its similarity to the last turn and to the one before.

    NaN stands where there is no such turn.
    """

    s1: float
    s2: float
    blank: bool = False


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} is {value}; it takes a number from {low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class LockedRule(Record, Detector):
    """Settings of the detector. The defaults are the locked operating point."""

    s1: float = 0.92
    s2: float = 0.90
    d1: float = 0.08
    d2: float = 0.10
    window: int = 3
    sustain: Sustain = "either"
    drift: DriftTest = "matched"
    marking: Marking = "causal"
    empty: Empty = "embed"

    def __post_init__(self) -> None:
        for name, low, high in (("s1", -1, 1), ("s2", -1, 1), ("d1", 0, 2), ("d2", 0, 2)):
            _check_range(name, getattr(self, name), low, high)
        _check_range("window", self.window, 1, float("inf"))
        for name, choices in READINGS.items():
            if getattr(self, name) not in choices:
                known = ", ".join(choices)
                raise InputError(f"unknown {name} {getattr(self, name)!r}; known: {known}")

    @property
    def name(self) -> str:
        return "locked" if type(self) is LockedRule else type(self).__name__

    @property
    def standard(self) -> str:
        return "locked" if type(self) is LockedRule else "default"

    @property
    def rule(self) -> str:
        cls = type(self)
        if (cls.start, cls.judge) != (LockedRule.start, LockedRule.judge):
            return docstring_of(cls)
        ordinals = {1: "first", 2: "second", 3: "third", 4: "fourth"}
        ordinal = ordinals.get(self.window, f"{self.window}th")
        return (
            f"a turn repeats when its cosine similarity to the turn before is at least "
            f"{cutoff(self.s1)} (s1), or to the one before that at least {cutoff(self.s2)} "
            f"(s2); from the {ordinal} repeat in a row on, turns count as collapsed"
        )

    @property
    def thresholds(self) -> "LockedRule | None":
        """Itself; a subclass may follow another rule, which the grid of thresholds is not about."""
        return self if type(self) is LockedRule else None

    @property
    def needs(self) -> Needs:
        return Needs(
            lags=2,
            cutoffs=self.cutoffs,
            turns=self.turns_needed,
            first_turn_at_risk=self.first_turn_at_risk,
            skip_blank=self.empty == "skip",
            why_not_live=None if self.marking == "causal" else LOOKS_BACK,
        )

    def describe(self) -> dict[str, Any]:
        return Detector.describe(self) | {"drift_redundant": self.drift_redundant}

    @property
    def drift_redundant(self) -> bool:
        """Whether the drift test can never fail on a periodic turn, as at the locked point."""
        s1, s2 = 1 - self.d1 - TOLERANCE, 1 - self.d2 - TOLERANCE
        return self.drift != "both" and self.s1 >= s1 and self.s2 >= s2

    @property
    def turns_needed(self) -> int:
        """A shorter conversation gets no verdict."""
        return FIRST_FLAGGED_TURN + self.window - 1

    @property
    def first_turn_at_risk(self) -> int:
        """The first turn that can be marked as collapsed."""
        return self.turns_needed if self.marking == "causal" else FIRST_FLAGGED_TURN

    @property
    def cutoffs(self) -> tuple[Cutoff, ...]:
        by_lag = ((1, self.s1), (1, 1 - self.d1), (2, self.s2), (2, 1 - self.d2))
        return tuple(Cutoff(lag, value) for lag, value in by_lag)

    def start(self) -> "LockedStream":
        """A stream that judges turn by turn. It marks causally: live, nothing can look back."""
        return LockedStream(self)

    def judge(self, seen: Iterable[Lags | Observation]) -> list[Signal]:
        """Judge a whole conversation.

        >>> [signal.turn for signal in LOCKED.judge([Lags(1.0, 1.0)] * 6) if signal.collapsed]
        [5, 6]
        """
        stream = self.start()
        signals = [stream.update(each) for each in seen]
        return _look_back(self, signals) if self.marking == "retroactive" else signals

    def cycles_missed(self, seen: Sequence[Observation], signals: Sequence[Signal]) -> int:
        """Turns in a sustained repetition at a lag that the rule can't see, not collapsed."""
        longest = 0
        for lag in range(2, len(seen[0].lags) if seen else 0):
            run = repeats = 0
            for each, signal in zip(seen, signals, strict=True):
                run = run + 1 if each.lags[lag] >= self.s2 and not signal.collapsed else 0
                repeats += run >= self.window
            longest = max(longest, repeats)
        return longest


LOCKED = LockedRule()
# The class's first public name; `from chimeralab import Locked` keeps working.
Locked = LockedRule


class LockedStream:
    """Judges one conversation as it goes on."""

    def __init__(self, settings: LockedRule) -> None:
        self._settings = settings
        self._turn = 0
        self._run = self._run1 = self._run2 = 0

    def update(self, seen: Lags | Observation, /) -> Signal:
        """Take the next turn and say whether it is collapsed."""
        settings = self._settings
        self._turn += 1
        period1 = period2 = False
        breaks = seen.blank and settings.empty == "break"
        if self._turn >= FIRST_FLAGGED_TURN and not breaks:
            period1 = seen.s1 >= settings.s1 - TOLERANCE
            period2 = seen.s2 >= settings.s2 - TOLERANCE
        self._run = self._run + 1 if period1 or period2 else 0
        self._run1 = self._run1 + 1 if period1 else 0
        self._run2 = self._run2 + 1 if period2 else 0
        run = max(self._run1, self._run2) if settings.sustain == "same" else self._run
        signal = Signal(self._turn, seen.s1, seen.s2, period1, period2, self._run)
        return _marked(signal, run >= settings.window and _drift_is_low(settings, signal))


def _marked(signal: Signal, collapsed: bool) -> Signal:
    """The signal with its verdict, and of the two turns before, the one that it repeats."""
    nearer = signal.period1 and (not signal.period2 or signal.s1 >= signal.s2)
    repeats = signal.turn - (1 if nearer else 2) if collapsed else None
    return signal._replace(collapsed=collapsed, repeats=repeats)


def _drift_is_low(settings: LockedRule, seen: Signal) -> bool:
    low1 = seen.s1 >= 1 - settings.d1 - TOLERANCE
    low2 = seen.s2 >= 1 - settings.d2 - TOLERANCE
    if settings.drift == "both":
        return low1 and low2
    if settings.drift == "either":
        return low1 or low2
    return (seen.period1 and low1) or (seen.period2 and low2)


def _look_back(settings: LockedRule, signals: list[Signal]) -> list[Signal]:
    """Mark the whole of every run that was sustained, not only its turns from the third on."""
    if settings.sustain == "either":
        sustained = _long_runs([s.period1 or s.period2 for s in signals], settings.window)
    else:
        sustained = _long_runs([s.period1 for s in signals], settings.window)
        sustained |= _long_runs([s.period2 for s in signals], settings.window)
    return [_marked(s, s.turn in sustained and _drift_is_low(settings, s)) for s in signals]


def _long_runs(flags: list[bool], window: int) -> set[int]:
    """The turns (from 1) that lie in a run of at least `window` flags."""
    turns: set[int] = set()
    for flag, run in groupby(enumerate(flags, start=1), key=lambda item: item[1]):
        members = [turn for turn, _ in run]
        if flag and len(members) >= window:
            turns.update(members)
    return turns
