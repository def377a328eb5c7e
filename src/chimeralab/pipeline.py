"""The steps of a study in order. Each does only what is missing, so repeating one is safe."""

from typing import TYPE_CHECKING, Any

from chimeralab.rating.calibration import calibrate
from chimeralab.rating.rater_checks import check_rater as attack
from chimeralab.rating.raters import rate_study as rate
from chimeralab.rating.study_audit import audit_study as audit
from chimeralab.study import Study
from chimeralab.study import run_study as run
from chimeralab.study.estimates import Estimates
from chimeralab.study.export import export_study as export
from chimeralab.study.verdicts import detect_study as detect
from chimeralab.study.verify import verify_study as verify

if TYPE_CHECKING:
    from chimeralab.trial.analysis import TrialAnalysis

__all__ = [
    "analyse", "analyse_trial", "attack", "audit", "calibrate", "detect", "export", "lock", "rate",
    "run", "verify",
]  # fmt: skip

lock = Study.freeze


def analyse(study: Study, estimates: Estimates | None = None) -> Any:
    """Analyse a study as its kind does; None if there are no results yet."""
    return study.plan.kind.analyse(study, estimates or Estimates(study))


def analyse_trial(study: Study, *args: Any, **options: Any) -> "TrialAnalysis":
    """Analyse a trial; see `chimeralab.trial.kind.analyse_trial` for the options."""
    from chimeralab.trial import kind  # noqa: PLC0415 - only a trial needs it

    return kind.analyse_trial(study, *args, **options)
