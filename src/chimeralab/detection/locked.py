"""The locked collapse detector: similarity to the last two turns, sustained for three turns.

A turn is periodic when it is close to the turn before it (s1) or to the one before that (s2). It is
collapsed when it ends a run of `window` periodic turns and its drift is low. The thresholds are
preregistered; where the preregistration is ambiguous, each reading has a name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any, Literal, get_args

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import cutoff
from chimeralab.core.records import Record
from chimeralab.detection.seam import Cutoff, Detector, Needs, Observation, Signal, docstring_of

# 1 - 0.90 <= 0.10 is false in binary arithmetic, so every test compares s, with this slack.
TOLERANCE = 1e-9

FIRST_FLAGGED_TURN = 3

NOT_LIVE = "it marks turns that have passed; use marking='causal'"

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


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not (isinstance(value, int | float) and low <= value <= high):
        bounds = f"a number from {low:g} to {high:g}" if isfinite(high) else f"at least {low:g}"
        raise InputError(f"{name} must be {bounds}, not {value!r}")


@dataclass(frozen=True, slots=True)
class LockedRule(Record, Detector):
    """The locked rule; its defaults are the preregistered operating point."""

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
        """Itself; a subclass may follow a rule that the grid of thresholds does not cover."""
        return self if type(self) is LockedRule else None

    @property
    def needs(self) -> Needs:
        return Needs(
            lags=2,
            cutoffs=self.cutoffs,
            turns=self.turns_needed,
            first_turn_at_risk=self.first_turn_at_risk,
            skip_blank=self.empty == "skip",
            why_not_live=None if self.marking == "causal" else NOT_LIVE,
        )

    def describe(self) -> dict[str, Any]:
        return Detector.describe(self) | {"drift_redundant": self.drift_redundant}

    @property
    def drift_redundant(self) -> bool:
        """Whether no periodic turn can fail the drift test, as at the locked operating point."""
        s1, s2 = 1 - self.d1 - TOLERANCE, 1 - self.d2 - TOLERANCE
        return self.drift != "both" and self.s1 >= s1 and self.s2 >= s2

    @property
    def turns_needed(self) -> int:
        """The number of judged turns that a verdict requires."""
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
        """Open a stream, which always marks causally: it can't change past turns."""
        return LockedStream(self)

    def judge(self, observations: Iterable[Observation]) -> list[Signal]:
        """Judge a whole conversation.

        >>> from chimeralab import Turn
        >>> same = Observation(Turn("Again."), (1.0, 1.0))
        >>> [signal.turn for signal in LOCKED.judge([same] * 6) if signal.collapsed]
        [5, 6]
        """
        stream = self.start()
        signals = [stream.update(each) for each in observations]
        return _mark_whole_runs(self, signals) if self.marking == "retroactive" else signals

    def cycles_missed(self, observations: Sequence[Observation], signals: Sequence[Signal]) -> int:
        """The number of turns that repeat at a lag of 3 or more and are not collapsed."""
        longest = 0
        for lag in range(2, len(observations[0].lags) if observations else 0):
            run = repeats = 0
            for each, signal in zip(observations, signals, strict=True):
                run = run + 1 if each.lags[lag] >= self.s2 and not signal.collapsed else 0
                repeats += run >= self.window
            longest = max(longest, repeats)
        return longest


LOCKED = LockedRule()
# The class's first public name; `from chimeralab import Locked` keeps working.
Locked = LockedRule


class LockedStream:
    """The locked rule, turn by turn."""

    def __init__(self, settings: LockedRule) -> None:
        self._settings = settings
        self._turn = 0
        self._run = self._run1 = self._run2 = 0

    def update(self, seen: Observation, /) -> Signal:
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
        return _mark(signal, run >= settings.window and _drift_is_low(settings, signal))


def _mark(signal: Signal, collapsed: bool) -> Signal:
    """Add the verdict to a signal, and which of the two turns before it repeats."""
    nearer = signal.period1 and (not signal.period2 or signal.s1 >= signal.s2)
    repeats = signal.turn - (1 if nearer else 2) if collapsed else None
    return signal._replace(collapsed=collapsed, repeats=repeats)


def _drift_is_low(settings: LockedRule, signal: Signal) -> bool:
    low1 = signal.s1 >= 1 - settings.d1 - TOLERANCE
    low2 = signal.s2 >= 1 - settings.d2 - TOLERANCE
    if settings.drift == "both":
        return low1 and low2
    if settings.drift == "either":
        return low1 or low2
    return (signal.period1 and low1) or (signal.period2 and low2)


def _mark_whole_runs(settings: LockedRule, signals: list[Signal]) -> list[Signal]:
    """Mark every sustained run from its first turn on, not only from the one that completes it."""
    if settings.sustain == "either":
        sustained = _long_runs([s.period1 or s.period2 for s in signals], settings.window)
    else:
        sustained = _long_runs([s.period1 for s in signals], settings.window)
        sustained |= _long_runs([s.period2 for s in signals], settings.window)
    return [_mark(s, s.turn in sustained and _drift_is_low(settings, s)) for s in signals]


def _long_runs(flags: list[bool], window: int) -> set[int]:
    """The turns, from 1, in runs of at least `window` flags."""
    turns: set[int] = set()
    for flag, run in groupby(enumerate(flags, start=1), key=lambda item: item[1]):
        members = [turn for turn, _ in run]
        if flag and len(members) >= window:
            turns.update(members)
    return turns
