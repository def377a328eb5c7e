"""The chart of runs that have not collapsed yet, turn by turn, with bands."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import altair as alt

from chimeralab.report.charts.canvas import Row, data, layered, legend, series_scales
from chimeralab.report.charts.timeline import Chart, turn_ticks
from chimeralab.report.theme import WIDE


class Survivors(NamedTuple):
    """The share of one condition's runs without a collapse after each turn, and its band."""

    name: str
    turns: Sequence[float]
    shares: Sequence[float]
    low: Sequence[float] | None
    high: Sequence[float] | None


def survival(curves: Sequence[Survivors], last: int, *, width: int = WIDE) -> Chart:
    """Steps that fall as runs collapse for the first time, up to the last turn; bands pointwise."""
    names = [curve.name for curve in curves]
    scales = series_scales(names)
    key = legend(
        names, width, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3, symbolSize=400
    )
    turns = alt.X(
        "turn:Q",
        title="turn",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(values=ticks_from_0(last, width), grid=False, format="d"),
    )
    shares = alt.Y(
        "share:Q",
        title="runs without a collapse so far",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    colour = alt.Color("condition:N", scale=scales.colour, legend=key)
    bands = alt.Chart(data(_band(curves))).mark_area(
        interpolate="step-after", opacity=0.16, aria=False
    )
    lines = alt.Chart(data(_steps(curves))).mark_line(
        interpolate="step-after", strokeWidth=2, aria=False
    )
    dash = alt.StrokeDash("condition:N", scale=scales.dash, legend=key)
    return layered(
        [
            bands.encode(x=turns, y=alt.Y("low:Q"), y2="high:Q", color=colour),
            lines.encode(x=turns, y=shares, color=colour, strokeDash=dash),
        ],
        width,
        260,
    )


def ticks_from_0(last: int, width: int) -> list[int]:
    """Round numbers of turns from 0 on, no more than have room.

    >>> ticks_from_0(40, 200), ticks_from_0(3, 200)
    ([0, 10, 20, 30, 40], [0, 1, 2, 3])
    """
    first, *rest = turn_ticks(last, width)
    return [0, *([first] if rest[:1] == [first + 1] else []), *rest]


def _steps(curves: Sequence[Survivors]) -> Iterator[Row]:
    for curve in curves:
        for turn, share in zip(curve.turns, curve.shares, strict=True):
            yield {"condition": curve.name, "turn": turn, "share": share}


def _band(curves: Sequence[Survivors]) -> Iterator[Row]:
    for curve in curves:
        if curve.low is None or curve.high is None:
            continue
        for turn, low, high in zip(curve.turns, curve.low, curve.high, strict=True):
            yield {"condition": curve.name, "turn": turn, "low": low, "high": high}
