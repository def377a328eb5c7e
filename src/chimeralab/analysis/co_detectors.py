"""How far the words alone agree with the embedding about which conversations collapsed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.lexical import Lexical
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats

# Which way each number points: compression falls as collapse rises.
DIRECTIONS = {
    "repeat_rate": 1,
    "overlap_rate": 1,
    "repeated_share": 1,
    "overlap": 1,
    "compression_ratio": -1,
}
VERDICTS = ("repeat_rate", "overlap_rate")


@dataclass(frozen=True, slots=True)
class CoDetector(Record):
    """A lexical number beside the embedding's share of collapsed turns.

    ``correlation`` is Spearman's, turned so that agreement is positive. The counts say which of
    the two found any collapse; only numbers that follow the detector's rule have them.
    """

    name: str
    conversations: int
    correlation: float | None
    both: int | None
    only_lexical: int | None
    only_embedding: int | None
    neither: int | None
    reasons: Mapping[str, str] = field(default_factory=dict)


class Pair(NamedTuple):
    """One conversation seen both ways: in its words, and in the embedding's collapse rate."""

    lexical: Lexical
    collapse_rate: float | None


def co_detectors(pairs: Iterable[Pair]) -> tuple[CoDetector, ...]:
    """Set each lexical number against the verdicts of the embedding."""
    known = [pair for pair in pairs if pair.collapse_rate is not None]
    return tuple(_co_detector(name, known) for name in DIRECTIONS)


def _co_detector(name: str, pairs: list[Pair]) -> CoDetector:
    both_known = [
        (getattr(pair.lexical, name), pair.collapse_rate)
        for pair in pairs
        if getattr(pair.lexical, name) is not None
    ]
    columns = np.array(both_known, dtype=np.float64).reshape(-1, 2)
    correlation = spearman(columns[:, 0] * DIRECTIONS[name], columns[:, 1])
    why = {} if correlation is not None else {"correlation": "one of the two never differs"}
    if name not in VERDICTS:
        counts = dict.fromkeys(("both", "only_lexical", "only_embedding", "neither"), NO_VERDICT)
        return CoDetector(name, len(columns), correlation, None, None, None, None, why | counts)
    lexical, embedding = columns.T > 0
    return CoDetector(
        name=name,
        conversations=len(columns),
        correlation=correlation,
        both=int((lexical & embedding).sum()),
        only_lexical=int((lexical & ~embedding).sum()),
        only_embedding=int((~lexical & embedding).sum()),
        neither=int((~lexical & ~embedding).sum()),
        reasons=why,
    )


NO_VERDICT = "a number without a verdict of its own"


def spearman(first: Floats, second: Floats) -> float | None:
    """Correlation of ranks, ties sharing their mean rank; None when one side never differs.

    >>> spearman(np.array([1.0, 2.0, 9.0]), np.array([2.0, 3.0, 4.0]))
    1.0
    """
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(values: Floats) -> Floats:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(middle[place])
