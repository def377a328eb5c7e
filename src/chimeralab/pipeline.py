"""The steps of a study in order. Each does only what is missing: twice is as good as once."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimeralab.core.records import Detection
from chimeralab.rating.audit import Audit
from chimeralab.rating.rater_checks import RaterCheck, check_rater
from chimeralab.rating.raters import RatingSummary, rate_study
from chimeralab.rating.ratings import Rating
from chimeralab.rating.study_audit import audit_study
from chimeralab.runner import Subscriber
from chimeralab.study import RunOptions, RunSummary, Study, run_study
from chimeralab.study.estimates import Estimates
from chimeralab.study.export import Format, export_study
from chimeralab.study.lock import Lock
from chimeralab.study.verdicts import detect_study
from chimeralab.study.verify import Verification, verify_study

if TYPE_CHECKING:
    from chimeralab.trial.analysis import TrialAnalysis


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


def audit(study: Study, only: str | None = None) -> Audit:
    """Say how far the raters agree; a gate that the plan declares is decided once."""
    return audit_study(study, only)


def analyse(study: Study, estimates: Estimates | None = None) -> Any:
    """Say what a study shows, as its kind analyses it; None where there is nothing yet."""
    return study.plan.kind.analyse(study, estimates or Estimates(study))


def analyse_trial(study: Study, *given: Any, **named: Any) -> "TrialAnalysis":
    """Say what a trial shows; `chimeralab.trial.kind.analyse_trial` has the options."""
    from chimeralab.trial import kind  # noqa: PLC0415 - only a trial needs it

    return kind.analyse_trial(study, *given, **named)


def verify(study: Study, *, quick: bool = False, expect: str | None = None) -> Verification:
    """Compute everything again that is derived, and list what does not fit."""
    return verify_study(study, quick=quick, expect=expect)


def export(study: Study, kind: Format, folder: Path) -> tuple[Path, ...]:
    """Write the stored records for other tools."""
    return export_study(study, kind, folder)
