"""All that the report of a self-play study is made from, read and analysed once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from chimeralab.analysis import Analysis, Outcomes, Runs
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import counted
from chimeralab.core.records import Detection, Trajectory, plain_value
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.locked import Locked
from chimeralab.detection.measure import Measured
from chimeralab.detection.seam import Detector, choose_turns
from chimeralab.detection.verdict import from_json
from chimeralab.detection.words import is_blank
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.auditing import Reliability, reliability, scope_of
from chimeralab.report.charts.flow import Stage, asked_of, endings, lost
from chimeralab.report.frame import lock_of, refuse_unrun
from chimeralab.report.table import SIGNIFICANT
from chimeralab.selfplay.analysis import select
from chimeralab.selfplay.kind import analyse_runs
from chimeralab.selfplay.outcomes import Measure
from chimeralab.selfplay.robustness import primary_questions
from chimeralab.selfplay.runs import (
    NO_TURN,
    NOT_JUDGED,
    TOO_SHORT,
    UNFINISHED,
    RunsLeftOut,
    runs_of,
    unread,
)
from chimeralab.selfplay.specifications import (
    MeasuredTwice,
    SpecificationCurve,
    every_detector,
    measure_for_all,
    specification_curve,
    tally,
)
from chimeralab.stats.effects import Effect
from chimeralab.study import ConditionFlow, Lock, LockError, Study, flow
from chimeralab.study.detecting import detect_study, stored_detections
from chimeralab.study.estimates import Estimates
from chimeralab.study.verify import Verification, verify_study

NOTHING = float("nan")
# Why a conversation that ended has no verdict.
UNREAD = (TOO_SHORT, NO_TURN, NOT_JUDGED)


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
    without_verdict: tuple[RunsLeftOut, ...]
    results: StudyResults | None
    no_results: str
    reliability: Reliability | None

    @property
    def outcomes(self) -> Outcomes:
        return outcomes_of(self.study)

    @property
    def words(self) -> ResultWords:
        """The words that the gate allows for results."""
        return scope_of(self.reliability).words

    @property
    def left_out(self) -> tuple[RunsLeftOut, ...]:
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
    refuse_unrun(study)
    tell("judging what has no verdict yet")
    unjudged = _judge(study)
    tell("computing verdicts and hashes again")
    verification = verify_study(study)
    # Where another verdict is stored than the texts give, the texts are believed.
    corrected = verification.corrected
    rows = list(stored_detections(study))
    detections = tuple(corrected.get(row["id"]) or from_json(row) for row in rows)
    nobody = unread(study, detections, unjudged)
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
    too_short = (RunsLeftOut(name, TOO_SHORT, count) for name, count in sorted(short.items()))
    return Material(
        study=study,
        lock=lock_of(study),
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
        judged = {row["id"] for row in stored_detections(study)}
        with study.archive() as archive:
            talks = [talk for talk in archive.talks() if talk["turns"]]
        waiting = any(talk["id"] not in judged for talk in talks)
        return "the plan is not as it was locked (see the deviations)" if waiting else ""
    return ""


def study_flow(material: Material) -> dict[str, tuple[Stage, ...]]:
    """How many conversations of each condition were planned, attempted, ended and analysed."""
    conditions = material.results.analysis.conditions if material.results else {}
    flows: dict[str, tuple[Stage, ...]] = {}
    for arm in material.arms:
        gone = {e.reason: e.runs for e in material.left_out if e.condition == arm.condition}
        unread = {reason: n for reason, n in gone.items() if reason.startswith(UNREAD)}
        others = {reason: n for reason, n in gone.items() if reason not in (*unread, UNFINISHED)}
        ended = sum(arm.outcomes.values())
        parsable = ended - sum(unread.values())
        analysed = conditions[arm.condition].n if arm.condition in conditions else 0
        asked, steps = list(asked_of(arm)), material.interventions[arm.condition]
        if steps:
            # Also conversations that are still open have interventions.
            asked.append(counted(steps, "intervention"))
        flows[arm.condition] = (
            Stage("Planned", arm.planned),
            Stage(
                "Attempted",
                arm.attempted,
                asked,
                lost({"not started": arm.planned - arm.attempted}),
            ),
            Stage("Ended", ended, list(endings(arm)), lost({"still open": arm.attempted - ended})),
            Stage("Parsable", parsable, (), lost(unread)),
            Stage("Analysed", analysed, (), lost(others or {"not analysed": parsable - analysed})),
        )
    return flows


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
    outcomes = outcomes_of(study)
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
    questions = primary_questions(
        outcomes, analysis.rank_stability.order, analysis.settings.tau, detector
    )
    if not questions or not comparisons:
        alone = "one condition alone has nothing to be compared with"
        return StudyResults(planned, described, None, alone)
    asked = least_certain(comparisons).weights
    question = next(each for each in questions if each.weights == asked)

    def compute() -> SpecificationCurve:
        series = stored_series(detections, study.trajectories(), detector)
        return specification_curve(tally(series, every_detector(detector)), question)

    curve = estimates.take(SpecificationCurve, compute, changed)
    return StudyResults(planned, described, curve, "")


def outcomes_of(study: Study) -> Outcomes:
    """What the plan declares, or the defaults."""
    declared = study.plan.extras.get("outcomes", Outcomes())
    assert isinstance(declared, Outcomes)
    return declared


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


def stored_series(
    detections: Iterable[Detection], trajectories: Iterable[Trajectory], declared: Locked
) -> Iterator[MeasuredTwice]:
    """Conversations with their stored similarities, ready for other detectors without encoding.

    Near the thresholds of the declared detector they are exact; near those of others they are as
    exact as the encoder's fast vectors. Conversations with blank turns are measured again, with and
    without them, since detectors differ in what they do about these.
    """
    traces = {detection.id: detection.trace for detection in detections}
    for trajectory in trajectories:
        trace = traces.get(trajectory.id)
        if trace is None:
            continue
        if any(is_blank(turn.text) for turn in trajectory.turns):
            again, rules = [trajectory], list(every_detector(declared))
            yield from measure_for_all(again, rules, default_encoder(), "all")
            continue
        rows = [[NOTHING if lag is None else lag for lag in turn.lags] for turn in trace]
        none = np.zeros(len(trace), dtype=bool)
        lags = np.array(rows, dtype=np.float64)
        stored = Measured(trajectory, *choose_turns(trajectory, "all"), lags, none)
        yield stored, stored
