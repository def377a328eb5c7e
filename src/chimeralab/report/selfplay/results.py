"""The results of a study: its analysis, the runs it speaks of, and how far it hangs on the rule."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from chimeralab.analysis import Analysis, Outcomes, Runs, analyse, runs_of
from chimeralab.analysis.selfplay.analysis import select
from chimeralab.analysis.selfplay.comparisons import Comparison
from chimeralab.analysis.selfplay.outcomes import Estimand, Measure
from chimeralab.analysis.selfplay.robustness import primary_questions
from chimeralab.analysis.selfplay.runs import RunsLeftOut
from chimeralab.analysis.selfplay.specifications import (
    SpecificationCurve,
    every_detector,
    specification_curve,
    tally,
)
from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection
from chimeralab.detection.detectors import Detector
from chimeralab.report.selfplay.stored_similarities import stored_series
from chimeralab.study import Study

SIGNIFICANT = 0.05


class Curve(NamedTuple):
    """The specification curve of a study's finding; without one, `why_not` says why."""

    curve: SpecificationCurve | None
    why_not: str = ""


class Results(NamedTuple):
    """The analysis of a study, the runs that it describes, and the curve of its finding."""

    analysis: Analysis
    runs: Runs
    curve: SpecificationCurve | None
    no_curve: str


class Found(NamedTuple):
    """The results of a study; without any, `why_not` says why."""

    results: Results | None
    why_not: str = ""


def results_of(
    study: Study, detections: Sequence[Detection], without_verdict: Sequence[RunsLeftOut]
) -> Found:
    """Analyse what has been judged, as the plan declares it."""
    outcomes = outcomes_of(study)
    try:
        runs = runs_of(detections, study.path.name, without_verdict)
        analysis = analyse(runs, outcomes)
    except InputError as error:
        return Found(None, str(error))
    primary = primary_of(outcomes)
    described = select(runs, primary) if primary else runs
    curve = curve_of(study, detections, analysis)
    return Found(Results(_as_planned(analysis, study), described, *curve))


def outcomes_of(study: Study) -> Outcomes:
    """What the plan declares, or the defaults."""
    declared = study.plan.extras.get("outcomes", Outcomes())
    assert isinstance(declared, Outcomes)
    return declared


def primary_of(outcomes: Outcomes) -> Estimand | None:
    """The first estimand that was declared as primary."""
    return next((each for each in outcomes.estimands if each.role == "primary"), None)


def measure_of(outcomes: Outcomes) -> Measure:
    """What the primary estimand measures."""
    primary = primary_of(outcomes)
    return primary.measure if primary else "share"


def place_of(study: Study, condition: str) -> int:
    """Where a condition stands in the plan; behind all others when it is gone from there."""
    names = list(study.plan.conditions)
    return names.index(condition) if condition in names else len(names)


def _as_planned(analysis: Analysis, study: Study) -> Analysis:
    """The analysis with its conditions in the order of the plan."""
    order = sorted(analysis.conditions, key=lambda name: place_of(study, name))
    return replace(
        analysis,
        conditions={name: analysis.conditions[name] for name in order},
        curves={name: analysis.curves[name] for name in order},
        after_onset={name: analysis.after_onset[name] for name in order},
    )


def curve_of(study: Study, detections: Sequence[Detection], analysis: Analysis) -> Curve:
    """Ask the least certain of the findings again under every detector."""
    declared: Detector = study.plan.detector.settings
    detector, outcomes = declared.thresholds, outcomes_of(study)
    if detector is None:
        return Curve(None, f"the detector {declared.name} has no thresholds to vary")
    order, tau = analysis.rank_stability.order, analysis.settings.tau
    questions = primary_questions(outcomes, order, tau, detector)
    comparisons = primary_comparisons(analysis, outcomes)
    if not questions or not comparisons:
        return Curve(None, "one condition alone has nothing to be compared with")
    asked = least_certain(comparisons).weights
    question = next(each for each in questions if each.weights == asked)
    series = stored_series(detections, study.trajectories(), detector)
    return Curve(specification_curve(tally(series, every_detector(detector)), question))


def primary_comparisons(analysis: Analysis, outcomes: Outcomes) -> tuple[Comparison, ...]:
    """The comparisons of the primary estimand; every pair on the share when none is declared."""
    primary = primary_of(outcomes)
    answers = (each for each in analysis.answers if each.estimand == primary)
    return next((each.comparisons for each in answers), analysis.contrasts)


def is_found(comparison: Comparison) -> bool:
    """Whether a difference is unlike 0 at 5 % after Holm's correction."""
    return comparison.p_holm is not None and comparison.p_holm < SIGNIFICANT


def least_certain(comparisons: Sequence[Comparison]) -> Comparison:
    """Of the differences that were found, the one that would be the first to fall.

    Where none was found, the one that came nearest to it.
    """
    found = [each for each in comparisons if is_found(each)]
    if found:
        return max(found, key=lambda each: each.p_holm or 0.0)
    return min(comparisons, key=lambda each: 2.0 if each.p_holm is None else each.p_holm)
