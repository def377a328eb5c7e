"""A surface for charts whose rows carry their own labels, measured downwards in pixels."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt

from chimeralab.report.charts.timeline import Chart
from chimeralab.report.pages import inert
from chimeralab.report.theme import FAINT_INK, INK, SERIES_COLOURS, SERIES_SHAPES, THEME

Row = dict[str, Any]

# Lines of text on the surface stand this far apart.
LINE = 16
# A letter takes about this many pixels.
LETTER = 6.6
DASHES = ([1, 0], [6, 3], [2, 2])


class Label(NamedTuple):
    """Two lines over a row: what it is about, and its numbers."""

    name: str
    numbers: str


def layered(layers: Sequence[alt.Chart], width: int, height: float) -> Chart:
    """Layers on top of each other, in the look of the project."""
    return alt.LayerChart(layer=list(layers), width=width, height=height, config=THEME)


def data(rows: Iterable[Row]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def down(height: float) -> alt.Scale:
    """Pixels from the top."""
    return alt.Scale(domain=[0, height], nice=False, reverse=True, zero=False)


def labels(
    rows: Sequence[Label], tops: Sequence[float], height: float, width: int
) -> Iterator[alt.Chart]:
    """The labels of all rows at the left edge, readable over whatever runs behind them."""
    names: list[Row] = []
    numbers: list[Row] = []
    for row, top in zip(rows, tops, strict=True):
        names.append({"top": top, "text": fitted(row.name, width, bold=True)})
        numbers.append({"top": top + LINE, "text": fitted(row.numbers, width)})
    halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
    yield _words([*names, *numbers], height, color="white", **halo)
    yield _words(names, height, color=INK, fontWeight="bold")
    yield _words(numbers, height, color=FAINT_INK)


def _words(lines: Sequence[Row], height: float, **look: Any) -> alt.Chart:
    chart = alt.Chart(data(lines))
    mark: alt.Chart = chart.mark_text(align="left", baseline="top", **look)
    top = alt.Y("top:Q", axis=None, scale=down(height))
    return mark.encode(x=alt.value(0), y=top, text="text:N")


def fitted(text: str, width: float, *, bold: bool = False) -> str:
    """The text, or as much of it as has room.

    >>> fitted("a rather long name of a condition", 100)
    'a rather long…'
    """
    text = " ".join(inert(text).split())
    most = max(1, int(width / (LETTER * (1.08 if bold else 1))))
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


class Look(NamedTuple):
    """How one of several series is told from the others: by more than its colour."""

    colour: str
    shape: str
    dash: list[int]


def look(place: int) -> Look:
    """The look of the series at a place; the dashes change where the colours start over.

    >>> look(0).colour == look(5).colour, look(0).shape == look(5).shape
    (True, False)
    """
    turn, first = divmod(place, len(SERIES_COLOURS))
    return Look(
        SERIES_COLOURS[first],
        SERIES_SHAPES[(first + turn) % len(SERIES_SHAPES)],
        list(DASHES[turn % len(DASHES)]),
    )


def series_scales(names: Sequence[str]) -> "Scales":
    """Colour, shape and dash of each of these series, in their order."""
    looks = [look(place) for place in range(len(names))]
    domain = list(names)
    return Scales(
        alt.Scale(domain=domain, range=[each.colour for each in looks]),
        alt.Scale(domain=domain, range=[each.shape for each in looks]),
        alt.Scale(domain=domain, range=[each.dash for each in looks]),
    )


class Scales(NamedTuple):
    """How names become looks."""

    colour: alt.Scale
    shape: alt.Scale
    dash: alt.Scale


def legend(names: Sequence[str], width: int, **look: Any) -> alt.Legend:
    """A legend under the chart, in as many columns as have room."""
    longest = max((len(name) for name in names), default=1) * LETTER + 56
    columns = max(1, min(len(names), int(width // longest)))
    look = {"symbolSize": 80, "labelLimit": width, "columnPadding": 24, **look}
    return alt.Legend(orient="bottom", columns=columns, offset=6, title=None, **look)
