"""Conversations judged by every detector one could have declared, as one table for each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.analysis.every_detector import Marks, bench, judge_with_all
from chimeralab.analysis.runs import Run, Runs, named_run, table_of
from chimeralab.core.records import Trajectory
from chimeralab.detection.detectors import LOCKED, READINGS, Locked
from chimeralab.detection.measure import Measured, Measurer
from chimeralab.detection.sweep import STUDY_GRID, all_cutoffs, distinct, grid_of
from chimeralab.embedding.encoder import Encoder

Counts = NDArray[np.int32]


class Series(NamedTuple):
    """A conversation as it is, and without its turns that hold no word."""

    whole: Measured
    skipped: Measured


class Tallies(NamedTuple):
    """What each detector (columns) found in each conversation (rows); no verdict is -1.

    ``cells`` counts the cells of the grid that are the same detector; ``first`` is 0 where nothing
    collapsed.
    """

    cells: Mapping[Locked, int]
    rows: tuple[Run, ...]
    turns: Counts
    collapsed: Counts
    first: Counts

    def rates(self, detector: Locked) -> list[float | None]:
        """The share of collapsed turns of each conversation by one detector."""
        column = list(self.cells).index(plainest(detector))
        pairs = zip(self.collapsed[:, column].tolist(), self.turns[:, column].tolist(), strict=True)
        return [None if collapsed < 0 else collapsed / turns for collapsed, turns in pairs]

    def table(self, detector: Locked) -> Runs | None:
        """The runs as one detector has them; None when it has a verdict on none."""
        column = list(self.cells).index(detector)
        counts = (part[:, column].tolist() for part in (self.turns, self.collapsed, self.first))
        rows = [
            replace(
                row,
                total_turns=turns,
                collapsed_turns=collapsed,
                first_collapse_turn=first or None,
                at_risk_turns=turns - detector.first_turn_at_risk + 1,
            )
            for row, turns, collapsed, first in zip(self.rows, *counts, strict=True)
            if collapsed >= 0
        ]
        return table_of(rows, "specification") if rows else None


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
    trajectories: Iterable[Trajectory],
    detectors: Sequence[Locked],
    encoder: Encoder,
    speaker: str | None = None,
) -> Iterator[Series]:
    """Similarities exact enough for every detector; most conversations have no turn to skip."""
    cutoffs = all_cutoffs(detectors)
    whole = Measurer(encoder, cutoffs, speaker=speaker)
    skipping = Measurer(encoder, cutoffs, speaker=speaker, skip_blank=True)
    for measured in whole.measure(trajectories):
        if measured.blank.any():
            yield Series(measured, next(skipping.measure([measured.trajectory])))
        else:
            yield Series(measured, measured)


def judge_by_all(
    trajectories: Iterable[Trajectory],
    encoder: Encoder,
    declared: Locked = LOCKED,
    speaker: str | None = None,
) -> Tallies:
    """Judge every conversation with every detector; similarities are measured once for all."""
    cells = every_detector(declared)
    return tally(measure_for_all(trajectories, list(cells), encoder, speaker), cells)


def tally(series: Iterable[Series], cells: Mapping[Locked, int]) -> Tallies:
    """Count what every detector finds in conversations that are measured."""
    detectors = list(cells)
    skips = np.array([detector.empty == "skip" for detector in detectors])
    settings = bench(detectors)
    rows, counts = [], []
    for whole, skipped in series:
        run = named_run(whole.trajectory.id, whole.trajectory.metadata)
        rows.append(replace(run, blank_turns=int(whole.blank.sum())))
        found = _counted(judge_with_all(whole, settings), detectors)
        if skipped is not whole:
            other = _counted(judge_with_all(skipped, settings), detectors)
            found = np.where(skips, other, found)
        counts.append(found)
    table = np.array(counts, dtype=np.int32).reshape(-1, 3, len(detectors))
    turns, collapsed, first = table.swapaxes(0, 1)
    return Tallies(cells, tuple(rows), turns, collapsed, first)


def _counted(marks: Marks, detectors: Sequence[Locked]) -> Counts:
    """Judged turns, collapsed turns and the first of them, for each detector."""
    turns = marks.shape[1]
    enough = np.array([turns >= detector.turns_needed for detector in detectors])
    collapsed = np.where(enough, marks.sum(axis=1), -1)
    first = np.where(marks.any(axis=1), marks.argmax(axis=1) + 1, 0) if turns else 0 * collapsed
    return np.array([np.full(len(detectors), turns), collapsed, first], dtype=np.int32)
