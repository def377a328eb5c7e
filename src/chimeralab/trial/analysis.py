"""What a trial shows, subject by subject: checks first, then measures, effects and doses."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chimeralab.core.records import Record
from chimeralab.stats.effects import AskedContrast, Effect, Family, each_once, short
from chimeralab.trial.columns import columns_of
from chimeralab.trial.effects import (
    DeclaredEffect,
    LagPoint,
    MeasuredSession,
    MeasureEstimate,
    countermeasure_contrasts,
    dose_contrasts,
    dose_key,
    estimate_effects,
    estimate_measure,
    factorial_contrasts,
    is_aimed,
    measure_sessions,
    metric_estimate,
    primary_contrasts,
    recall_by_lag,
    reference_contrasts,
    skip_effect,
)
from chimeralab.trial.measures import (
    MEASURES,
    METRICS,
    HitRate,
    OwnMeasure,
    corrections,
    unread,
    unread_aside,
)
from chimeralab.trial.metrics import Metrics, measure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import SHAM, Arrival
from chimeralab.trial.trials import TrialRow

MAX_UNREAD = 0.2
# Above chance by less than this, a control has nothing to lose, and a signal was not noticed.
MIN_MARGIN = 0.1
# Of what guessing leaves open, so much still known means that nothing was taken away.
STILL_KNOWN = 0.9
MAX_P = 0.05
# So much of the dose that a stressor gives alone must arrive where others act with it.
MIN_DOSE = 0.8
CEILING = "ceiling"
GONE = "memory gone"
Rows = Sequence[TrialRow]


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that must hold before an effect is worth printing. `passed` None: unknown."""

    name: str
    arm: str
    value: float | None
    passed: bool | None
    message: str


def run_checks(
    sessions: Sequence[MeasuredSession], arms: Mapping[str, Arm], control: str
) -> tuple[Check, ...]:
    """All checks of one subject, those of the control first."""
    by_arm = {name: [s for s in sessions if s.arm == name] for name in arms}
    rows = {name: [row for s in group for row in s.rows] for name, group in by_arm.items()}
    helped = countermeasure_contrasts(arms)
    bare = [name for each in helped for name, weight in each.weights.items() if weight < 0]
    stressed = {name: arm for name, arm in arms.items() if not arm.sham}
    found = [_check_floor(rows[control], control)]
    found += [_check_ceiling(rows[name], name) for name in dict.fromkeys((control, *bare))]
    for name in arms:
        found += _check_readable(rows[name], name)
    for name, arm in stressed.items():
        found += _check_arrivals(rows[name], name, arm)
    for name, arm in stressed.items():
        kept = (check.keeps for part in arm.stressors.values() for check in part.checks)
        found += [_check_removal(keeps, rows[name], name) for keeps in kept if keeps is not None]
    for name in stressed:
        found += _check_doses(rows, name, arms)
    return tuple(found)


def arms_at_ceiling(found: Sequence[Check]) -> dict[str, str]:
    """The arms that have no room for gains, with what was found."""
    return {each.arm: each.message for each in found if each.name == CEILING and not each.passed}


def first_failures(found: Sequence[Check]) -> dict[str, str]:
    """Of each arm that fails, what it fails first: what can't be read needs no further reason."""
    failed: dict[str, str] = {}
    for check in found:
        if check.passed is False:
            failed.setdefault(check.arm, check.message)
    return failed


def _check_floor(rows: Rows, control: str) -> Check:
    judged = [row for row in rows if row.correct is not None]
    if not judged:
        return Check("floor", control, None, False, "the control has no answer that can be judged")
    right = sum(bool(row.correct) for row in judged) / len(judged)
    chance = _chance(judged)
    said = f"the control is right in {right:.0%} of its answers; guessing would give {chance:.0%}"
    return Check("floor", control, right, right - chance >= MIN_MARGIN, said)


def _check_ceiling(rows: Rows, name: str) -> Check:
    """An arm at the ceiling is not a failure: stress can still pull it down."""
    answers = [row.correct for row in rows]
    answers += [row.recall_correct for row in rows]
    judged = [flag for flag in answers if flag is not None]
    share, wrong = HitRate(sum(judged), len(judged)).share, len(judged) - sum(judged)
    if share is None:
        return Check(CEILING, name, None, None, "no answer can be judged")
    if not wrong:
        said = f"right in all of its {len(judged)} answers: harm can show there, but gains cannot"
        return Check(CEILING, name, share, None, said)
    said = f"wrong in {wrong} of its {len(judged)} answers: gains can show"
    return Check(CEILING, name, share, True, said)


def _check_readable(rows: Rows, name: str) -> Iterator[Check]:
    """Answers decide; forks are only told of, since other measures stand without them."""
    share = unread(rows).share
    if share is None:
        yield Check("readable", name, None, False, "there is no whole session")
        return
    said = f"{share:.0%} of the answers can't be read"
    yield Check("readable", name, share, share <= MAX_UNREAD, said)
    aside = unread_aside(rows).share
    if aside is not None:
        said = f"{aside:.0%} of the replies to what was asked in a fork can't be read"
        yield Check("readable aside", name, aside, aside <= MAX_UNREAD or None, said)


def _check_arrivals(rows: Rows, name: str, arm: Arm) -> Iterator[Check]:
    """That a stressor did its work is a fact of the record; that it was noticed is asked."""

    for _, part in sorted(arm.stressors.items()):
        for check in part.checks:
            share = _dose(check, rows)
            said = f"{check.said} at {share or 0:.0%} of the trials"
            # A dose of nothing leaves no trace, as it should.
            yield Check(check.title, name, share, bool(share) or arm.dose == 0, said)
            if check.signal is not None:
                yield _check_noticed(check.signal, [row for row in rows if check.asks(row)], name)


def _dose(check: Arrival, rows: Rows) -> float | None:
    """The share of the trials at which a stressor did its work."""
    return HitRate(sum(check.shows(row) for row in rows), len(rows)).share


def _check_doses(rows: Mapping[str, Rows], name: str, arms: Mapping[str, Arm]) -> Iterator[Check]:
    """Whether stressors that act together deliver what each delivers by itself."""
    arm = arms[name]
    if len(arm.stressors) < 2:
        return
    for stressor, part in sorted(arm.stressors.items()):
        alone = next(
            (other for other, what in arms.items() if what.stressors == {stressor: part}
             and not what.sham and what.countermeasure is None), None
        )  # fmt: skip
        for check in part.checks if alone else ():
            given, usual = (_dose(check, rows[each]) or 0.0 for each in (name, alone or ""))
            said = (
                f"{check.said} at {given:.0%} of the trials, and at {usual:.0%} without the others"
            )
            delivered = given >= MIN_DOSE * usual
            yield Check(f"{stressor} delivered", name, given, delivered, said)


def _check_noticed(what: str, rows: Rows, name: str) -> Check:
    """Whether the subject can say what it was told. What it made of it is an outcome."""
    title, asked = f"{what} noticed", [row for row in rows if row.noticed is not None]
    noticed = sum(bool(row.noticed) for row in asked)
    share = HitRate(noticed, len(asked)).share
    if share is None:
        said = f"whether the false {what} was noticed was not asked, or no reply could be read"
        return Check(title, name, None, None, said)
    chance = _chance(asked)
    said = (
        f"the false {what} was noticed in {noticed} of {len(asked)} cases asked; "
        f"guessing would give {chance:.0%}"
    )
    return Check(title, name, share, share - chance >= MIN_MARGIN, said)


def _check_removal(keeps: Callable[[TrialRow], bool | None], rows: Rows, name: str) -> Check:
    """Whether what was taken away is gone from the subject, and not from our record alone."""
    asked = [(row, kept) for row in rows if (kept := keeps(row)) is not None]
    if not asked:
        return Check(GONE, name, None, None, "nothing that was taken away was asked for")
    known = sum(kept for _, kept in asked)
    options = [row.recall_options for row, _ in asked if row.recall_truth is not None]
    chance = sum(1 / each if each else 0.0 for each in options) / len(options)
    among = len(asked)
    share = known / among
    said = (
        f"{known} of {among} facts that were taken away are still known; "
        f"guessing would give {chance:.0%}"
    )
    if share - chance < STILL_KNOWN * (1 - chance):
        return Check(GONE, name, share, True, said)
    luck = sum(
        math.comb(among, hits) * chance**hits * (1 - chance) ** (among - hits)
        for hits in range(known, among + 1)
    )
    return Check(GONE, name, share, False if luck <= MAX_P else None, said)


def _chance(rows: Rows) -> float:
    return sum(1 / row.options if row.options else 0.0 for row in rows) / len(rows)


NAMES = (*METRICS, *MEASURES)
NOTHING = MeasureEstimate(None, None, 0)
# How intervals are drawn unless told otherwise.
SEED, RESAMPLES = 1, 2_000


@dataclass(frozen=True, slots=True)
class ArmResult(Record):
    """One arm: its metrics with all companions, every measure, and recall by lag.

    `corrections_censored` counts the wrong beliefs that no piece of evidence corrected.
    `delivered` is the dose of each stressor as it arrived: the share of trials at which it did its
    work, None where it has no check that tells.
    """

    arm: str
    cell: str
    dose: float | None
    dosed: str | None
    sessions: int
    trials: int
    metrics: Metrics | None
    measures: Mapping[str, MeasureEstimate]
    recall_by_lag: tuple[LagPoint, ...]
    corrections_censored: int
    delivered: Mapping[str, float | None]


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
    def effects(self) -> tuple[Effect, ...]:
        """The effects of all kinds."""
        return (*self.contrasts, *self.factorial, *self.doses, *self.countermeasures)

    @property
    def metrics(self) -> dict[str, Metrics]:
        """The metrics of the arms, by their short names."""
        return {short(each.arm): each.metrics for each in self.arms if each.metrics is not None}

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
    declared: tuple[DeclaredEffect, ...] = ()


def analyse_sessions(
    trials: Iterable[TrialRow], plan: TrialPlan, *, seed: int = SEED, resamples: int = RESAMPLES
) -> TrialAnalysis:
    """Analyse the trials of whole sessions, in the order of their sessions.

    Where they come from, and which were left out, is for the caller to say.
    """
    sessions = measure_sessions(trials, plan.weights, plan.own_measures)
    names = dict.fromkeys(plan.subjects.values())
    found = tuple(_subject(name, sessions, plan, seed, resamples) for name in names)
    return TrialAnalysis(
        source="",
        scenarios=len({session.scenario for session in sessions}),
        sessions=len(sessions),
        planned=0,
        left_out=(),
        subjects=_correct(found, plan.declared),
        declared=plan.declared,
    )


def _correct(
    subjects: tuple[SubjectResult, ...], declared: tuple[DeclaredEffect, ...]
) -> tuple[SubjectResult, ...]:
    """All primary effects corrected together, and all others likewise.

    Primary is what the plan declares; where it declares nothing, what stressors are aimed at.
    """
    found = [effect for subject in subjects for effect in subject.effects]
    primary = [effect for effect in found if is_aimed(effect)]
    if declared:
        primary = [
            effect
            for subject in subjects
            for effect in subject.effects
            if any(each.is_of(effect, short(subject.reference)) for each in declared)
        ]
    role = Family(list(each_once(primary, found)))
    return tuple(
        replace(
            subject,
            contrasts=role.correct(subject.contrasts),
            factorial=role.correct(subject.factorial),
            doses=role.correct(subject.doses),
            countermeasures=role.correct(subject.countermeasures),
        )
        for subject in subjects
    )


def _subject(
    name: str, sessions: Sequence[MeasuredSession], plan: TrialPlan, seed: int, resamples: int
) -> SubjectResult:
    arms = {arm: plan.arms[arm] for arm, who in plan.subjects.items() if who == name}
    own = [session for session in sessions if session.arm in arms]
    control = next(arm for arm, what in arms.items() if not what.stressors)
    # The sham of the whole trial; without it a sham arm of your own, or else the control.
    shams = sorted((arm for arm in arms if arms[arm].sham), key=lambda arm: arms[arm].cell != SHAM)
    sham = next(iter(shams), control)
    found = run_checks(own, arms, control)
    failed = first_failures(found)
    reasons = tuple(f"{arm}: {message}" for arm, message in failed.items())
    common = np.random.default_rng(seed)

    def random(measure: str) -> np.random.Generator:
        """Where draws come from: a measure of your own does not change those of the others."""
        own_seed = isinstance(measure, OwnMeasure)
        return np.random.default_rng([seed, *measure.encode()]) if own_seed else common

    results = tuple(_arm(arm, own, plan, random, resamples) for arm in arms)
    if control in failed or sham in failed:
        return SubjectResult(name, False, reasons, found, sham, results)

    def asked(questions: Sequence[AskedContrast], mute: Mapping[str, str]) -> tuple[Effect, ...]:
        able = [each for each in questions if not mute.keys() & each.weights.keys()]
        silent = [each for each in questions if each not in able]
        family: list[Effect] = []
        for outcome in (*NAMES, *plan.own_measures):
            family += estimate_effects(own, able, outcome, random(outcome), resamples)
            family += [skip_effect(each, outcome, mute) for each in silent]
        return tuple(family)

    # An arm without stress that only has a countermeasure is compared once.
    helped = [each.weights for each in countermeasure_contrasts(arms)]
    compared = reference_contrasts(arms, sham)
    asked_for = primary_contrasts(plan.declared, arms, sham)
    known = [each.weights for each in (*compared, *countermeasure_contrasts(arms))]
    compared += [each for each in asked_for if each.weights not in known]
    # A cell that failed its checks leaves the factorial; its reason stands among the checks.
    kept = {arm: what for arm, what in arms.items() if arm not in failed}
    return SubjectResult(
        name, True, reasons, found, sham, results,
        contrasts=asked([q for q in compared if q.weights not in helped], failed),
        factorial=asked(factorial_contrasts(kept) or factorial_contrasts(arms), failed),
        doses=asked(dose_contrasts(arms), failed),
        countermeasures=asked(countermeasure_contrasts(arms), arms_at_ceiling(found) | failed),
    )  # fmt: skip


def _arm(
    name: str,
    sessions: Sequence[MeasuredSession],
    plan: TrialPlan,
    random: Callable[[str], np.random.Generator],
    resamples: int,
) -> ArmResult:
    arm, own = plan.arms[name], [each for each in sessions if each.arm == name]
    rows = [row for each in own for row in each.rows]
    common, metrics = random(""), None
    if own:
        metrics = measure(columns_of(rows), plan.weights, rng=common, resamples=resamples)
    counted = (*MEASURES, *plan.own_measures)
    measures = {each: estimate_measure(own, each, random(each), resamples) for each in counted}
    if metrics:
        measures |= {each: metric_estimate(metrics, each) for each in METRICS}
    # Neutral text in the place of a stressor is nothing of it.
    parts = {} if arm.sham else arm.stressors
    corrected = [when for session in own for when, _ in corrections(session.rows)]
    return ArmResult(
        arm=name,
        cell=arm.cell,
        dose=arm.dose,
        dosed=dose_key(arm) if arm.dose is not None else None,
        sessions=len(own),
        trials=len(rows),
        metrics=metrics,
        measures={each: measures.get(each, NOTHING) for each in (*NAMES, *plan.own_measures)},
        recall_by_lag=tuple(recall_by_lag(own, common, resamples)),
        corrections_censored=corrected.count(None),
        delivered={
            name: _dose(part.checks[0], rows) if part.checks else None
            for name, part in parts.items()
        },
    )
