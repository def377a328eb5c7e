"""Charts of a self-play study."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import altair as alt
import numpy as np

from chimeralab.core.numbers import cutoff
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.locked import LockedRule
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
    labels,
    layer_charts,
    legend,
    pixel_scale,
    series_scales,
)
from chimeralab.report.table import ticks_from_0
from chimeralab.selfplay.comparisons import RankCounts
from chimeralab.selfplay.conditions import OnsetCurve
from chimeralab.selfplay.specifications import Specification
from chimeralab.stats.intervals import Interval

BINS = 20
# Pixels: two lines of text, the bars, the interval, and a margin.
WORDS, BARS, INTERVAL, AIR = 2 * LINE + 4, 44, 14, 14
ROW = WORDS + BARS + INTERVAL + AIR
BUCKET_ROW, STABILITY_ROW = 2 * LINE + 10, 2 * LINE + 36
# Pixels: the curve, the gap below it, and the row of one choice.
CURVE, GAP, CHOICE_ROW = 190, 16, 13
# More detectors than this share the squares below the curve.
MAX_COLUMNS = 60

# Label, share of collapsed turns of each run, mean and interval of a condition.
Distribution = tuple[Label, Sequence[float], float, Interval | None]


def distributions(
    conditions: Sequence[Distribution], words: ResultWords, *, width: int = WIDE
) -> Chart:
    """A histogram of runs per condition, with its mean and interval below."""
    height = ROW * len(conditions)
    tops = [ROW * place for place in range(len(conditions))]
    # Each condition has its own scale, so that every shape is visible.
    edges, steps = np.linspace(0, 1, BINS + 1), []
    for place, (_, shares, _, _) in enumerate(conditions):
        counts, floor = np.histogram(shares, edges)[0], ROW * place + WORDS + BARS
        for left, right, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True):
            if count:
                ends = {"from": left + 0.002, "to": right - 0.002}
                top = floor - BARS * count / int(counts.max())
                steps.append({"place": str(place), **ends, "top": top, "bottom": floor})
    bars = alt.Chart(data(steps)).mark_rect(aria=False)
    across = alt.X(
        "from:Q",
        title=f"share of {words.turns} in a run",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1], grid=True),
    )
    depth = alt.Y("top:Q", axis=None, scale=pixel_scale(height))
    names = [str(place) for place in range(len(conditions))]
    colour = alt.Color("place:N", legend=None, scale=series_scales(names)[0])
    shown = bars.encode(x=across, x2=alt.X2("to:Q"), y=depth, y2=alt.Y2("bottom:Q"), color=colour)
    floors = alt.Chart(data({"floor": top + WORDS + BARS} for top in tops))
    lines = floors.mark_rule(color=FAINT_INK, strokeWidth=0.5, aria=False)
    return layer_charts(
        [
            shown,
            lines.encode(y=alt.Y("floor:Q", axis=None, scale=pixel_scale(height))),
            *_means(conditions, height),
            *labels([label for label, _, _, _ in conditions], tops, height, width),
        ],
        width,
        height,
    )


def _means(conditions: Sequence[Distribution], height: float) -> Iterator[alt.Chart]:
    rows: list[Row] = [
        {
            "at": mean,
            **(interval or Interval(mean, mean))._asdict(),
            "level": ROW * place + WORDS + BARS + INTERVAL / 2 + 2,
        }
        for place, (_, _, mean, interval) in enumerate(conditions)
    ]
    level = alt.Y("level:Q", axis=None, scale=pixel_scale(height))
    base = alt.Chart(data(rows))
    clipped = alt.Scale(domain=[0, 1], nice=False, clamp=True)
    yield base.mark_rule(strokeWidth=2.5, color=INK, aria=False).encode(
        x=alt.X("low:Q", scale=clipped), x2=alt.X2("high:Q"), y=level
    )
    yield base.mark_point(shape="diamond", filled=True, size=80, color=INK, aria=False).encode(
        x=alt.X("at:Q"), y=level
    )


def buckets(
    rows: Mapping[str, Sequence[float | None]],
    conditions: Sequence[str],
    words: ResultWords,
    *,
    width: int = WIDE,
) -> Chart:
    """The mean of each condition in each bucket of prompts."""
    height = BUCKET_ROW * len(rows)
    tops = [BUCKET_ROW * place for place in range(len(rows))]
    points = alt.Chart(
        data(
            {"level": top + BUCKET_ROW - 9, "condition": name, "mean": mean}
            for top, means in zip(tops, rows.values(), strict=True)
            for name, mean in zip(conditions, means, strict=True)
            if mean is not None
        )
    )
    colours, shapes, _ = series_scales(conditions)
    key = legend(conditions, width)
    level = alt.Y("level:Q", axis=None, scale=pixel_scale(height))
    highest = max((m for means in rows.values() for m in means if m is not None), default=1.0)
    across = alt.X(
        "mean:Q",
        title=f"mean share of {words.turns}",
        scale=alt.Scale(domain=[0, max(0.1, np.ceil(10 * highest) / 10)], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    lines = alt.Chart(data({"level": top + BUCKET_ROW - 9} for top in tops))
    return layer_charts(
        [
            lines.mark_rule(color=FAINT_INK, strokeWidth=0.5, aria=False).encode(y=level),
            points.mark_point(filled=True, size=70, opacity=0.9, aria=False).encode(
                x=across,
                y=level,
                color=alt.Color("condition:N", scale=colours, legend=key),
                shape=alt.Shape("condition:N", scale=shapes, legend=key),
            ),
            *labels([(name, "") for name in rows], tops, height, width),
        ],
        width,
        height,
    )


def survival(
    curves: Mapping[str, OnsetCurve], last: int, words: ResultWords, *, width: int = WIDE
) -> Chart:
    """Survival curves up to the last turn, with pointwise bands."""
    names = list(curves)
    colours, _, dashes = series_scales(names)
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
    colour = alt.Color("condition:N", scale=colours, legend=key)
    steps = (
        {"condition": name, "turn": turn, "share": share}
        for name, curve in curves.items()
        for turn, share in zip(curve.turns, curve.survival, strict=True)
    )
    spans = (
        {"condition": name, "turn": turn, "low": low, "high": high}
        for name, curve in curves.items()
        if curve.low is not None and curve.high is not None
        for turn, low, high in zip(curve.turns, curve.low, curve.high, strict=True)
    )
    bands = alt.Chart(data(spans)).mark_area(interpolate="step-after", opacity=0.16, aria=False)
    lines = alt.Chart(data(steps)).mark_line(interpolate="step-after", strokeWidth=2, aria=False)
    dash = alt.StrokeDash("condition:N", scale=dashes, legend=key)
    return layer_charts(
        [
            bands.encode(x=turns, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour),
            lines.encode(x=turns, y=shares, color=colour, strokeDash=dash),
        ],
        width,
        260,
    )


def stability(rows: Sequence[tuple[Label, RankCounts]], *, width: int = WIDE) -> Chart:
    """Bars of how many units keep the order of the means, tie, or invert it."""
    height = STABILITY_ROW * len(rows)
    tops = [STABILITY_ROW * place for place in range(len(rows))]
    kinds = ["holds", "holds except for ties", "is inverted somewhere"]
    parts: list[Row] = []
    for top, (_, held) in zip(tops, rows, strict=True):
        before, total = 0, max(1, held.held + held.tied + held.inverted)
        for kind, count in zip(kinds, (held.held, held.tied, held.inverted), strict=True):
            ends = {"from": before / total, "to": (before + count) / total}
            text = str(count) if count / total > 0.03 else ""
            words = {"middle": (ends["from"] + ends["to"]) / 2, "text": text}
            depths = {"top": top + 2 * LINE + 2, "bottom": top + 2 * LINE + 22}
            parts.append({"kind": kind, **ends, **words, **depths})
            before += count
    depth = alt.Y("top:Q", axis=None, scale=pixel_scale(height))
    across = alt.X("from:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[BLUE, GRID, ORANGE]),
        legend=legend(kinds, width),
    )
    bars = alt.Chart(data(parts)).mark_rect(aria=False, stroke="white")
    # Counts are drawn on their bars, white on dark.
    counts = [
        alt.Chart(data(part for part in parts if part["kind"] == kind and part["text"]))
        .mark_text(color=ink, fontWeight="bold", dy=10)
        .encode(x=alt.X("middle:Q"), y=depth, text=alt.Text("text:N"))
        for kind, ink in zip(kinds, ("white", INK, INK), strict=True)
    ]
    return layer_charts(
        [
            bars.encode(x=across, x2=alt.X2("to:Q"), y=depth, y2=alt.Y2("bottom:Q"), color=colour),
            *counts,
            *labels([label for label, _ in rows], tops, height, width),
        ],
        width,
        height,
    )


def specification(
    curve: Sequence[Specification], title: str, *, percent: bool, width: int = WIDE
) -> Chart:
    """One difference under many detectors, and below it how common each choice is."""
    across = alt.Scale(domain=[0.5, len(curve) + 0.5], nice=False)
    height = CURVE + GAP + CHOICE_ROW * len(all_choices(curve))
    layers = [*_curve(curve, across, title, percent), *_choices(curve, across)]
    chart = layer_charts(layers, width, height)
    chart.resolve = alt.Resolve(scale=alt.ScaleResolveMap(y="independent"))
    return chart


def choices_of(detector: LockedRule) -> dict[str, str]:
    """The settings of a detector as the chart labels them."""
    settings = detector.as_dict()
    return {
        **{f"{name} ≥": cutoff(float(settings[name])) for name in ("s1", "s2")},
        **{f"{name} ≤": cutoff(float(settings[name])) for name in ("d1", "d2")},
        **{name: str(settings[name]) for name in ("sustain", "drift", "marking", "empty")},
    }


def all_choices(curve: Sequence[Specification]) -> list[tuple[str, str]]:
    """Every value of every setting, grouped by setting."""
    values: dict[str, set[str]] = {}
    for each in curve:
        for setting, value in choices_of(each.settings).items():
            values.setdefault(setting, set()).add(value)
    return [(setting, value) for setting, found in values.items() for value in sorted(found)]


def _curve(
    curve: Sequence[Specification], across: alt.Scale, title: str, percent: bool
) -> Iterator[alt.Chart]:
    rows: list[Row] = [
        {"rank": place, "at": each.estimate, **ends._asdict()}
        for place, each in enumerate(curve, start=1)
        if each.estimate is not None
        for ends in [each.ci or Interval(each.estimate, each.estimate)]
    ]
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


def _choices(curve: Sequence[Specification], across: alt.Scale) -> Iterator[alt.Chart]:
    """Squares below the curve, darker where more detectors made the choice."""
    tops = {
        choice: CURVE + GAP + CHOICE_ROW * place for place, choice in enumerate(all_choices(curve))
    }
    made_by = [choices_of(each.settings).items() for each in curve]
    squares: list[Row] = []
    for column in np.array_split(np.arange(len(curve)), min(MAX_COLUMNS, len(curve))):
        made = Counter(choice for n in column for choice in made_by[n])
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
        {"top": top + CHOICE_ROW / 2 - 1, "text": " ".join(choice)} for choice, top in tops.items()
    ]
    words = alt.Chart(data(names)).mark_text(
        align="right", baseline="middle", fontSize=11, color=FAINT_INK
    )
    yield words.encode(x=XValue(-8), y=y, text=alt.Text("text:N"))
