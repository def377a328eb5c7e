"""A study from plan to stored transcripts: `Study` is the folder, `run_study` does the work."""

from chimeralab.study.flow import ConditionFlow, flow
from chimeralab.study.folder import Study
from chimeralab.study.lock import Lock, LockError
from chimeralab.study.plan import Plan
from chimeralab.study.run import RunOptions, RunSummary, run_study
from chimeralab.study.store import Archive, Store

__all__ = [
    "Archive",
    "ConditionFlow",
    "Lock",
    "LockError",
    "Plan",
    "RunOptions",
    "RunSummary",
    "Store",
    "Study",
    "flow",
    "run_study",
]
