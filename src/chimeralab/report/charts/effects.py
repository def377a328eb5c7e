"""Charts of effects: forest plots, dose responses, metrics with their parts, and summaries."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import altair as alt

from chimeralab.core.numbers import number
from chimeralab.report.charts.canvas import (
    BLUE,
    FAINT_INK,
    GRID,
    INK,
    LINE,
    WIDE,
    Chart,
    Label,
    Row,
    data,
    labels,
    layer_charts,
    legend,
    pixel_scale,
    series_scales,
    truncate,
)
from chimeralab.stats.effects import Effect
from chimeralab.stats.intervals import Interval

EFFECT_ROW, DOSE_HEIGHT, PART_ROW = 2 * LINE + 42, 220, 2 * LINE + 22
CLUSTERED = "by prompt"
NAIVE = "as if all runs were independent"
# Pixels: the column of names, the gap between panels, a heading, a line with its number above it,
# a name above its lines on a phone, and the axis with its numbers.
NAMES, GAP, HEADING, CELL, NAME, AXIS, TITLE = 228, 22, 26, 32, 18, 22, 34
INDENT = 12
# Pixels of a number below the axis.
TICK = 38
# Pixels of an index at the left of its line on a phone.
INDEX = 40
DECLARED = "#fff3d6"

# A label, an effect, and its naive interval, which treats all observations as independent.
ForestRow = tuple[Label, Effect, Interval | None]
# A dose, the value measured under it, and its interval.
Dose = tuple[float, float, Interval | None]
# Label, value, interval and parts of a metric of one arm.
ArmMetric = tuple[Label, float | None, Interval | None, dict[str, float]]


def forest(effects: Sequence[ForestRow], title: str, *, percent: bool, width: int = WIDE) -> Chart:
    """A forest plot, with the naive interval below each effect."""
    height = EFFECT_ROW * len(effects)
    tops = [EFFECT_ROW * place for place in range(len(effects))]
    rows = list(_bars(effects))
    reach = [row[end] for row in rows for end in ("low", "high")] + [0.0]
    axis = alt.Axis(format="+%" if percent else "+", tickCount=4 if width < WIDE else 6)
    span = alt.Scale(domain=[min(reach), max(reach)], nice=True)
    level = alt.Y("level:Q", axis=None, scale=pixel_scale(height))
    kinds = [CLUSTERED, NAIVE]
    # Without naive intervals there is one kind of line, which needs no legend.
    key = legend(kinds, width) if any(naive for _, _, naive in effects) else None
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[BLUE, FAINT_INK]), legend=key)
    shape = alt.Shape(
        "kind:N", scale=alt.Scale(domain=kinds, range=["diamond", "circle"]), legend=key
    )
    zero = alt.Chart(data([{"zero": 0}])).mark_rule(color=INK, strokeDash=[4, 3], aria=False)
    across = alt.X("low:Q", title=title, scale=span, axis=axis)
    bars = alt.Chart(data(rows)).mark_rule(strokeWidth=2.5, aria=False)
    points = alt.Chart(data(rows)).mark_point(filled=True, size=70, opacity=1, aria=False)
    return layer_charts(
        [
            zero.encode(x=alt.X("zero:Q", scale=span)),
            bars.encode(x=across, x2=alt.X2("high:Q"), y=level, color=colour),
            points.encode(x=alt.X("at:Q"), y=level, color=colour, shape=shape),
            *labels([label for label, _, _ in effects], tops, height, width),
        ],
        width,
        height,
    )


def _bars(effects: Sequence[ForestRow]) -> Iterator[Row]:
    for place, (_, effect, naive) in enumerate(effects):
        if effect.estimate is None:
            continue
        level = EFFECT_ROW * place + 2 * LINE + 10
        intervals = ((CLUSTERED, effect.interval, 0), (NAIVE, naive, 11))
        for kind, interval, lower in intervals:
            if kind == NAIVE and interval is None:
                continue
            low, high = interval or (effect.estimate, effect.estimate)
            at = effect.estimate if kind == CLUSTERED else (low + high) / 2
            yield {"kind": kind, "at": at, "low": low, "high": high, "level": level + lower}


def dose_response(
    doses: Sequence[Dose],
    control: float | None,
    axes: tuple[str, str],
    *,
    percent: bool,
    width: int = WIDE,
) -> Chart:
    """Values over doses with intervals; the dashed line is the control.

    `axes` are the titles of the dose and of the measure.
    """
    rows = [
        {"dose": dose, "value": value, **(interval._asdict() if interval else {})}
        for dose, value, interval in doses
    ]
    reach = [row[key] for row in rows for key in ("value", "low", "high") if key in row]
    reach += [control] if control is not None else []
    low, high = min(reach), max(reach)
    # Add a margin if all values are the same.
    ends = [low, high] if high - low > 0.02 else [low - 0.01, high + 0.01]
    span = alt.Scale(domain=ends, nice=True)
    up = alt.Y("value:Q", title=axes[1], scale=span, axis=alt.Axis(format="%" if percent else "~g"))
    across = alt.X(
        "dose:Q",
        title=f"dose: {axes[0]}",
        scale=alt.Scale(zero=False, nice=False, padding=16),
        axis=alt.Axis(values=[row["dose"] for row in rows], format="~g", grid=False),
    )
    drawn = alt.Chart(data(rows))
    known = alt.Chart(data(row for row in rows if "low" in row))
    level = alt.Chart(data([] if control is None else [{"value": control}]))
    return layer_charts(
        [
            level.mark_rule(color=FAINT_INK, strokeDash=[6, 4], aria=False).encode(y=up),
            known.mark_rule(strokeWidth=2.5, color=BLUE, aria=False).encode(
                x=across, y=alt.Y("low:Q", scale=span), y2=alt.Y2("high:Q")
            ),
            drawn.mark_line(color=BLUE, aria=False).encode(x=across, y=up),
            drawn.mark_point(filled=True, size=80, opacity=1, color=BLUE).encode(x=across, y=up),
        ],
        width,
        DOSE_HEIGHT,
    )


def metric_parts(rows: Sequence[ArmMetric], metric: str, *, width: int = WIDE) -> Chart:
    """A metric and its parts on one line per arm, from 0 to 1."""
    height = PART_ROW * len(rows)
    tops = [PART_ROW * place for place in range(len(rows))]
    names = [metric, *dict.fromkeys(name for _, _, _, parts in rows for name in parts)]
    (colours, shapes, _), key = series_scales(names), legend(names, width)
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(grid=False))
    y = alt.Y("level:Q", axis=None, scale=pixel_scale(height))
    levels = [top + 2 * LINE + 9 for top in tops]
    placed = list(zip(rows, levels, strict=True))
    lines = alt.Chart(data({"level": level} for level in levels))
    points = alt.Chart(
        data(
            {"name": name, "value": value, "level": level}
            for (_, whole, _, parts), level in placed
            for name, value in {metric: whole, **parts}.items()
            if value is not None
        )
    )
    bars = alt.Chart(
        data(
            {**interval._asdict(), "level": level}
            for (_, _, interval, _), level in placed
            if interval
        )
    )
    return layer_charts(
        [
            lines.mark_rule(color=GRID, aria=False).encode(y=y),
            bars.mark_rule(strokeWidth=3, color=BLUE, aria=False).encode(
                x=alt.X("low:Q", scale=alt.Scale(domain=[0, 1])), x2=alt.X2("high:Q"), y=y
            ),
            points.mark_point(filled=True, size=80, opacity=1, aria=False).encode(
                x=x,
                y=y,
                color=alt.Color("name:N", scale=colours, legend=key),
                shape=alt.Shape("name:N", scale=shapes, legend=key),
            ),
            *labels([label for label, _, _, _ in rows], tops, height, width),
        ],
        width,
        height,
    )


class SummaryCell(NamedTuple):
    """A difference in one index: whether it is significant, and whether it is primary."""

    estimate: float
    interval: Interval | None
    significant: bool
    declared: bool


# Name of a subject, its comparisons with a cell per index, and a note if there are none.
SummaryGroup = tuple[str, Mapping[str, Mapping[str, SummaryCell]], str]


# The ends of a panel in pixels, or of the values on its scale.
Ends = tuple[float, float]


def _at(value: float, panel: Ends, reach: Ends) -> float:
    """The pixel of a value."""
    (left, right), (low, high) = panel, reach
    return left + (value - low) / (high - low) * (right - left)


# A panel, the vertical position in it, and the cell there.
PlacedCell = tuple[Ends, float, SummaryCell | None]


def summary(
    groups: Sequence[SummaryGroup], indices: Mapping[str, str], *, width: int = WIDE
) -> Chart:
    """Differences by subject and comparison: a panel per index, or on a phone a line per index."""
    # One scale for all panels, which includes 0.
    ends = [0.0]
    for cell in (cell for _, rows, _ in groups for row in rows.values() for cell in row.values()):
        ends += [cell.estimate, *(cell.interval or ())]
    margin = 0.06 * (max(ends) - min(ends)) or 0.1
    reach = min(ends) - margin, max(ends) + margin
    return (_lines if width < WIDE else _panels)(groups, indices, reach, width)


def _panels(
    groups: Sequence[SummaryGroup],
    indices: Mapping[str, str],
    reach: Ends,
    width: int,
) -> Chart:
    across = (width - NAMES - GAP * (len(indices) - 1)) / len(indices)
    panels = {
        index: (left, left + across)
        for place, index in enumerate(indices)
        for left in [NAMES + place * (across + GAP)]
    }
    words: list[Row] = []
    for index, panel in panels.items():
        middle = sum(panel) / 2
        words.append(_text_row(middle, 8, index, "bold", "center"))
        words.append(
            _text_row(middle, 23, truncate(indices[index], across + GAP), "faint", "center")
        )
    placed: list[PlacedCell] = []
    top: float = TITLE
    for subject, rows, note in groups:
        words.append(_text_row(0, top + HEADING / 2, truncate(subject, NAMES, bold=True), "bold"))
        if note:
            words.append(_text_row(NAMES, top + HEADING / 2, note, "faint"))
        top += HEADING
        for name, cells in rows.items():
            level = top + CELL - 8
            # The second side of a comparison goes below the first.
            first, _, second = name.partition(" − ")
            above = level - 7 if second else level
            words.append(_text_row(INDENT, above, truncate(first, NAMES - INDENT), "plain"))
            if second:
                under = truncate(f"− {second}", NAMES - INDENT)
                words.append(_text_row(INDENT, level + 7, under, "faint"))
            placed += [(panel, level, cells.get(index)) for index, panel in panels.items()]
            top += CELL
        top += 6
    return _draw(placed, words, reach, (TITLE + HEADING, top), width)


def _lines(
    groups: Sequence[SummaryGroup],
    indices: Mapping[str, str],
    reach: Ends,
    width: int,
) -> Chart:
    panel = (INDEX, width)
    words: list[Row] = []
    placed: list[PlacedCell] = []
    top: float = 0
    for subject, rows, note in groups:
        words.append(_text_row(0, top + HEADING / 2, truncate(subject, width, bold=True), "bold"))
        top += HEADING
        if note:
            words.append(_text_row(0, top + NAME / 2, truncate(note, width), "faint"))
            top += NAME
        for name, cells in rows.items():
            words.append(_text_row(0, top + NAME / 2, truncate(name, width), "plain"))
            top += NAME
            for index in indices:
                level = top + CELL - 8
                words.append(_text_row(0, level, index, "faint"))
                placed.append((panel, level, cells.get(index)))
                top += CELL
            top += 6
    return _draw(placed, words, reach, (HEADING, top), width)


def _text_row(x: float, y: float, text: str, look: str, align: str = "left") -> Row:
    return {"x": x, "y": y, "text": text, "look": look, "align": align}


def _draw(
    placed: Sequence[PlacedCell],
    words: Sequence[Row],
    reach: Ends,
    span: Ends,
    width: int,
) -> Chart:
    """Draw all layers in pixels, because the panels have no axes of their own."""
    height = span[1] + AXIS
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False, zero=False))
    y = alt.Y("y:Q", axis=None, scale=pixel_scale(height))
    shades = [
        {"x": left, "to": right, "y": level - CELL + 10, "end": level + 8}
        for (left, right), level, cell in placed
        if cell and cell.declared
    ]
    layers = [
        alt.Chart(data(shades))
        .mark_rect(color=DECLARED, aria=False)
        .encode(x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("end:Q"))
    ]
    rules: dict[bool, list[Row]] = {False: [], True: []}
    scale: list[Row] = []
    for panel in dict.fromkeys(panel for panel, _, _ in placed):
        for value in _ticks(panel[1] - panel[0], *reach):
            x_of = _at(value, panel, reach)
            rules[value == 0].append({"x": x_of, "y": span[0], "end": span[1]})
            sign = number(value, 1, sign=True) if value else "0"
            scale.append(_text_row(x_of, span[1] + 11, sign, "faint", "center"))
    for at_0, look in ((False, {"color": GRID}), (True, {"color": INK, "strokeDash": [4, 3]})):
        drawn = alt.Chart(data(rules[at_0])).mark_rule(aria=False, **look)
        layers.append(drawn.encode(x=x, y=y, y2=alt.Y2("end:Q")))
    shown = [(panel, level, cell) for panel, level, cell in placed if cell]
    for significant in (False, True):
        cells = [each for each in shown if each[2].significant == significant]
        layers += _marks(cells, reach, x, y, significant=significant)
    numbers = [
        _text_row(
            # Keep the number inside its panel.
            min(max(_at(cell.estimate, panel, reach), panel[0] + 16), panel[1] - 16),
            level - 13,
            number(cell.estimate, 2, sign=True),
            "bold" if cell.significant else "faint",
            "center",
        )
        for panel, level, cell in shown
    ]
    nothing = [
        _text_row(sum(panel) / 2, level, "–", "faint", "center")
        for panel, level, cell in placed
        if not cell
    ]
    layers += _texts(numbers, [*words, *scale, *numbers, *nothing], x, y)
    return layer_charts(layers, width, height)


def _marks(
    cells: Sequence[tuple[Ends, float, SummaryCell]],
    reach: Ends,
    x: alt.X,
    y: alt.Y,
    *,
    significant: bool,
) -> Iterator[alt.Chart]:
    """Differences with intervals; significant ones are filled, with a thick line."""
    colour, fill = (BLUE, BLUE) if significant else (FAINT_INK, "white")
    bars = [
        {"x": _at(low, panel, reach), "to": _at(high, panel, reach), "y": level}
        for panel, level, cell in cells
        if cell.interval
        for low, high in [cell.interval]
    ]
    points = [{"x": _at(cell.estimate, panel, reach), "y": level} for panel, level, cell in cells]
    line = alt.Chart(data(bars)).mark_rule(
        color=colour, strokeWidth=3.5 if significant else 1.5, aria=False
    )
    yield line.encode(x=x, x2=alt.X2("to:Q"), y=y)
    mark = alt.Chart(data(points)).mark_point(
        shape="diamond" if significant else "circle", size=90 if significant else 45, opacity=1,
        fill=fill, stroke=colour, filled=True, strokeWidth=1.5, aria=False,
    )  # fmt: skip
    yield mark.encode(x=x, y=y)


def _texts(over: Sequence[Row], words: Sequence[Row], x: alt.X, y: alt.Y) -> Iterator[alt.Chart]:
    """All text; text above rules gets a halo."""
    halo = alt.Chart(data(over)).mark_text(
        baseline="middle", fontSize=11, color="white", stroke="white", strokeWidth=4, aria=False
    )
    yield halo.encode(x=x, y=y, text=alt.Text("text:N"))
    for name, align in product(LOOKS, ("left", "center")):
        own = [word for word in words if (word["look"], word["align"]) == (name, align)]
        look = {"align": align, **LOOKS[name]}
        text = alt.Chart(data(own)).mark_text(baseline="middle", **look)
        yield text.encode(x=x, y=y, text=alt.Text("text:N"))


LOOKS: dict[str, Row] = {
    "bold": {"fontWeight": "bold", "color": INK},
    "plain": {"color": INK},
    "faint": {"color": FAINT_INK, "fontSize": 11},
}


def _ticks(width: float, low: float, high: float) -> list[float]:
    """Round tick values, 0 among them, as many as fit.

    >>> _ticks(130, -0.7, 0.2)
    [-0.5, 0.0]
    """
    room = max(2, int(width / TICK))
    for step in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
        first, last = int(low / step), int(high / step)
        if last - first < room:
            return [round(n * step, 1) + 0.0 for n in range(first, last + 1)]
    return [0.0]
