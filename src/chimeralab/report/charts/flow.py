"""The way of the conversations from plan to analysis: as boxes, as a table, and in words."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt

from chimeralab.core.numbers import counted
from chimeralab.core.text import inert
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
    down,
    draw,
    layered,
)
from chimeralab.report.table import Table, table
from chimeralab.study import ConditionFlow

# Pixels: the least width of a column, the gap beside it, the margin inside a box.
COLUMN, GAP, MARGIN = 150, 12, 6
# How long an arrow is at least, and how far from the left edge of its column.
ARROW, ARROW_AT = 18, 26
EDGE, PAPER, LAST_PAPER = "#8c959f", "#ffffff", "#eef4fb"


class Stage(NamedTuple):
    """How many conversations came so far, what is to be said of them, and who fell out before."""

    name: str
    reached: int
    lines: Sequence[str] = ()
    lost: Sequence[str] = ()


class ArmFlow(NamedTuple):
    """One condition with its stages from first to last."""

    condition: str
    stages: Sequence[Stage]


class _Column(NamedTuple):
    left: float
    width: float

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def letters(self) -> int:
        return int((self.width - GAP - 2 * MARGIN) / LETTER)

    def wrap(self, lines: Iterable[str], indent: int = 0) -> list[str]:
        most = max(8, self.letters - indent)
        return [part for line in lines for part in textwrap.wrap(inert(line), most)]


class _Piece(NamedTuple):
    """Something on the diagram: a box, words, or an arrow."""

    kind: str
    row: Row


def flow_diagram(arms: Sequence[ArmFlow], *, width: int = WIDE) -> Chart:
    """One column for each condition, stage under stage; conditions without room go below."""
    side_by_side = max(1, min(len(arms), width // COLUMN))
    step = width / side_by_side
    columns = [_Column(step * place, step) for place in range(side_by_side)]
    pieces: list[_Piece] = []
    top = 0.0
    for start in range(0, len(arms), side_by_side):
        pieces += _band(arms[start : start + side_by_side], columns, top)
        top = max(piece.row["bottom"] for piece in pieces) + 2 * LINE
    height = top - 2 * LINE
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("top:Q", axis=None, scale=down(height))
    tip = alt.Y("bottom:Q", axis=None, scale=down(height))
    arrows = _of(pieces, "arrow")
    tips = arrows.mark_point(shape="triangle-down", filled=True, color=EDGE, opacity=1, size=50)
    boxes = [
        _of(pieces, kind)
        .mark_rect(fill=paper, stroke=EDGE, cornerRadius=3, aria=False)
        .encode(x=x, x2=alt.X2("x2:Q"), y=y, y2=alt.Y2("bottom:Q"))
        for kind, paper in (("box", PAPER), ("last box", LAST_PAPER))
    ]
    words = [
        _of(pieces, kind)
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
    return layered(layers, width, height)


def _band(arms: Sequence[ArmFlow], columns: Sequence[_Column], top: float) -> Iterator[_Piece]:
    """Some conditions side by side, each stage as tall as the tallest of its row."""
    for arm, column in zip(arms, columns, strict=False):
        name = column.wrap([arm.condition])[:1]
        yield from _words("bold", name, column.middle, top)
    top += LINE + 4
    rows = list(zip(*(arm.stages for arm in arms), strict=True))
    for number, stages in enumerate(rows):
        lost = max(len(c.wrap(s.lost, 3)) for s, c in zip(stages, columns, strict=False))
        said = max(len(c.wrap(s.lines)) for s, c in zip(stages, columns, strict=False))
        gap = max(ARROW, LINE * lost + 10) if number else 0
        bottom = top + gap + 2 * MARGIN + LINE * (1 + said)
        paper = "last box" if number == len(rows) - 1 else "box"
        for stage, column in zip(stages, columns, strict=False):
            if number:
                at = column.left + ARROW_AT
                yield _Piece("arrow", {"x": at, "top": top, "bottom": top + gap - 5})
                yield from _words("lost", column.wrap(stage.lost, 3), at + 10, top + 4)
            left, right = column.left + GAP / 2, column.left + column.width - GAP / 2
            yield _Piece(paper, {"x": left, "x2": right, "top": top + gap, "bottom": bottom})
            count, under = f"{stage.name}: {stage.reached:,}", top + gap + MARGIN
            yield from _words("bold", [count], column.middle, under)
            yield from _words("said", column.wrap(stage.lines), column.middle, under + LINE)
        top = bottom


def _words(kind: str, lines: Sequence[str], x: float, top: float) -> Iterator[_Piece]:
    for number, line in enumerate(lines):
        ends = {"top": top + LINE * number, "bottom": top + LINE * (number + 1)}
        yield _Piece(kind, {"x": x, "text": line, **ends})


WORDS: dict[str, dict[str, Any]] = {
    "bold": {"align": "center", "fontWeight": "bold", "color": INK},
    "said": {"align": "center", "color": FAINT_INK},
    "lost": {"align": "left", "color": FAINT_INK},
}


def _of(pieces: Sequence[_Piece], kind: str) -> alt.Chart:
    return alt.Chart(data(piece.row for piece in pieces if piece.kind == kind))


# How an outcome of a conversation or of a question is spoken of.
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


def lost(reasons: Mapping[str, int]) -> list[str]:
    """Reasons with their counts, where there are any."""
    return [f"{count:,} {reason}" for reason, count in reasons.items() if count > 0]


def asked_of(arm: ConditionFlow) -> Iterator[str]:
    """How many questions were asked, and what became of those without an answer."""
    total = sum(arm.attempts.values())
    if total:
        yield counted(total, "question")
    again = {ATTEMPTS.get(k, k): n for k, n in arm.attempts.items() if k != "answered"}
    if again:
        reasons = ", ".join(f"{name} {count:,}" for name, count in again.items())
        yield f"{sum(again.values()):,} without an answer: {reasons}"


def endings(arm: ConditionFlow) -> Iterator[str]:
    """How conversations came to an end."""
    for outcome, count in sorted(arm.outcomes.items()):
        yield f"{count:,} {OUTCOMES.get(outcome, outcome)}"


def flow_table(arms: Sequence[ArmFlow]) -> Table:
    """The same numbers as a table."""
    notes = [
        "; ".join(line for stage in arm.stages for line in (*stage.lost, *stage.lines))
        for arm in arms
    ]
    rows = [
        [arm.condition, *(f"{stage.reached:,}" for stage in arm.stages), note]
        for arm, note in zip(arms, notes, strict=True)
    ]
    raw = [
        {
            "condition": arm.condition,
            **{stage.name.lower(): stage.reached for stage in arm.stages},
            "notes": note,
        }
        for arm, note in zip(arms, notes, strict=True)
    ]
    stages = [stage.name for stage in arms[0].stages]
    headings = ("condition", *stages, "what happened on the way")
    return table("flow", headings, rows, raw, words=(0, len(headings) - 1))


def flow_figure(arms: Sequence[ArmFlow], caption: str) -> Figure:
    """The diagram, and the same in words."""
    parts = [
        f"{arm.condition}: " + ", ".join(f"{s.name.lower()} {s.reached:,}" for s in arm.stages)
        for arm in arms
    ]
    label = f"From plan to analysis. {'; '.join(parts)}."
    return draw("flow", label, lambda width: flow_diagram(arms, width=width), captions=[caption])
