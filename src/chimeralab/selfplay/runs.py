"""Tables of runs: one row per conversation, with its length and where it collapsed."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import parse_json
from chimeralab.core.records import Detection, Episode, Record
from chimeralab.core.tables import read_rows
from chimeralab.detection.locked import LOCKED, TOLERANCE
from chimeralab.stats.arrays import Floats
from chimeralab.stats.survival import Durations, durations

if TYPE_CHECKING:
    from chimeralab.study import Study

Labels = NDArray[np.str_]
Rows = NDArray[np.bool_]

# Metadata fields that identify a run, in our studies and in other logs.
FIELDS = {
    "condition": ("condition",),
    "seed_id": ("prompt", "seed_id", "seed"),
    "repeat_index": ("repeat", "repeat_index"),
}
BUCKET_FIELDS = ("bucket", "seed_bucket")

TOO_SHORT = "too short for a verdict"
NO_TURN, NOT_JUDGED, UNFINISHED = "ended without a turn", "not judged", "not finished"
# The numeric columns of a table, and the field of a run behind each.
NUMBERS = {
    "turns": "total_turns",
    "collapsed": "collapsed_turns",
    "first": "first_collapse_turn",
    "at_risk": "at_risk_turns",
    "unseen": "unseen_turns",
    "cycle": "cycle_turns",
}


@dataclass(frozen=True, slots=True)
class Run(Record):
    """One conversation. ``first_collapse_turn`` is None for a run that never collapsed.

    ``unseen_turns`` are in cycles that the loop detector sees and the declared rule can't count;
    ``cycle_turns`` are those that it marks once it also compares each turn with the one before by
    the same speaker. Any other None is unknown.
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
    unseen_turns: int | None = None
    cycle_turns: int | None = None


@dataclass(frozen=True, slots=True)
class ExcludedRuns(Record):
    """Conversations of a condition that are excluded from the analysis, and why."""

    condition: str
    reason: str
    runs: int


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs as columns.

    ``first`` is NaN for a run that never collapsed; ``at_risk``, ``unseen`` and ``cycle`` are NaN
    where they are unknown.
    """

    source: str
    rows: tuple[Run, ...]
    condition: Labels
    seed: Labels
    turns: Floats
    collapsed: Floats
    first: Floats
    at_risk: Floats
    unseen: Floats
    cycle: Floats
    left_out: tuple[ExcludedRuns, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(np.unique(self.condition).tolist())

    @property
    def bucket(self) -> Labels | None:
        """The bucket of each run's prompt; None unless every run has one."""
        names = [row.seed_bucket for row in self.rows]
        return None if None in names else np.array(names, dtype=np.str_)

    @property
    def durations(self) -> Durations:
        return durations(self.first, self.turns)

    @property
    def cell_sizes(self) -> Counter[tuple[str, str]]:
        """The number of runs of each prompt under each condition."""
        return Counter(zip(self.condition.tolist(), self.seed.tolist(), strict=True))

    def keep(self, rows: Rows) -> "Runs":
        """Keep the marked rows."""
        columns = ("condition", "seed", *NUMBERS)
        kept = tuple(self.rows[place] for place in np.flatnonzero(rows))
        return replace(self, rows=kept, **{name: getattr(self, name)[rows] for name in columns})

    def under(self, *conditions: str) -> "Runs":
        """Keep the runs of these conditions."""
        return self.keep(np.isin(self.condition, conditions))


def table_of(rows: Iterable[Run], source: str, left_out: tuple[ExcludedRuns, ...] = ()) -> Runs:
    """Build a table from valid rows, sorted so that their order does not matter.

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
        left_out=left_out,
        **{
            column: np.array([getattr(row, name) for row in rows], dtype=np.float64)
            for column, name in NUMBERS.items()
        },
    )


def at_risk_turns(runs: Runs) -> Floats | str:
    """Turns that could have collapsed in each run, or the reason why that is unknown.

    By default these are the turns of the locked detector, from the fifth on; an earlier collapse
    shows that another detector was used.
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


def runs_of(
    detections: Iterable[Detection],
    source: str,
    left_out: Iterable[ExcludedRuns] = (),
    lags: int = LOCKED.needs.lags,
) -> Runs:
    """Build a table of runs from verdicts of a rule that compares this many turns back.

    Conversations too short for a verdict are excluded and counted, in addition to ``left_out``.
    """
    rows: list[Run] = []
    short: Counter[str] = Counter()
    for detection in detections:
        run = run_from_detection(detection, lags)
        if run is None:
            short[run_from_metadata(detection.id, detection.metadata).condition] += 1
        else:
            rows.append(run)
    gone = (ExcludedRuns(name, TOO_SHORT, count) for name, count in sorted(short.items()))
    left_out = (*left_out, *gone)
    if not rows and left_out:
        why = "; ".join(f"{part.condition}: {part.runs} {part.reason}" for part in left_out)
        raise InputError(f"{source}: no run to analyse ({why})")
    return table_of(rows, source, left_out)


def load_runs(
    study: "Study", detections: Collection[Detection], source: str, unjudged: str = ""
) -> Runs:
    """Build the table of a study's runs; conversations without a verdict are counted by reason.

    ``unjudged`` says why those that could be judged are not.
    """
    lags = study.plan.detector.settings.needs.lags
    return runs_of(detections, source, count_unjudged(study, detections, unjudged), lags)


def count_unjudged(
    study: "Study", detections: Iterable[Detection], unjudged: str = ""
) -> list[ExcludedRuns]:
    """Count the conversations without a verdict, by condition and reason."""
    judged = {detection.id for detection in detections}
    reasons: Counter[tuple[str, str]] = Counter()
    with study.archive() as archive:
        for talk in archive.talks():
            if talk["id"] in judged:
                continue
            why = f"{NOT_JUDGED}: the plan is not the locked one" if unjudged else NOT_JUDGED
            if talk["outcome"] is None:
                why = UNFINISHED
            elif not talk["turns"]:
                why = f"{NO_TURN} ({talk['outcome']})"
            reasons[talk["condition"], why] += 1
    return [ExcludedRuns(*key, count) for key, count in sorted(reasons.items())]


def run_from_detection(detection: Detection, lags: int) -> Run | None:
    """Convert a verdict to a run; None if the conversation was too short for one."""
    if detection.collapsed_turns is None:
        return None
    counts = {caveat.code: caveat.count for caveat in detection.warnings}
    return replace(
        run_from_metadata(detection.id, detection.metadata),
        total_turns=detection.turns,
        collapsed_turns=detection.collapsed_turns,
        first_collapse_turn=detection.first_collapse_turn,
        at_risk_turns=detection.at_risk_turns,
        episodes=detection.episodes,
        blank_turns=counts.get("blank_turns", 0),
        unseen_turns=count_unseen_turns(detection, lags),
        cycle_turns=count_cycle_turns(detection),
    )


def count_unseen_turns(detection: Detection, lags: int) -> int | None:
    """Count the turns in cycles of which a rule that compares ``lags`` turns back marks none.

    Such a cycle is longer than the lags, or a single speaker's, so that the turns of others break
    its run. A rule without lags has no such limit: what it leaves unmarked counts.
    """
    if detection.looping is None:
        return None
    unseen: set[int] = set()
    for loop in detection.loops:
        if loop.level == "verdict" and (not lags or loop.period > lags or loop.stream != "all"):
            # The loop detector marks turns from the one at which it notices a loop.
            began, noticed = (
                bisect_left(detection.positions, at) + 1 for at in (loop.began, loop.noticed)
            )
            ended = bisect_right(detection.positions, loop.ended or detection.positions[-1])
            if not any(began <= turn <= ended for turn in detection.collapsed):
                unseen.update(range(noticed, ended + 1))
    return len(unseen)


def count_cycle_turns(detection: Detection) -> int | None:
    """Count the turns that the locked rule marks at its own lags or at one per speaker."""
    settings, trace = detection.detector.get("settings", {}), detection.trace
    if not trace or not {"s2", "d2", "window"} <= settings.keys():
        return None
    lag, marked, run = len({row.speaker for row in trace}), set(detection.collapsed), 0
    if lag > len(trace[0].lags):
        return None
    cutoff = max(settings["s2"], 1 - settings["d2"]) - TOLERANCE
    for row in trace if lag > LOCKED.needs.lags else ():
        similarity = row.lags[lag - 1]
        run = run + 1 if similarity is not None and similarity >= cutoff else 0
        marked |= {row.turn} if run >= settings["window"] else set()
    return len(marked)


def run_from_metadata(conversation: str, metadata: Mapping[str, Any]) -> Run:
    """Identify the run of a conversation; its turns are not counted yet."""
    found: dict[str, str] = {}
    for column, names in FIELDS.items():
        value = _first(metadata, names)
        if value is None:
            known = " or ".join(map(repr, names))
            raise InputError(f"conversation {conversation!r} has no field {known} in its metadata")
        found[column] = value
    try:
        number = int(found["repeat_index"])
    except ValueError:
        raise InputError(
            f"conversation {conversation!r}: repeat {found['repeat_index']!r} is not a whole number"
        ) from None
    bucket, outcome = _first(metadata, BUCKET_FIELDS), _first(metadata, ("outcome",))
    return Run(found["condition"], found["seed_id"], number, 0, 0, None, bucket, outcome=outcome)


def _first(metadata: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these fields that is not empty."""
    found = (metadata[name] for name in names if metadata.get(name) not in (None, ""))
    return next(map(str, found), None)


COLUMNS = (
    "condition",
    "seed_id",
    "repeat_index",
    "total_turns",
    "collapsed_turns",
    "first_collapse_turn",
)


def read_runs(path: str | Path) -> Runs:
    """Read a table of runs from CSV, JSON Lines or Parquet; errors name the line and column."""
    path = Path(path)
    # In JSON, an absent key means null.
    needed = COLUMNS[:-1] if path.suffix == ".jsonl" else COLUMNS
    runs: list[Run] = []
    lines: dict[tuple[str, str, int], int] = {}
    buckets: defaultdict[str, dict[str | None, int]] = defaultdict(dict)
    for line, cells in read_rows(path, needed):
        try:
            run = _from_cells(cells)
            _check(run)
            key = (run.condition, run.seed_id, run.repeat_index)
            if key in lines:
                what = f"condition {key[0]!r}, seed_id {key[1]!r}, repeat_index {key[2]}"
                raise InputError(f"{what} is in line {lines[key]} already")
            known = buckets[run.seed_id]
            known.setdefault(run.seed_bucket, line)
            if len(known) > 1:
                first, other = (f"{name or 'none'} (line {at})" for name, at in known.items())
                reason = f"seed_id {run.seed_id!r} is in two buckets: {first} and {other}"
                raise InputError(f"column seed_bucket: {reason}")
        except InputError as error:
            raise LogError(str(path), str(error), line) from None
        lines[key] = line
        runs.append(run)
    return table_of(runs, str(path))


def _from_cells(cells: Mapping[str, Any]) -> Run:
    def optional(column: str, read: Callable[[Mapping[str, Any], str], Any]) -> Any:
        return None if _blank(cells.get(column)) else read(cells, column)

    return Run(
        condition=_text(cells, "condition"),
        seed_id=_text(cells, "seed_id"),
        repeat_index=_whole(cells, "repeat_index"),
        total_turns=_whole(cells, "total_turns"),
        collapsed_turns=_whole(cells, "collapsed_turns"),
        first_collapse_turn=optional("first_collapse_turn", _whole),
        seed_bucket=optional("seed_bucket", _text),
        at_risk_turns=optional("at_risk_turns", _whole),
        episodes=optional("episodes", _episodes),
        outcome=optional("outcome", _text),
        blank_turns=optional("blank_turns", _whole),
        unseen_turns=optional("unseen_turns", _whole),
        cycle_turns=optional("cycle_turns", _whole),
    )


def _blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _text(cells: Mapping[str, Any], column: str) -> str:
    cell = cells[column]
    if _blank(cell) or isinstance(cell, float | bool | list | dict):
        raise InputError(f"column {column} must be a name, not {_quote(cell)}")
    return str(cell).strip()


# What to write instead of a blank cell.
_BLANK_ADVICE = {
    "collapsed_turns": "give 0 for a run that never collapsed, or drop a run without a verdict",
    "first_collapse_turn": "leave the cell blank for a run that never collapsed",
}


def _whole(cells: Mapping[str, Any], column: str) -> int:
    cell = cells[column]
    try:
        number = float("nan" if isinstance(cell, bool) else cell)
    except (TypeError, ValueError):
        number = float("nan")
    if not number.is_integer() or abs(number) > 1e15:
        advice = _BLANK_ADVICE.get(column, "give a whole number")
        raise InputError(f"column {column} is {_quote(cell)}; {advice}")
    return int(number)


def _episodes(cells: Mapping[str, Any], column: str) -> tuple[Episode, ...]:
    """Parse spans of collapsed turns, as an export writes them."""
    cell = cells[column]
    try:
        spans = parse_json(cell) if isinstance(cell, str) else cell
        return tuple(Episode(int(span["start"]), int(span["end"])) for span in spans)
    except (ValueError, TypeError, KeyError):
        example = '[{"start": 5, "end": 9}]'
        raise InputError(f"column {column} must look like {example}, not {_quote(cell)}") from None


def _quote(cell: Any) -> str:
    return "blank" if _blank(cell) else repr(cell)[:40]


def _check(run: Run) -> None:
    """Reject a row whose numbers contradict each other."""
    turns, collapsed, first = run.total_turns, run.collapsed_turns, run.first_collapse_turn
    if turns < 1:
        raise InputError(f"column total_turns is {turns}; a run has at least one turn")
    if not 0 <= collapsed <= turns:
        raise InputError(f"column collapsed_turns is {collapsed}; the run has {turns} turns")
    # Unseen turns are in addition to the collapsed ones; the other two include them.
    unseen = None if run.unseen_turns is None else collapsed + run.unseen_turns
    including = {"at_risk": run.at_risk_turns, "cycle": run.cycle_turns, "unseen": unseen}
    for name, count in including.items():
        if count is not None and not collapsed <= count <= turns:
            given = getattr(run, f"{name}_turns")
            more = " when added to them" if name == "unseen" else ""
            raise InputError(
                f"column {name}_turns is {given}; "
                f"it must lie between the {collapsed} collapsed turns and all {turns}{more}"
            )
    if first is None and collapsed:
        raise InputError(f"column first_collapse_turn is blank, yet {collapsed} turns collapsed")
    _check_episodes(run)
    if first is None:
        return
    if not 1 <= first <= turns:
        raise InputError(f"column first_collapse_turn is {first}; the run has turns 1 to {turns}")
    if collapsed == 0:
        raise InputError(f"column first_collapse_turn is {first}, yet collapsed_turns is 0")
    left = turns - first + 1
    if collapsed > left:
        raise InputError(
            f"column collapsed_turns is {collapsed}, but from first_collapse_turn {first} on "
            f"there are only {left} turns"
        )


def _check_episodes(run: Run) -> None:
    if run.episodes is None:
        return
    turns = sum(episode.turns for episode in run.episodes)
    first = run.episodes[0].start if run.episodes else None
    if (turns, first) != (run.collapsed_turns, run.first_collapse_turn):
        raise InputError(
            f"column episodes has {turns} collapsed turns, the first at {first or 'none'}; "
            f"the run has {run.collapsed_turns}, the first at {run.first_collapse_turn or 'none'}"
        )
