"""The similarities of a conversation, over its turns and as a map of all pairs.

Conversations of any length are first made small enough to draw and to put in words.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from numpy.typing import NDArray

from chimeralab.core.numbers import cutoff
from chimeralab.core.records import Episode
from chimeralab.detection.measure import Floats
from chimeralab.report.charts.canvas import (
    COLLAPSE,
    COLLAPSE_INK,
    LOOP,
    LOOP_INK,
    SERIES_COLOURS,
    SERIES_SHAPES,
    SQUARE,
    WIDE,
    Chart,
    Row,
    X2Value,
    XValue,
    Y2Value,
    YValue,
    data,
    layer_charts,
)
from chimeralab.report.table import turn_ticks

# Beyond this many turns the points run into one another and the line says it all.
MAX_MARKS = 120
# A heat map with more rows than this has squares of two pixels, and a page of megabytes.
MAX_BLOCKS = 120
# A line with more points than this shows no more on a screen.
MAX_POINTS = 1_000
# The plot, and the bar at the foot of a loop.
HEIGHT, FOOT = 220, 7
LOOP_WORD = "loop"


class PairSimilarities(NamedTuple):
    """How similar parts of a conversation are: `values[i, j]` compares `spans[i]` and `spans[j]`.

    A span is one turn, or a block of turns, and then the value is the mean over all pairs of two
    different turns; NaN where there is no such pair.
    """

    spans: list[Episode]
    values: Floats

    @property
    def block(self) -> int:
        """How many turns a span holds (the last one may hold fewer)."""
        return self.spans[0].end

    def most_alike(self, count: int) -> list[tuple[Episode, Episode, float]]:
        """The pairs with the highest similarity, earlier and later; among equals, the earliest."""
        later, earlier = np.tril_indices(len(self.spans))
        found = self.values[later, earlier]
        # Rounded, since a repeated text may fall short of 1 by a rounding error; NaN sorts last.
        best = np.argsort(-np.round(found, 6), kind="stable")[:count]
        return [
            (self.spans[earlier[i]], self.spans[later[i]], float(found[i]))
            for i in best
            if not np.isnan(found[i])
        ]


def compare_turns(vectors: NDArray[np.float32], most_blocks: int = MAX_BLOCKS) -> PairSimilarities:
    """Every turn with every other; of a long conversation, blocks of turns with one another.

    >>> pairs = compare_turns(np.eye(2, dtype=np.float32)[[0, 1, 0]])
    >>> pairs.most_alike(1)
    [(Episode(start=1, end=1), Episode(start=3, end=3), 1.0)]
    """
    spans = split_turns(len(vectors), most_blocks)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    starts = [span.start - 1 for span in spans]
    sizes = np.array([span.end - span.start + 1 for span in spans], dtype=float)
    sums = np.add.reduceat(unit, starts, axis=0).astype(np.float64)
    # For vectors of length 1, the sum over all pairs is the product of the sums.
    values = (sums @ sums.T) / np.outer(sizes, sizes)
    # Within a block, a turn is not compared with itself.
    with np.errstate(divide="ignore", invalid="ignore"):
        within = (np.einsum("ij,ij->i", sums, sums) - sizes) / (sizes * (sizes - 1))
    np.fill_diagonal(values, np.where(sizes > 1, within, np.nan))
    return PairSimilarities(spans, np.clip(values, -1, 1))


def split_turns(turns: int, most: int) -> list[Episode]:
    """The turns cut into at most so many spans of one size (the last may be shorter).

    >>> split_turns(5, 3)
    [Episode(start=1, end=2), Episode(start=3, end=4), Episode(start=5, end=5)]
    """
    size = max(1, -(-turns // most))
    return [Episode(start, min(start + size - 1, turns)) for start in range(1, turns + 1, size)]


def keep_peaks(
    values: Sequence[float | None], most: int = MAX_POINTS
) -> tuple[list[int], list[float | None]]:
    """Turns and values as they are; of a long series, the peak of each block at its first turn.

    >>> keep_peaks([None, 0.2, 0.5, 0.1], most=2)
    ([1, 3], [0.2, 0.5])
    """
    spans = split_turns(len(values), most)
    known = [[v for v in values[span.start - 1 : span.end] if v is not None] for span in spans]
    return [span.start for span in spans], [max(some, default=None) for some in known]


class SimilarityLine(NamedTuple):
    """One measured quantity over the turns, and the value from which it counts."""

    symbol: str
    name: str
    turns: Sequence[int]
    values: Sequence[float | None]
    threshold: float


def timeline(
    lines: Sequence[SimilarityLine],
    last_turn: int,
    shades: Mapping[str, Sequence[Episode]],
    *,
    width: int = WIDE,
) -> Chart:
    """Lines over the turns, their thresholds dashed, spans shaded under the word for them.

    `LOOP_WORD` is the word for loops; any other is how it is said that turns collapsed.
    """
    rows: list[Row] = [
        {"name": line.name, "turn": turn, "value": value}
        for line in lines
        for turn, value in zip(line.turns, line.values, strict=True)
        if value is not None
    ]
    lowest = min((row["value"] for row in rows), default=0.0)
    heights = alt.Scale(domain=[min(0.0, np.floor(10 * lowest) / 10), 1], nice=False)
    turns = alt.Scale(**_turn_scale(last_turn))
    names = [line.name for line in lines]
    legend = alt.Legend(orient="bottom", direction="vertical", labelLimit=0, offset=6)
    colours = alt.Scale(domain=names, range=list(SERIES_COLOURS[: len(names)]))
    colour = alt.Color("name:N", title=None, legend=legend, scale=colours)
    base = alt.Chart(data(rows)).encode(
        x=alt.X("turn:Q", title="judged turn", scale=turns, axis=_turn_axis(last_turn, width)),
        y=alt.Y("value:Q", title="similarity", scale=heights),
        color=colour,
    )
    layers = [
        *(layer for word, spans in shades.items() for layer in _shading(word, spans)),
        *_thresholds(lines, colour, width),
        base.mark_line(strokeWidth=1.5, strokeJoin="round", aria=False),
    ]
    if last_turn <= MAX_MARKS:
        shapes = alt.Scale(domain=names, range=list(SERIES_SHAPES[: len(names)]))
        points = base.mark_point(filled=True, size=36, opacity=1, aria=False)
        layers.append(points.encode(shape=alt.Shape("name:N", title=None, scale=shapes)))
    return layer_charts(layers, width, HEIGHT)


def _shading(word: str, spans: Sequence[Episode]) -> Iterator[alt.Chart]:
    """Spans, and their word over the widest of them.

    Loops have a bar at their foot, which is seen where they lie under a collapsed span, too.
    """
    area = alt.Chart(data(_edges(spans))).encode(x=alt.X("from:Q"), x2=alt.X2("to:Q"))
    if word != LOOP_WORD:
        yield area.mark_rect(color=COLLAPSE, opacity=0.16, aria=False)
        yield from _word(word, COLLAPSE_INK, spans, 0)
        return
    yield area.mark_rect(color=LOOP, opacity=0.1, aria=False)
    foot = area.mark_rect(color=LOOP, aria=False)
    yield foot.encode(y=YValue(HEIGHT - FOOT), y2=Y2Value(HEIGHT))
    yield from _word(word, LOOP_INK, spans, HEIGHT - FOOT)


def _word(text: str, colour: str, spans: Sequence[Episode], height: int) -> Iterator[alt.Chart]:
    """A word at the middle of the widest span."""
    widest = sorted(spans, key=lambda span: span.start - span.end)[:1]
    place = alt.Chart(data({"middle": (span.start + span.end) / 2} for span in widest))
    word = place.mark_text(text=text, color=colour, fontWeight="bold", baseline="bottom", dy=-4)
    yield word.encode(x=alt.X("middle:Q"), y=YValue(height))


def _thresholds(
    lines: Sequence[SimilarityLine], colour: alt.Color, width: int
) -> Iterator[alt.Chart]:
    """Dashed lines with their values beside them, of which the lowest stands under its line."""
    rows: list[Row] = [
        {
            "name": line.name,
            "at": line.threshold,
            "label": f"{line.symbol} ≥ {cutoff(line.threshold)}",
        }
        for line in sorted(lines, key=lambda line: line.threshold)
    ]
    rules = alt.Chart(data(rows)).mark_rule(strokeDash=[5, 3], aria=False)
    yield rules.encode(y=alt.Y("at:Q"), color=colour)
    under = alt.Chart(data(rows[:1])).mark_text(align="left", dx=5, baseline="top")
    over = alt.Chart(data(rows[1:])).mark_text(align="left", dx=5, baseline="bottom")
    for labels in (under, over):
        yield labels.encode(x=XValue(width), y=alt.Y("at:Q"), text=alt.Text("label:N"))


def _turn_scale(last_turn: int) -> dict[str, Any]:
    return {"domain": [0.5, last_turn + 0.5], "nice": False}


def _turn_axis(last_turn: int, width: int, *, offset: int = 0) -> alt.Axis:
    ticks = turn_ticks(last_turn, width)
    return alt.Axis(values=ticks, grid=False, format="d", offset=offset)


def _edges(spans: Sequence[Episode]) -> list[Row]:
    """A turn is drawn as wide as the distance to the next one, so that spans have no gaps."""
    return [{"from": span.start - 0.5, "to": span.end + 0.5} for span in spans]


def heat_map(
    spans: Sequence[Episode], values: NDArray[np.float64], marked: Sequence[Episode]
) -> Chart:
    """How similar any two parts of a conversation are: the earlier across, the later downwards.

    `values[i, j]` compares `spans[i]` with `spans[j]`; only j <= i is drawn, and NaN leaves a gap.
    Marked spans get a bar along both axes.
    """
    axis = _turn_axis(spans[-1].end, SQUARE, offset=9)
    scale = _turn_scale(spans[-1].end)
    # The upper right half of the map is empty: the legend stands there.
    legend = alt.Legend(
        orient="none",
        legendX=SQUARE - 90,
        legendY=-4,
        rowPadding=0,
        symbolType="square",
        symbolSize=150,
    )
    steps = alt.Scale(domain=[step_name(step) for step in STEPS], scheme="yellowgreenblue")
    squares = alt.Chart(data(_cells(spans, values))).mark_rect(aria=False)
    bars = alt.Chart(data(_edges(marked))).mark_rect(color=COLLAPSE, aria=False)
    layers = [
        squares.encode(
            x=alt.X("from:Q", title="earlier turn", scale=alt.Scale(**scale), axis=axis),
            x2=alt.X2("to:Q"),
            y=alt.Y("top:Q", title="later turn", scale=alt.Scale(**scale, reverse=True), axis=axis),
            y2=alt.Y2("bottom:Q"),
            color=alt.Color("step:N", title="similarity", legend=legend, scale=steps),
        ),
        bars.encode(y=alt.Y("from:Q"), y2=alt.Y2("to:Q"), x=XValue(-8), x2=X2Value(-2)),
        bars.encode(
            x=alt.X("from:Q"),
            x2=alt.X2("to:Q"),
            y=YValue(SQUARE + 2),
            y2=Y2Value(SQUARE + 8),
        ),
    ]
    return layer_charts(layers, SQUARE, SQUARE)


STEPS = tuple(round(0.1 * step, 1) for step in range(10))


def step_name(similarity: float) -> str:
    """The colour step of a similarity, as the legend names it.

    >>> step_name(0.93), step_name(0.9), step_name(-0.2)
    ('0.9 to 1.0', '0.9 to 1.0', 'under 0.1')
    """
    low = max((step for step in STEPS if similarity >= step), default=0.0)
    return f"{low:.1f} to {low + 0.1:.1f}" if low else "under 0.1"


def _cells(spans: Sequence[Episode], values: NDArray[np.float64]) -> Iterator[Row]:
    """Neighbours of one colour in a row become one cell: the same picture in fewer pieces."""
    for row, span in enumerate(spans):
        down = {"top": span.start - 0.5, "bottom": span.end + 0.5}
        earlier = values[row, : row + 1].tolist()
        steps = ("" if np.isnan(value) else step_name(value) for value in earlier)
        for step, run in groupby(zip(steps, spans, strict=False), key=lambda cell: cell[0]):
            across = [span for _, span in run]
            if step:
                ends = {"from": across[0].start - 0.5, "to": across[-1].end + 0.5}
                yield {"step": step, **down, **ends}
