"""Charts of a trial: a measure over its doses, and the parts of a metric arm by arm."""

from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from chimeralab.report.charts.canvas import (
    BLUE,
    FAINT_INK,
    GRID,
    LINE,
    WIDE,
    Chart,
    Label,
    data,
    down,
    labels,
    layered,
    legend,
    series_scales,
)
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
    rows = [
        {
            "dose": each.dose,
            "value": each.value,
            **(each.interval._asdict() if each.interval else {}),
        }
        for each in doses
    ]
    reach = [row[key] for row in rows for key in ("value", "low", "high") if key in row]
    reach += [control] if control is not None else []
    low, high = min(reach), max(reach)
    # Some room where all values are the same.
    ends = [low, high] if high - low > 0.02 else [low - 0.01, high + 0.01]
    span = alt.Scale(domain=ends, nice=True)
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


def metric_parts(rows: Sequence[Parts], metric: str, *, width: int = WIDE) -> Chart:
    """A metric and its parts on one line per arm, from 0 to 1."""
    height = PART_ROW * len(rows)
    tops = [PART_ROW * place for place in range(len(rows))]
    names = [metric, *dict.fromkeys(name for row in rows for name in row.parts)]
    scales, key = series_scales(names), legend(names, width)
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(grid=False))
    y = alt.Y("level:Q", axis=None, scale=down(height))
    levels = [top + 2 * LINE + 9 for top in tops]
    placed = list(zip(rows, levels, strict=True))
    lines = alt.Chart(data({"level": level} for level in levels))
    points = alt.Chart(
        data(
            {"name": name, "value": value, "level": level}
            for row, level in placed
            for name, value in {metric: row.value, **row.parts}.items()
            if value is not None
        )
    )
    bars = alt.Chart(
        data({**row.interval._asdict(), "level": level} for row, level in placed if row.interval)
    )
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
