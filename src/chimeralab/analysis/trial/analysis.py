"""What a trial shows, subject by subject: checks first, then measures, effects and doses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.contrasts import AskedContrast, Effect, short
from chimeralab.analysis.trial.checks import Check, checks, first_failures, full
from chimeralab.analysis.trial.effects import (
    against,
    dose_trend,
    dosed_key,
    effects,
    factorial,
    measures_against,
    unasked,
)
from chimeralab.analysis.trial.measures import MEASURES, METRICS, OwnMeasure, corrections
from chimeralab.analysis.trial.sessions import (
    Estimated,
    LagPoint,
    MeasuredSession,
    by_lag,
    estimated,
    measured,
    sessions_of,
)
from chimeralab.core.records import Record
from chimeralab.sandbox.columns import columns_of
from chimeralab.sandbox.metrics import Metrics, MetricWeights, measure
from chimeralab.sandbox.scored import PlacedTrial, trials_of
from chimeralab.sandbox.script import Arm

NAMES = (*METRICS, *MEASURES)


NOTHING = Estimated(None, None, 0)


class Draws(NamedTuple):
    """How intervals are drawn."""

    seed: int = 1
    resamples: int = 2_000


@dataclass(frozen=True, slots=True)
class ArmResult(Record):
    """One arm: its metrics with all companions, every measure, and recall by lag.

    `corrections_censored` counts the wrong beliefs that no piece of evidence corrected.
    """

    arm: str
    cell: str
    dose: float | None
    dosed: str | None
    sessions: int
    trials: int
    metrics: Metrics | None
    measures: Mapping[str, Estimated]
    recall_by_lag: tuple[LagPoint, ...]
    corrections_censored: int


@dataclass(frozen=True, slots=True)
class SubjectResult(Record):
    """One subject. Where it is not `informative`, the reasons stand in the place of effects.

    Where only some arms fail their checks, the effects that need them are None with the reason.
    """

    subject: str
    informative: bool
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]
    reference: str
    arms: tuple[ArmResult, ...]
    contrasts: tuple[Effect, ...] = ()
    factorial: tuple[Effect, ...] = ()
    doses: tuple[Effect, ...] = ()
    countermeasures: tuple[Effect, ...] = ()

    @property
    def short_reasons(self) -> tuple[str, ...]:
        """The reasons where it is clear which subject is meant."""
        failed = first_failures(self.checks)
        return tuple(f"{short(arm)}: {message}" for arm, message in failed.items())


@dataclass(frozen=True, slots=True)
class SessionsLeftOut(Record):
    """Sessions that are not whole: how many of which arm, and what became of them."""

    arm: str
    reason: str
    sessions: int


@dataclass(frozen=True, slots=True)
class TrialAnalysis(Record):
    """Everything that the whole sessions of a trial show; `left_out` are the others.

    A session that was cut short answers other questions than a whole one, so that comparing the two
    would compare questions.
    """

    source: str
    scenarios: int
    sessions: int
    planned: int
    left_out: tuple[SessionsLeftOut, ...]
    subjects: tuple[SubjectResult, ...]


class TrialDesign(NamedTuple):
    """The arms of a trial, the subject behind each, and how many sessions were planned.

    The keys of both are ArmKeys where there are several subjects.
    """

    arms: Mapping[str, Arm]
    subjects: Mapping[str, str]
    weights: MetricWeights
    planned: int = 0
    left_out: tuple[SessionsLeftOut, ...] = ()
    own_measures: tuple[OwnMeasure, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        return (*NAMES, *self.own_measures)


class _Random(NamedTuple):
    """Where the draws come from: a measure of one's own does not change those of the others."""

    seed: int
    common: np.random.Generator

    def of(self, measure: str) -> np.random.Generator:
        if isinstance(measure, OwnMeasure):
            return np.random.default_rng([self.seed, *measure.encode()])
        return self.common


def analyse_trial(
    trials: Iterable[PlacedTrial], design: TrialDesign, source: str, resampling: Draws | None = None
) -> TrialAnalysis:
    """Analyse the trials of whole sessions, in the order of their sessions."""
    sessions = sessions_of(trials, design.weights, design.own_measures)
    how = resampling or Draws()
    names = dict.fromkeys(design.subjects.values())
    results = tuple(_subject(name, sessions, design, how) for name in names)
    scenarios = len({session.place.scenario for session in sessions})
    left_out = design.left_out
    return TrialAnalysis(source, scenarios, len(sessions), design.planned, left_out, results)


def _subject(
    name: str, sessions: Sequence[MeasuredSession], design: TrialDesign, how: Draws
) -> SubjectResult:
    arms = {arm: design.arms[arm] for arm, who in design.subjects.items() if who == name}
    own = [session for session in sessions if session.place.arm in arms]
    control = next(arm for arm, what in arms.items() if not what.stressors)
    sham = _reference(arms, control)
    found = checks(own, arms, control)
    failed = first_failures(found)
    reasons = tuple(f"{arm}: {message}" for arm, message in failed.items())
    random = _Random(how.seed, np.random.default_rng(how.seed))
    results = tuple(_arm(arm, own, design, random, how.resamples) for arm in arms)
    if control in failed or sham in failed:
        return SubjectResult(name, False, reasons, found, sham, results)

    def asked(questions: Sequence[AskedContrast], mute: Mapping[str, str]) -> tuple[Effect, ...]:
        able = [each for each in questions if not mute.keys() & each.weights.keys()]
        silent = [each for each in questions if each not in able]
        families = (
            (
                *effects(own, able, name, random.of(name), how.resamples),
                *(unasked(each, name, mute) for each in silent),
            )
            for name in design.measures
        )
        return tuple(effect for family in families for effect in family)

    return SubjectResult(
        name, True, reasons, found, sham, results,
        contrasts=asked(against(arms, sham), failed),
        factorial=asked(factorial(arms), failed),
        doses=asked(dose_trend(arms), failed),
        countermeasures=asked(measures_against(arms), full(found) | failed),
    )  # fmt: skip


def _reference(arms: Mapping[str, Arm], control: str) -> str:
    """The sham of the whole trial; without it a sham arm of one's own, or else the control."""
    shams = [name for name, arm in arms.items() if arm.sham]
    whole = [name for name in shams if arms[name].cell == "sham"]
    return next(iter(whole or shams), control)


def _arm(
    name: str,
    sessions: Sequence[MeasuredSession],
    design: TrialDesign,
    random: _Random,
    resamples: int,
) -> ArmResult:
    arm, own = design.arms[name], [each for each in sessions if each.place.arm == name]
    trials = [trial for each in own for trial in trials_of(each.rows, each.place)]
    weights = design.weights
    metrics = (
        measure(columns_of(trials), weights, rng=random.common, resamples=resamples)
        if own
        else None
    )
    counted = (*MEASURES, *design.own_measures)
    measures = {each: estimated(own, each, random.of(each), resamples) for each in counted}
    if metrics:
        measures |= {each: measured(metrics, each) for each in METRICS}
    corrected = [when for session in own for when, _ in corrections(session.rows)]
    return ArmResult(
        arm=name,
        cell=arm.cell,
        dose=arm.dose,
        dosed=dosed_key(arm) if arm.dose is not None else None,
        sessions=len(own),
        trials=sum(len(session.rows) for session in own),
        metrics=metrics,
        measures={each: measures.get(each, NOTHING) for each in design.measures},
        recall_by_lag=tuple(by_lag(own, random.common, resamples)),
        corrections_censored=corrected.count(None),
    )
