"""Judge logs on a Ray cluster, with the same verdicts as one process.

`detect_files` writes a part per file or share, so that a killed job resumes; `detect` judges a Ray
Dataset in your own pipeline.
"""

from chimeralab.scale.job import JobTotals, detect_files
from chimeralab.scale.workers import WorkerSettings, detect

__all__ = ["JobTotals", "WorkerSettings", "detect", "detect_files"]
