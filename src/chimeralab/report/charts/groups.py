"""Charts of conditions or arms side by side: how much, in which bucket, how soon, and of what."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import altair as alt
import numpy as np

from chimeralab.core.result_words import ResultWords
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
    down,
    labels,
    layered,
    legend,
    series_scales,
    turn_ticks,
)
from chimeralab.stats.intervals import Interval

BINS = 20
# Pixels: two lines of words, the bars, the interval, and some air.
WORDS, BARS, INTERVAL, AIR = 2 * LINE + 4, 44, 14, 14
ROW = WORDS + BARS + INTERVAL + AIR
BUCKET_ROW = 2 * LINE + 10
PART_ROW = 2 * LINE + 22


class Distribution(NamedTuple):
    """The shares of collapsed turns of one condition's runs, their mean and its interval."""

    label: Label
    shares: Sequence[float]
    mean: float
    interval: Interval | None


class Bucket(NamedTuple):
    """The mean share of collapsed turns under each condition for one bucket of prompts."""

    name: str
    means: Sequence[float | None]


def distributions(
    conditions: Sequence[Distribution], words: ResultWords, *, width: int = WIDE
) -> Chart:
    """A histogram of runs for each condition, its mean and interval under it."""
    height = ROW * len(conditions)
    tops = [ROW * place for place in range(len(conditions))]
    bars = alt.Chart(data(_bars(conditions))).mark_rect(aria=False)
    across = alt.X(
        "from:Q",
        title=f"share of {words.turns} in a run",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1], grid=True),
    )
    depth = alt.Y("top:Q", axis=None, scale=down(height))
    names = [str(place) for place in range(len(conditions))]
    colour = alt.Color("place:N", legend=None, scale=series_scales(names).colour)
    shown = bars.encode(x=across, x2=alt.X2("to:Q"), y=depth, y2=alt.Y2("bottom:Q"), color=colour)
    floors = alt.Chart(data({"floor": top + WORDS + BARS} for top in tops))
    lines = floors.mark_rule(color=FAINT_INK, strokeWidth=0.5, aria=False)
    return layered(
        [
            shown,
            lines.encode(y=alt.Y("floor:Q", axis=None, scale=down(height))),
            *_means(conditions, height),
            *labels([each.label for each in conditions], tops, height, width),
        ],
        width,
        height,
    )


def _bars(conditions: Sequence[Distribution]) -> Iterator[Row]:
    """Bars of each condition on its own scale, or the shapes of some could not be seen."""
    edges = np.linspace(0, 1, BINS + 1)
    for place, each in enumerate(conditions):
        counts = np.histogram(each.shares, edges)[0]
        floor = ROW * place + WORDS + BARS
        for left, right, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True):
            if count:
                ends = {"from": left + 0.002, "to": right - 0.002}
                top = floor - BARS * count / int(counts.max())
                yield {"place": str(place), **ends, "top": top, "bottom": floor}


def _means(conditions: Sequence[Distribution], height: float) -> Iterator[alt.Chart]:
    rows: list[Row] = [
        {
            "at": each.mean,
            "low": each.interval.low if each.interval else each.mean,
            "high": each.interval.high if each.interval else each.mean,
            "level": ROW * place + WORDS + BARS + INTERVAL / 2 + 2,
        }
        for place, each in enumerate(conditions)
    ]
    level = alt.Y("level:Q", axis=None, scale=down(height))
    base = alt.Chart(data(rows))
    clipped = alt.Scale(domain=[0, 1], nice=False, clamp=True)
    yield base.mark_rule(strokeWidth=2.5, color=INK, aria=False).encode(
        x=alt.X("low:Q", scale=clipped), x2=alt.X2("high:Q"), y=level
    )
    yield base.mark_point(shape="diamond", filled=True, size=80, color=INK, aria=False).encode(
        x=alt.X("at:Q"), y=level
    )


def buckets(
    rows: Sequence[Bucket], conditions: Sequence[str], words: ResultWords, *, width: int = WIDE
) -> Chart:
    """The mean of each condition in each bucket of prompts: where the order changes, it shows."""
    height = BUCKET_ROW * len(rows)
    tops = [BUCKET_ROW * place for place in range(len(rows))]
    points = alt.Chart(
        data(
            {"level": top + BUCKET_ROW - 9, "condition": name, "mean": mean}
            for top, row in zip(tops, rows, strict=True)
            for name, mean in zip(conditions, row.means, strict=True)
            if mean is not None
        )
    )
    scales = series_scales(conditions)
    key = legend(conditions, width)
    level = alt.Y("level:Q", axis=None, scale=down(height))
    highest = max((m for row in rows for m in row.means if m is not None), default=1.0)
    across = alt.X(
        "mean:Q",
        title=f"mean share of {words.turns}",
        scale=alt.Scale(domain=[0, max(0.1, np.ceil(10 * highest) / 10)], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    lines = alt.Chart(data({"level": top + BUCKET_ROW - 9} for top in tops))
    return layered(
        [
            lines.mark_rule(color=FAINT_INK, strokeWidth=0.5, aria=False).encode(y=level),
            points.mark_point(filled=True, size=70, opacity=0.9, aria=False).encode(
                x=across,
                y=level,
                color=alt.Color("condition:N", scale=scales.colour, legend=key),
                shape=alt.Shape("condition:N", scale=scales.shape, legend=key),
            ),
            *labels([Label(row.name, "") for row in rows], tops, height, width),
        ],
        width,
        height,
    )


class Survivors(NamedTuple):
    """The share of one condition's runs without a collapse after each turn, and its band."""

    name: str
    turns: Sequence[float]
    shares: Sequence[float]
    low: Sequence[float] | None
    high: Sequence[float] | None


def survival(
    curves: Sequence[Survivors], last: int, words: ResultWords, *, width: int = WIDE
) -> Chart:
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
        title=f"runs without a {words.event} so far",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    colour = alt.Color("condition:N", scale=scales.colour, legend=key)
    steps = (
        {"condition": curve.name, "turn": turn, "share": share}
        for curve in curves
        for turn, share in zip(curve.turns, curve.shares, strict=True)
    )
    spans = (
        {"condition": curve.name, "turn": turn, "low": low, "high": high}
        for curve in curves
        if curve.low is not None and curve.high is not None
        for turn, low, high in zip(curve.turns, curve.low, curve.high, strict=True)
    )
    bands = alt.Chart(data(spans)).mark_area(interpolate="step-after", opacity=0.16, aria=False)
    lines = alt.Chart(data(steps)).mark_line(interpolate="step-after", strokeWidth=2, aria=False)
    dash = alt.StrokeDash("condition:N", scale=scales.dash, legend=key)
    return layered(
        [
            bands.encode(x=turns, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour),
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


class Parts(NamedTuple):
    """A metric of one arm: its value with its interval, and its parts by name."""

    label: Label
    value: float | None
    interval: Interval | None
    parts: dict[str, float]


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
                x=alt.X("low:Q", scale=alt.Scale(domain=[0, 1])), x2=alt.X2("high:Q"), y=y
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
