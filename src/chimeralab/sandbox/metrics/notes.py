"""Things that a reader of the numbers should know, found in the trials."""

import numpy as np

from chimeralab.sandbox.columns import TrialColumns


def notes(columns: TrialColumns) -> tuple[str, ...]:
    """One sentence for each oddity that occurs."""
    counts = {
        "carries the number of another trial of its session": _repeated(columns),
        "has a frame that disagrees with bias (FI goes by frame, BR by bias)": _torn(columns),
        "names a pair but no frame, and is in no pair": _frameless(columns),
    }
    return tuple(f"{_trials(count)} {words}" for words, count in counts.items() if count)


def _trials(count: int) -> str:
    """
    >>> _trials(1), _trials(1200)
    ('1 trial', 'each of 1,200 trials')
    """
    return "1 trial" if count == 1 else f"each of {count:,} trials"


def _repeated(columns: TrialColumns) -> int:
    if columns.trial is None:
        return 0
    same = (np.diff(columns.session) == 0) & (np.diff(columns.trial) == 0)
    return int(same.sum())


def _torn(columns: TrialColumns) -> int:
    if columns.bias is None or columns.frame is None:
        return 0
    return int((np.abs(columns.bias - columns.frame) == 1).sum())


def _frameless(columns: TrialColumns) -> int:
    if columns.pair is None:
        return 0
    frame = np.full(len(columns), np.nan) if columns.frame is None else columns.frame
    return int(((columns.pair >= 0) & np.isnan(frame)).sum())
