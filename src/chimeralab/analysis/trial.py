"""What a trial shows, subject by subject: checks first, then measures, effects and doses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.trial_checks import Check, checks, first_failures, full
from chimeralab.analysis.trial_effects import (
    AIMS,
    Effect,
    Question,
    against,
    dose_trend,
    dosed_key,
    effects,
    factorial,
    measures_against,
    unasked,
)
from chimeralab.analysis.trial_measures import MEASURES, Tally, corrections, recall_by_lag
from chimeralab.analysis.trial_sessions import (
    METRICS,
    Estimated,
    Session,
    estimated,
    sessions_of,
)
from chimeralab.records import Record
from chimeralab.sandbox.metrics import MetricWeights
from chimeralab.sandbox.scored import Placed
from chimeralab.sandbox.script import Arm
from chimeralab.stats.restricted_mean import restricted_mean
from chimeralab.stats.survival import durations

NAMES = (*METRICS, *MEASURES)
# What each stressor is aimed at; the paired contrasts are asked of these.
OUTCOMES = ("accuracy", *METRICS, *(measure for aims in AIMS.values() for measure in aims))


class Resampling(NamedTuple):
    """How intervals are drawn."""

    seed: int = 1
    resamples: int = 2_000


class LagPoint(NamedTuple):
    """Recall of facts that were told so many trials ago."""

    lag: int
    value: float
    occasions: int


@dataclass(frozen=True, slots=True)
class ArmResult(Record):
    """One arm: every measure, recall by lag, and how many trials a correction took.

    `trials_to_correction` is the restricted mean over the wrong beliefs, those never mended being
    censored at the last piece of evidence.
    """

    arm: str
    cell: str
    dose: float | None
    dosed: str | None
    sessions: int
    trials: int
    measures: Mapping[str, Estimated]
    recall_by_lag: tuple[LagPoint, ...]
    trials_to_correction: float | None
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


@dataclass(frozen=True, slots=True)
class TrialAnalysis(Record):
    """Everything that a trial shows; `trials` of the `planned` ones have been scored."""

    source: str
    scenarios: int
    sessions: int
    trials: int
    planned: int
    subjects: tuple[SubjectResult, ...]


class Design(NamedTuple):
    """The arms of a trial, the subject behind each, and how many trials were planned."""

    arms: Mapping[str, Arm]
    subjects: Mapping[str, str]
    weights: MetricWeights
    planned: int


def analyse_trial(
    trials: Iterable[Placed], design: Design, source: str, resampling: Resampling | None = None
) -> TrialAnalysis:
    """Analyse the trials of a study, in the order of their sessions."""
    sessions = sessions_of(trials, design.weights)
    how = resampling or Resampling()
    names = dict.fromkeys(design.subjects.values())
    results = tuple(_subject(name, sessions, design, how) for name in names)
    scenarios = len({session.place.scenario for session in sessions})
    scored = sum(len(session.rows) for session in sessions)
    return TrialAnalysis(source, scenarios, len(sessions), scored, design.planned, results)


def _subject(
    name: str, sessions: Sequence[Session], design: Design, how: Resampling
) -> SubjectResult:
    arms = {arm: design.arms[arm] for arm, who in design.subjects.items() if who == name}
    own = [session for session in sessions if session.place.arm in arms]
    control = next(arm for arm, what in arms.items() if not what.stressors)
    sham = next((arm for arm, what in arms.items() if what.sham), control)
    found = checks(own, arms, control)
    failed = first_failures(found)
    reasons = tuple(f"{arm}: {message}" for arm, message in failed.items())
    rng = np.random.default_rng(how.seed)
    results = tuple(_arm(arm, what, own, rng, how.resamples) for arm, what in arms.items())
    if control in failed or sham in failed:
        return SubjectResult(name, False, reasons, found, sham, results)

    def asked(questions: Sequence[Question], mute: Mapping[str, str]) -> tuple[Effect, ...]:
        able = [each for each in questions if not mute.keys() & each.weights.keys()]
        silent = [each for each in questions if each not in able]
        families = (
            (*effects(own, able, m, rng, how.resamples), *(unasked(q, m, mute) for q in silent))
            for m in OUTCOMES
        )
        return tuple(effect for family in families for effect in family)

    return SubjectResult(
        name, True, reasons, found, sham, results,
        contrasts=asked(against(list(arms), sham), failed),
        factorial=asked(factorial(arms), failed),
        doses=asked(dose_trend(arms), failed),
        countermeasures=asked(measures_against(arms), full(found) | failed),
    )  # fmt: skip


def _arm(
    name: str, arm: Arm, sessions: Sequence[Session], rng: np.random.Generator, resamples: int
) -> ArmResult:
    own = [session for session in sessions if session.place.arm == name]
    rows = [row for session in own for row in session.rows]
    mended = [pair for session in own for pair in corrections(session.rows)]
    return ArmResult(
        arm=name,
        cell=arm.cell,
        dose=arm.dose,
        dosed=dosed_key(arm) if arm.dose is not None else None,
        sessions=len(own),
        trials=len(rows),
        measures={m: estimated(own, m, rng, resamples) for m in NAMES},
        recall_by_lag=tuple(_points(recall_by_lag(rows))),
        trials_to_correction=_mean_time(mended),
        corrections_censored=sum(when is None for when, _ in mended),
    )


def _points(tallies: Mapping[int, Tally]) -> list[LagPoint]:
    return [
        LagPoint(lag, tally.hits / tally.among, int(tally.among))
        for lag, tally in tallies.items()
        if tally.among
    ]


def _mean_time(mended: Sequence[tuple[int | None, int]]) -> float | None:
    if not mended:
        return None
    times = durations([when for when, _ in mended], [most for _, most in mended])
    return restricted_mean(times, max(most for _, most in mended)).value
