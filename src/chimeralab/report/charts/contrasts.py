"""Charts of differences: a forest of contrasts, and how far the order of conditions holds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import altair as alt

from chimeralab.report.charts.canvas import LINE, Label, Row, data, down, labels, layered, legend
from chimeralab.report.charts.timeline import Chart
from chimeralab.report.theme import BLUE, FAINT_INK, GRID, INK, ORANGE, WIDE
from chimeralab.stats.intervals import Interval

EFFECT_ROW = 2 * LINE + 42
STABILITY_ROW = 2 * LINE + 36
CLUSTERED = "by prompt"
NAIVE = "as if all runs were independent"


class Effect(NamedTuple):
    """A difference, its interval over prompts, and the interval that ignores prompts."""

    label: Label
    estimate: float | None
    interval: Interval | None
    naive: Interval | None


class Stability(NamedTuple):
    """In how many units an order holds, holds but for ties, or is inverted."""

    label: Label
    held: int
    tied: int
    inverted: int


def forest(effects: Sequence[Effect], title: str, *, percent: bool, width: int = WIDE) -> Chart:
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
            bars.encode(x=across, x2="high:Q", y=level, color=colour),
            points.encode(x="at:Q", y=level, color=colour, shape=shape),
            *labels([each.label for each in effects], tops, height, width),
        ],
        width,
        height,
    )


def _bars(effects: Sequence[Effect]) -> Iterator[Row]:
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


def stability(rows: Sequence[Stability], *, width: int = WIDE) -> Chart:
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
    return layered(
        [
            bars.encode(x=across, x2="to:Q", y=depth, y2="bottom:Q", color=colour),
            *_counts(parts, kinds, depth),
            *labels([each.label for each in rows], tops, height, width),
        ],
        width,
        height,
    )


def _counts(parts: Sequence[Row], kinds: Sequence[str], depth: alt.Y) -> Iterator[alt.Chart]:
    """Counts on their bars, white where the bar is dark."""
    for kind, ink in zip(kinds, ("white", INK, INK), strict=True):
        rows = data(part for part in parts if part["kind"] == kind and part["text"])
        mark = alt.Chart(rows).mark_text(color=ink, fontWeight="bold", dy=10)
        yield mark.encode(x=alt.X("middle:Q"), y=depth, text="text:N")


def _parts(rows: Sequence[Stability], kinds: Sequence[str]) -> Iterator[Row]:
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
