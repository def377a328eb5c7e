"""Numbers as a reader meets them: each with its unit, its interval, or the reason why it is –."""

from typing import NamedTuple

from chimeralab.analysis.estimands import Measure
from chimeralab.stats.intervals import Interval

NONE = "–"
THIN = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"


class Unit(NamedTuple):
    """How the values of a measure, and differences between them, are written."""

    name: str
    scale: float
    digits: int
    value: str
    difference: str

    @property
    def percent(self) -> bool:
        return self.value == f"{THIN}%"


SHARE = Unit("share of collapsed turns", 100, 1, f"{THIN}%", f"{THIN}points")
UNITS: dict[Measure, Unit] = {
    "share": SHARE,
    "at_risk_share": SHARE._replace(name="share of collapsed turns at risk"),
    "incidence": SHARE._replace(name="share of runs with any collapse"),
    "restricted_mean": Unit(
        "mean turns to the first collapse", 1, 1, f"{THIN}turns", f"{THIN}turns"
    ),
}


def number(value: float | None, digits: int, scale: float = 1, *, sign: bool = False) -> str:
    """A rounded number with a real minus sign.

    >>> number(-0.0312, 1, 100), number(0.2, 1, 100, sign=True), number(None, 1)
    ('−3.1', '+20.0', '–')
    """
    if value is None:
        return NONE
    rounded = round(scale * value, digits) + 0.0
    plus = "+" if sign and rounded else ""
    return f"{rounded:{plus},.{digits}f}".replace("-", MINUS)


def between(interval: Interval | None, digits: int, scale: float = 1, *, sign: bool = False) -> str:
    """Both bounds of an interval.

    >>> between(Interval(0.242, 0.331), 1, 100)
    '24.2 to 33.1'
    """
    if interval is None:
        return NONE
    return " to ".join(number(bound, digits, scale, sign=sign) for bound in interval)


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


def p_value(p: float | None) -> str:
    """A p-value as papers print it.

    >>> p_value(0.01634), p_value(2.8e-22), p_value(None)
    ('0.016', '< 0.001', '–')
    """
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_phrase(p: float | None) -> str:
    """The same after its letter.

    >>> p_phrase(0.2), p_phrase(1e-9)
    ('p = 0.200', 'p < 0.001')
    """
    if p is None:
        return "no p"
    shown = p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count and its noun.

    >>> counted(1, "run"), counted(2_000, "run"), counted(2, "bucket of prompts", "buckets")
    ('1 run', '2,000 runs', '2 buckets')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
