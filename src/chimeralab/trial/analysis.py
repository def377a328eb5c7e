"""The analysis of a trial, subject by subject: checks, then measures, effects and doses."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import percent
from chimeralab.core.parts import choose
from chimeralab.core.records import Record
from chimeralab.stats.effects import (
    ContrastSpec,
    Effect,
    Family,
    correct_with_holm,
    deduplicate_effects,
    short,
)
from chimeralab.trial.columns import columns_of
from chimeralab.trial.effects import (
    NO_ESTIMATE,
    QUARTERS,
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
    split_quarters,
)
from chimeralab.trial.measures import (
    MEASURES,
    METRICS,
    PARTS,
    CustomMeasure,
    HitRate,
    corrections,
    unread_answers,
    unread_probes,
)
from chimeralab.trial.metrics import Metrics, MetricWeights, measure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.script import Arm
from chimeralab.trial.stressors import SHAM, Arrival
from chimeralab.trial.trials import TrialRow

MAX_UNREAD = 0.2
# The control, and noticing a signal, must beat chance by this much.
MIN_MARGIN = 0.1
# Above this share of what guessing leaves open, removed facts count as still known,
STILL_KNOWN = 0.9
# unless that many hits are this likely by guessing.
MAX_P = 0.05
# A combination of stressors must deliver this share of what each delivers alone.
MIN_DOSE = 0.8
CEILING = "ceiling"
GONE = "memory gone"
# The families of effects: fields of a subject's result, each asked together.
FAMILIES = ("contrasts", "factorial", "doses", "countermeasures")
Rows = Sequence[TrialRow]
# By arm, and by the name of a metric or stressor.
Quarters = Mapping[str, Mapping[str, tuple[MeasureEstimate, ...]]]


@dataclass(frozen=True, slots=True)
class Check(Record):
    """A condition for estimating effects; `passed` is None if it can't be decided."""

    name: str
    arm: str
    value: float | None
    passed: bool | None
    message: str


def run_checks(
    sessions: Sequence[MeasuredSession], arms: Mapping[str, Arm], control: str
) -> tuple[Check, ...]:
    """All checks of one subject, those of the control first."""
    rows = {name: [row for s in sessions if s.arm == name for row in s.rows] for name in arms}
    stressed = {name: arm for name, arm in arms.items() if not arm.sham}
    contrasts = countermeasure_contrasts(arms)
    bare = [name for each in contrasts for name, weight in each.weights.items() if weight < 0]
    found = [_check_floor(rows[control], control)]
    found += [_check_ceiling(rows[name], name) for name in dict.fromkeys((control, *bare))]
    for name in arms:
        found += _check_readable(rows[name], name)
    for name, arm in stressed.items():
        found += _check_arrivals(rows[name], name, arm)
    for name, arm in stressed.items():
        for part in arm.stressors.values():
            keeps = (check.keeps for check in part.checks if check.keeps is not None)
            found += [_check_removal(each, rows[name], name) for each in keeps]
    for name in stressed:
        found += _check_doses(rows, name, arms)
    return tuple(found)


def first_failures(found: Sequence[Check]) -> dict[str, str]:
    """The message of the first check that each failing arm fails."""
    failed: dict[str, str] = {}
    for check in found:
        if check.passed is False:
            failed.setdefault(check.arm, check.message)
    return failed


def _check_floor(rows: Rows, control: str) -> Check:
    answers = [row for row in rows if row.correct is not None]
    if not answers:
        return Check("floor", control, None, False, "the control has no answer that can be judged")
    share = sum(bool(row.correct) for row in answers) / len(answers)
    chance = _chance(answers)
    message = (
        f"the control is right in {percent(share, 0)} of its answers; "
        f"guessing would give {percent(chance, 0)}"
    )
    return Check("floor", control, share, share - chance >= MIN_MARGIN, message)


def _check_ceiling(rows: Rows, name: str) -> Check:
    """An arm at the ceiling does not fail: stress can still lower it."""
    flags = [flag for row in rows for flag in (row.correct, row.recall_correct) if flag is not None]
    if not flags:
        return Check(CEILING, name, None, None, "no answer can be judged")
    wrong = len(flags) - sum(flags)
    if not wrong:
        message = f"right in all of its {len(flags)} answers: harm can show there, but gains cannot"
        return Check(CEILING, name, 1.0, None, message)
    message = f"wrong in {wrong} of its {len(flags)} answers: gains can show"
    return Check(CEILING, name, sum(flags) / len(flags), True, message)


def _check_readable(rows: Rows, name: str) -> Iterator[Check]:
    """Unreadable answers fail an arm; unreadable probe replies are only reported."""
    share = unread_answers(rows).share
    if share is None:
        yield Check("readable", name, None, False, "there is no complete session")
        return
    message = f"{percent(share, 0)} of the answers can't be read"
    yield Check("readable", name, share, share <= MAX_UNREAD, message)
    aside = unread_probes(rows).share
    if aside is not None:
        message = f"{percent(aside, 0)} of the replies to probes can't be read"
        yield Check("readable aside", name, aside, aside <= MAX_UNREAD or None, message)


def _check_arrivals(rows: Rows, name: str, arm: Arm) -> Iterator[Check]:
    """Manipulation checks: the record shows each stressor, and the subject noticed its signal."""
    for _, part in sorted(arm.stressors.items()):
        for check in part.checks:
            share = _dose(check, rows)
            message = f"{check.said} in {percent(share or 0, 0)} of the trials"
            # A dose of 0 leaves no trace, as it should.
            yield Check(check.title, name, share, bool(share) or arm.dose == 0, message)
            if check.signal is not None:
                yield _check_noticed(check.signal, [row for row in rows if check.asks(row)], name)


def _dose(check: Arrival, rows: Rows) -> float | None:
    """The share of trials on which a stressor acted."""
    return HitRate(sum(check.shows(row) for row in rows), len(rows)).share


def _check_doses(rows: Mapping[str, Rows], name: str, arms: Mapping[str, Arm]) -> Iterator[Check]:
    """Check that each of several stressors acts about as often as it does alone."""
    arm = arms[name]
    if len(arm.stressors) < 2:
        return
    for stressor, part in sorted(arm.stressors.items()):
        alone = next(
            (other for other, spec in arms.items() if spec.stressors == {stressor: part}
             and not spec.sham and spec.countermeasure is None), None
        )  # fmt: skip
        if alone is None:
            continue
        for check in part.checks:
            dose, usual = (_dose(check, rows[each]) or 0.0 for each in (name, alone))
            message = (
                f"{check.said} in {percent(dose, 0)} of the trials, "
                f"and in {percent(usual, 0)} without the others"
            )
            yield Check(f"{stressor} delivered", name, dose, dose >= MIN_DOSE * usual, message)


def _check_noticed(signal: str, rows: Rows, name: str) -> Check:
    """Whether the subject can report a signal; believing it is an outcome, not a check."""
    title, asked = f"{signal} noticed", [row for row in rows if row.noticed is not None]
    if not asked:
        message = f"whether the false {signal} was noticed was not asked, or no reply could be read"
        return Check(title, name, None, None, message)
    noticed, chance = sum(bool(row.noticed) for row in asked), _chance(asked)
    share = noticed / len(asked)
    message = (
        f"the false {signal} was noticed in {noticed} of {len(asked)} cases asked; "
        f"guessing would give {percent(chance, 0)}"
    )
    return Check(title, name, share, share - chance >= MIN_MARGIN, message)


def _check_removal(keeps: Callable[[TrialRow], bool | None], rows: Rows, name: str) -> Check:
    """Whether the subject has lost the facts that were removed, not just our record of them."""
    asked = [(row, kept) for row in rows if (kept := keeps(row)) is not None]
    if not asked:
        return Check(GONE, name, None, None, "no removed fact was asked for")
    known, n = sum(kept for _, kept in asked), len(asked)
    options = [row.recall_options for row, _ in asked if row.recall_truth is not None]
    chance = sum(1 / each if each else 0.0 for each in options) / len(options)
    message = (
        f"{known} of {n} facts that were taken away are still known; "
        f"guessing would give {percent(chance, 0)}"
    )
    if known / n - chance < STILL_KNOWN * (1 - chance):
        return Check(GONE, name, known / n, True, message)
    p = sum(math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(known, n + 1))
    return Check(GONE, name, known / n, False if p <= MAX_P else None, message)


def _chance(rows: Rows) -> float:
    return sum(1 / row.options if row.options else 0.0 for row in rows) / len(rows)


NAMES = (*METRICS, *MEASURES)
LATER = ("conformity_shift", "conformity_kept")
SEED, RESAMPLES = 1, 2_000


@dataclass(frozen=True, slots=True)
class ArmResult(Record):
    """One arm: its metrics, every measure, and recall by lag.

    `corrections_censored` counts the wrong beliefs that no evidence corrected, `contradictions` the
    answers that contradict the subject's last one on their topic. `delivered` is the share of
    trials on which each stressor acted; None if it has no check.
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
    contradictions: int
    delivered: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class SubjectResult(Record):
    """One subject. If its control fails a check it is not `informative` and has no effects.

    If another arm fails, the effects that need it are None, with the reason. `quarters` follow MCI,
    GFQ, DFS and what each stressor delivered through the sessions of an arm, and `drifts` are the
    last quarter minus the first.
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
    quarters: Quarters = field(default_factory=dict)
    drifts: tuple[Effect, ...] = ()

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of all families."""
        return (*self.contrasts, *self.factorial, *self.doses, *self.countermeasures)

    @property
    def metrics(self) -> dict[str, Metrics]:
        """The metrics of the arms, by short name."""
        return {short(each.arm): each.metrics for each in self.arms if each.metrics is not None}

    @property
    def short_reasons(self) -> tuple[str, ...]:
        """The reasons, with arms named without their subject."""
        failed = first_failures(self.checks)
        return tuple(f"{short(arm)}: {message}" for arm, message in failed.items())


@dataclass(frozen=True, slots=True)
class SessionsLeftOut(Record):
    """How many sessions of an arm are incomplete, and why."""

    arm: str
    reason: str
    sessions: int


@dataclass(frozen=True, slots=True)
class TrialAnalysis(Record):
    """The results of the complete sessions of a trial.

    Incomplete sessions are `left_out`: they answer fewer questions, so that comparing them with
    complete ones would compare questions.
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
    """Analyse the trials of complete sessions, which come session by session.

    The caller fills in `source`, `planned` and `left_out`.
    """
    sessions = measure_sessions(trials, plan.weights, plan.custom_measures)
    names = dict.fromkeys(plan.subjects.values())
    found = [_analyse_subject(name, sessions, plan, seed, resamples) for name in names]
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
    subjects: Sequence[SubjectResult], declared: tuple[DeclaredEffect, ...]
) -> tuple[SubjectResult, ...]:
    """Holm-correct all primary effects together, and all others together.

    The declared effects are primary; if none are declared, those on the targets of stressors.
    """
    effects = [(effect, subject) for subject in subjects for effect in subject.effects]
    primary = [
        effect
        for effect, subject in effects
        if (
            any(each.is_of(effect, short(subject.reference)) for each in declared)
            if declared
            else is_aimed(effect)
        )
    ]
    family = Family(list(deduplicate_effects(primary, [effect for effect, _ in effects])))

    def correct(subject: SubjectResult) -> SubjectResult:
        corrected: dict[str, Any] = {
            name: family.correct(getattr(subject, name)) for name in FAMILIES
        }
        return replace(subject, **corrected)

    return tuple(map(correct, subjects))


def _analyse_subject(
    name: str, sessions: Sequence[MeasuredSession], plan: TrialPlan, seed: int, resamples: int
) -> SubjectResult:
    arms = {arm: plan.arms[arm] for arm, who in plan.subjects.items() if who == name}
    own = [session for session in sessions if session.arm in arms]
    control = next(arm for arm, what in arms.items() if not what.stressors)
    # The sham of the whole trial, or else another sham arm, or else the control.
    shams = sorted((arm for arm in arms if arms[arm].sham), key=lambda arm: arms[arm].cell != SHAM)
    reference = next(iter(shams), control)
    checks = run_checks(own, arms, control)
    failed = first_failures(checks)
    reasons = tuple(f"{arm}: {message}" for arm, message in failed.items())
    common = np.random.default_rng(seed)

    def rng_for(measure: str) -> np.random.Generator:
        """Later measures have generators of their own: adding one changes no other."""
        own_seed = isinstance(measure, CustomMeasure) or measure in LATER
        return np.random.default_rng([seed, *measure.encode()]) if own_seed else common

    results = tuple(_analyse_arm(arm, own, plan, rng_for, resamples) for arm in arms)
    if control in failed or reference in failed:
        return SubjectResult(name, False, reasons, checks, reference, results)
    kept = {arm: what for arm, what in arms.items() if arm not in failed}
    quarters, drifts = follow_quarters(own, kept, plan.weights, (seed, resamples))

    def estimate(contrasts: Sequence[ContrastSpec], skip: Mapping[str, str]) -> tuple[Effect, ...]:
        able = [each for each in contrasts if not skip.keys() & each.weights.keys()]
        skipped = [each for each in contrasts if each not in able]
        family: list[Effect] = []
        for outcome in (*NAMES, *plan.custom_measures):
            family += estimate_effects(own, able, outcome, rng_for(outcome), resamples)
            family += [skip_effect(each, outcome, skip) for each in skipped]
        return tuple(family)

    against = countermeasure_contrasts(arms)
    compared = reference_contrasts(arms, reference)
    known = [each.weights for each in (*compared, *against)]
    declared = primary_contrasts(plan.declared, arms, reference)
    compared += [each for each in declared if each.weights not in known]
    # A comparison is made once: a countermeasure without stress is compared with the control.
    compared = [each for each in compared if each.weights not in [c.weights for c in against]]
    full = {each.arm: each.message for each in checks if each.name == CEILING and not each.passed}
    return SubjectResult(
        name, True, reasons, checks, reference, results,
        contrasts=estimate(compared, failed),
        # A cell that failed its checks leaves the factorial.
        factorial=estimate(factorial_contrasts(kept) or factorial_contrasts(arms), failed),
        doses=estimate(dose_contrasts(arms), failed),
        countermeasures=estimate(against, full | failed),
        quarters=quarters,
        drifts=drifts,
    )  # fmt: skip


def follow_quarters(
    sessions: Sequence[MeasuredSession],
    arms: Mapping[str, Arm],
    weights: MetricWeights,
    draws: tuple[int, int],
) -> tuple[Quarters, tuple[Effect, ...]]:
    """MCI, GFQ and DFS by quarter of the session, and what each stressor delivered.

    Differences are within scenarios and Holm-corrected over all of a subject; `draws` are the seed
    and the number of resamples.
    """
    seed, resamples = draws
    parts = split_quarters(sessions, weights)
    quarters: dict[str, dict[str, tuple[MeasureEstimate, ...]]] = {}
    drifts: list[Effect] = []
    for arm, what in arms.items():
        own = [[s for s in parts if s.arm == f"{arm} {quarter}"] for quarter in QUARTERS]
        spec = ContrastSpec({f"{arm} {QUARTERS[-1]}": 1.0, f"{arm} {QUARTERS[0]}": -1.0})
        found = quarters[str(arm)] = {}
        for name in PARTS:
            rng = np.random.default_rng([seed, *f"{name} {arm}".encode()])
            found[name] = tuple(estimate_measure(each, name, rng, resamples) for each in own)
            drifts += estimate_effects([*own[0], *own[-1]], [spec], name, rng, resamples)
        for stressor, part in ({} if what.sham else what.stressors).items():
            if part.checks:
                # What a check of a stored study says is known by the row of its arm.
                rows = [[replace(row, arm=arm) for s in each for row in s.rows] for each in own]
                found[stressor] = tuple(
                    MeasureEstimate(_dose(part.checks[0], each), None, len(each)) for each in rows
                )
    return quarters, correct_with_holm(drifts)


def _analyse_arm(
    name: str,
    sessions: Sequence[MeasuredSession],
    plan: TrialPlan,
    rng_for: Callable[[str], np.random.Generator],
    resamples: int,
) -> ArmResult:
    arm, own = plan.arms[name], [each for each in sessions if each.arm == name]
    rows = [row for each in own for row in each.rows]
    common, metrics = rng_for(""), None
    if own:
        metrics = measure(columns_of(rows), plan.weights, rng=common, resamples=resamples)
    tallied = (*MEASURES, *plan.custom_measures)
    measures = {each: estimate_measure(own, each, rng_for(each), resamples) for each in tallied}
    if metrics:
        measures |= {each: metric_estimate(metrics, each) for each in METRICS}
    coherence = [each.tallies["narrative_coherence"] for each in own]
    # A sham delivers nothing of its stressors.
    stressors = {} if arm.sham else arm.stressors
    return ArmResult(
        arm=name,
        cell=arm.cell,
        dose=arm.dose,
        dosed=dose_key(arm) if arm.dose is not None else None,
        sessions=len(own),
        trials=len(rows),
        metrics=metrics,
        measures={
            each: measures.get(each, NO_ESTIMATE) for each in (*NAMES, *plan.custom_measures)
        },
        recall_by_lag=tuple(recall_by_lag(own, common, resamples)),
        corrections_censored=sum(
            when is None for each in own for when, _ in corrections(each.rows)
        ),
        contradictions=int(sum(among - hits for hits, among in coherence)),
        delivered={
            stressor: _dose(part.checks[0], rows) if part.checks else None
            for stressor, part in stressors.items()
        },
    )


def compare_trials(
    ours: tuple[Iterable[TrialRow], MetricWeights],
    theirs: tuple[Iterable[TrialRow], MetricWeights],
    match: Mapping[str, str],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Compare the arms of two trials on every measure, within scenarios of the same name.

    `match` names the arm of the second trial for arms of the first; others keep their names.
    """
    sessions, arms = [], []
    for (trials, weights), side in ((ours, "first"), (theirs, "second")):
        found = measure_sessions(trials, weights)
        arms.append(list(dict.fromkeys(each.arm for each in found)))
        sessions += [
            each._replace(rows=tuple(replace(r, arm=f"{r.arm} [{side}]") for r in each.rows))
            for each in found
        ]
    for a, b in match.items():
        choose(a, arms[0], f"arm {a!r} of the first trial")
        choose(b, arms[1], f"arm {b!r} of the second trial")
    pairs = {arm: match.get(arm, arm) for arm in arms[0] if match.get(arm, arm) in arms[1]}
    if not pairs:
        one, two = map(", ".join, arms)
        raise InputError(f"no arm is in both trials ({one}; {two}); match them with --match")
    specs = [ContrastSpec({f"{a} [first]": 1.0, f"{b} [second]": -1.0}) for a, b in pairs.items()]
    rng = np.random.default_rng(seed)
    effects = [
        effect
        for name in NAMES
        for effect in estimate_effects(sessions, specs, name, rng, resamples)
    ]
    family = Family(list(deduplicate_effects((), effects)))
    return {
        "effects": family.correct(effects),
        "only_in_a": [arm for arm in arms[0] if arm not in pairs],
        "only_in_b": [arm for arm in arms[1] if arm not in pairs.values()],
    }
