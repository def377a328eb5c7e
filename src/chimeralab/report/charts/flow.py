"""The way of the conversations from plan to analysis, drawn as boxes with what was lost between."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt

from chimeralab.report.charts.canvas import LETTER, LINE, Row, data, down, layered
from chimeralab.report.charts.timeline import Chart
from chimeralab.report.pages import inert
from chimeralab.report.theme import FAINT_INK, INK, WIDE

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
    return layered(list(_layers(pieces, width, height)), width, height)


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
                yield from _arrow(stage, column, top, gap)
            yield from _box(stage, column, (top + gap, bottom), paper)
        top = bottom


def _arrow(stage: Stage, column: _Column, top: float, gap: float) -> Iterator[_Piece]:
    at = column.left + ARROW_AT
    yield _Piece("arrow", {"x": at, "top": top, "bottom": top + gap - 5})
    yield from _words("lost", column.wrap(stage.lost, 3), at + 10, top + 4)


def _box(stage: Stage, column: _Column, ends: tuple[float, float], paper: str) -> Iterator[_Piece]:
    top, bottom = ends
    sides = {"x": column.left + GAP / 2, "x2": column.left + column.width - GAP / 2}
    yield _Piece(paper, {**sides, "top": top, "bottom": bottom})
    yield from _words("bold", [f"{stage.name}: {stage.reached:,}"], column.middle, top + MARGIN)
    yield from _words("said", column.wrap(stage.lines), column.middle, top + MARGIN + LINE)


def _words(kind: str, lines: Sequence[str], x: float, top: float) -> Iterator[_Piece]:
    for number, line in enumerate(lines):
        ends = {"top": top + LINE * number, "bottom": top + LINE * (number + 1)}
        yield _Piece(kind, {"x": x, "text": line, **ends})


WORDS: dict[str, dict[str, Any]] = {
    "bold": {"align": "center", "fontWeight": "bold", "color": INK},
    "said": {"align": "center", "color": FAINT_INK},
    "lost": {"align": "left", "color": FAINT_INK},
}


def _layers(pieces: Sequence[_Piece], width: int, height: float) -> Iterator[alt.Chart]:
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("top:Q", axis=None, scale=down(height))
    for kind, paper in (("box", PAPER), ("last box", LAST_PAPER)):
        box = _of(pieces, kind).mark_rect(fill=paper, stroke=EDGE, cornerRadius=3, aria=False)
        yield box.encode(x=x, x2="x2:Q", y=y, y2="bottom:Q")
    arrows = _of(pieces, "arrow")
    yield arrows.mark_rule(color=EDGE, aria=False).encode(x=x, y=y, y2="bottom:Q")
    tips = arrows.mark_point(shape="triangle-down", filled=True, color=EDGE, opacity=1, size=50)
    yield tips.encode(x=x, y=alt.Y("bottom:Q", axis=None, scale=down(height)))
    for kind, look in WORDS.items():
        yield _of(pieces, kind).mark_text(baseline="top", **look).encode(x=x, y=y, text="text:N")


def _of(pieces: Sequence[_Piece], kind: str) -> alt.Chart:
    return alt.Chart(data(piece.row for piece in pieces if piece.kind == kind))
