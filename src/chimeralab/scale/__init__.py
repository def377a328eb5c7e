"""Judging more logs than one machine can: on Ray Data, with the verdicts of one process.

`detect_files` makes parts of files, so that a job that was killed goes on where it stopped;
`detect` judges a Ray Dataset for people with a pipeline of their own.
"""

from chimeralab.scale.job import JobTotals, detect_files
from chimeralab.scale.workers import WorkerSettings, detect

__all__ = ["JobTotals", "WorkerSettings", "detect", "detect_files"]
