"""Every chart of the project, each a small function from numbers to a picture."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from numpy.typing import NDArray

from chimeralab.core.numbers import cutoff
from chimeralab.report.theme import (
    COLLAPSE,
    COLLAPSE_INK,
    SERIES_COLOURS,
    SERIES_SHAPES,
    SQUARE,
    THEME,
    WIDE,
)

Chart = alt.LayerChart
Row = dict[str, Any]

# Beyond this many turns the points run into one another and the line says it all.
MOST_POINTS = 120
# A digit takes about this many pixels, and a number some room around it.
DIGIT, TICK_ROOM = 8, 20


class Span(NamedTuple):
    """Turns from `start` to `end`, both included."""

    start: int
    end: int


class Line(NamedTuple):
    """One measured quantity over the turns, and the value from which it counts."""

    symbol: str
    name: str
    turns: Sequence[int]
    values: Sequence[float | None]
    threshold: float


def timeline(
    lines: Sequence[Line], shaded: Sequence[Span], last_turn: int, *, width: int = WIDE
) -> Chart:
    """Lines over the turns, their thresholds dashed, collapsed spans shaded."""
    layers = (
        *_shading(shaded),
        *_thresholds(lines, width),
        *_lines(lines, last_turn, width),
    )
    return _themed(layers, width, 220)


def heat_map(spans: Sequence[Span], values: NDArray[np.float64], marked: Sequence[Span]) -> Chart:
    """How alike any two parts of a conversation are: the earlier across, the later downwards.

    `values[i, j]` compares `spans[i]` with `spans[j]`; only j <= i is drawn, and NaN leaves a gap.
    Marked spans get a bar along both axes.
    """
    axis = _turn_axis(spans[-1].end, SQUARE, offset=9)
    scale = _turn_scale(spans[-1].end)
    cells = alt.Chart(_rows(_cells(spans, values))).mark_rect(aria=False)
    squares = cells.encode(
        x=alt.X("from:Q", title="earlier turn", scale=alt.Scale(**scale), axis=axis),
        x2="to:Q",
        y=alt.Y("top:Q", title="later turn", scale=alt.Scale(**scale, reverse=True), axis=axis),
        y2="bottom:Q",
        color=_similarity_colour(),
    )
    layers = (squares, *_edge_bars(marked))
    return _themed(layers, SQUARE, SQUARE)


def to_svg(chart: Chart) -> str:
    """The chart as SVG text for a page, made without a network."""
    text = io.StringIO()
    chart.save(text, format="svg")
    return coarse(text.getvalue())


def coarse(svg: str) -> str:
    """SVG text without decimals far below a pixel, which are half its size; words stay as they are.

    >>> coarse('<path d="M1.23456,2"/><text>p < 0.001</text>')
    '<path d="M1.23,2"/><text>p < 0.001</text>'
    """
    return re.sub(r"<[^<>]+>", lambda tag: _TINY.sub(_two_decimals, tag[0]), svg)


_TINY = re.compile(r"\d+\.\d{3,}")


def _two_decimals(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}"


def to_png(chart: Chart, *, scale: float = 2) -> bytes:
    """The chart as a picture for print and slides, made without a network."""
    picture = io.BytesIO()
    chart.save(picture, format="png", scale_factor=scale)
    return picture.getvalue()


def _themed(layers: Sequence[alt.Chart], width: int, height: int) -> Chart:
    return alt.LayerChart(layer=list(layers), width=width, height=height, config=THEME)


def _rows(rows: Iterable[Row]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def turn_ticks(last_turn: int, width: int) -> list[int]:
    """The first turn and then round numbers, no more than have room.

    >>> turn_ticks(20, 240), turn_ticks(1000, 300)
    ([1, 5, 10, 15, 20], [1, 200, 400, 600, 800, 1000])
    """
    room = width // (TICK_ROOM + DIGIT * len(str(last_turn)))
    # A step of two would set 1 and 2 side by side.
    steps = (1, *(factor * 10**power for power in range(9) for factor in (5, 10, 20)))
    step = next(step for step in steps if last_turn / step <= room)
    return [1, *range(max(step, 2), last_turn + 1, step)]


def _turn_scale(last_turn: int) -> dict[str, Any]:
    return {"domain": [0.5, last_turn + 0.5], "nice": False}


def _turn_axis(last_turn: int, width: int, *, offset: int = 0) -> alt.Axis:
    ticks = turn_ticks(last_turn, width)
    return alt.Axis(values=ticks, grid=False, format="d", offset=offset)


def _edges(spans: Sequence[Span]) -> list[Row]:
    """A turn is drawn as wide as the distance to the next one, so that spans have no gaps."""
    return [{"from": span.start - 0.5, "to": span.end + 0.5} for span in spans]


def _shading(spans: Sequence[Span]) -> Iterator[alt.Chart]:
    area = alt.Chart(_rows(_edges(spans))).mark_rect(color=COLLAPSE, opacity=0.16, aria=False)
    yield area.encode(x="from:Q", x2="to:Q")
    widest = sorted(spans, key=lambda span: span.start - span.end)[:1]
    word = alt.Chart(_rows({"middle": (span.start + span.end) / 2} for span in widest))
    text = word.mark_text(
        text="collapsed", color=COLLAPSE_INK, fontWeight="bold", baseline="bottom", dy=-4
    )
    yield text.encode(x="middle:Q", y=alt.value(0))


def _thresholds(lines: Sequence[Line], width: int) -> Iterator[alt.Chart]:
    """Dashed lines with their values beside them, of which the lowest stands under its line."""
    rows: list[Row] = [
        {
            "name": line.name,
            "at": line.threshold,
            "label": f"{line.symbol} ≥ {cutoff(line.threshold)}",
        }
        for line in sorted(lines, key=lambda line: line.threshold)
    ]
    rules = alt.Chart(_rows(rows)).mark_rule(strokeDash=[5, 3], aria=False)
    yield rules.encode(y="at:Q", color=_name_colour(lines))
    under = alt.Chart(_rows(rows[:1])).mark_text(align="left", dx=5, baseline="top")
    over = alt.Chart(_rows(rows[1:])).mark_text(align="left", dx=5, baseline="bottom")
    for labels in (under, over):
        yield labels.encode(x=alt.value(width), y="at:Q", text="label:N")


def _lines(lines: Sequence[Line], last_turn: int, width: int) -> Iterator[alt.Chart]:
    rows: list[Row] = [
        {"name": line.name, "turn": turn, "value": value}
        for line in lines
        for turn, value in zip(line.turns, line.values, strict=True)
        if value is not None
    ]
    turns = alt.Scale(**_turn_scale(last_turn))
    heights = _similarity_scale([row["value"] for row in rows])
    base = alt.Chart(_rows(rows)).encode(
        x=alt.X("turn:Q", title="judged turn", scale=turns, axis=_turn_axis(last_turn, width)),
        y=alt.Y("value:Q", title="similarity", scale=heights),
        color=_name_colour(lines),
    )
    yield base.mark_line(strokeWidth=1.5, strokeJoin="round", aria=False)
    if last_turn <= MOST_POINTS:
        points = base.mark_point(filled=True, size=36, opacity=1, aria=False)
        yield points.encode(shape=_name_shape(lines))


def _similarity_scale(values: Sequence[float]) -> alt.Scale:
    lowest = min(values, default=0.0)
    return alt.Scale(domain=[min(0.0, np.floor(10 * lowest) / 10), 1], nice=False)


def _name_colour(lines: Sequence[Line]) -> alt.Color:
    names = [line.name for line in lines]
    legend = alt.Legend(orient="bottom", direction="vertical", labelLimit=0, offset=6)
    scale = alt.Scale(domain=names, range=list(SERIES_COLOURS[: len(names)]))
    return alt.Color("name:N", title=None, legend=legend, scale=scale)


def _name_shape(lines: Sequence[Line]) -> alt.Shape:
    names = [line.name for line in lines]
    scale = alt.Scale(domain=names, range=list(SERIES_SHAPES[: len(names)]))
    return alt.Shape("name:N", title=None, scale=scale)


STEPS = tuple(round(0.1 * step, 1) for step in range(10))


def step_name(similarity: float) -> str:
    """The colour step of a similarity, as the legend names it.

    >>> step_name(0.93), step_name(0.9), step_name(-0.2)
    ('0.9 to 1.0', '0.9 to 1.0', 'under 0.1')
    """
    low = max((step for step in STEPS if similarity >= step), default=0.0)
    return f"{low:.1f} to {low + 0.1:.1f}" if low else "under 0.1"


def _similarity_colour() -> alt.Color:
    names = [step_name(step) for step in STEPS]
    # The upper right half of the map is empty: the legend stands there.
    legend = alt.Legend(
        orient="none",
        legendX=SQUARE - 90,
        legendY=-4,
        rowPadding=0,
        symbolType="square",
        symbolSize=150,
    )
    scale = alt.Scale(domain=names, scheme="yellowgreenblue")
    return alt.Color("step:N", title="similarity", legend=legend, scale=scale)


def _cells(spans: Sequence[Span], values: NDArray[np.float64]) -> Iterator[Row]:
    """Neighbours of one colour in a row become one cell: the same picture in fewer pieces."""
    for row, span in enumerate(spans):
        down = {"top": span.start - 0.5, "bottom": span.end + 0.5}
        for step, across in _runs(spans, values[row, : row + 1].tolist()):
            yield {"step": step, **down, "from": across.start - 0.5, "to": across.end + 0.5}


def _runs(spans: Sequence[Span], values: Sequence[float]) -> Iterator[tuple[str, Span]]:
    steps = ("" if np.isnan(value) else step_name(value) for value in values)
    for step, run in groupby(zip(steps, spans, strict=False), key=lambda cell: cell[0]):
        members = [span for _, span in run]
        if step:
            yield step, Span(members[0].start, members[-1].end)


def _edge_bars(spans: Sequence[Span]) -> Iterator[alt.Chart]:
    bar = alt.Chart(_rows(_edges(spans))).mark_rect(color=COLLAPSE, aria=False)
    yield bar.encode(y="from:Q", y2="to:Q", x=alt.value(-8), x2=alt.value(-2))
    yield bar.encode(x="from:Q", x2="to:Q", y=alt.value(SQUARE + 2), y2=alt.value(SQUARE + 8))
