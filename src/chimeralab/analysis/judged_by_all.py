"""Conversations judged by every detector one could have declared, as one table for each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.analysis.every_detector import Marks, bench, judge_with_all
from chimeralab.analysis.runs import Run, Runs, named_run, table_of
from chimeralab.detection.measure import Measured, Measurer
from chimeralab.detection.sweep import STUDY_GRID, all_cutoffs, distinct, grid_of
from chimeralab.detectors import LOCKED, READINGS, Locked
from chimeralab.embedding.encoder import Encoder
from chimeralab.records import Trajectory

Counts = NDArray[np.int32]


class Series(NamedTuple):
    """A conversation as it is, and without its turns that hold no word."""

    whole: Measured
    skipped: Measured


class Tallies(NamedTuple):
    """What each detector (columns) found in each conversation (rows); no verdict is -1.

    ``first`` is 0 where nothing collapsed.
    """

    rows: tuple[Run, ...]
    turns: Counts
    collapsed: Counts
    first: Counts

    def table(self, detector: Locked, column: int, source: str) -> Runs | None:
        """The runs as one detector has them; None when it has a verdict on none."""
        known = self.collapsed[:, column] >= 0
        if not known.any():
            return None
        turns, first = (part[known, column].astype(float) for part in (self.turns, self.first))
        blank = table_of((row for row, kept in zip(self.rows, known, strict=True) if kept), source)
        return replace(
            blank,
            turns=turns,
            collapsed=self.collapsed[known, column].astype(float),
            first=np.where(first > 0, first, np.nan),
            at_risk=turns - detector.first_turn_at_risk + 1,
        )


def every_detector(declared: Locked = LOCKED) -> dict[Locked, int]:
    """Every distinct detector of the grid under every reading, and how many cells are equal to it.

    >>> detectors = every_detector()
    >>> len(detectors), sum(detectors.values())
    (1164, 1296)
    """
    choices = (dict(zip(READINGS, values, strict=True)) for values in product(*READINGS.values()))
    readings = [Locked(window=declared.window, **choice) for choice in choices]  # type: ignore[arg-type]
    cells = distinct(detector for base in readings for detector in grid_of(base, STUDY_GRID))
    plain = plainest(declared)
    return cells if plain in cells else {plain: 1} | cells


def plainest(detector: Locked) -> Locked:
    """The detector as the grid names those that must agree with it."""
    (plain,) = distinct([detector])
    return plain


def measure_for_all(
    trajectories: Iterable[Trajectory], detectors: Sequence[Locked], encoder: Encoder
) -> Iterator[Series]:
    """Similarities exact enough for every detector; most conversations have no turn to skip."""
    cutoffs = all_cutoffs(detectors)
    whole = Measurer(encoder, cutoffs)
    skipping = Measurer(encoder, cutoffs, skip_blank=True)
    for measured in whole.measure(trajectories):
        if measured.blank.any():
            yield Series(measured, next(skipping.measure([measured.trajectory])))
        else:
            yield Series(measured, measured)


def tally(series: Iterable[Series], detectors: Sequence[Locked]) -> Tallies:
    """Judge every conversation with every detector."""
    skips = np.array([detector.empty == "skip" for detector in detectors])
    settings = bench(detectors)
    rows, counts = [], []
    for whole, skipped in series:
        rows.append(named_run(whole.trajectory))
        found = _counted(judge_with_all(whole, settings), detectors)
        if skipped is not whole:
            other = _counted(judge_with_all(skipped, settings), detectors)
            found = np.where(skips, other, found)
        counts.append(found)
    shape = (0, 3, len(detectors))
    turns, collapsed, first = np.array(counts, np.int32).reshape(-1, *shape[1:]).swapaxes(0, 1)
    return Tallies(tuple(rows), turns, collapsed, first)


def _counted(marks: Marks, detectors: Sequence[Locked]) -> Counts:
    """Judged turns, collapsed turns and the first of them, for each detector."""
    turns = marks.shape[1]
    enough = np.array([turns >= detector.turns_needed for detector in detectors])
    collapsed = np.where(enough, marks.sum(axis=1), -1)
    first = np.where(marks.any(axis=1), marks.argmax(axis=1) + 1, 0) if turns else 0 * collapsed
    return np.array([np.full(len(detectors), turns), collapsed, first], dtype=np.int32)
