"""Specification curves: a contrast under every detector that could have been declared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection, Record, Trajectory
from chimeralab.detection.locked import FIRST_FLAGGED_TURN, LOCKED, READINGS, TOLERANCE, LockedRule
from chimeralab.detection.measure import MeasuredConversation, measure
from chimeralab.detection.seam import choose_turns
from chimeralab.detection.sweep import STUDY_GRID, all_cutoffs, distinct, grid_of
from chimeralab.detection.words import is_blank
from chimeralab.embedding.encoder import Encoder, default_encoder
from chimeralab.selfplay.analysis import select
from chimeralab.selfplay.outcomes import (
    Estimand,
    Measure,
    Settings,
    per_run,
)
from chimeralab.selfplay.runs import Run, Runs, run_from_metadata, table_of
from chimeralab.stats.clusters import cells_of
from chimeralab.stats.effects import (
    SELF_PLAY,
    ContrastSpec,
    Weights,
    estimate_contrast,
    sides,
)
from chimeralab.stats.intervals import Interval

Marks = NDArray[np.bool_]


# Settings as columns, one row per detector.
SettingColumns = Mapping[str, NDArray[Any]]


def stack_settings(detectors: Sequence[LockedRule]) -> SettingColumns:
    """Stack the settings of detectors into columns."""
    numbers = ("s1", "s2", "d1", "d2", "window")
    readings = {
        "breaks": ("empty", "break"),
        "same": ("sustain", "same"),
        "both": ("drift", "both"),
        "either": ("drift", "either"),
        "retroactive": ("marking", "retroactive"),
    }
    return {
        **{
            name: np.array([[getattr(each, name)] for each in detectors], float) for name in numbers
        },
        **{
            column: np.array([[getattr(each, name) == value] for each in detectors])
            for column, (name, value) in readings.items()
        },
    }


def mark_turns(measured: MeasuredConversation, settings: SettingColumns) -> Marks:
    """Which turns (columns) each detector (rows) marks as collapsed."""
    s1, s2 = measured.similarities[:, :2].T
    judged = np.arange(1, len(s1) + 1) >= FIRST_FLAGGED_TURN
    heard = judged & ~(measured.blank & settings["breaks"])
    period1 = heard & (s1 >= settings["s1"] - TOLERANCE)
    period2 = heard & (s2 >= settings["s2"] - TOLERANCE)
    mixed = _find_sustained(period1 | period2, settings)
    alike = _find_sustained(period1, settings) | _find_sustained(period2, settings)
    low1, low2 = s1 >= 1 - settings["d1"] - TOLERANCE, s2 >= 1 - settings["d2"] - TOLERANCE
    matched = (period1 & low1) | (period2 & low2)
    either = np.where(settings["either"], low1 | low2, matched)
    low = np.where(settings["both"], low1 & low2, either)
    return np.asarray(np.where(settings["same"], alike, mixed) & low)


def _find_sustained(flags: Marks, settings: SettingColumns) -> Marks:
    """Turns in a long enough run of flags: so far, or in total for retroactive marking."""
    so_far = np.zeros(flags.shape, dtype=np.intp)
    run = np.zeros(len(flags), dtype=np.intp)
    for turn in range(flags.shape[1]):
        run = (run + 1) * flags[:, turn]
        so_far[:, turn] = run
    in_all = so_far.copy()
    for turn in range(flags.shape[1] - 2, -1, -1):
        goes_on = flags[:, turn] & flags[:, turn + 1]
        in_all[:, turn] = np.where(goes_on, in_all[:, turn + 1], in_all[:, turn])
    return np.asarray(np.where(settings["retroactive"], in_all, so_far) >= settings["window"])


Counts = NDArray[np.int32]


# A conversation with all turns, and without its blank turns.
MeasuredTwice = tuple[MeasuredConversation, MeasuredConversation]


class Tallies(NamedTuple):
    """Counts by conversation (rows) and detector (columns); -1 without a verdict.

    ``cells`` maps each detector to its number of equivalent grid cells; ``first`` is 0 without a
    collapse.
    """

    cells: Mapping[LockedRule, int]
    rows: tuple[Run, ...]
    turns: Counts
    collapsed: Counts
    first: Counts

    def rates(self, detector: LockedRule) -> list[float | None]:
        """The share of collapsed turns of each conversation by one detector."""
        column = list(self.cells).index(canonicalise(detector))
        pairs = zip(self.collapsed[:, column].tolist(), self.turns[:, column].tolist(), strict=True)
        return [None if collapsed < 0 else collapsed / turns for collapsed, turns in pairs]

    def table(self, detector: LockedRule) -> Runs | None:
        """The table of runs by one detector; None without any verdict."""
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


def list_detectors(declared: LockedRule = LOCKED) -> dict[LockedRule, int]:
    """List the distinct detectors of the grid, with their numbers of equivalent cells.

    >>> detectors = list_detectors()
    >>> len(detectors), sum(detectors.values())
    (1164, 1296)
    """
    choices = (dict(zip(READINGS, values, strict=True)) for values in product(*READINGS.values()))
    readings = [LockedRule(window=declared.window, **choice) for choice in choices]  # type: ignore[arg-type]
    cells = distinct(detector for base in readings for detector in grid_of(base, STUDY_GRID))
    plain = canonicalise(declared)
    return cells if plain in cells else {plain: 1} | cells


def canonicalise(detector: LockedRule) -> LockedRule:
    """The representative of all detectors that must agree with this one."""
    (plain,) = distinct([detector])
    return plain


def measure_all(
    trajectories: Iterable[Trajectory],
    detectors: Sequence[LockedRule],
    encoder: Encoder,
    speaker: str | None = None,
) -> Iterator[MeasuredTwice]:
    """Measure similarities that are exact near the thresholds of every detector."""
    cutoffs = all_cutoffs(detectors)
    for measured in measure(trajectories, encoder, cutoffs, speaker=speaker):
        if measured.blank.any():
            again = [measured.trajectory]
            [skipped] = measure(again, encoder, cutoffs, speaker=speaker, skip_blank=True)
            yield measured, skipped
        else:
            yield measured, measured


def load_similarities(
    detections: Iterable[Detection], trajectories: Iterable[Trajectory], declared: LockedRule
) -> Iterator[MeasuredTwice]:
    """Load stored similarities, so that other detectors need no encoding.

    They are exact near the thresholds of the declared detector, and elsewhere as precise as the
    encoder's fast vectors. Conversations with blank turns are measured again, with and without
    these, because detectors differ in how they treat them.
    """
    traces = {detection.id: detection.trace for detection in detections}
    for trajectory in trajectories:
        trace = traces.get(trajectory.id)
        if trace is None:
            continue
        if any(is_blank(turn.text) for turn in trajectory.turns):
            again, rules = [trajectory], list(list_detectors(declared))
            yield from measure_all(again, rules, default_encoder(), "all")
            continue
        rows = [[float("nan") if lag is None else lag for lag in turn.lags] for turn in trace]
        none = np.zeros(len(trace), dtype=bool)
        lags = np.array(rows, dtype=np.float64)
        stored = MeasuredConversation(trajectory, *choose_turns(trajectory, "all"), lags, none)
        yield stored, stored


def judge_with_all(
    trajectories: Iterable[Trajectory],
    encoder: Encoder,
    declared: LockedRule = LOCKED,
    speaker: str | None = None,
) -> Tallies:
    """Judge every conversation with every detector; similarities are measured once."""
    cells = list_detectors(declared)
    return tally(measure_all(trajectories, list(cells), encoder, speaker), cells)


def tally(series: Iterable[MeasuredTwice], cells: Mapping[LockedRule, int]) -> Tallies:
    """Count what every detector finds in measured conversations."""
    detectors = list(cells)
    skips = np.array([detector.empty == "skip" for detector in detectors])
    settings = stack_settings(detectors)
    rows, counts = [], []
    for whole, skipped in series:
        run = run_from_metadata(whole.trajectory.id, whole.trajectory.metadata)
        rows.append(replace(run, blank_turns=int(whole.blank.sum())))
        found = _count_turns(mark_turns(whole, settings), detectors)
        if skipped is not whole:
            other = _count_turns(mark_turns(skipped, settings), detectors)
            found = np.where(skips, other, found)
        counts.append(found)
    table = np.array(counts, dtype=np.int32).reshape(-1, 3, len(detectors))
    turns, collapsed, first = table.swapaxes(0, 1)
    return Tallies(cells, tuple(rows), turns, collapsed, first)


def _count_turns(marks: Marks, detectors: Sequence[LockedRule]) -> Counts:
    """Judged turns, collapsed turns and the first of them, for each detector."""
    turns = marks.shape[1]
    enough = np.array([turns >= detector.turns_needed for detector in detectors])
    collapsed = np.where(enough, marks.sum(axis=1), -1)
    first = np.where(marks.any(axis=1), marks.argmax(axis=1) + 1, 0) if turns else 0 * collapsed
    return np.array([np.full(len(detectors), turns), collapsed, first], dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Specification(Record):
    """The contrast under one detector.

    ``cells`` counts the equivalent cells of the grid; ``declared`` marks the detector of the study.
    """

    settings: LockedRule
    cells: int
    declared: bool
    runs: int
    estimate: float | None
    ci: Interval | None
    p: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SpecificationCurve(Record):
    """The contrast ``a`` minus ``b`` under every detector, sorted by estimate.

    ``same_sign`` counts detectors that agree with the declared one on the direction, and
    ``significant`` those of them with an interval that excludes 0.
    """

    a: str
    b: str
    weights: Weights
    measure: Measure
    conversations: int
    cells: int
    distinct_detectors: int
    distinct_outcomes: int
    declared: float | None
    lowest: float | None
    highest: float | None
    same_sign: int
    significant: int
    specifications: tuple[Specification, ...]


def specification_curve(
    found: Tallies,
    weights: Weights,
    settings: Settings,
    declared_detector: LockedRule,
    estimand: Estimand | None = None,
) -> SpecificationCurve:
    """Estimate one contrast under every detector.

    ``estimand`` sets the measure and the runs; by default, the share over all of them.
    """
    if not found.rows:
        raise InputError("no conversation to judge")
    # Detectors with the same outcomes get the same number.
    stacked = np.concatenate([found.turns, found.collapsed, found.first])
    outcomes = np.unique(stacked, axis=1, return_inverse=True)[1].ravel()
    plain, answers = canonicalise(declared_detector), {}
    specifications = []
    for column, (detector, cells) in enumerate(found.cells.items()):
        # The same outcomes and turns at risk give the same estimate.
        key = (int(outcomes[column]), detector.first_turn_at_risk)
        if key not in answers:
            answers[key] = _estimate_under(found.table(detector), weights, settings, estimand)
        specifications.append(Specification(detector, cells, detector == plain, *answers[key]))
    declared = next(each.estimate for each in specifications if each.declared)
    known = [each.estimate for each in specifications if each.estimate is not None]
    same = [each for each in specifications if (each.estimate or 0) * (declared or 0) > 0]
    a, b = sides(weights)
    return SpecificationCurve(
        a=a,
        b=b,
        weights=dict(weights),
        measure=estimand.measure if estimand else "share",
        conversations=len(found.rows),
        cells=sum(found.cells.values()),
        distinct_detectors=len(found.cells),
        distinct_outcomes=len(np.unique(outcomes)),
        declared=declared,
        lowest=min(known, default=None),
        highest=max(known, default=None),
        same_sign=len(same),
        significant=sum(each.ci is not None and each.ci.low * each.ci.high > 0 for each in same),
        specifications=tuple(
            sorted(specifications, key=lambda each: (each.estimate is None, each.estimate or 0.0))
        ),
    )


def _estimate_under(
    runs: Runs | None, weights: Weights, settings: Settings, estimand: Estimand | None
) -> tuple[Any, ...]:
    """Runs, estimate, interval, p and reason under one detector."""
    if runs is None:
        return 0, None, None, None, "no conversation is long enough for a verdict"
    if estimand:
        runs = select(runs, estimand)
    if not runs.rows:
        return 0, None, None, None, "the estimand leaves out every run"
    measure: Measure = estimand.measure if estimand else "share"
    values, reason = per_run(runs, measure, settings.tau)
    if values is None:
        return len(runs.rows), None, None, None, reason
    cells = cells_of(values, runs.condition, runs.seed)
    found = estimate_contrast(cells, ContrastSpec(weights), SELF_PLAY, measure, settings.level)
    return len(runs.rows), found.estimate, found.interval, found.p, found.reasons.get("interval")
