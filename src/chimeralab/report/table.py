"""Numbers and tables for readers: rounded, with units, and with reasons for missing values.

The files of tables have all digits.
"""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any, NamedTuple

from chimeralab.core.numbers import NO_BREAK, NONE, between, number
from chimeralab.stats.intervals import Interval

# Differences with a Holm-corrected p below this are called found.
SIGNIFICANT = 0.05


class Unit(NamedTuple):
    """How values of a measure and differences between them are formatted."""

    scale: float
    digits: int
    value: str
    difference: str

    @property
    def percent(self) -> bool:
        return self.value == f"{NO_BREAK}%"


SHARE = Unit(100, 1, f"{NO_BREAK}%", f"{NO_BREAK}points")
TURNS = Unit(1, 1, f"{NO_BREAK}turns", f"{NO_BREAK}turns")
UNITS: dict[str, Unit] = {
    "share": SHARE,
    "at_risk_share": SHARE,
    "incidence": SHARE,
    "restricted_mean": TURNS,
    "cycle_share": SHARE,
    "cycle_incidence": SHARE,
    "escape": SHARE,
    "relapse": SHARE,
    "turns_to_escape": TURNS,
    "turns_to_relapse": TURNS,
    "turns_free": TURNS,
}


def format_estimate(value: float | None, interval: Interval | None, unit: Unit) -> str:
    """Format a value with its interval.

    >>> format_estimate(0.287, Interval(0.242, 0.331), SHARE)
    '28.7\\xa0% (24.2 to 33.1)'
    >>> format_estimate(0.287, None, SHARE)
    '28.7\\xa0% (–)'
    """
    if value is None:
        return NONE
    shown = number(value, unit.digits, unit.scale) + unit.value
    return f"{shown} ({between(interval, unit.digits, unit.scale)})"


def clip_interval(
    interval: Interval | None, unit: Unit, weights: Mapping[Any, float] | None = None
) -> Interval | None:
    """Cut off what a difference of shares can't be; `weights` are those of a contrast.

    >>> clip_interval(Interval(-1.546, 0.2), SHARE)
    Interval(low=-1.0, high=0.2)
    """
    if interval is None or not unit.percent:
        return interval
    signed = list(weights.values()) if weights else [1.0, -1.0]
    least, most = (sum(each for each in signed if each * sign > 0) for sign in (-1, 1))
    return Interval(max(interval.low, least), min(interval.high, most))


def format_difference(
    value: float | None,
    interval: Interval | None,
    unit: Unit,
    weights: Mapping[Any, float] | None = None,
    *,
    bare: bool = False,
) -> str:
    """Format a signed difference with its interval; `bare` omits the unit.

    >>> format_difference(-0.1, Interval(-0.2, 0.05), SHARE)
    '−10.0\\xa0points (−20.0 to +5.0)'
    """
    if value is None:
        return NONE
    interval = clip_interval(interval, unit, weights)
    shown = (
        format_change(value, unit)
        if not bare
        else number(value, unit.digits, unit.scale, sign=True)
    )
    return f"{shown} ({between(interval, unit.digits, unit.scale, sign=True)})"


def format_change(value: float | None, unit: Unit) -> str:
    """Format a signed difference without its interval.

    >>> format_change(0.1, SHARE)
    '+10.0\\xa0points'
    """
    return (
        NONE
        if value is None
        else number(value, unit.digits, unit.scale, sign=True) + unit.difference
    )


class Dash(NamedTuple):
    """A missing value, the reason, and the text to show (a dash by default)."""

    reason: str
    shown: str = NONE


class Table(NamedTuple):
    """A table, named like its file. `words` are the columns of text.

    A cell is a text and the mark of its note; a note is a mark and the reason behind a –.
    """

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[tuple[str, str]]]
    notes: Sequence[tuple[str, str]]
    words: frozenset[int]
    raw: Sequence[Mapping[str, Any]]


Cell = str | Dash


def make_table(
    name: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    raw: Sequence[Mapping[str, Any]],
    *,
    words: Sequence[int] = (0,),
) -> Table:
    """Build a table; equal reasons share a note.

    >>> found = make_table("t", ("a", "b"), [["x", Dash("why")], ["y", Dash("why")]], [])
    >>> found.rows[1], found.notes
    ((('y', ''), ('–', 'a')), [('a', 'why')])
    """
    reasons = dict.fromkeys(c.reason for row in rows for c in row if isinstance(c, Dash))
    marks = {
        reason: ascii_lowercase[place % 26] * (1 + place // 26)
        for place, reason in enumerate(reasons)
    }
    cells = [
        tuple((c.shown, marks[c.reason]) if isinstance(c, Dash) else (c, "") for c in row)
        for row in rows
    ]
    notes = [(mark, reason) for reason, mark in marks.items()]
    return Table(name, headings, cells, notes, frozenset(words), raw)


def optional_cell(text: str, value: Any, reason: str | None) -> Cell:
    """The text of a value, or a dash with the reason if there is no value."""
    return text if value is not None else Dash(reason or "unknown")


def flatten(record: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a record to a row: intervals become two columns, reasons one.

    >>> flatten({"mean": 0.5, "cluster_ci": [0.4, 0.6], "reasons": {"icc": "one run"}})
    {'mean': 0.5, 'cluster_ci_low': 0.4, 'cluster_ci_high': 0.6, 'reasons': 'icc: one run'}
    """
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name.endswith("ci"):
            row[f"{name}_low"], row[f"{name}_high"] = value or (None, None)
        elif name == "reasons":
            row[name] = "; ".join(f"{key}: {reason}" for key, reason in value.items())
        else:
            row[name] = value
    return row


# Approximate pixels of a digit, and around a number.
DIGIT, TICK_ROOM = 8, 20


def turn_ticks(last_turn: int, width: int) -> list[int]:
    """Ticks at the first turn and at round numbers, as many as fit.

    >>> turn_ticks(20, 240), turn_ticks(1000, 300)
    ([1, 5, 10, 15, 20], [1, 200, 400, 600, 800, 1000])
    """
    room = width // (TICK_ROOM + DIGIT * len(str(last_turn)))
    # A step of two would put 1 and 2 next to each other.
    steps = (1, *(factor * 10**power for power in range(9) for factor in (5, 10, 20)))
    step = next(step for step in steps if last_turn / step <= room)
    return [1, *range(max(step, 2), last_turn + 1, step)]


def ticks_from_0(last: int, width: int) -> list[int]:
    """Ticks at round numbers of turns from 0 on, as many as fit.

    >>> ticks_from_0(40, 200), ticks_from_0(3, 200)
    ([0, 10, 20, 30, 40], [0, 1, 2, 3])
    """
    first, *rest = turn_ticks(last, width)
    return [0, *([first] if rest[:1] == [first + 1] else []), *rest]
