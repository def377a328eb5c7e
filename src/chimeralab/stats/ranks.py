"""Rank stability: in how many clusters, or groups of them, a stated order of conditions holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chimeralab.stats.cells import Cells


@dataclass(frozen=True, slots=True)
class RankStability:
    """Clusters in which the order holds strictly, holds but for ties, or is inverted somewhere."""

    order: tuple[Any, ...]
    held: int
    tied: int
    inverted: int
    left_out: int

    @property
    def total(self) -> int:
        return self.held + self.tied + self.inverted


def rank_stability(cells: Cells, order: Sequence[Any]) -> RankStability:
    """Count the clusters whose condition means fall in the stated order, largest first.

    Give cells by prompt for stability over prompts, cells by bucket for stability over buckets.

    >>> from chimeralab.stats.cells import cells_of
    >>> cells = cells_of([3, 2, 1, 2, 2, 2], ["B", "A"] * 3, ["x", "x", "y", "y", "z", "z"])
    >>> rank_stability(cells, ["B", "A"])
    RankStability(order=('B', 'A'), held=1, tied=1, inverted=1, left_out=0)
    """
    used = cells.columns(order)
    steps = np.diff(used.means, axis=1)
    held, inverted = (steps < 0).all(axis=1), (steps > 0).any(axis=1)
    return RankStability(
        order=tuple(order),
        held=int(held.sum()),
        tied=int((~held & ~inverted).sum()),
        inverted=int(inverted.sum()),
        left_out=len(cells.clusters) - len(used.clusters),
    )
