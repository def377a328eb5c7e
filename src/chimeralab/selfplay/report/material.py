"""What the report of a self-play study is made from, and what it says of that in sentences."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from math import isclose
from typing import Any, NamedTuple

from chimeralab.analysis import Analysis, Outcomes, Runs
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import number, p_phrase, plural
from chimeralab.core.records import Detection, plain_value
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.loops import LOOPS, resolve_loops
from chimeralab.detection.seam import Detector, summarise_detector
from chimeralab.detection.verdict import from_json
from chimeralab.embedding.encoder import MODEL, PAPERS
from chimeralab.rating.gate import check_wording
from chimeralab.rating.study_audit import Reliability, reliability, scope_of
from chimeralab.rating.validity import validity_in_words
from chimeralab.report.files import common_facts, read_lock, require_run
from chimeralab.report.page import Fact, TextBlock, render_methods, render_text
from chimeralab.report.table import (
    SHARE,
    SIGNIFICANT,
    UNITS,
    format_difference,
    format_estimate,
)
from chimeralab.selfplay.analysis import select
from chimeralab.selfplay.comparisons import LogRankTest
from chimeralab.selfplay.conditions import ConditionSummary
from chimeralab.selfplay.kind import analyse_runs
from chimeralab.selfplay.outcomes import PAIRS, Measure, measure_name
from chimeralab.selfplay.robustness import primary_contrasts
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


class StudyResults(NamedTuple):
    """The analysis of a study, the runs that it describes, and the curve of its finding.

    Without a curve, `no_curve` says why.
    """

    analysis: Analysis
    runs: Runs
    curve: SpecificationCurve | None
    no_curve: str


class Material(NamedTuple):
    """A study as a report sees it. Without results, `no_results` says why."""

    study: Study
    lock: Lock | None
    verification: Verification
    arms: tuple[ConditionFlow, ...]
    interventions: Counter[str]
    detections: tuple[Detection, ...]
    unjudged: str
    without_verdict: tuple[ExcludedRuns, ...]
    results: StudyResults | None
    no_results: str
    reliability: Reliability | None

    @property
    def outcomes(self) -> Outcomes:
        """What the plan declares, or the defaults."""
        declared: Outcomes = self.study.plan.extras.get("outcomes", Outcomes())
        return declared

    @property
    def words(self) -> ResultWords:
        """The words that the gate allows for results."""
        return scope_of(self.reliability).words

    @property
    def left_out(self) -> tuple[ExcludedRuns, ...]:
        """Conversations that no estimate speaks of, and why."""
        return self.results.runs.left_out if self.results else self.without_verdict

    @property
    def analysed(self) -> list[Detection]:
        """The verdicts on the conversations that the results speak of."""
        rows = self.results.runs.rows if self.results else ()
        kept = {(row.condition, row.seed_id, row.repeat_index) for row in rows}
        names = ("condition", "prompt", "repeat")
        return [d for d in self.detections if tuple(d.metadata[name] for name in names) in kept]


def gather(
    study: Study,
    tell: Callable[[str], None] = lambda doing: None,
    estimates: Estimates | None = None,
) -> Material:
    """Judge what has no verdict yet, then read and analyse everything."""
    require_run(study)
    tell("judging what has no verdict yet")
    unjudged = _judge(study)
    tell("computing verdicts and hashes again")
    verification = verify_study(study)
    # Where another verdict is stored than the texts give, the texts are believed.
    corrected = verification.corrected
    rows = list(load_detections(study))
    detections = tuple(corrected.get(row["id"]) or from_json(row) for row in rows)
    nobody = count_unjudged(study, detections, unjudged)
    tell("analysing")
    results, no_results = None, ""
    try:
        runs = runs_of(detections, study.path.name, nobody)
        changed = plain_value(corrected)
        results = results_of(study, detections, runs, estimates or Estimates(study), changed)
    except InputError as error:
        no_results = str(error)
    with study.archive() as archive:
        arms = sorted(flow(archive), key=lambda arm: place_of(study, arm.condition))
        events = archive.rows(_INTERVENTIONS)
        interventions = Counter({row["condition"]: row["n"] for row in events})
    short = Counter(str(d.metadata["condition"]) for d in detections if d.collapsed_turns is None)
    too_short = (ExcludedRuns(name, TOO_SHORT, count) for name, count in sorted(short.items()))
    return Material(
        study=study,
        lock=read_lock(study),
        verification=verification,
        arms=tuple(arms),
        interventions=interventions,
        detections=detections,
        unjudged=unjudged,
        without_verdict=(*nobody, *too_short),
        results=results,
        no_results=no_results,
        reliability=reliability(study),
    )


_INTERVENTIONS = """
    SELECT t.condition, count(*) AS n FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind = 'intervention' GROUP BY t.condition
"""


def _judge(study: Study) -> str:
    """Judge what is missing. A plan that is no longer the locked one judges nothing more."""
    try:
        detect_study(study)
    except LockError:
        judged = {row["id"] for row in load_detections(study)}
        with study.archive() as archive:
            talks = [talk for talk in archive.talks() if talk["turns"]]
        waiting = any(talk["id"] not in judged for talk in talks)
        return "the plan is not as it was locked (see the deviations)" if waiting else ""
    return ""


def results_of(
    study: Study,
    detections: Sequence[Detection],
    runs: Runs,
    estimates: Estimates,
    changed: Mapping[str, Any],
) -> StudyResults:
    """Analyse what has been judged, as the plan declares it, conditions in its order.

    ``changed`` are the verdicts that are not those of the store.
    """
    outcomes: Outcomes = study.plan.extras.get("outcomes", Outcomes())
    analysis = analyse_runs(study, runs, estimates, changed)
    described = select(runs, outcomes.primary) if outcomes.primary else runs
    order = sorted(analysis.conditions, key=lambda name: place_of(study, name))
    planned = replace(
        analysis,
        conditions={name: analysis.conditions[name] for name in order},
        curves={name: analysis.curves[name] for name in order},
        after_onset={name: analysis.after_onset[name] for name in order},
    )
    declared: Detector = study.plan.detector.settings
    detector, comparisons = declared.thresholds, primary_comparisons(analysis, outcomes)
    if detector is None:
        rigid = f"the detector {declared.name} has no thresholds to vary"
        return StudyResults(planned, described, None, rigid)
    contrasts = primary_contrasts(outcomes, analysis.rank_stability.order)
    if not contrasts or not comparisons:
        alone = "one condition alone has nothing to be compared with"
        return StudyResults(planned, described, None, alone)
    shaky = least_certain(comparisons).weights
    asked = next(each for each in contrasts if each == shaky)

    def compute() -> SpecificationCurve:
        series = load_similarities(detections, study.trajectories(), detector)
        found = tally(series, list_detectors(detector))
        return specification_curve(found, asked, analysis.settings, detector, outcomes.primary)

    curve = estimates.take(SpecificationCurve, compute, changed)
    return StudyResults(planned, described, curve, "")


def measure_of(outcomes: Outcomes) -> Measure:
    """What the primary estimand measures."""
    return outcomes.primary.measure if outcomes.primary else "share"


def place_of(study: Study, condition: str) -> int:
    """Where a condition stands in the plan; behind all others when it is gone from there."""
    names = list(study.plan.conditions)
    return names.index(condition) if condition in names else len(names)


def primary_comparisons(analysis: Analysis, outcomes: Outcomes) -> tuple[Effect, ...]:
    """The comparisons of the primary estimand; every pair on the share when none is declared."""
    answers = (each for each in analysis.answers if each.estimand == outcomes.primary)
    return next((each.comparisons for each in answers), analysis.contrasts)


def is_found(comparison: Effect) -> bool:
    """Whether a difference is different from 0 at 5 % with Holm's correction."""
    return comparison.p_holm is not None and comparison.p_holm < SIGNIFICANT


def least_certain(comparisons: Sequence[Effect]) -> Effect:
    """Of the differences that were found, the one that would be the first to fall.

    Where none was found, the one that came nearest to it.
    """
    found = [each for each in comparisons if is_found(each)]
    if found:
        return max(found, key=lambda each: each.p_holm or 0.0)
    return min(comparisons, key=lambda each: 2.0 if each.p_holm is None else each.p_holm)


def glance(material: Material) -> tuple[str, ...]:
    """The result in two sentences, in words that the reliability gate allows."""
    results, content = material.results, {}
    if results:
        analysis, conditions = results.analysis, results.analysis.conditions
        comparisons = primary_comparisons(analysis, material.outcomes)
        known = [each for each in comparisons if each.p_holm is not None]
        order = analysis.rank_stability.order
        # Conditions with the same share are named together, and so are differences of one size.
        most, least = (
            [each for each in order if isclose(conditions[each].mean, conditions[name].mean)]
            for name in (order[0], order[-1])
        )
        largest = max((abs(each.estimate or 0.0) for each in known), default=0.0)
        content = {
            "runs": plural(analysis.runs, "analysed run"),
            "collapsed": any(each.incidence for each in conditions.values()),
            "order": order,
            "most": most,
            "least": least,
            "share": lambda name: _share(conditions[name]),
            "primary": analysis.primary,
            "primary_found": sum(map(is_found, analysis.primary)),
            "comparisons": comparisons,
            "planned": len(material.study.plan.conditions),
            "known": known,
            "found": sum(map(is_found, known)),
            "widest": [each for each in known if isclose(abs(each.estimate or 0.0), largest)],
            "measure": measure_name(measure_of(material.outcomes), material.words),
            "measure_name": measure_name,
            "numbers": _numbers,
        }
    said = render_text(
        "selfplay_glance.txt",
        results=results,
        no_results=material.no_results,
        words=material.words,
        **content,
    )
    for sentence in said:
        check_wording(sentence, scope_of(material.reliability))
    return tuple(said)


def _share(of: ConditionSummary) -> str:
    if of.share_ci is None:
        return number(of.mean, 1, 100) + SHARE.value
    return format_estimate(of.mean, of.share_ci, SHARE)


def _numbers(each: Effect) -> str:
    shown = format_difference(each.estimate, each.interval, UNITS[each.measure])
    return f"{shown}, {p_phrase(each.p_holm)}"


def logrank_in_words(test: LogRankTest) -> str:
    """The test of all curves against one another, its p beside the naive one."""
    if test.chi2 is None:
        return f"Log-rank test: –, {test.reasons['chi2']}."
    honest = f"{p_phrase(test.permutation_p)} by permutation within prompts"
    if test.permutation_p is None:
        honest = f"without a p by permutation, since {test.reasons['permutation_p']}"
    return (
        f"Log-rank test over {plural(len(test.conditions), 'condition')}: "
        f"χ²({test.df}) = {test.chi2:.1f}, {honest}"
        f" (naive, as if runs were independent: {p_phrase(test.p)})."
    )


def loops_in_words(material: Material) -> str:
    """What the loop detector looked for, and whether the plan had declared it."""
    detector: Detector = material.study.plan.detector.settings
    judged = [found for found in material.detections if found.looping is not None]
    looping = sum(bool(found.looping) for found in judged)
    count = f"{looping:,} of {plural(len(judged), 'conversation')} loop"
    ways = "A conversation may loop in several ways."
    if resolve_loops(detector) is detector:
        return f"The plan declares the loop detector; this is its outcome by kind: {count}. {ways}"
    return (
        f"Beside the declared detector, {count} by the loop detector ({LOOPS.standard}), which"
        " looks for repeated words, templates, cycles and courtesy without end. The plan did not"
        f" declare it, so this is exploratory. {ways}"
    )


def few_prompts(analysis: Analysis) -> str:
    """A warning where so few prompts were compared that no exchange of sides could be rare."""
    compared = [each.units for each in analysis.contrasts if each.p is not None]
    if not compared or 2.0 ** (1 - min(compared)) < SIGNIFICANT:
        return ""
    return (
        f"With {plural(min(compared), 'prompt')} no permutation p can be below "
        f"{2.0 ** (1 - min(compared)):.3g}: the smaller p of the t tests trust that differences "
        "between prompts are normally distributed."
    )


def facts(material: Material) -> Iterator[Fact]:
    """The head of the report: lock, design, detector, and what was asked."""
    plan = material.study.plan
    sides = (
        plural(len(plan.conditions), "condition"),
        plural(len(plan.prompts), "prompt"),
        plural(plan.conversation.repeats, "repeat"),
    )
    design = f"{' × '.join(sides)}, {plural(plan.conversation.turns, 'turn')} each"
    yield from common_facts(material.study, material.lock, design, "condition")
    own = f" ({plan.detector.use})" if plan.detector.is_outside else ""
    yield "Detector", f"{summarise_detector(plan.detector.settings)}{own}"
    for each in material.outcomes.estimands:
        whom = f" among {', '.join(each.population)}" if each.population else ""
        how = "every pair of conditions" if each.contrast == PAIRS else each.contrast
        failed = "left out" if each.failed_turns == "leave_out" else "kept as far as they went"
        what = measure_name(each.measure, material.words)
        asked = f"{what}{whom}: {how}; runs cut short are {failed}"
        yield each.role.capitalize() if material.lock else "Estimated", asked


def methods(material: Material) -> TextBlock:
    """Write the methods of a study from its plan and from what was done."""
    study, audit, scope = material.study, material.reliability, scope_of(material.reliability)
    plan, primary = study.plan, material.outcomes.primary
    detector: Detector = plan.detector.settings
    beside = resolve_loops(detector) is not detector and any(d.steps for d in material.detections)
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
        loops=LOOPS.standard if beside else None,
        primary=measure_name(primary.measure, material.words)
        if primary and material.lock
        else None,
        results=material.results,
        words=material.words,
        audit=audit,
        validity=list(starmap(validity_in_words, audit.against.items())) if audit else [],
        scope=scope,
    )
    for each in found.lines:
        check_wording(each, scope)
    return found
