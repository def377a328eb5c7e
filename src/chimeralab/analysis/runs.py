"""A table of runs: one row a conversation, how long it went and where it collapsed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection, Episode, Record
from chimeralab.detection.detectors import LOCKED
from chimeralab.stats.arrays import Floats
from chimeralab.stats.survival import Durations, durations

Labels = NDArray[np.str_]
Rows = NDArray[np.bool_]

# The fields by which conversations are known, in the words of our studies and of other people's.
FIELDS = {
    "condition": ("condition",),
    "seed_id": ("prompt", "seed_id", "seed"),
    "repeat_index": ("repeat", "repeat_index"),
}
BUCKET_FIELDS = ("bucket", "seed_bucket")

TOO_SHORT = "too short for a verdict"


@dataclass(frozen=True, slots=True)
class Run(Record):
    """One conversation. ``first_collapse_turn`` is None for a run that never collapsed.

    The other Nones are things that the table does not say.
    """

    condition: str
    seed_id: str
    repeat_index: int
    total_turns: int
    collapsed_turns: int
    first_collapse_turn: int | None
    seed_bucket: str | None = None
    at_risk_turns: int | None = None
    episodes: tuple[Episode, ...] | None = None
    outcome: str | None = None
    blank_turns: int | None = None


@dataclass(frozen=True, slots=True)
class LeftOut(Record):
    """Conversations of a condition that are not analysed, and why."""

    condition: str
    reason: str
    runs: int


@dataclass(frozen=True, slots=True)
class Runs:
    """The same runs as columns.

    ``first`` is NaN for a run that never collapsed, ``at_risk`` where the table does not say.
    """

    source: str
    rows: tuple[Run, ...]
    condition: Labels
    seed: Labels
    turns: Floats
    collapsed: Floats
    first: Floats
    at_risk: Floats
    left_out: tuple[LeftOut, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(np.unique(self.condition).tolist())

    @property
    def bucket(self) -> Labels | None:
        """The bucket of each run's prompt; None when the table has none."""
        names = [row.seed_bucket for row in self.rows]
        return None if None in names else np.array(names, dtype=np.str_)

    @property
    def durations(self) -> Durations:
        return durations(self.first, self.turns)

    @property
    def cell_sizes(self) -> Counter[tuple[str, str]]:
        """How many runs each prompt has under each condition."""
        return Counter(zip(self.condition.tolist(), self.seed.tolist(), strict=True))

    def keep(self, rows: Rows) -> "Runs":
        """The marked rows alone."""
        return Runs(
            self.source,
            tuple(self.rows[place] for place in np.flatnonzero(rows)),
            self.condition[rows],
            self.seed[rows],
            self.turns[rows],
            self.collapsed[rows],
            self.first[rows],
            self.at_risk[rows],
            self.left_out,
        )

    def under(self, *conditions: str) -> "Runs":
        """The runs of these conditions."""
        return self.keep(np.isin(self.condition, conditions))


def table_of(rows: Iterable[Run], source: str, left_out: tuple[LeftOut, ...] = ()) -> Runs:
    """Put rows that have been checked into columns, sorted so that their order can't matter.

    >>> table_of([Run("A", "s1", 0, 40, 6, 12), Run("A", "s1", 1, 40, 0, None)], "here").first
    array([12., nan])
    """
    rows = tuple(sorted(rows, key=lambda row: (row.condition, row.seed_id, row.repeat_index)))
    if not rows:
        raise InputError(f"{source}: no run to analyse")
    return Runs(
        source,
        rows,
        np.array([row.condition for row in rows], dtype=np.str_),
        np.array([row.seed_id for row in rows], dtype=np.str_),
        np.array([row.total_turns for row in rows], dtype=np.float64),
        np.array([row.collapsed_turns for row in rows], dtype=np.float64),
        np.array([row.first_collapse_turn for row in rows], dtype=np.float64),
        np.array([row.at_risk_turns for row in rows], dtype=np.float64),
        left_out,
    )


def at_risk_turns(runs: Runs) -> Floats | str:
    """Turns that could have collapsed in each run, or why that is unknown.

    A table that does not say is taken to come from the locked detector, whose first possible turn
    is the fifth; a collapse before that shows that it does not.
    """
    if not np.isnan(runs.at_risk).any():
        return runs.at_risk
    first = LOCKED.first_turn_at_risk
    if (runs.first < first).any():
        return (
            f"a run collapsed before turn {first}, so the turns at risk are not those of the "
            "locked detector; give them in a column at_risk_turns"
        )
    return np.maximum(runs.turns - first + 1, 0)


def runs_of(detections: Iterable[Detection], source: str, left_out: Iterable[LeftOut] = ()) -> Runs:
    """The table of runs from verdicts, which know every turn.

    Conversations too short for a verdict are left out and counted, beside those that have been
    ``left_out`` before.
    """
    rows: list[Run] = []
    short: Counter[str] = Counter()
    for detection in detections:
        run = named_run(detection.id, detection.metadata)
        if detection.collapsed_turns is None:
            short[run.condition] += 1
        else:
            rows.append(_judged(run, detection, detection.collapsed_turns))
    gone = (LeftOut(name, TOO_SHORT, count) for name, count in sorted(short.items()))
    left_out = (*left_out, *gone)
    if not rows and left_out:
        why = "; ".join(f"{part.condition}: {part.runs} {part.reason}" for part in left_out)
        raise InputError(f"{source}: no run to analyse ({why})")
    return table_of(rows, source, left_out)


def named_run(conversation: str, metadata: Mapping[str, Any]) -> Run:
    """The run that a conversation is, before anything is said of its turns."""
    condition, seed, repeat = (_required(conversation, metadata, column) for column in FIELDS)
    try:
        number = int(repeat)
    except ValueError:
        raise InputError(
            f"conversation {conversation!r}: repeat {repeat!r} is no whole number"
        ) from None
    bucket, outcome = _first(metadata, BUCKET_FIELDS), _first(metadata, ("outcome",))
    return Run(condition, seed, number, 0, 0, None, bucket, outcome=outcome)


def _judged(run: Run, detection: Detection, collapsed: int) -> Run:
    counts = {caveat.code: caveat.count for caveat in detection.warnings}
    return replace(
        run,
        total_turns=detection.turns,
        collapsed_turns=collapsed,
        first_collapse_turn=detection.first_collapse_turn,
        at_risk_turns=detection.at_risk_turns,
        episodes=detection.episodes,
        blank_turns=counts.get("blank_turns", 0),
    )


def _required(conversation: str, metadata: Mapping[str, Any], column: str) -> str:
    value = _first(metadata, FIELDS[column])
    if value is None:
        known = " or ".join(repr(name) for name in FIELDS[column])
        raise InputError(f"conversation {conversation!r} has no field {known} in its metadata")
    return value


def _first(metadata: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these fields that is filled in. Prompts without a bucket have an empty one."""
    found = (metadata[name] for name in names if metadata.get(name) not in (None, ""))
    return next(map(str, found), None)
