"""A specification curve: the primary contrast under every detector one could have declared."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.answers import select
from chimeralab.analysis.comparisons import Weights, sides
from chimeralab.analysis.estimands import Estimand, Measure
from chimeralab.analysis.judged_by_all import (
    Tallies,
    plainest,
)
from chimeralab.analysis.measures import per_run
from chimeralab.analysis.runs import Runs
from chimeralab.analysis.settings import horizon
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.detection.detectors import LOCKED, Locked
from chimeralab.stats.arrays import Integers
from chimeralab.stats.cells import cells_of
from chimeralab.stats.contrasts import contrast
from chimeralab.stats.intervals import Interval


@dataclass(frozen=True, slots=True)
class Specification(Record):
    """One detector and what it makes of the contrast.

    ``cells`` counts the cells of the grid that are the same detector; ``declared`` marks the one
    that the study uses.
    """

    settings: Locked
    cells: int
    declared: bool
    runs: int
    estimate: float | None
    ci: Interval | None
    p: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SpecificationCurve(Record):
    """The contrast ``a`` minus ``b`` under every detector, from the smallest estimate on.

    ``same_sign`` counts detectors that agree with the declared one on the direction, and
    ``significant`` those of them with an interval that leaves out 0.
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


class Question(NamedTuple):
    """The contrast whose robustness is asked, and the detector that was declared for it.

    ``estimand`` says which runs it speaks of; None takes them all.
    """

    weights: Weights
    measure: Measure = "share"
    tau: float | None = None
    level: float = 0.95
    detector: Locked = LOCKED
    estimand: Estimand | None = None


class _Estimate(NamedTuple):
    runs: int
    estimate: float | None
    ci: Interval | None
    p: float | None
    reason: str | None


def specification_curve(found: Tallies, question: Question) -> SpecificationCurve:
    """Ask the question under every detector."""
    if not found.rows:
        raise InputError("no conversation to judge")
    specifications = tuple(_specifications(found, question))
    declared = next(each.estimate for each in specifications if each.declared)
    known = [each.estimate for each in specifications if each.estimate is not None]
    same = [each for each in specifications if _same_sign(each.estimate, declared)]
    a, b = sides(question.weights)
    return SpecificationCurve(
        a=a,
        b=b,
        weights=dict(question.weights),
        measure=question.measure,
        conversations=len(found.rows),
        cells=sum(found.cells.values()),
        distinct_detectors=len(found.cells),
        distinct_outcomes=len(np.unique(_outcomes(found))),
        declared=declared,
        lowest=min(known, default=None),
        highest=max(known, default=None),
        same_sign=len(same),
        significant=sum(each.ci is not None and each.ci.low * each.ci.high > 0 for each in same),
        specifications=tuple(sorted(specifications, key=_place)),
    )


def _specifications(found: Tallies, question: Question) -> Iterator[Specification]:
    outcomes, declared = _outcomes(found), plainest(question.detector)
    answers: dict[tuple[int, int], _Estimate] = {}
    for column, (detector, cells) in enumerate(found.cells.items()):
        # Detectors that found the same, at risk from the same turn on, have the same estimate.
        key = (int(outcomes[column]), detector.first_turn_at_risk)
        if key not in answers:
            answers[key] = _ask(found.table(detector), question)
        yield Specification(detector, cells, detector == declared, *answers[key])


def _outcomes(found: Tallies) -> Integers:
    """A number for each detector, equal for those that found the same everywhere."""
    stacked = np.concatenate([found.turns, found.collapsed, found.first])
    return np.unique(stacked, axis=1, return_inverse=True)[1].ravel()


def _ask(runs: Runs | None, question: Question) -> _Estimate:
    if runs is None:
        return _Estimate(0, None, None, None, "no conversation is long enough for a verdict")
    if question.estimand:
        runs = select(runs, question.estimand)
    if not runs.rows:
        return _Estimate(0, None, None, None, "no run is left after what the estimand leaves out")
    values, reason = per_run(runs, question.measure, question.tau or horizon(runs))
    missing = [name for name in question.weights if name not in runs.conditions]
    if values is None or missing:
        why = reason or f"no run under {', '.join(missing)}"
        return _Estimate(len(runs.rows), None, None, None, why)
    cells = cells_of(values, runs.condition, runs.seed)
    if not cells.columns(list(question.weights)).clusters:
        return _Estimate(len(runs.rows), None, None, None, "no seed prompt has runs on every side")
    result = contrast(cells, question.weights, question.level)
    why_not = result.reasons.get("interval")
    return _Estimate(len(runs.rows), result.estimate, result.interval, result.p, why_not)


def _same_sign(one: float | None, two: float | None) -> bool:
    return one is not None and two is not None and one * two > 0


def _place(specification: Specification) -> tuple[bool, float]:
    """Where a detector stands on the curve: by its estimate, and last without one."""
    return specification.estimate is None, specification.estimate or 0.0
