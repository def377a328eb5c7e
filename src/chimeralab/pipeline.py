"""The steps of a study in order. Each does only what is missing: twice is as good as once."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chimeralab.analysis import Analysis, Outcomes, Runs, analyse
from chimeralab.core.records import Detection, plain_value
from chimeralab.rating.auditing import StudyAudit, audit_study
from chimeralab.rating.rater_checks import RaterCheck, check_rater
from chimeralab.rating.raters import RatingSummary, rate_study
from chimeralab.rating.ratings import Rating
from chimeralab.runner import Subscriber
from chimeralab.stats.effects import SELF_PLAY, TRIAL
from chimeralab.study import RunOptions, RunSummary, Study, run_study
from chimeralab.study.detecting import detect_study
from chimeralab.study.estimates import Estimates
from chimeralab.study.export import Format, export_study
from chimeralab.study.lock import Lock
from chimeralab.study.verify import Verification, verify_study
from chimeralab.trial.analysis import Draws, TrialAnalysis, TrialDesign
from chimeralab.trial.analysis import analyse_trial as analysis_of_trial
from chimeralab.trial.rows import left_out, recalled_plan, stored_trials, trial_plan


def lock(study: Study) -> Lock:
    """Freeze the plan, fully resolved, under a hash."""
    return study.freeze()


def run(
    study: Study,
    options: RunOptions | None = None,
    publish: Subscriber = lambda news: None,
) -> RunSummary:
    """Run the conversations that are missing; each turn is on disk before the next is asked."""
    return run_study(study, options, publish)


def detect(study: Study, publish: Callable[[Detection], None] = lambda detection: None) -> int:
    """Judge the finished conversations that have no verdict yet; says how many there were."""
    return detect_study(study, publish)


def rate(
    study: Study,
    rater: str,
    only: str | None = None,
    publish: Callable[[Rating], None] = lambda rating: None,
) -> RatingSummary:
    """Have a rater label the finished conversations that it has not labelled yet."""
    return rate_study(study, rater, only, publish)


def attack(study: Study, rater: str, only: str | None = None, seed: int = 0) -> RaterCheck:
    """Ask a rater twice, with the labels turned round and under attack; store its flip rates."""
    return check_rater(study, rater, only, seed)


def audit(study: Study, only: str | None = None) -> StudyAudit:
    """Say how far the raters agree; a gate that the plan declares is decided once."""
    return audit_study(study, only)


def analyse_selfplay(
    study: Study, runs: Runs, estimates: Estimates, changed: Mapping[str, Any] | None = None
) -> Analysis:
    """Say what the runs of a study show, as its plan declares it.

    `changed` are the verdicts behind them that are not those of the store.
    """
    outcomes = study.plan.extras.get("outcomes", Outcomes())

    def compute() -> Analysis:
        return analyse(runs, outcomes)

    inputs = (plain_value(runs.left_out), changed or {})
    found = estimates.take(Analysis, compute, *inputs, known={"words": SELF_PLAY})
    return replace(found, source=runs.source)


def analyse_trial(
    study: Study, resampling: Draws | None = None, estimates: Estimates | None = None
) -> TrialAnalysis:
    """Say what the whole sessions of a trial show: can it be judged, and what does each arm do?

    Estimates with other draws than the usual ones are not stored.
    """

    def compute() -> TrialAnalysis:
        plan = recalled_plan(study)
        design = TrialDesign(
            plan.arms,
            plan.subjects,
            plan.weights,
            len(study.talks),
            left_out(study),
            plan.own_measures,
            plan.declared,
        )
        trials = stored_trials(study, whole=True)
        return analysis_of_trial(trials, design, str(study.path), resampling)

    if resampling not in (None, Draws()):
        return compute()
    plan = trial_plan(study)
    names = {f"{type(each).__name__} {each}": each for each in (*plan.arms, *plan.own_measures)}
    known = {"words": TRIAL, **names}
    stored = estimates or Estimates(study)
    # Without its code, a stressor of the user's own can't say what of it could still be read.
    found = stored.take(TrialAnalysis, compute, study.consent is not None, known=known)
    return replace(found, source=str(study.path))


def verify(study: Study, *, quick: bool = False, expect: str | None = None) -> Verification:
    """Compute everything again that is derived, and list what does not fit."""
    return verify_study(study, quick=quick, expect=expect)


def export(study: Study, kind: Format, folder: Path) -> tuple[Path, ...]:
    """Write the stored records for other tools."""
    return export_study(study, kind, folder)
