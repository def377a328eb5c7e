"""All that a study's report is made from, read once."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chimeralab import pipeline
from chimeralab.analysis import Analysis, Outcomes, Runs, analyse, runs_of
from chimeralab.analysis.answers import select
from chimeralab.analysis.comparisons import Comparison
from chimeralab.analysis.estimands import Estimand, Measure
from chimeralab.analysis.judged_by_all import every_detector, tally
from chimeralab.analysis.robustness import primary_questions
from chimeralab.analysis.runs import LeftOut
from chimeralab.analysis.specifications import SpecificationCurve, specification_curve
from chimeralab.detection.columns import from_json
from chimeralab.detectors import Locked
from chimeralab.errors import InputError
from chimeralab.records import Detection
from chimeralab.report.claims import Reliability, read_reliability
from chimeralab.report.stored_similarities import stored_series
from chimeralab.study import Arm, Lock, LockError, Study, flow
from chimeralab.study.detecting import stored_detections
from chimeralab.study.verify import Verification

SIGNIFICANT = 0.05


class Results(NamedTuple):
    """The analysis of a study, the runs that it describes, and the curve of its finding."""

    analysis: Analysis
    runs: Runs
    curve: SpecificationCurve | None
    no_curve: str


class Material(NamedTuple):
    """A study as a report sees it. Without results, `no_results` says why."""

    study: Study
    lock: Lock | None
    verification: Verification
    arms: tuple[Arm, ...]
    interventions: Counter[str]
    detections: tuple[Detection, ...]
    unjudged: str
    results: Results | None
    no_results: str
    reliability: Reliability | None

    @property
    def outcomes(self) -> Outcomes:
        declared = self.study.plan.extras.get("outcomes", Outcomes())
        assert isinstance(declared, Outcomes)
        return declared

    @property
    def analysed(self) -> list[Detection]:
        """The verdicts on the conversations that the results speak of."""
        rows = self.results.runs.rows if self.results else ()
        kept = {(row.condition, row.seed_id, row.repeat_index) for row in rows}
        return [found for found in self.detections if _name(found) in kept]

    @property
    def primary(self) -> Estimand | None:
        return primary_of(self.outcomes)


def _name(detection: Detection) -> tuple[Any, Any, Any]:
    about = detection.metadata
    return about["condition"], about["prompt"], about["repeat"]


def gather(study: Study, tell: Callable[[str], None] = lambda doing: None) -> Material:
    """Judge what has no verdict yet, then read and analyse everything."""
    if study.plan.study.kind != "selfplay":
        raise InputError(
            f"{study.path} is a {study.plan.study.kind}, and reports are about self-play; "
            f"see `chimera measure {study.path}`"
        )
    if not study.store_path.exists():
        raise InputError(
            f"{study.path} has not been run yet, so there is nothing to report; "
            f"start with `chimera run {study.path}`"
        )
    tell("checking every hash")
    verification = pipeline.verify(study)
    tell("judging what has no verdict yet")
    unjudged = _judge(study)
    detections = tuple(from_json(row) for row in stored_detections(study))
    with study.archive() as archive:
        arms = tuple(sorted(flow(archive), key=lambda arm: _place(study, arm.condition)))
        events = archive.rows(_INTERVENTIONS)
        interventions = Counter({row["condition"]: row["n"] for row in events})
    tell("analysing")
    results, no_results = _results(study, detections, unjudged)
    return Material(
        study=study,
        lock=_lock(study),
        verification=verification,
        arms=arms,
        interventions=interventions,
        detections=detections,
        unjudged=unjudged,
        results=results,
        no_results=no_results,
        reliability=read_reliability(study.path),
    )


_INTERVENTIONS = """
    SELECT t.condition, count(*) AS n FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind = 'intervention' GROUP BY t.condition
"""


def _judge(study: Study) -> str:
    """Judge what is missing. A plan that is no longer the locked one judges nothing more."""
    try:
        pipeline.detect(study)
    except LockError as error:
        return str(error).splitlines()[0].partition(" (locked")[0] if _waiting(study) else ""
    return ""


def _waiting(study: Study) -> bool:
    """Whether any finished conversation has no verdict."""
    judged = {row["id"] for row in stored_detections(study)}
    with study.archive() as archive:
        return any(talk["turns"] and talk["id"] not in judged for talk in archive.talks())


def _lock(study: Study) -> Lock | None:
    try:
        return study.lock
    except LockError:
        return None  # the verification says what is wrong with it


class _Found(NamedTuple):
    results: Results | None
    why_not: str


def _results(study: Study, detections: Sequence[Detection], unjudged: str) -> _Found:
    outcomes = study.plan.extras.get("outcomes", Outcomes())
    try:
        runs = runs_of(detections, study.path.name, _without_verdict(study, detections, unjudged))
        analysis = analyse(runs, outcomes)
    except InputError as error:
        return _Found(None, str(error))
    primary = primary_of(outcomes)
    described = select(runs, primary) if primary else runs
    curve, no_curve = _curve(study, detections, analysis, outcomes)
    return _Found(Results(_as_planned(analysis, study), described, curve, no_curve), "")


def _as_planned(analysis: Analysis, study: Study) -> Analysis:
    """The analysis with its conditions in the order of the plan."""
    order = sorted(analysis.conditions, key=lambda name: _place(study, name))
    return replace(
        analysis,
        conditions={name: analysis.conditions[name] for name in order},
        curves={name: analysis.curves[name] for name in order},
        after_onset={name: analysis.after_onset[name] for name in order},
    )


def primary_of(outcomes: Outcomes) -> Estimand | None:
    """The first estimand that was declared as primary."""
    return next((each for each in outcomes.estimands if each.role == "primary"), None)


def _without_verdict(study: Study, detections: Sequence[Detection], unjudged: str) -> list[LeftOut]:
    """Conversations that have no verdict, by condition and reason."""
    judged = {detection.id for detection in detections}
    with study.archive() as archive:
        reasons = Counter(
            (talk["condition"], _why(talk, unjudged))
            for talk in archive.talks()
            if talk["id"] not in judged
        )
    return [LeftOut(*key, count) for key, count in sorted(reasons.items())]


def _why(talk: dict[str, Any], unjudged: str) -> str:
    if talk["outcome"] is None:
        return "not finished"
    if not talk["turns"]:
        return f"ended without a turn ({talk['outcome']})"
    return "not judged: the plan is not the locked one" if unjudged else "not judged"


def _place(study: Study, condition: str) -> int:
    """Where a condition stands in the plan; behind all others when it is gone from there."""
    names = list(study.plan.conditions)
    return names.index(condition) if condition in names else len(names)


class _Curve(NamedTuple):
    curve: SpecificationCurve | None
    why_not: str


def _curve(
    study: Study, detections: Sequence[Detection], analysis: Analysis, outcomes: Outcomes
) -> _Curve:
    detector = study.plan.detector.settings
    if not isinstance(detector, Locked):
        return _Curve(None, "the study has a detector of its own, whose settings are not varied")
    order, tau = analysis.rank_stability.order, analysis.settings.tau
    questions = primary_questions(outcomes, order, tau, detector)
    if not questions:
        return _Curve(None, "one condition alone has nothing to be compared with")
    found = tally(
        stored_series(detections, study.trajectories(), detector), every_detector(detector)
    )
    comparisons = primary_comparisons(analysis, outcomes)
    weakest = least_certain(comparisons)
    (question,) = [each for each in questions if each.weights == weakest.weights]
    return _Curve(specification_curve(found, question), "")


def primary_comparisons(analysis: Analysis, outcomes: Outcomes) -> tuple[Comparison, ...]:
    """The comparisons of the primary estimand; every pair on the share when none is declared."""
    primary = primary_of(outcomes)
    answers = (each for each in analysis.answers if each.estimand == primary)
    return next((each.comparisons for each in answers), analysis.contrasts)


def measure_of(outcomes: Outcomes) -> Measure:
    """What the primary estimand measures."""
    primary = primary_of(outcomes)
    return primary.measure if primary else "share"


def least_certain(comparisons: Sequence[Comparison]) -> Comparison:
    """Of the differences that were found, the one that would be the first to fall.

    Where none was found, the one that came nearest to it.
    """
    found = [c for c in comparisons if c.p_holm is not None and c.p_holm < SIGNIFICANT]
    if found:
        return max(found, key=lambda c: c.p_holm or 0.0)
    return min(comparisons, key=lambda c: 2.0 if c.p_holm is None else c.p_holm)
