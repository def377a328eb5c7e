"""Similarities of a conversation of any length, made small enough to draw and to put in words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.measure import Floats
from chimeralab.report.charts.timeline import Span

# A heat map with more rows than this has squares of two pixels, and a page of megabytes.
MOST_BLOCKS = 120
# A line with more points than this shows no more on a screen.
MOST_POINTS = 1_000


class Pairs(NamedTuple):
    """How alike parts of a conversation are: `values[i, j]` compares `spans[i]` and `spans[j]`.

    A span is one turn, or a block of turns, and then the value is the mean over all pairs of two
    different turns; NaN where there is no such pair.
    """

    spans: list[Span]
    values: Floats

    @property
    def block(self) -> int:
        """How many turns a span holds (the last one may hold fewer)."""
        return self.spans[0].end

    def most_alike(self, count: int) -> list["Pair"]:
        """The pairs with the highest similarity, and among equals the earliest."""
        later, earlier = np.tril_indices(len(self.spans))
        found = self.values[later, earlier]
        # Rounded, since a repeated text may fall short of 1 by a rounding error; NaN sorts last.
        best = np.argsort(-np.round(found, 6), kind="stable")[:count]
        return [
            Pair(self.spans[earlier[i]], self.spans[later[i]], float(found[i]))
            for i in best
            if not np.isnan(found[i])
        ]


class Pair(NamedTuple):
    """Two parts of a conversation and how alike they are."""

    earlier: Span
    later: Span
    similarity: float


def compare(vectors: NDArray[np.float32], most_blocks: int = MOST_BLOCKS) -> Pairs:
    """Every turn with every other; of a long conversation, blocks of turns with one another.

    >>> pairs = compare(np.eye(2, dtype=np.float32)[[0, 1, 0]])
    >>> pairs.most_alike(1)
    [Pair(earlier=Span(start=1, end=1), later=Span(start=3, end=3), similarity=1.0)]
    """
    spans = blocks(len(vectors), most_blocks)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    starts = [span.start - 1 for span in spans]
    sizes = np.array([span.end - span.start + 1 for span in spans], dtype=float)
    sums = np.add.reduceat(unit, starts, axis=0).astype(np.float64)
    # For vectors of length 1, the sum over all pairs is the product of the sums.
    values = (sums @ sums.T) / np.outer(sizes, sizes)
    np.fill_diagonal(values, _inside(sums, sizes))
    return Pairs(spans, np.clip(values, -1, 1))


def _inside(sums: Floats, sizes: Floats) -> Floats:
    """Mean similarity of two different turns of one block."""
    with np.errstate(divide="ignore", invalid="ignore"):
        within = (np.einsum("ij,ij->i", sums, sums) - sizes) / (sizes * (sizes - 1))
    return np.where(sizes > 1, within, np.nan)


def blocks(turns: int, most: int) -> list[Span]:
    """The turns cut into at most so many spans of one size (the last may be shorter).

    >>> blocks(5, 3)
    [Span(start=1, end=2), Span(start=3, end=4), Span(start=5, end=5)]
    """
    size = max(1, -(-turns // most))
    return [Span(start, min(start + size - 1, turns)) for start in range(1, turns + 1, size)]


class Peaks(NamedTuple):
    """The highest value of each block of turns, at the block's first turn."""

    turns: list[int]
    values: list[float | None]


def peaks(values: Sequence[float | None], most: int = MOST_POINTS) -> Peaks:
    """The values as they are; of a long series, the peak of each block.

    >>> peaks([None, 0.2, 0.5, 0.1], most=2)
    Peaks(turns=[1, 3], values=[0.2, 0.5])
    """
    spans = blocks(len(values), most)
    known = [[v for v in values[span.start - 1 : span.end] if v is not None] for span in spans]
    return Peaks([span.start for span in spans], [max(some, default=None) for some in known])
