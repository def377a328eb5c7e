"""The specification curve: one difference under every detector one could have declared."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import altair as alt
import numpy as np

from chimeralab.report.charts.canvas import Row, data, layered
from chimeralab.report.charts.timeline import Chart
from chimeralab.report.theme import BLUE, FAINT_INK, INK, WIDE
from chimeralab.stats.intervals import Interval

# Pixels: the curve, the gap under it, and the row of one choice.
CURVE, GAP, ROW = 190, 16, 13
# Detectors beyond this number share the squares under the curve.
MOST_COLUMNS = 60


class Specification(NamedTuple):
    """What one detector makes of the difference, and its choices by name."""

    estimate: float
    interval: Interval | None
    declared: bool
    choices: Mapping[str, str]


class Choice(NamedTuple):
    """A setting of the detector and a value that it can take."""

    setting: str
    value: str


def specification(
    curve: Sequence[Specification], title: str, *, percent: bool, width: int = WIDE
) -> Chart:
    """Estimates from the smallest to the largest; under them, how common each choice is there."""
    choices = all_choices(curve)
    height = CURVE + GAP + ROW * len(choices)
    across = alt.Scale(domain=[0.5, len(curve) + 0.5], nice=False)
    layers = [*_curve(curve, across, title, percent), *_choices(curve, choices, across)]
    chart = layered(layers, width, height)
    chart.resolve = alt.Resolve(scale=alt.ScaleResolveMap(y="independent"))
    return chart


def all_choices(curve: Sequence[Specification]) -> list[Choice]:
    """Every choice that any detector makes, those of one setting next to each other."""
    values: dict[str, set[str]] = {}
    for each in curve:
        for setting, value in each.choices.items():
            values.setdefault(setting, set()).add(value)
    return [Choice(setting, value) for setting, found in values.items() for value in sorted(found)]


def _curve(
    curve: Sequence[Specification], across: alt.Scale, title: str, percent: bool
) -> Iterator[alt.Chart]:
    rows: list[Row] = [
        {"rank": place, "at": each.estimate, "low": ends.low, "high": ends.high}
        for place, each in enumerate(curve, start=1)
        for ends in [each.interval or Interval(each.estimate, each.estimate)]
    ]
    depth = _depth(rows)
    axis = alt.Axis(format="+%" if percent else "+", tickCount=5)
    x = alt.X("rank:Q", axis=None, scale=across)
    at = alt.Y("at:Q", axis=None, scale=depth)
    zero = alt.Chart(data([{"at": 0}])).mark_rule(color=INK, strokeDash=[4, 3], aria=False)
    yield zero.encode(y=alt.Y("at:Q", title=title, axis=axis, scale=depth))
    bands = alt.Chart(data(rows)).mark_area(color=BLUE, opacity=0.18, aria=False)
    yield bands.encode(x=x, y=alt.Y("low:Q", axis=None, scale=depth), y2="high:Q")
    line = alt.Chart(data(rows)).mark_line(color=BLUE, strokeWidth=2, aria=False)
    yield line.encode(x=x, y=at)
    yield from _declared(curve, x, at)


def _depth(rows: Sequence[Row]) -> alt.Scale:
    """Room for every interval and for 0."""
    reach = [row[end] for row in rows for end in ("low", "high")] + [0.0]
    margin = 0.05 * (max(reach) - min(reach) or 1.0)
    ends = [min(reach) - margin, max(reach) + margin]
    return alt.Scale(domain=ends, range=[CURVE, 0], nice=False)


def _declared(curve: Sequence[Specification], x: alt.X, at: alt.Y) -> Iterator[alt.Chart]:
    places = [n for n, each in enumerate(curve, start=1) if each.declared]
    chart = alt.Chart(data({"rank": n, "at": curve[n - 1].estimate} for n in places))
    diamond = chart.mark_point(shape="diamond", filled=True, size=110, color=INK, opacity=1)
    yield diamond.encode(x=x, y=at)
    late = bool(places) and places[0] > len(curve) / 2
    word = chart.mark_text(
        text="as declared", fontWeight="bold", dy=-12, align="right" if late else "left"
    )
    yield word.encode(x=x, y=at)


def _choices(
    curve: Sequence[Specification], choices: Sequence[Choice], across: alt.Scale
) -> Iterator[alt.Chart]:
    tops = [CURVE + GAP + ROW * place for place in range(len(choices))]
    bottom = CURVE + GAP + ROW * len(choices)
    depth = alt.Scale(domain=[0, bottom], range=[0, bottom], nice=False)
    y = alt.Y("top:Q", axis=None, scale=depth)
    squares = alt.Chart(data(_squares(curve, choices, tops))).mark_rect(color=BLUE, aria=False)
    share = alt.Opacity("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0, 1]))
    x = alt.X("from:Q", axis=None, scale=across)
    yield squares.encode(x=x, x2="to:Q", y=y, y2="bottom:Q", opacity=share)
    names: list[Row] = [
        {"top": top + ROW / 2 - 1, "text": f"{choice.setting} {choice.value}"}
        for choice, top in zip(choices, tops, strict=True)
    ]
    words = alt.Chart(data(names)).mark_text(
        align="right", baseline="middle", fontSize=11, color=FAINT_INK
    )
    yield words.encode(x=alt.value(-8), y=y, text="text:N")


def _squares(
    curve: Sequence[Specification], choices: Sequence[Choice], tops: Sequence[float]
) -> Iterator[Row]:
    columns = np.array_split(np.arange(len(curve)), min(MOST_COLUMNS, len(curve)))
    for column in columns:
        made = Counter(choice for n in column for choice in curve[n].choices.items())
        ends = {"from": float(column[0]) + 0.5, "to": float(column[-1]) + 1.5}
        for choice, top in zip(choices, tops, strict=True):
            if made[choice]:
                share = round(made[choice] / len(column), 2)
                yield {**ends, "top": top, "bottom": top + ROW - 3, "share": share}
