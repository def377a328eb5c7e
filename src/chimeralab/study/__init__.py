"""A study from plan to stored transcripts: `Study` is the folder, `run_study` does the work."""

from chimeralab.study.archive import Archive
from chimeralab.study.flow import Arm, flow
from chimeralab.study.folder import Study
from chimeralab.study.lock import Lock, LockError
from chimeralab.study.plan import Plan
from chimeralab.study.session import RunOptions, RunSummary, run_study
from chimeralab.study.store import Store

__all__ = [
    "Archive",
    "Arm",
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
