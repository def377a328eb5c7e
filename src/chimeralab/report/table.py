"""A table for a page and for a file: the page shows rounded numbers, the file has all of them."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any, NamedTuple

from chimeralab.core.numbers import NONE


class Cell(NamedTuple):
    """What stands in a cell, and the mark of the note that explains it."""

    text: str
    mark: str = ""


class Dash(NamedTuple):
    """A number that there is not, and why; `shown` is what there is beside it."""

    reason: str
    shown: str = NONE


class Note(NamedTuple):
    """The reason behind a – in a table."""

    mark: str
    text: str


class Table(NamedTuple):
    """A table under the name of its file. `words` are the columns that hold no numbers."""

    name: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[Note]
    words: frozenset[int]
    raw: Sequence[Mapping[str, Any]]


Shown = str | Dash


def table(
    name: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Shown]],
    raw: Sequence[Mapping[str, Any]],
    *,
    words: Sequence[int] = (0,),
) -> Table:
    """Set up a table; equal reasons share one note.

    >>> found = table("t", ("a", "b"), [["x", Dash("why")], ["y", Dash("why")]], [])
    >>> found.rows[1], found.notes
    ((Cell(text='y', mark=''), Cell(text='–', mark='a')), [Note(mark='a', text='why')])
    """
    reasons = dict.fromkeys(c.reason for row in rows for c in row if isinstance(c, Dash))
    marks = {reason: _mark(place) for place, reason in enumerate(reasons)}
    cells = [tuple(_cell(shown, marks) for shown in row) for row in rows]
    notes = [Note(mark, in_prompts(reason)) for reason, mark in marks.items()]
    return Table(name, headings, cells, notes, frozenset(words), raw)


def _mark(place: int) -> str:
    """a to z, then aa and so on."""
    return ascii_lowercase[place % 26] * (1 + place // 26)


def _cell(shown: Shown, marks: Mapping[str, str]) -> Cell:
    return Cell(shown.shown, marks[shown.reason]) if isinstance(shown, Dash) else Cell(shown)


def known(text: str, value: Any, reason: str | None) -> Shown:
    """The text of a number, or a dash with its reason when there is no number."""
    return text if value is not None else Dash(reason or "unknown")


def in_prompts(reason: str) -> str:
    """A reason in the words of a study, where clusters are always prompts.

    >>> in_prompts("the clusters do not differ at all")
    'the prompts do not differ at all'
    """
    return reason.replace("cluster", "prompt")


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one row of a file: intervals as two columns, reasons as one.

    >>> flat({"mean": 0.5, "cluster_ci": [0.4, 0.6], "reasons": {"icc": "one run"}})
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
