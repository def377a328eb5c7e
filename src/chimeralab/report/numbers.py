"""Numbers as a reader meets them: each with its unit, its interval, or the reason why it is –."""

from typing import NamedTuple

from chimeralab.analysis.selfplay.outcomes import Measure
from chimeralab.core.numbers import NO_BREAK, NONE, between, number
from chimeralab.stats.intervals import Interval


class Unit(NamedTuple):
    """How the values of a measure, and differences between them, are written."""

    name: str
    scale: float
    digits: int
    value: str
    difference: str

    @property
    def percent(self) -> bool:
        return self.value == f"{NO_BREAK}%"


SHARE = Unit("share of collapsed turns", 100, 1, f"{NO_BREAK}%", f"{NO_BREAK}points")
UNITS: dict[Measure, Unit] = {
    "share": SHARE,
    "at_risk_share": SHARE._replace(name="share of collapsed turns at risk"),
    "incidence": SHARE._replace(name="share of runs with any collapse"),
    "restricted_mean": Unit(
        "mean turns to the first collapse", 1, 1, f"{NO_BREAK}turns", f"{NO_BREAK}turns"
    ),
}


def estimate(value: float | None, interval: Interval | None, unit: Unit) -> str:
    """A value with its interval.

    >>> estimate(0.287, Interval(0.242, 0.331), SHARE)
    '28.7\\xa0% (24.2 to 33.1)'
    >>> estimate(0.287, None, SHARE)
    '28.7\\xa0% (–)'
    """
    if value is None:
        return NONE
    shown = number(value, unit.digits, unit.scale) + unit.value
    return f"{shown} ({_interval(interval, unit, sign=False)})"


def difference(value: float | None, interval: Interval | None, unit: Unit) -> str:
    """A difference with its interval, signed.

    >>> difference(-0.1, Interval(-0.2, 0.05), SHARE)
    '−10.0\\xa0points (−20.0 to +5.0)'
    """
    if value is None:
        return NONE
    shown = number(value, unit.digits, unit.scale, sign=True) + unit.difference
    return f"{shown} ({_interval(interval, unit, sign=True)})"


def _interval(interval: Interval | None, unit: Unit, *, sign: bool) -> str:
    return between(interval, unit.digits, unit.scale, sign=sign)
