"""CONSORT flow of conversations from plan to analysis, as a diagram and as a table."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from chimeralab.core.numbers import plural
from chimeralab.core.text import neutralize
from chimeralab.report.charts.canvas import (
    FAINT_INK,
    INK,
    LETTER,
    LINE,
    WIDE,
    Chart,
    Figure,
    Row,
    data,
    draw,
    layer_charts,
    pixel_scale,
)
from chimeralab.report.table import Table, make_table
from chimeralab.study import ConditionFlow

# Pixels: minimum width of a column, gap between columns, margin inside a box.
COLUMN, GAP, MARGIN = 150, 12, 6
# Minimum length of an arrow, and its distance from the left edge of its column.
ARROW, ARROW_AT = 18, 26
EDGE, PAPER, LAST_PAPER = "#8c959f", "#ffffff", "#eef4fb"


class Stage(NamedTuple):
    """A stage of the flow: how many reached it, details, and losses since the stage before."""

    name: str
    reached: int
    lines: Sequence[str] = ()
    lost: Sequence[str] = ()


# The stages of each condition, first to last.
Flow = Mapping[str, Sequence[Stage]]
# A box, text or arrow of the diagram, and its position.
Piece = tuple[str, Row]


def flow_diagram(arms: Flow, *, width: int = WIDE) -> Chart:
    """Draw a column per condition, stage below stage; columns wrap to the next band."""
    side_by_side = max(1, min(len(arms), width // COLUMN))
    pieces: list[Piece] = []
    top, names = 0.0, list(arms)
    for start in range(0, len(arms), side_by_side):
        band = {name: arms[name] for name in names[start : start + side_by_side]}
        pieces += _band(band, width / side_by_side, top)
        top = max(row["bottom"] for _, row in pieces) + 2 * LINE
    height = top - 2 * LINE
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("top:Q", axis=None, scale=pixel_scale(height))
    tip = alt.Y("bottom:Q", axis=None, scale=pixel_scale(height))
    arrows = _layer_of(pieces, "arrow")
    tips = arrows.mark_point(shape="triangle-down", filled=True, color=EDGE, opacity=1, size=50)
    boxes = [
        _layer_of(pieces, kind)
        .mark_rect(fill=paper, stroke=EDGE, cornerRadius=3, aria=False)
        .encode(x=x, x2=alt.X2("x2:Q"), y=y, y2=alt.Y2("bottom:Q"))
        for kind, paper in (("box", PAPER), ("last box", LAST_PAPER))
    ]
    words = [
        _layer_of(pieces, kind)
        .mark_text(baseline="top", **look)
        .encode(x=x, y=y, text=alt.Text("text:N"))
        for kind, look in WORDS.items()
    ]
    layers = [
        *boxes,
        arrows.mark_rule(color=EDGE, aria=False).encode(x=x, y=y, y2=alt.Y2("bottom:Q")),
        tips.encode(x=x, y=tip),
        *words,
    ]
    return layer_charts(layers, width, height)


def _band(arms: Flow, width: float, top: float) -> Iterator[Piece]:
    """Conditions side by side, each stage as tall as the tallest in its row."""
    letters = int((width - GAP - 2 * MARGIN) / LETTER)

    def wrap(lines: Iterable[str], indent: int = 0) -> list[str]:
        most = max(8, letters - indent)
        return [part for line in lines for part in textwrap.wrap(neutralize(line), most)]

    for place, name in enumerate(arms):
        yield from _words("bold", wrap([name])[:1], width * place + width / 2, top)
    top += LINE + 4
    rows = list(zip(*arms.values(), strict=True))
    for number, stages in enumerate(rows):
        lost = max(len(wrap(stage.lost, 3)) for stage in stages)
        said = max(len(wrap(stage.lines)) for stage in stages)
        gap = max(ARROW, LINE * lost + 10) if number else 0
        bottom = top + gap + 2 * MARGIN + LINE * (1 + said)
        paper = "last box" if number == len(rows) - 1 else "box"
        for place, stage in enumerate(stages):
            left, middle = width * place, width * place + width / 2
            if number:
                at = left + ARROW_AT
                yield "arrow", {"x": at, "top": top, "bottom": top + gap - 5}
                yield from _words("lost", wrap(stage.lost, 3), at + 10, top + 4)
            ends = {"x": left + GAP / 2, "x2": left + width - GAP / 2}
            yield paper, {**ends, "top": top + gap, "bottom": bottom}
            count, under = f"{stage.name}: {stage.reached:,}", top + gap + MARGIN
            yield from _words("bold", [count], middle, under)
            yield from _words("said", wrap(stage.lines), middle, under + LINE)
        top = bottom


def _words(kind: str, lines: Sequence[str], x: float, top: float) -> Iterator[Piece]:
    for number, line in enumerate(lines):
        ends = {"top": top + LINE * number, "bottom": top + LINE * (number + 1)}
        yield kind, {"x": x, "text": line, **ends}


WORDS: dict[str, dict[str, Any]] = {
    "bold": {"align": "center", "fontWeight": "bold", "color": INK},
    "said": {"align": "center", "color": FAINT_INK},
    "lost": {"align": "left", "color": FAINT_INK},
}


def _layer_of(pieces: Sequence[Piece], kind: str) -> alt.Chart:
    return alt.Chart(data(row for each, row in pieces if each == kind))


# Labels for outcomes of conversations and of requests.
OUTCOMES = {
    "completed": "completed",
    "collapsed": "stopped on collapse, as planned",
    "failed": "failed",
    "overflow": "history too long",
    "refusal": "refused",
    "empty": "empty reply",
}
ATTEMPTS = {
    "rate_limit": "rate limit",
    "server": "server error",
    "connection": "no connection",
    "timeout": "timed out",
    "bad_answer": "unreadable answer",
    "overflow": "history too long",
    "auth": "wrong key",
    "refused": "refused",
    "refusal": "refused",
    "empty": "empty reply",
    "interrupted": "run killed",
    "cancelled": "run stopped",
    "crashed": "crashed",
    "in flight": "in flight",
}


def format_counts(reasons: Mapping[str, int]) -> list[str]:
    """Format reasons with their counts, omitting zeros."""
    return [f"{count:,} {reason}" for reason, count in reasons.items() if count > 0]


def describe_attempts(arm: ConditionFlow) -> Iterator[str]:
    """Count the requests, and those without an answer by reason."""
    total = sum(arm.attempts.values())
    if total:
        yield plural(total, "request")
    again = {ATTEMPTS.get(k, k): n for k, n in arm.attempts.items() if k != "answered"}
    if again:
        reasons = ", ".join(f"{name} {count:,}" for name, count in again.items())
        yield f"{sum(again.values()):,} without an answer: {reasons}"


def describe_outcomes(arm: ConditionFlow) -> Iterator[str]:
    """Count the conversations by how they ended."""
    for outcome, count in sorted(arm.outcomes.items()):
        yield f"{count:,} {OUTCOMES.get(outcome, outcome)}"


def flow_table(arms: Flow) -> Table:
    """The flow as a table."""
    rows, raw = [], []
    for name, stages in arms.items():
        note = "; ".join(line for stage in stages for line in (*stage.lost, *stage.lines))
        rows.append([name, *(f"{stage.reached:,}" for stage in stages), note])
        counts = {stage.name.lower(): stage.reached for stage in stages}
        raw.append({"condition": name, **counts, "notes": note})
    named = [stage.name for stage in next(iter(arms.values()))]
    headings = ("condition", *named, "details")
    return make_table("flow", headings, rows, raw, words=(0, len(headings) - 1))


def flow_figure(arms: Flow, caption: str) -> Figure:
    """The flow as a figure with a text alternative."""
    parts = [
        f"{name}: " + ", ".join(f"{stage.name.lower()} {stage.reached:,}" for stage in stages)
        for name, stages in arms.items()
    ]
    label = f"From plan to analysis. {'; '.join(parts)}."
    return draw("flow", label, lambda width: flow_diagram(arms, width=width), captions=[caption])
