"""The summary of a trial: what every arm does to a few indices, in one figure on one scale."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import altair as alt

from chimeralab.core.numbers import number
from chimeralab.report.charts.canvas import (
    BLUE,
    FAINT_INK,
    GRID,
    INK,
    WIDE,
    Chart,
    Row,
    data,
    down,
    fitted,
    layered,
)
from chimeralab.stats.intervals import Interval

# Pixels: the column of names, the gap between panels, a heading, a line with its number over it,
# what a name above its lines takes on a phone, and the axis with its numbers.
NAMES, GAP, HEADING, CELL, NAME, AXIS, TITLE = 228, 22, 26, 32, 18, 22, 34
INDENT = 12
# A number under the axis takes this much.
TICK = 38
# An index on a phone takes this much at the left of its line.
INDEX = 40
DECLARED = "#fff3d6"


class SummaryCell(NamedTuple):
    """A difference in one index: whether it stands out, and whether it was declared as primary."""

    estimate: float
    interval: Interval | None
    found: bool
    declared: bool


class SummaryRow(NamedTuple):
    """One comparison; an index that has no difference to show is left out."""

    name: str
    cells: Mapping[str, SummaryCell]


class SummaryGroup(NamedTuple):
    """The comparisons of one subject, or a word on why there are none."""

    name: str
    rows: Sequence[SummaryRow]
    note: str = ""


class PlotPanel(NamedTuple):
    """Where values lie between two pixels; every panel has the same scale."""

    left: float
    right: float
    low: float
    high: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)


class Placed(NamedTuple):
    """A cell and the line that it stands on."""

    panel: PlotPanel
    level: float
    cell: SummaryCell | None


def summary(
    groups: Sequence[SummaryGroup], indices: Mapping[str, str], *, width: int = WIDE
) -> Chart:
    """Differences by subject and comparison: a panel per index, or a line each on a phone."""
    low, high = _reach(groups)
    return (
        _lines(groups, indices, (low, high), width)
        if width < WIDE
        else _panels(groups, indices, (low, high), width)
    )


def _reach(groups: Sequence[SummaryGroup]) -> tuple[float, float]:
    """The ends of the one scale: everything that is drawn, and 0."""
    ends = [0.0]
    for cell in (cell for group in groups for row in group.rows for cell in row.cells.values()):
        ends += [cell.estimate, *(cell.interval or ())]
    margin = 0.06 * (max(ends) - min(ends)) or 0.1
    return min(ends) - margin, max(ends) + margin


def _panels(
    groups: Sequence[SummaryGroup],
    indices: Mapping[str, str],
    reach: tuple[float, float],
    width: int,
) -> Chart:
    across = (width - NAMES - GAP * (len(indices) - 1)) / len(indices)
    panels = {
        index: PlotPanel(left, left + across, *reach)
        for place, index in enumerate(indices)
        for left in [NAMES + place * (across + GAP)]
    }
    words: list[Row] = []
    for index, panel in panels.items():
        middle = (panel.left + panel.right) / 2
        words.append(_word(middle, 8, index, "bold", "center"))
        words.append(_word(middle, 23, fitted(indices[index], across + GAP), "faint", "center"))
    placed: list[Placed] = []
    top: float = TITLE
    for group in groups:
        words.append(_word(0, top + HEADING / 2, fitted(group.name, NAMES, bold=True), "bold"))
        if group.note:
            words.append(_word(NAMES, top + HEADING / 2, group.note, "faint"))
        top += HEADING
        for row in group.rows:
            level = top + CELL - 8
            words += _named(row.name, level)
            placed += [Placed(panel, level, row.cells.get(i)) for i, panel in panels.items()]
            top += CELL
        top += 6
    return _drawn(placed, words, list(panels.values()), (TITLE + HEADING, top), width)


def _lines(
    groups: Sequence[SummaryGroup],
    indices: Mapping[str, str],
    reach: tuple[float, float],
    width: int,
) -> Chart:
    panel = PlotPanel(INDEX, width, *reach)
    words: list[Row] = []
    placed: list[Placed] = []
    top: float = 0
    for group in groups:
        words.append(_word(0, top + HEADING / 2, fitted(group.name, width, bold=True), "bold"))
        top += HEADING
        if group.note:
            words.append(_word(0, top + NAME / 2, fitted(group.note, width), "faint"))
            top += NAME
        for row in group.rows:
            words.append(_word(0, top + NAME / 2, fitted(row.name, width), "plain"))
            top += NAME
            for index in indices:
                level = top + CELL - 8
                words.append(_word(0, level, index, "faint"))
                placed.append(Placed(panel, level, row.cells.get(index)))
                top += CELL
            top += 6
    return _drawn(placed, words, [panel], (HEADING, top), width)


def _named(name: str, level: float) -> Iterator[Row]:
    """The name of a comparison; what its second side is stands under the first."""
    first, _, second = name.partition(" − ")
    room = NAMES - INDENT
    yield _word(INDENT, level - 7 if second else level, fitted(first, room), "plain")
    if second:
        yield _word(INDENT, level + 7, fitted(f"− {second}", room), "faint")


def _word(x: float, y: float, text: str, look: str, align: str = "left") -> Row:
    return {"x": x, "y": y, "text": text, "look": look, "align": align}


def _drawn(
    placed: Sequence[Placed],
    words: Sequence[Row],
    panels: Sequence[PlotPanel],
    span: tuple[float, float],
    width: int,
) -> Chart:
    """All layers, in pixels: panels side by side have no axes of their own."""
    height = span[1] + AXIS
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False, zero=False))
    y = alt.Y("y:Q", axis=None, scale=down(height))
    shades = [
        {"x": p.panel.left, "to": p.panel.right, "y": p.level - CELL + 10, "end": p.level + 8}
        for p in placed
        if p.cell and p.cell.declared
    ]
    layers = [
        alt.Chart(data(shades))
        .mark_rect(color=DECLARED, aria=False)
        .encode(x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("end:Q"))
    ]
    ticks: list[Row] = []
    zeros: list[Row] = []
    scale: list[Row] = []
    for panel in panels:
        for value in _ticks(panel):
            rule = {"x": panel.at(value), "y": span[0], "end": span[1]}
            (ticks if value else zeros).append(rule)
            sign = number(value, 1, sign=True) if value else "0"
            scale.append(_word(panel.at(value), span[1] + 11, sign, "faint", "center"))
    for rules, look in ((ticks, {"color": GRID}), (zeros, {"color": INK, "strokeDash": [4, 3]})):
        drawn = alt.Chart(data(rules)).mark_rule(aria=False, **look)
        layers.append(drawn.encode(x=x, y=y, y2=alt.Y2("end:Q")))
    shown = [(p, p.cell) for p in placed if p.cell]
    for found, colour in ((False, FAINT_INK), (True, BLUE)):
        cells = [(p, cell) for p, cell in shown if cell.found == found]
        bars = [
            {"x": p.panel.at(cell.interval.low), "to": p.panel.at(cell.interval.high), "y": p.level}
            for p, cell in cells
            if cell.interval
        ]
        points = [{"x": p.panel.at(cell.estimate), "y": p.level} for p, cell in cells]
        line = alt.Chart(data(bars)).mark_rule(
            color=colour, strokeWidth=3.5 if found else 1.5, aria=False
        )
        layers.append(line.encode(x=x, x2=alt.X2("to:Q"), y=y))
        fill = colour if found else "white"
        mark = alt.Chart(data(points)).mark_point(
            shape="diamond" if found else "circle", size=90 if found else 45, opacity=1,
            fill=fill, stroke=colour, filled=True, strokeWidth=1.5, aria=False,
        )  # fmt: skip
        layers.append(mark.encode(x=x, y=y))
    numbers = [
        _word(
            _inside(p.panel, cell.estimate),
            p.level - 13,
            number(cell.estimate, 2, sign=True),
            "bold" if cell.found else "faint",
            "center",
        )
        for p, cell in shown
    ]
    nothing = [
        _word((p.panel.left + p.panel.right) / 2, p.level, "–", "faint", "center")
        for p in placed
        if not p.cell
    ]
    # Numbers stay readable over the rules that run behind them.
    halo = alt.Chart(data(numbers)).mark_text(
        baseline="middle", fontSize=11, color="white", stroke="white", strokeWidth=4, aria=False
    )
    layers += [halo.encode(x=x, y=y, text=alt.Text("text:N"))]
    layers += _texts([*words, *scale, *numbers, *nothing], x, y)
    return layered(layers, width, height)


def _inside(panel: PlotPanel, value: float) -> float:
    """Where a number has room over its point."""
    return min(max(panel.at(value), panel.left + 16), panel.right - 16)


LOOKS: dict[str, Row] = {
    "bold": {"fontWeight": "bold", "color": INK},
    "plain": {"color": INK},
    "faint": {"color": FAINT_INK, "fontSize": 11},
}


def _texts(words: Sequence[Row], x: alt.X, y: alt.Y) -> Iterator[alt.Chart]:
    for name, look in LOOKS.items():
        for align in ("left", "center"):
            own = [word for word in words if (word["look"], word["align"]) == (name, align)]
            mark = alt.Chart(data(own)).mark_text(align=align, baseline="middle", **look)
            yield mark.encode(x=x, y=y, text=alt.Text("text:N"))


def _ticks(panel: PlotPanel) -> list[float]:
    """Round values with 0 among them, as many as have room for their numbers.

    >>> _ticks(PlotPanel(0, 130, -0.7, 0.2))
    [-0.5, 0.0]
    """
    room = max(2, int((panel.right - panel.left) / TICK))
    for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
        first, last = int(panel.low / step), int(panel.high / step)
        if last - first < room:
            return [round(n * step, 1) + 0.0 for n in range(first, last + 1)]
    return [0.0]
