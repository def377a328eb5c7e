"""Collect what the report of a self-play study shows: records, verdicts and estimates."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from math import isclose
from typing import Any, NamedTuple

from chimeralab.analysis import Analysis, Outcomes, Runs
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import percent, plural
from chimeralab.core.records import Detection, plain_value
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.loops import LOOPS, resolve_loops
from chimeralab.detection.seam import Detector, summarise_detector
from chimeralab.embedding.encoder import MODEL, PAPERS
from chimeralab.rating.gate import check_wording
from chimeralab.rating.study_audit import Reliability, load_reliability, scope_of
from chimeralab.rating.validity import validity_in_words
from chimeralab.report.files import read_lock, require_run
from chimeralab.report.page import TextBlock, render_methods, render_text
from chimeralab.report.table import (
    SHARE,
    SIGNIFICANT,
    UNITS,
    format_difference,
    format_estimate,
)
from chimeralab.selfplay.analysis import ONE_CONDITION, primary_contrasts, select
from chimeralab.selfplay.conditions import ConditionSummary
from chimeralab.selfplay.escape import EscapeAnalysis, estimate_escape
from chimeralab.selfplay.kind import analyse_runs
from chimeralab.selfplay.outcomes import Measure, measure_name
from chimeralab.selfplay.report.tables import describe_unseen
from chimeralab.selfplay.runs import (
    TOO_SHORT,
    ExcludedRuns,
    count_unjudged,
    runs_of,
)
from chimeralab.selfplay.specifications import (
    SpecificationCurve,
    list_detectors,
    load_similarities,
    specification_curve,
    tally,
)
from chimeralab.stats.effects import Effect
from chimeralab.study import ConditionFlow, Lock, LockError, Study, flow
from chimeralab.study.estimates import Estimates
from chimeralab.study.verdicts import detect_study, load_detections
from chimeralab.study.verify import Verification, verify_study

# The analysis of a study, and the runs that it describes.
Results = tuple[Analysis, Runs]


class Material(NamedTuple):
    """A study as its report uses it: without results, `no_results` says why.

    `curve` is the specification curve of the least certain finding; without one, `no_curve` says
    why.
    """

    study: Study
    lock: Lock | None
    verification: Verification
    arms: tuple[ConditionFlow, ...]
    interventions: Counter[str]
    detections: tuple[Detection, ...]
    unjudged: str
    without_verdict: tuple[ExcludedRuns, ...]
    reliability: Reliability | None
    results: Results | None = None
    no_results: str = ""
    curve: SpecificationCurve | None = None
    no_curve: str = ""
    escape: EscapeAnalysis | None = None

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes that the plan declares, or the defaults."""
        declared: Outcomes = self.study.plan.extras.get("outcomes", Outcomes())
        return declared

    @property
    def words(self) -> ResultWords:
        """The words that the gate allows for results."""
        return scope_of(self.reliability).words

    @property
    def measure(self) -> Measure:
        """The measure of the primary estimand."""
        return self.outcomes.primary.measure if self.outcomes.primary else "share"

    @property
    def left_out(self) -> tuple[ExcludedRuns, ...]:
        """Conversations that are not part of any estimate, and why."""
        return self.results[1].left_out if self.results else self.without_verdict

    @property
    def analysed_detections(self) -> list[Detection]:
        """The verdicts on the conversations that were analysed."""
        rows = self.results[1].rows if self.results else ()
        kept = {(row.condition, row.seed_id, row.repeat_index) for row in rows}
        names = ("condition", "prompt", "repeat")
        return [d for d in self.detections if tuple(d.metadata[name] for name in names) in kept]


def gather(
    study: Study,
    on_progress: Callable[[str], None] = lambda text: None,
    estimates: Estimates | None = None,
) -> Material:
    """Judge conversations that have no verdict yet, then verify and analyse the study."""
    require_run(study)
    on_progress("judging conversations without a verdict")
    unjudged = _judge(study)
    on_progress("recomputing verdicts and hashes")
    verification = verify_study(study, is_reporting=True)
    # A recomputed verdict replaces a stored one that differs.
    corrected = verification.corrected
    detections = tuple(corrected.get(each.id) or each for each in load_detections(study))
    waiting = count_unjudged(study, detections, unjudged)
    with study.archive() as archive:
        arms = sorted(flow(archive), key=lambda arm: _plan_position(study, arm.condition))
        events = archive.rows(_INTERVENTIONS)
        interventions = Counter({row["condition"]: row["n"] for row in events})
    short = Counter(str(d.metadata["condition"]) for d in detections if d.collapsed_turns is None)
    too_short = (ExcludedRuns(name, TOO_SHORT, count) for name, count in sorted(short.items()))
    material = Material(
        study=study,
        lock=read_lock(study),
        verification=verification,
        arms=tuple(arms),
        interventions=interventions,
        detections=detections,
        unjudged=unjudged,
        without_verdict=(*waiting, *too_short),
        reliability=load_reliability(study),
    )
    on_progress("analysing")
    estimates = estimates or Estimates(study)
    changed = plain_value(corrected)
    if "escape" in study.plan.extras:
        material = material._replace(escape=estimate_escape(study, detections, estimates, changed))
    try:
        lags = study.plan.detector.settings.needs.lags
        runs = runs_of(detections, study.path.name, waiting, lags)
        return _analyse(material, runs, estimates, changed)
    except InputError as error:
        return material._replace(no_results=str(error))


_INTERVENTIONS = """
    SELECT t.condition, count(*) AS n FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind = 'intervention' GROUP BY t.condition
"""


def _judge(study: Study) -> str:
    """Judge what is missing; returns why it can't be judged, if the plan is not the locked one."""
    try:
        detect_study(study)
    except LockError:
        judged = {each.id for each in load_detections(study)}
        with study.archive() as archive:
            talks = [talk for talk in archive.talks() if talk["turns"]]
        waiting = any(talk["id"] not in judged for talk in talks)
        return "the plan is not as it was locked (see the deviations)" if waiting else ""
    return ""


def _analyse(
    material: Material, runs: Runs, estimates: Estimates, changed: Mapping[str, Any]
) -> Material:
    """Add the results, conditions in the order of the plan, and the specification curve.

    ``changed`` are the verdicts that differ from the stored ones.
    """
    study, outcomes = material.study, material.outcomes
    analysis = analyse_runs(study, runs, estimates, changed)
    described = select(runs, outcomes.primary) if outcomes.primary else runs
    order = sorted(analysis.conditions, key=lambda name: _plan_position(study, name))
    material = material._replace(results=(analysis.reorder(order), described))
    declared: Detector = study.plan.detector.settings
    detector, comparisons = declared.thresholds, primary_comparisons(analysis, outcomes)
    if detector is None:
        reason = f"the detector {declared.name} has no thresholds to vary"
        return material._replace(no_curve=reason)
    contrasts = primary_contrasts(outcomes, analysis.rank_stability.order)
    if not contrasts or not comparisons:
        return material._replace(no_curve=ONE_CONDITION)
    weights = next(each for each in contrasts if each == least_certain(comparisons).weights)

    def compute() -> SpecificationCurve:
        series = load_similarities(material.detections, study.trajectories(), detector)
        found = tally(series, list_detectors(detector))
        return specification_curve(found, weights, analysis.settings, detector, outcomes.primary)

    return material._replace(curve=estimates.get_or_compute(SpecificationCurve, compute, changed))


def _plan_position(study: Study, condition: str) -> int:
    """The position of a condition in the plan; last if it is no longer there."""
    names = list(study.plan.conditions)
    return names.index(condition) if condition in names else len(names)


def primary_comparisons(analysis: Analysis, outcomes: Outcomes) -> tuple[Effect, ...]:
    """The comparisons of the primary estimand; every pair on the share when none is declared."""
    answers = (each for each in analysis.answers if each.estimand == outcomes.primary)
    return next((each.comparisons for each in answers), analysis.contrasts)


def is_found(comparison: Effect) -> bool:
    """Whether a difference is significant at 5 % with Holm's correction."""
    return comparison.p_holm is not None and comparison.p_holm < SIGNIFICANT


def least_certain(comparisons: Sequence[Effect]) -> Effect:
    """The significant difference with the largest p; without one, the one closest to it."""
    found = [each for each in comparisons if is_found(each)]
    if found:
        return max(found, key=lambda each: each.p_holm or 0.0)
    return min(comparisons, key=lambda each: 2.0 if each.p_holm is None else each.p_holm)


def glance(material: Material) -> tuple[str, ...]:
    """The result in two or three sentences, worded as the reliability gate allows."""
    content: dict[str, Any] = {}
    if material.results:
        analysis, conditions = material.results[0], material.results[0].conditions
        comparisons = primary_comparisons(analysis, material.outcomes)
        tested = [each for each in comparisons if each.p_holm is not None]
        order = analysis.rank_stability.order
        # Equal shares and equally large differences are named together.
        most, least = (
            [each for each in order if isclose(conditions[each].mean, conditions[name].mean)]
            for name in (order[0], order[-1])
        )
        largest = max((abs(each.estimate or 0.0) for each in tested), default=0.0)
        content = {
            "runs": plural(analysis.runs, "analysed run"),
            "collapsed": any(each.incidence for each in conditions.values()),
            "order": order,
            "most": most,
            "least": least,
            "share": lambda name: _format_share(conditions[name]),
            "primary": analysis.primary,
            "primary_found": sum(map(is_found, analysis.primary)),
            "comparisons": comparisons,
            "planned": len(material.study.plan.conditions),
            "tested": tested,
            "found": sum(map(is_found, tested)),
            "widest": [each for each in tested if isclose(abs(each.estimate or 0.0), largest)],
            "measure": measure_name(material.measure, material.words),
            "measure_name": measure_name,
            "unseen": describe_unseen(analysis),
            "numbers": lambda each: format_difference(
                each.estimate, each.interval, UNITS[each.measure], each.weights
            ),
        }
    found = render_text(
        "selfplay_glance.txt",
        results=material.results,
        no_results=material.no_results,
        words=material.words,
        **content,
    )
    sentences = tuple(filter(None, found))
    for sentence in sentences:
        check_wording(sentence, scope_of(material.reliability))
    return sentences


def _format_share(of: ConditionSummary) -> str:
    return percent(of.mean) if of.share_ci is None else format_estimate(of.mean, of.share_ci, SHARE)


def methods(material: Material) -> TextBlock:
    """Write the methods of a study from its plan and from what was done."""
    study, audit, scope = material.study, material.reliability, scope_of(material.reliability)
    plan, primary = study.plan, material.outcomes.primary
    detector: Detector = plan.detector.settings
    added = resolve_loops(detector) is not detector and any(d.steps for d in material.detections)
    found = render_methods(
        "selfplay_methods.txt",
        plan=plan,
        rules=plan.conversation,
        talks=study.talks,
        lock=material.lock,
        verification=material.verification,
        attempts=sum(sum(arm.attempts.values()) for arm in material.arms),
        answered=sum(arm.attempts.get("answered", 0) for arm in material.arms),
        detector=detector,
        encoder=MODEL.rpartition("/")[2],
        papers=PAPERS,
        live=plan.live and summarise_detector(plan.live.settings),
        loops=LOOPS.standard if added else None,
        primary=measure_name(primary.measure, material.words)
        if primary and material.lock
        else None,
        analysis=material.results and material.results[0],
        curve=material.curve,
        words=material.words,
        audit=audit,
        validity=list(starmap(validity_in_words, audit.against.items())) if audit else [],
        scope=scope,
    )
    for each in found.lines:
        check_wording(each, scope)
    return found
