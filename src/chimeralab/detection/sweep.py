"""Sweep a grid of thresholds over similarities measured once: do findings depend on them?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.records import Record
from chimeralab.detection.locked import LockedRule
from chimeralab.detection.measure import MeasuredConversation
from chimeralab.detection.seam import Cutoff

Floats = NDArray[np.float64]

# The grid of the preregistered study.
STUDY_GRID: Mapping[str, tuple[float, ...]] = {
    "s1": (0.90, 0.92),
    "s2": (0.88, 0.90),
    "d1": (0.06, 0.08, 0.10),
    "d2": (0.08, 0.10, 0.12),
}


@dataclass(frozen=True, slots=True)
class Point(Record):
    """A detector of the grid and the mean collapse rate that it finds."""

    settings: LockedRule
    cells: int
    rate: float | None
    rates: Mapping[str, float]
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sweep(Record):
    """The results of a grid of thresholds on a set of conversations.

    ``stability`` counts, by field, the units (seeds, buckets) in which the groups keep the order of
    their means: the fewest and the most over the detectors of the grid.
    """

    conversations: int
    without_verdict: int
    cells: int
    distinct_detectors: int
    distinct_outcomes: int
    lowest_rate: float | None
    highest_rate: float | None
    orders: int
    reference_order: tuple[str, ...]
    same_order_points: int
    stability: tuple[Mapping[str, Any], ...]
    points: tuple[Point, ...]


def grid_of(base: LockedRule, values: Mapping[str, Sequence[float]]) -> list[LockedRule]:
    """A detector for every combination of the thresholds."""
    cells: Iterator[dict[str, Any]] = (
        dict(zip(values, cell, strict=True)) for cell in product(*values.values())
    )
    return [replace(base, **cell) for cell in cells]


def distinct(grid: Iterable[LockedRule]) -> dict[LockedRule, int]:
    """The detectors of a grid that can differ, each with its number of equivalent cells.

    >>> sum(distinct(grid_of(LockedRule(), STUDY_GRID)).values())
    36
    >>> len(distinct(grid_of(LockedRule(), STUDY_GRID)))
    25
    """
    cells: dict[LockedRule, int] = {}
    for detector in grid:
        plain = _without_redundant_drift(detector)
        cells[plain] = cells.get(plain, 0) + 1
    return cells


def _without_redundant_drift(detector: LockedRule) -> LockedRule:
    # A matched drift test looser than its flag can't fail: all such values are one detector.
    if detector.drift != "matched":
        return detector
    d1, d2 = min(detector.d1, 1 - detector.s1), min(detector.d2, 1 - detector.s2)
    return replace(detector, d1=round(d1, 12), d2=round(d2, 12))


def all_cutoffs(grid: Iterable[LockedRule]) -> list[Cutoff]:
    """The cutoffs of all cells, near which similarities must be exact."""
    return sorted({cutoff for detector in grid for cutoff in detector.cutoffs})


class Sweeper:
    """Judges conversations with every detector of a grid, keeping sums only."""

    def __init__(self, grid: Sequence[LockedRule], within: Sequence[str] = ()) -> None:
        self._cells = distinct(grid)
        self._within = within
        self._grid_size = len(grid)
        self._short = 0
        # Rates by detector: of each group, and of each group in each unit of a field.
        self._rates: defaultdict[str, RateSum] = defaultdict(RateSum)
        self._units: dict[str, defaultdict[str, defaultdict[str, RateSum]]] = {
            field: defaultdict(lambda: defaultdict(RateSum)) for field in within
        }
        self._outcomes = [blake2b(digest_size=16) for _ in self._cells]

    def add(self, measured: MeasuredConversation, group: str) -> None:
        if len(measured.positions) < max(detector.turns_needed for detector in self._cells):
            self._short += 1
            return
        observations = measured.observations
        verdicts = [detector.judge(observations) for detector in self._cells]
        marks = np.array([[signal.collapsed for signal in one] for one in verdicts])
        for outcome, row in zip(self._outcomes, marks, strict=True):
            outcome.update(np.packbits(row).tobytes())
        rates = marks.mean(axis=1)
        self._rates[group].add(rates)
        for field, units in self._units.items():
            units[str(measured.trajectory.metadata.get(field, ""))][group].add(rates)

    def result(self, reference: LockedRule) -> Sweep:
        """Summarise the grid; orders are compared with the one at `reference`."""
        points, total = [], sum(group.n for group in self._rates.values())
        for index, (settings, cells) in enumerate(self._cells.items()):
            rates = {name: float(group.mean[index]) for name, group in sorted(self._rates.items())}
            pooled = sum(group.total[index] for group in self._rates.values())
            rate = float(pooled / total) if total else None
            order = tuple(name for _, name in sorted((-rates[name], name) for name in rates))
            points.append(Point(settings, cells, rate, rates, order))
        reference = _without_redundant_drift(reference)
        order = next((p.order for p in points if p.settings == reference), points[0].order)
        means = [point.rate for point in points if point.rate is not None]
        return Sweep(
            conversations=total + self._short,
            without_verdict=self._short,
            cells=self._grid_size,
            distinct_detectors=len(points),
            distinct_outcomes=len({outcome.digest() for outcome in self._outcomes}),
            lowest_rate=min(means, default=None),
            highest_rate=max(means, default=None),
            orders=len({point.order for point in points}),
            reference_order=order,
            same_order_points=sum(point.order == order for point in points),
            stability=tuple(self._stability(field, points) for field in self._within),
            points=tuple(points),
        )

    def _stability(self, field: str, points: Sequence[Point]) -> dict[str, Any]:
        complete = [unit for unit in self._units[field].values() if len(unit) == len(self._rates)]
        ordered = []
        for index, point in enumerate(points):
            means = ([float(unit[name].mean[index]) for name in point.order] for unit in complete)
            # Strictly ordered: a tie does not count.
            ordered.append(sum(all(a > b for a, b in pairwise(each)) for each in means))
        fewest, most = min(ordered, default=0), max(ordered, default=0)
        return {"field": field, "units": len(complete), "fewest": fewest, "most": most}


class RateSum:
    """The sum of rates over conversations, by detector."""

    def __init__(self) -> None:
        self.n = 0
        self.total: Floats = np.zeros(1)

    def add(self, rates: Floats) -> None:
        self.n += 1
        self.total = self.total + rates

    @property
    def mean(self) -> Floats:
        return self.total / self.n
