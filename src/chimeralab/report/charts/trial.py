"""Charts of a trial: a measure over its doses, and the parts of a metric arm by arm."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import altair as alt

from chimeralab.report.charts.canvas import (
    LINE,
    Label,
    Row,
    data,
    down,
    labels,
    layered,
    legend,
    series_scales,
)
from chimeralab.report.charts.timeline import Chart
from chimeralab.report.theme import BLUE, FAINT_INK, GRID, WIDE
from chimeralab.stats.intervals import Interval

DOSE_HEIGHT = 220
PART_ROW = 2 * LINE + 22


class Dose(NamedTuple):
    """What an arm measured under one dose."""

    dose: float
    value: float
    interval: Interval | None


class Axes(NamedTuple):
    """What a dose and a value are called."""

    dose: str
    value: str
    percent: bool


class Parts(NamedTuple):
    """A metric of one arm: its value with its interval, and its parts by name."""

    label: Label
    value: float | None
    interval: Interval | None
    parts: dict[str, float]


def dose_response(
    doses: Sequence[Dose], control: float | None, axes: Axes, *, width: int = WIDE
) -> Chart:
    """Values over their doses with intervals; the dashed line is the untouched control."""
    rows = [{"dose": each.dose, "value": each.value, **_bounds(each.interval)} for each in doses]
    reach = [row[key] for row in rows for key in ("value", "low", "high") if key in row]
    span = alt.Scale(domain=_span([*reach, *([control] if control is not None else [])]), nice=True)
    up = alt.Y(
        "value:Q", title=axes.value, scale=span, axis=alt.Axis(format="%" if axes.percent else "~g")
    )
    across = alt.X(
        "dose:Q",
        title=f"dose: {axes.dose}",
        scale=alt.Scale(zero=False, nice=False, padding=16),
        axis=alt.Axis(values=[each.dose for each in doses], format="~g", grid=False),
    )
    drawn = alt.Chart(data(rows))
    known = alt.Chart(data(row for row in rows if "low" in row))
    level = alt.Chart(data([] if control is None else [{"value": control}]))
    return layered(
        [
            level.mark_rule(color=FAINT_INK, strokeDash=[6, 4], aria=False).encode(y=up),
            known.mark_rule(strokeWidth=2.5, color=BLUE, aria=False).encode(
                x=across, y=alt.Y("low:Q", scale=span), y2="high:Q"
            ),
            drawn.mark_line(color=BLUE, aria=False).encode(x=across, y=up),
            drawn.mark_point(filled=True, size=80, opacity=1, color=BLUE).encode(x=across, y=up),
        ],
        width,
        DOSE_HEIGHT,
    )


def _bounds(interval: Interval | None) -> dict[str, float]:
    return {} if interval is None else interval._asdict()


def _span(values: Sequence[float]) -> list[float]:
    """From the least to the largest, with some room where all are the same."""
    low, high = min(values), max(values)
    return [low, high] if high - low > 0.02 else [low - 0.01, high + 0.01]


def metric_parts(rows: Sequence[Parts], metric: str, *, width: int = WIDE) -> Chart:
    """A metric and its parts on one line an arm, from 0 to 1."""
    height = PART_ROW * len(rows)
    tops = [PART_ROW * place for place in range(len(rows))]
    names = [metric, *dict.fromkeys(name for row in rows for name in row.parts)]
    scales, key = series_scales(names), legend(names, width)
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(grid=False))
    y = alt.Y("level:Q", axis=None, scale=down(height))
    lines = alt.Chart(data({"level": _level(place)} for place in range(len(rows))))
    points = alt.Chart(data(_points(rows, metric)))
    bars = alt.Chart(data(_intervals(rows)))
    return layered(
        [
            lines.mark_rule(color=GRID, aria=False).encode(y=y),
            bars.mark_rule(strokeWidth=3, color=BLUE, aria=False).encode(
                x=alt.X("low:Q", scale=alt.Scale(domain=[0, 1])), x2="high:Q", y=y
            ),
            points.mark_point(filled=True, size=80, opacity=1, aria=False).encode(
                x=x,
                y=y,
                color=alt.Color("name:N", scale=scales.colour, legend=key),
                shape=alt.Shape("name:N", scale=scales.shape, legend=key),
            ),
            *labels([row.label for row in rows], tops, height, width),
        ],
        width,
        height,
    )


def _level(place: int) -> float:
    return PART_ROW * place + 2 * LINE + 9


def _points(rows: Sequence[Parts], metric: str) -> Iterator[Row]:
    for place, row in enumerate(rows):
        values = {metric: row.value, **row.parts}
        for name, value in values.items():
            if value is not None:
                yield {"name": name, "value": value, "level": _level(place)}


def _intervals(rows: Sequence[Parts]) -> Iterator[Row]:
    for place, row in enumerate(rows):
        if row.interval is not None:
            yield {**row.interval._asdict(), "level": _level(place)}
