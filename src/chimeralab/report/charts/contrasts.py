"""Charts of what makes a difference: forests, how far an order holds, doses, and detectors.

A specification curve shows one difference under every detector one could have declared.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import altair as alt
import numpy as np

from chimeralab.report.charts.canvas import (
    BLUE,
    FAINT_INK,
    GRID,
    INK,
    LINE,
    ORANGE,
    WIDE,
    Chart,
    Label,
    Row,
    XValue,
    data,
    down,
    labels,
    layered,
    legend,
)
from chimeralab.stats.intervals import Interval

EFFECT_ROW = 2 * LINE + 42
STABILITY_ROW = 2 * LINE + 36
DOSE_HEIGHT = 220
# Pixels: the curve, the gap under it, and the row of one choice.
CURVE, GAP, CHOICE_ROW = 190, 16, 13
# Detectors beyond this number share the squares under the curve.
MOST_COLUMNS = 60
CLUSTERED = "by prompt"
NAIVE = "as if all runs were independent"


class ForestRow(NamedTuple):
    """A difference, its interval over prompts, and the interval that ignores prompts."""

    label: Label
    estimate: float | None
    interval: Interval | None
    naive: Interval | None


class StabilityRow(NamedTuple):
    """In how many units an order holds, holds but for ties, or is inverted."""

    label: Label
    held: int
    tied: int
    inverted: int


def forest(effects: Sequence[ForestRow], title: str, *, percent: bool, width: int = WIDE) -> Chart:
    """Differences under one another, each with its honest interval and the naive one under it."""
    height = EFFECT_ROW * len(effects)
    tops = [EFFECT_ROW * place for place in range(len(effects))]
    rows = list(_bars(effects))
    reach = [row[end] for row in rows for end in ("low", "high")] + [0.0]
    axis = alt.Axis(format="+%" if percent else "+", tickCount=4 if width < WIDE else 6)
    span = alt.Scale(domain=[min(reach), max(reach)], nice=True)
    level = alt.Y("level:Q", axis=None, scale=down(height))
    kinds = [CLUSTERED, NAIVE]
    # Where nothing is naive there is one kind of line, which needs no legend.
    key = legend(kinds, width) if any(each.naive for each in effects) else None
    colour = alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=[BLUE, FAINT_INK]), legend=key)
    shape = alt.Shape(
        "kind:N", scale=alt.Scale(domain=kinds, range=["diamond", "circle"]), legend=key
    )
    zero = alt.Chart(data([{"zero": 0}])).mark_rule(color=INK, strokeDash=[4, 3], aria=False)
    across = alt.X("low:Q", title=title, scale=span, axis=axis)
    bars = alt.Chart(data(rows)).mark_rule(strokeWidth=2.5, aria=False)
    points = alt.Chart(data(rows)).mark_point(filled=True, size=70, opacity=1, aria=False)
    return layered(
        [
            zero.encode(x=alt.X("zero:Q", scale=span)),
            bars.encode(x=across, x2=alt.X2("high:Q"), y=level, color=colour),
            points.encode(x=alt.X("at:Q"), y=level, color=colour, shape=shape),
            *labels([each.label for each in effects], tops, height, width),
        ],
        width,
        height,
    )


def _bars(effects: Sequence[ForestRow]) -> Iterator[Row]:
    for place, effect in enumerate(effects):
        if effect.estimate is None:
            continue
        level = EFFECT_ROW * place + 2 * LINE + 10
        intervals = ((CLUSTERED, effect.interval, 0), (NAIVE, effect.naive, 11))
        for kind, interval, lower in intervals:
            if kind == NAIVE and interval is None:
                continue
            low, high = interval or (effect.estimate, effect.estimate)
            at = effect.estimate if kind == CLUSTERED else (low + high) / 2
            yield {"kind": kind, "at": at, "low": low, "high": high, "level": level + lower}


def stability(rows: Sequence[StabilityRow], *, width: int = WIDE) -> Chart:
    """Bars of how many units keep the order of the means, tie in it, or turn it around."""
    height = STABILITY_ROW * len(rows)
    tops = [STABILITY_ROW * place for place in range(len(rows))]
    kinds = ["holds", "holds but for ties", "is inverted somewhere"]
    parts = list(_parts(rows, kinds))
    depth = alt.Y("top:Q", axis=None, scale=down(height))
    across = alt.X("from:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[BLUE, GRID, ORANGE]),
        legend=legend(kinds, width),
    )
    bars = alt.Chart(data(parts)).mark_rect(aria=False, stroke="white")
    # Counts stand on their bars, white where the bar is dark.
    counts = [
        alt.Chart(data(part for part in parts if part["kind"] == kind and part["text"]))
        .mark_text(color=ink, fontWeight="bold", dy=10)
        .encode(x=alt.X("middle:Q"), y=depth, text=alt.Text("text:N"))
        for kind, ink in zip(kinds, ("white", INK, INK), strict=True)
    ]
    return layered(
        [
            bars.encode(x=across, x2=alt.X2("to:Q"), y=depth, y2=alt.Y2("bottom:Q"), color=colour),
            *counts,
            *labels([each.label for each in rows], tops, height, width),
        ],
        width,
        height,
    )


def _parts(rows: Sequence[StabilityRow], kinds: Sequence[str]) -> Iterator[Row]:
    for place, row in enumerate(rows):
        counts = (row.held, row.tied, row.inverted)
        total, before = max(1, sum(counts)), 0
        top = STABILITY_ROW * place + 2 * LINE + 2
        for kind, count in zip(kinds, counts, strict=True):
            ends = {"from": before / total, "to": (before + count) / total}
            middle = (ends["from"] + ends["to"]) / 2
            text = str(count) if count / total > 0.03 else ""
            before += count
            yield {
                "kind": kind,
                **ends,
                "middle": middle,
                "text": text,
                "top": top,
                "bottom": top + 20,
            }


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
                x=across, y=alt.Y("low:Q", scale=span), y2=alt.Y2("high:Q")
            ),
            drawn.mark_line(color=BLUE, aria=False).encode(x=across, y=up),
            drawn.mark_point(filled=True, size=80, opacity=1, color=BLUE).encode(x=across, y=up),
        ],
        width,
        DOSE_HEIGHT,
    )


class CurvePoint(NamedTuple):
    """What one detector makes of the difference, and its choices by name."""

    estimate: float
    interval: Interval | None
    declared: bool
    choices: Mapping[str, str]


class SettingChoice(NamedTuple):
    """A setting of the detector and a value that it can take."""

    setting: str
    value: str


def specification(
    curve: Sequence[CurvePoint], title: str, *, percent: bool, width: int = WIDE
) -> Chart:
    """Estimates from the smallest to the largest; under them, how common each choice is there."""
    across = alt.Scale(domain=[0.5, len(curve) + 0.5], nice=False)
    height = CURVE + GAP + CHOICE_ROW * len(all_choices(curve))
    layers = [*_curve(curve, across, title, percent), *_choices(curve, across)]
    chart = layered(layers, width, height)
    chart.resolve = alt.Resolve(scale=alt.ScaleResolveMap(y="independent"))
    return chart


def all_choices(curve: Sequence[CurvePoint]) -> list[SettingChoice]:
    """Every choice that any detector makes, those of one setting next to each other."""
    values: dict[str, set[str]] = {}
    for each in curve:
        for setting, value in each.choices.items():
            values.setdefault(setting, set()).add(value)
    return [
        SettingChoice(setting, value)
        for setting, found in values.items()
        for value in sorted(found)
    ]


def _curve(
    curve: Sequence[CurvePoint], across: alt.Scale, title: str, percent: bool
) -> Iterator[alt.Chart]:
    rows: list[Row] = [
        {"rank": place, "at": each.estimate, "low": ends.low, "high": ends.high}
        for place, each in enumerate(curve, start=1)
        for ends in [each.interval or Interval(each.estimate, each.estimate)]
    ]
    # Room for every interval and for 0.
    reach = [row[end] for row in rows for end in ("low", "high")] + [0.0]
    margin = 0.05 * (max(reach) - min(reach) or 1.0)
    ends = [min(reach) - margin, max(reach) + margin]
    depth = alt.Scale(domain=ends, range=[CURVE, 0], nice=False)
    axis = alt.Axis(format="+%" if percent else "+", tickCount=5)
    x = alt.X("rank:Q", axis=None, scale=across)
    at = alt.Y("at:Q", axis=None, scale=depth)
    zero = alt.Chart(data([{"at": 0}])).mark_rule(color=INK, strokeDash=[4, 3], aria=False)
    yield zero.encode(y=alt.Y("at:Q", title=title, axis=axis, scale=depth))
    bands = alt.Chart(data(rows)).mark_area(color=BLUE, opacity=0.18, aria=False)
    yield bands.encode(x=x, y=alt.Y("low:Q", axis=None, scale=depth), y2=alt.Y2("high:Q"))
    line = alt.Chart(data(rows)).mark_line(color=BLUE, strokeWidth=2, aria=False)
    yield line.encode(x=x, y=at)
    places = [n for n, each in enumerate(curve, start=1) if each.declared]
    declared = alt.Chart(data({"rank": n, "at": curve[n - 1].estimate} for n in places))
    diamond = declared.mark_point(shape="diamond", filled=True, size=110, color=INK, opacity=1)
    yield diamond.encode(x=x, y=at)
    late = bool(places) and places[0] > len(curve) / 2
    word = declared.mark_text(
        text="as declared", fontWeight="bold", dy=-12, align="right" if late else "left"
    )
    yield word.encode(x=x, y=at)


def _choices(curve: Sequence[CurvePoint], across: alt.Scale) -> Iterator[alt.Chart]:
    """Squares under the curve: the darker, the more of the detectors there made the choice."""
    tops = {
        choice: CURVE + GAP + CHOICE_ROW * place for place, choice in enumerate(all_choices(curve))
    }
    squares: list[Row] = []
    for column in np.array_split(np.arange(len(curve)), min(MOST_COLUMNS, len(curve))):
        made = Counter(choice for n in column for choice in curve[n].choices.items())
        ends = {"from": float(column[0]) + 0.5, "to": float(column[-1]) + 1.5}
        squares += [
            {
                **ends,
                "top": top,
                "bottom": top + CHOICE_ROW - 3,
                "share": round(made[choice] / len(column), 2),
            }
            for choice, top in tops.items()
            if made[choice]
        ]
    bottom = CURVE + GAP + CHOICE_ROW * len(tops)
    depth = alt.Scale(domain=[0, bottom], range=[0, bottom], nice=False)
    y = alt.Y("top:Q", axis=None, scale=depth)
    share = alt.Opacity("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0, 1]))
    x = alt.X("from:Q", axis=None, scale=across)
    drawn = alt.Chart(data(squares)).mark_rect(color=BLUE, aria=False)
    yield drawn.encode(x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("bottom:Q"), opacity=share)
    names: list[Row] = [
        {"top": top + CHOICE_ROW / 2 - 1, "text": f"{choice.setting} {choice.value}"}
        for choice, top in tops.items()
    ]
    words = alt.Chart(data(names)).mark_text(
        align="right", baseline="middle", fontSize=11, color=FAINT_INK
    )
    yield words.encode(x=XValue(-8), y=y, text=alt.Text("text:N"))
