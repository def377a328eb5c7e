"""The numbers over the grid of a study: how far it is, how fast, at what cost, how long still."""

import os
import platform
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from chimeralab.core.numbers import between, number
from chimeralab.core.result_words import MARK
from chimeralab.core.text import inert
from chimeralab.study import Study
from chimeralab.study.store import Archive
from chimeralab.trial.metrics import PARTS, Metrics
from chimeralab.web.grid import TalkCell

# Tokens a second are those of this last while.
RECENT_SECONDS = 30.0


class StandingFigure(NamedTuple):
    """A number over the grid: its name, what it is, and how it is going."""

    name: str
    term: str
    value: str


@dataclass
class AttemptTotals:
    """What the store says of all attempts; asked again now and then."""

    tokens: int = 0
    recent_tokens: int = 0
    recent_seconds: float = 0.0
    spent: float = 0.0
    unpriced: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    run_turns: int = 0
    run_seconds: float = 0.0


def totals(archive: Archive, moment: datetime | None = None) -> AttemptTotals:
    """Tokens, cost and failures of all attempts, and the pace of the last run until a moment."""
    all_of_them = next(
        archive.rows(
            "SELECT total(completion_tokens) AS tokens, total(cost) AS spent, "
            "total(outcome = 'answered' AND cost IS NULL) AS unpriced FROM attempts"
        )
    )
    failures = archive.rows(
        "SELECT outcome, count(*) AS n FROM attempts WHERE outcome IS NOT NULL "
        "AND outcome != 'answered' GROUP BY outcome"
    )
    found = AttemptTotals(
        tokens=int(all_of_them["tokens"]),
        spent=all_of_them["spent"],
        unpriced=int(all_of_them["unpriced"]),
        failures=Counter({row["outcome"]: row["n"] for row in failures}),
    )
    run = archive.last_run()
    if run is None:
        return found
    moment = moment or datetime.now(UTC)
    began = datetime.fromisoformat(run.started)
    since = max(began.timestamp(), moment.timestamp() - RECENT_SECONDS)
    recent = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
    query = "SELECT total(completion_tokens) FROM attempts WHERE run = ? AND ended >= ?"
    found.recent_tokens = int(archive.value(query, run.id, recent))
    found.recent_seconds = max(0.1, moment.timestamp() - since)
    query = "SELECT count(*) FROM turns JOIN attempts ON attempts.id = attempt WHERE run = ?"
    found.run_turns = archive.value(query, run.id)
    found.run_seconds = max(0.1, (moment - began).total_seconds())
    return found


class RunState(NamedTuple):
    """Whether a study is being run, and the same in words."""

    running: bool
    words: str


def run_state(study: Study, cells: Collection[TalkCell]) -> RunState:
    """Whether a process on this machine is running it, or one elsewhere says so; else why not."""
    if not study.store_path.is_file():
        return RunState(False, "not begun")
    with study.archive() as archive:
        run = archive.last_run()
        why = archive.value("SELECT reason FROM runs ORDER BY id DESC LIMIT 1")
    if run is None:
        return RunState(False, "not begun")
    if run.ended is None and (run.host != platform.node() or _is_alive(run.pid)):
        return RunState(True, f"running since {run.started[11:19]} UTC (process {run.pid})")
    if all(cell.outcome is not None for cell in cells):
        return RunState(False, "complete")
    return RunState(False, inert(f"paused: {why or 'the run was killed'}"))


def figures(
    study: Study, cells: Collection[TalkCell], totals: AttemptTotals, run: RunState
) -> list[StandingFigure]:
    """The numbers over the grid."""
    ends = Counter(cell.outcome for cell in cells if cell.outcome)
    early = ends.total() - ends["completed"]
    marked = sum(bool(cell.mark) for cell in cells)
    speed = totals.recent_tokens / totals.recent_seconds if totals.recent_seconds else 0.0
    attempts = ", ".join(f"{n:,} {name}" for name, n in totals.failures.most_common(4))
    trial = study.plan.trial is not None
    talks = "Sessions" if trial else "Conversations"
    marking = f"{MARK.collapsed} or looping".capitalize()
    left = time_left(study, cells, totals) if run.running else "–"
    return [
        StandingFigure("state", "Run", run.words),
        StandingFigure("talks", talks, f"{ends.total():,} of {len(cells):,}"),
        StandingFigure("turns", "Turns", f"{sum(cell.turns for cell in cells):,}"),
        *([] if trial else [StandingFigure("marked", marking, f"{marked:,}")]),
        StandingFigure("early", "Ended early", f"{early:,}"),
        StandingFigure("attempts", "Failed attempts", attempts or "none"),
        StandingFigure("speed", "Tokens per second", f"{speed:,.0f}" if run.running else "–"),
        StandingFigure("cost", "Cost", _cost(totals, study.plan.run.max_cost)),
        StandingFigure("left", "Time left", left),
    ]


def _cost(totals: AttemptTotals, limit: float | None) -> str:
    if totals.unpriced:  # a sum would be too low
        known = "unknown: some answers have no price"
        return known if limit is None else f"{known}; limit {limit:g}"
    return f"{totals.spent:.4g}" + ("" if limit is None else f" of at most {limit:g}")


def time_left(study: Study, cells: Collection[TalkCell], totals: AttemptTotals) -> str:
    """As long as the turns that are missing take at the pace of this run."""
    each = study.plan.conversation.turns
    missing = sum(each - cell.turns for cell in cells if cell.outcome is None)
    if not totals.run_turns:
        return "–"
    seconds = totals.run_seconds / totals.run_turns * missing
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def metric_cells(metrics: Metrics) -> dict[str, str]:
    """The metrics of an arm as they are shown, each with its interval."""
    cells = {"sessions": f"{metrics.sessions:,}", "trials": f"{metrics.trials:,}"}
    for name in PARTS:
        part = getattr(metrics, name)
        cells[name] = number(part.value, 2)
        if part.value is not None and part.interval is not None:
            cells[name] += f" ({between(part.interval, 2)})"
    return cells


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True
