"""Similarities within a conversation, over its turns and as a heat map of all pairs.

Long conversations are downsampled first.
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

# With more turns, points overlap and only the line is drawn.
MAX_MARKS = 120
# More rows would make squares of two pixels, and pages of megabytes.
MAX_BLOCKS = 120
# More points would not be visible on a screen.
MAX_POINTS = 1_000
# Height of the plot, and of the bar that marks a loop.
HEIGHT, FOOT = 220, 7
LOOP_WORD = "loop"


class PairSimilarities(NamedTuple):
    """Similarities of spans of a conversation: `values[i, j]` compares `spans[i]` and `spans[j]`.

    A span is a turn or a block of turns; the value for blocks is the mean over all pairs of
    different turns, NaN if there is none.
    """

    spans: list[Episode]
    values: Floats

    @property
    def block(self) -> int:
        """The number of turns per span (the last may have fewer)."""
        return self.spans[0].end

    def most_alike(self, count: int) -> list[tuple[Episode, Episode, float]]:
        """The most similar pairs, earlier span first; ties are broken by position."""
        later, earlier = np.tril_indices(len(self.spans))
        found = self.values[later, earlier]
        # Rounded, because repeated texts may differ from 1 by rounding errors; NaN sorts last.
        best = np.argsort(-np.round(found, 6), kind="stable")[:count]
        return [
            (self.spans[earlier[i]], self.spans[later[i]], float(found[i]))
            for i in best
            if not np.isnan(found[i])
        ]


def compare_turns(vectors: NDArray[np.float32], most_blocks: int = MAX_BLOCKS) -> PairSimilarities:
    """Compare every turn with every other, or blocks of turns in a long conversation.

    >>> pairs = compare_turns(np.eye(2, dtype=np.float32)[[0, 1, 0]])
    >>> pairs.most_alike(1)
    [(Episode(start=1, end=1), Episode(start=3, end=3), 1.0)]
    """
    spans = split_turns(len(vectors), most_blocks)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    starts = [span.start - 1 for span in spans]
    sizes = np.array([span.end - span.start + 1 for span in spans], dtype=float)
    sums = np.add.reduceat(unit, starts, axis=0).astype(np.float64)
    # For unit vectors, the sum over all pairs is the product of the sums.
    values = (sums @ sums.T) / np.outer(sizes, sizes)
    # Exclude the comparison of a turn with itself.
    with np.errstate(divide="ignore", invalid="ignore"):
        within = (np.einsum("ij,ij->i", sums, sums) - sizes) / (sizes * (sizes - 1))
    np.fill_diagonal(values, np.where(sizes > 1, within, np.nan))
    return PairSimilarities(spans, np.clip(values, -1, 1))


def split_turns(turns: int, limit: int) -> list[Episode]:
    """Split turns into at most `limit` spans of equal size (the last may be shorter).

    >>> split_turns(5, 3)
    [Episode(start=1, end=2), Episode(start=3, end=4), Episode(start=5, end=5)]
    """
    size = max(1, -(-turns // limit))
    return [Episode(start, min(start + size - 1, turns)) for start in range(1, turns + 1, size)]


def keep_peaks(
    values: Sequence[float | None], limit: int = MAX_POINTS
) -> tuple[list[int], list[float | None]]:
    """Downsample a long series to the peak of each block, at its first turn.

    >>> keep_peaks([None, 0.2, 0.5, 0.1], limit=2)
    ([1, 3], [0.2, 0.5])
    """
    spans = split_turns(len(values), limit)
    known = [[v for v in values[span.start - 1 : span.end] if v is not None] for span in spans]
    return [span.start for span in spans], [max(some, default=None) for some in known]


class SimilarityLine(NamedTuple):
    """A similarity over the turns, and its threshold."""

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
    """Lines over the turns, with dashed thresholds and labelled shaded spans.

    `LOOP_WORD` labels loops; any other label marks collapsed turns.
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
        *(layer for word, spans in shades.items() for layer in _shade_spans(word, spans)),
        *_thresholds(lines, colour, width),
        base.mark_line(strokeWidth=1.5, strokeJoin="round", aria=False),
    ]
    if last_turn <= MAX_MARKS:
        shapes = alt.Scale(domain=names, range=list(SERIES_SHAPES[: len(names)]))
        points = base.mark_point(filled=True, size=36, opacity=1, aria=False)
        layers.append(points.encode(shape=alt.Shape("name:N", title=None, scale=shapes)))
    return layer_charts(layers, width, HEIGHT)


def _shade_spans(word: str, spans: Sequence[Episode]) -> Iterator[alt.Chart]:
    """Shade spans, with the label over the widest one.

    Loops also have a bar at the bottom, which stays visible under a collapsed span.
    """
    area = alt.Chart(data(_edges(spans))).encode(x=alt.X("from:Q"), x2=alt.X2("to:Q"))
    if word != LOOP_WORD:
        yield area.mark_rect(color=COLLAPSE, opacity=0.16, aria=False)
        yield from _label_widest(word, COLLAPSE_INK, spans, 0)
        return
    yield area.mark_rect(color=LOOP, opacity=0.1, aria=False)
    foot = area.mark_rect(color=LOOP, aria=False)
    yield foot.encode(y=YValue(HEIGHT - FOOT), y2=Y2Value(HEIGHT))
    yield from _label_widest(word, LOOP_INK, spans, HEIGHT - FOOT)


def _label_widest(
    text: str, colour: str, spans: Sequence[Episode], height: int
) -> Iterator[alt.Chart]:
    """Put a label at the middle of the widest span."""
    widest = sorted(spans, key=lambda span: span.start - span.end)[:1]
    place = alt.Chart(data({"middle": (span.start + span.end) / 2} for span in widest))
    word = place.mark_text(text=text, color=colour, fontWeight="bold", baseline="bottom", dy=-4)
    yield word.encode(x=alt.X("middle:Q"), y=YValue(height))


def _thresholds(
    lines: Sequence[SimilarityLine], colour: alt.Color, width: int
) -> Iterator[alt.Chart]:
    """Dashed lines labelled with their values; the label of the lowest goes below it."""
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
    """Edges half a turn outside, so that adjacent spans have no gap."""
    return [{"from": span.start - 0.5, "to": span.end + 0.5} for span in spans]


def heat_map(
    spans: Sequence[Episode], values: NDArray[np.float64], marked: Sequence[Episode]
) -> Chart:
    """A heat map of similarities, with the earlier span on x and the later one on y.

    `values[i, j]` compares `spans[i]` with `spans[j]`; only j <= i is drawn, and NaN leaves a gap.
    Marked spans get a bar along both axes.
    """
    axis = _turn_axis(spans[-1].end, SQUARE, offset=9)
    scale = _turn_scale(spans[-1].end)
    # The legend goes into the empty upper right half.
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
    """The legend entry of a similarity.

    >>> step_name(0.93), step_name(0.9), step_name(-0.2)
    ('0.9 to 1.0', '0.9 to 1.0', 'under 0.1')
    """
    low = max((step for step in STEPS if similarity >= step), default=0.0)
    return f"{low:.1f} to {low + 0.1:.1f}" if low else "under 0.1"


def _cells(spans: Sequence[Episode], values: NDArray[np.float64]) -> Iterator[Row]:
    """Merge adjacent cells of one colour in a row, for a smaller file."""
    for row, span in enumerate(spans):
        down = {"top": span.start - 0.5, "bottom": span.end + 0.5}
        earlier = values[row, : row + 1].tolist()
        steps = ("" if np.isnan(value) else step_name(value) for value in earlier)
        for step, run in groupby(zip(steps, spans, strict=False), key=lambda cell: cell[0]):
            across = [span for _, span in run]
            if step:
                ends = {"from": across[0].start - 0.5, "to": across[-1].end + 0.5}
                yield {"step": step, **down, **ends}
