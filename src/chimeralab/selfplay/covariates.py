"""Covariates from a table: are they associated with collapse at their turn, and ahead of it?"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows
from chimeralab.selfplay.runs import (
    BUCKET_FIELDS,
    COLUMNS,
    FIELDS,
    NUMBERS,
    Run,
    Runs,
    at_risk_turns,
    run_from_metadata,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import cluster_slope, ranks
from chimeralab.stats.contrasts import holm
from chimeralab.stats.intervals import Interval

# Columns that say which turn a row is about, or what became of it.
NOT_COVARIATES = frozenset(
    {
        "turn",
        *(name for names in FIELDS.values() for name in names),
        *BUCKET_FIELDS,
        *COLUMNS,
        *NUMBERS.values(),
        "collapse_rate",
    }
)
# What is associated if a row is about a run: its name, and its value.
RUN_OUTCOMES: Mapping[str, Callable[[Run], float]] = {
    "share of collapsed turns": lambda run: run.collapsed_turns / run.total_turns,
    "any collapse": lambda run: float(run.collapsed_turns > 0),
    # As published: the last turn for a run that never collapsed.
    "first collapse": lambda run: run.first_collapse_turn or run.total_turns,
}


@dataclass(frozen=True, slots=True)
class Association(Record):
    """How a covariate goes with an outcome: Spearman's rho, and the slope per standard deviation.

    ``interval``, ``slope_interval`` and ``p`` allow for clusters; ``naive_interval`` takes each row
    for independent. ``distinct`` counts the different values of the covariate: with fewer than
    clusters, clusters may share what it was measured on. ``reason`` says why there are no numbers.
    """

    covariate: str
    outcome: str
    rows: int
    clusters: int
    distinct: int
    rho: float | None = None
    interval: Interval | None = None
    naive_interval: Interval | None = None
    slope: float | None = None
    slope_interval: Interval | None = None
    p: float | None = None
    p_holm: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CovariateResult(Record):
    """The associations of a table of covariates; p-values are Holm-corrected over all of them."""

    source: str
    about: str
    cluster: tuple[str, ...]
    matched: int
    associations: tuple[Association, ...]
    notes: tuple[str, ...]


class CovariateRow(NamedTuple):
    """A row of covariates with the run that it is about, and its turn; no turn: the whole run."""

    run: Run
    turn: int | None
    cells: Mapping[str, Any]
    cluster: tuple[str, ...]


class CovariateQuestion(NamedTuple):
    """Which covariates (all: none named), how many turns ahead, and what makes a cluster."""

    covariates: Sequence[str] = ()
    lags: Sequence[int] = (0, 1)
    cluster: Sequence[str] = ("seed_id",)
    level: float = 0.95


EVERYTHING = CovariateQuestion()


def associate(runs: Runs, path: Path, asked: CovariateQuestion = EVERYTHING) -> CovariateResult:
    """Join a table of covariates with runs, and estimate each association.

    Rows about turns are compared with collapse at their turn (lag 0) and, where it had not
    collapsed yet, with collapse this many turns later.
    """
    rows, unmatched = join_rows(runs, path, asked.cluster)
    names = choose_covariates(rows, path, asked.covariates)
    by_turn = rows[0].turn is not None
    pairs: Pairs = (
        (outcome, [(row, value(row.run)) for row in rows])
        for outcome, value in RUN_OUTCOMES.items()
    )
    if by_turn:
        pairs = turn_outcomes(runs, rows, asked.lags)
    found = [
        estimate_association(name, outcome, known, asked.level)
        for outcome, known in pairs
        for name in names
    ]
    corrected = holm([each.p for each in found])
    found = [replace(each, p_holm=p) for each, p in zip(found, corrected, strict=True)]
    about = "turn" if by_turn else "run"
    notes = [f"{plural(unmatched, 'row')} of {path} match no {about}"] if unmatched else []
    return CovariateResult(
        str(path), about, tuple(asked.cluster), len(rows), tuple(found), tuple(notes)
    )


def join_rows(runs: Runs, path: Path, cluster: Sequence[str]) -> tuple[list[CovariateRow], int]:
    """The rows that match a turn or run, and the number of those that match none."""
    known = {(run.condition, run.seed_id, run.repeat_index): run for run in runs.rows}
    lines: dict[tuple[Any, ...], int] = {}
    rows: list[CovariateRow] = []
    first, by_turn, read = "", False, 0
    for read, (line, cells) in enumerate(read_rows(path), start=1):
        try:
            named = run_from_metadata(f"line {line}", cells)
            key = named.condition, named.seed_id, named.repeat_index
            by_turn = "turn" in cells if read == 1 else by_turn
            turn = whole_turn(cells["turn"]) if by_turn else None
            where = f"condition {key[0]!r}, seed_id {key[1]!r}, repeat_index {key[2]}"
            where += f", turn {turn}" if by_turn else ""
            if (*key, turn) in lines:
                raise InputError(f"{where} is in line {lines[*key, turn]} already")
            lines[*key, turn] = line
            run = known.get(key)
            first = first or where
            if run is None or (turn is not None and not 1 <= turn <= run.total_turns):
                continue
            columns = {**run.as_dict(), **cells}
            absent = [name for name in cluster if columns.get(name) in (None, "")]
            if absent:
                raise InputError(f"no {absent[0]} to cluster by")
        except InputError as error:
            raise LogError(str(path), str(error), line) from None
        rows.append(CovariateRow(run, turn, cells, tuple(str(columns[name]) for name in cluster)))
    if not rows:
        what = "turn" if by_turn else "run"
        why = f"its first row is {first}" if first else "it has no row"
        raise InputError(f"{path} matches no {what} of {runs.source}: {why}")
    return rows, read - len(rows)


def whole_turn(cell: Any) -> int:
    """Read the number of a turn.

    >>> whole_turn("7")
    7
    """
    try:
        return int(str(cell))
    except ValueError:
        raise InputError(f"column turn must be a whole number, not {cell!r}") from None


def choose_covariates(rows: Sequence[CovariateRow], path: Path, chosen: Sequence[str]) -> list[str]:
    """The chosen columns, or else every column of numbers that does not name a turn."""
    cells = rows[0].cells
    if absent := [name for name in chosen if name not in cells]:
        raise InputError(f"{path} has no column {absent[0]!r}; it has {', '.join(cells)}")
    candidates = chosen or [name for name in cells if name not in NOT_COVARIATES]
    names = [name for name in candidates if is_numeric(row.cells.get(name) for row in rows)]
    if chosen and names != list(chosen):
        worded = next(name for name in chosen if name not in names)
        raise InputError(f"{path}: column {worded!r} is not a number in every row")
    if not names:
        raise InputError(f"{path} has no column of numbers besides those that name a turn or run")
    return names


def is_numeric(cells: Iterable[Any]) -> bool:
    """Whether all cells that are not blank are finite numbers."""
    values = [cell for cell in cells if cell not in (None, "")]
    try:
        return bool(values) and all(math.isfinite(float(each)) for each in values)
    except (TypeError, ValueError):
        return False


# The name of an outcome, and its value next to each row.
Pairs = Iterator[tuple[str, list[tuple[CovariateRow, float]]]]


def turn_outcomes(runs: Runs, rows: Sequence[CovariateRow], lags: Sequence[int]) -> Pairs:
    """Whether the turn that is `lag` turns later collapsed, of those that could."""
    if any(row.run.episodes is None for row in rows):
        raise InputError(
            f"{runs.source} does not say which turns collapsed; give the study, or a table with "
            "the column episodes"
        )
    at_risk = at_risk_turns(runs)
    if isinstance(at_risk, str):
        raise InputError(f"{runs.source}: {at_risk}")
    first = {
        id(run): min(run.total_turns - int(n) + 1, run.first_collapse_turn or run.total_turns)
        for run, n in zip(runs.rows, at_risk, strict=True)
    }
    for lag in dict.fromkeys(lags):
        known = []
        for row in rows:
            turn = row.turn or 0
            later = turn + lag
            began = lag and _is_collapsed(row.run, turn)
            if first[id(row.run)] <= later <= row.run.total_turns and not began:
                known.append((row, float(_is_collapsed(row.run, later))))
        yield f"collapse {plural(lag, 'turn')} ahead" if lag else "collapse at the turn", known


def _is_collapsed(run: Run, turn: int) -> bool:
    return any(each.start <= turn <= each.end for each in run.episodes or ())


def estimate_association(
    name: str, outcome: str, pairs: Sequence[tuple[CovariateRow, float]], level: float
) -> Association:
    """One association; rows without a value are left out."""
    known = [(row, y) for row, y in pairs if row.cells.get(name) not in (None, "")]
    x = np.array([float(row.cells[name]) for row, _ in known])
    y = np.array([value for _, value in known])
    codes: dict[tuple[str, ...], int] = {}
    cluster = [codes.setdefault(row.cluster, len(codes)) for row, _ in known]
    distinct = len(set(x.tolist()))
    empty = Association(name, outcome, len(known), len(codes), distinct)
    if distinct < 2:
        return replace(empty, reason="the covariate does not vary")
    if len(set(y.tolist())) < 2:
        return replace(empty, reason="the outcome does not vary")
    rho = cluster_slope(_standardise(ranks(x)), _standardise(ranks(y)), cluster)
    slope = cluster_slope(_standardise(x), y, cluster)
    if rho is None or slope is None:
        return replace(empty, reason="needs two clusters and three rows")
    return replace(
        empty,
        rho=rho.value,
        interval=_within_one(rho.interval(level)),
        naive_interval=_within_one(rho.naive_interval(level)),
        slope=slope.value,
        slope_interval=slope.interval(level),
        p=rho.p,
    )


def _standardise(column: Floats) -> Floats:
    return np.asarray((column - column.mean()) / column.std(), dtype=np.float64)


def _within_one(interval: Interval) -> Interval:
    return Interval(max(interval[0], -1.0), min(interval[1], 1.0))
