"""How far a study is: a cell for each conversation, numbers over them, lines below, and its run."""

import contextlib
import json
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import is_running
from chimeralab.core.numbers import plural
from chimeralab.core.result_words import MARK
from chimeralab.core.text import neutralize
from chimeralab.study import Plan, Study
from chimeralab.study.store import Archive
from chimeralab.web.live import Patch, patch

# Tokens a second are those of this last while.
RECENT_SECONDS = 30.0
LONGEST_LINE = 300
SECONDS_TO_STOP = 20
LONGEST_TALE = 2_000

_CELLS = """
    SELECT t.id, t.condition, t.prompt, t.repeat, t.outcome, t.reason,
        (SELECT count(*) FROM turns u WHERE u.trajectory = t.id) AS turns
    FROM trajectories t
"""
_FAILED = """
    SELECT id, trajectory, turn, outcome, reason FROM attempts
    WHERE outcome IS NOT NULL AND outcome != 'answered'
"""
_DONE = "SELECT id, trajectory, turn, kind, detail FROM events"


# The grid


@dataclass(frozen=True, slots=True)
class TalkCell:
    """One conversation in the grid. `mark` is what a guard says of it: collapsed, loops, or ''."""

    id: str
    condition: str
    prompt: str
    repeat: int
    outcome: str | None = None
    reason: str | None = None
    turns: int = 0
    mark: str = ""

    @property
    def state(self) -> str:
        if self.outcome == "completed":
            return "done"
        if self.outcome is not None:
            return "failed"
        return "running" if self.turns else "planned"

    @property
    def text(self) -> str:
        """What stands in the cell; signs as well as colours say how it went."""
        sign = {"failed": "✕", "running": "…"}.get(self.state, "")
        return (str(self.turns) if self.turns else "·") + sign + ("↻" if self.mark else "")

    @property
    def look(self) -> str:
        return f"cell {self.state} {self.mark}".strip()

    @property
    def title(self) -> str:
        """The cell in words."""
        mark = {"collapsed": f", {MARK.collapsed}", "looping": ", loops"}.get(self.mark, "")
        outcome = self.outcome or self.state
        why = f" ({self.reason})" if self.reason else ""
        what = f"{self.condition}, {self.prompt}, repeat {self.repeat}"
        return neutralize(f"{what}: {outcome}{why}, {plural(self.turns, 'turn')}{mark}")

    def patch(self) -> Patch:
        return patch(f"cell-{self.id}", self.text, look=self.look, title=self.title)


Grid = dict[str, dict[str, list[TalkCell]]]
"""Cells by prompt and condition."""


def arrange(cells: Iterable[TalkCell], plan: Plan) -> Grid:
    """The conversations by prompt and condition, in the order of the plan."""
    found: Grid = {prompt.id: {name: [] for name in plan.conditions} for prompt in plan.prompts}
    for cell in sorted(cells, key=lambda cell: cell.repeat):
        found.setdefault(cell.prompt, {}).setdefault(cell.condition, []).append(cell)
    return found


def load_cells(archive: Archive, wanted: set[str] | None) -> Iterator[TalkCell]:
    """The conversations that are wanted (None: all) as the store has them."""
    if wanted is None:
        yield from (TalkCell(**row) for row in archive.rows(_CELLS))
        return
    for talk in wanted:
        yield from (TalkCell(**row) for row in archive.rows(f"{_CELLS} WHERE t.id = ?", talk))


# The numbers


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


def run_state(study: Study, cells: Collection[TalkCell]) -> tuple[bool, str]:
    """Whether a process is running the study, here or as one elsewhere says; and in words."""
    if not study.store_path.is_file():
        return False, "not begun"
    with study.archive() as archive:
        run = archive.last_run()
        why = archive.value("SELECT reason FROM runs ORDER BY id DESC LIMIT 1")
    if run is None:
        return False, "not begun"
    if run.ended is None and (run.host != platform.node() or is_running(run.pid)):
        return True, f"running since {run.started[11:19]} UTC (process {run.pid})"
    if all(cell.outcome is not None for cell in cells):
        return False, "complete"
    return False, neutralize(f"paused: {why or 'the run was killed'}")


def figures(
    plan: Plan, cells: Collection[TalkCell], totals: AttemptTotals, run: tuple[bool, str]
) -> dict[str, str]:
    """The numbers over the grid, each under its name."""
    running, state = run
    ends = Counter(cell.outcome for cell in cells if cell.outcome)
    speed = totals.recent_tokens / totals.recent_seconds if totals.recent_seconds else 0.0
    attempts = ", ".join(f"{n:,} {name}" for name, n in totals.failures.most_common(4))
    missing = sum(plan.conversation.turns - cell.turns for cell in cells if cell.outcome is None)
    return {
        "state": state,
        "talks": f"{ends.total():,} of {len(cells):,}",
        "turns": f"{sum(cell.turns for cell in cells):,}",
        "marked": f"{sum(bool(cell.mark) for cell in cells):,}",
        "early": f"{ends.total() - ends['completed']:,}",
        "attempts": attempts or "none",
        "speed": f"{speed:,.0f}" if running else "–",
        "cost": _cost(totals, plan.run.max_cost),
        "left": _time_left(missing, totals) if running and totals.run_turns else "–",
    }


def _cost(totals: AttemptTotals, limit: float | None) -> str:
    if totals.unpriced:  # a sum would be too low
        known = "unknown: some answers have no price"
        return known if limit is None else f"{known}; limit {limit:g}"
    return f"{totals.spent:.4g}" + ("" if limit is None else f" of at most {limit:g}")


def _time_left(turns: int, totals: AttemptTotals) -> str:
    """As long as the turns that are missing take at the pace of this run."""
    minutes, rest = divmod(round(totals.run_seconds / totals.run_turns * turns), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# The lines

Line = dict[str, str]
"""A line of a list: its anchor `id`, what it is about (`head`), and its `text`."""


def turn_line(row: Mapping[str, Any]) -> Line:
    head = f"{row['turn']} {row['speaker']}"
    return {"id": f"turn-{row['turn']}", "head": neutralize(head), "text": neutralize(row["text"])}


def failure_lines(archive: Archive, which: str, *values: object) -> list[Line]:
    """Failed attempts; `which` is the rest of the query."""
    found = []
    for row in archive.rows(f"{_FAILED} {which}", *values):
        head = f"{row['trajectory']}, turn {row['turn']}"
        text = f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]
        found.append(
            {"id": f"failure-{row['id']}", "head": neutralize(head), "text": neutralize(text)}
        )
    return found


def event_lines(archive: Archive, which: str, *values: object) -> list[Line]:
    """What was done to conversations; `which` is the rest of the query."""
    found = []
    for row in archive.rows(f"{_DONE} {which}", *values):
        head = f"{row['trajectory']}, turn {row['turn']}: {row['kind']}"
        text = _in_words(json.loads(row["detail"]))
        found.append(
            {"id": f"event-{row['id']}", "head": neutralize(head), "text": neutralize(text)}
        )
    return found


def _in_words(detail: Mapping[str, Any]) -> str:
    """The detail of an event in a line: what a stressor put in or took out, or its fields."""
    said = [
        f"{each['action']} ({each['kind']}): {each['text']}"
        + (f" → {each['instead']}" if each.get("instead") else "")
        for each in detail.get("injections", ())
    ]
    rest = [f"{name} {value}" for name, value in detail.items() if name != "injections"]
    text = "; ".join([*said, *rest])
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


# The run


class RunChild:
    """`chimera run` on one study, at most one at a time; what it says is kept for the page.

    It is the ordinary command: a run that is started here can be paused here and gone on with in a
    terminal, and the other way round.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def failure(self) -> str | None:
        """What the last run said when it could not do its work."""
        if self._process is None or self._process.poll() in (None, 0, 1) or self._said is None:
            return None
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return (said or ["the run has failed and said nothing"])[-1][:LONGEST_TALE]

    def start(self) -> None:
        """Run what is missing."""
        with self._lock:
            if self.is_running:
                raise InputError("it is being run already")
            if self._said:
                self._said.close()
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the run is over
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chimeralab", "run", str(self._path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                # Ctrl-C in the server's terminal is for the server, which then pauses the run.
                start_new_session=True,
            )

    def pause(self) -> None:
        """Let the requests in flight be answered, and stop."""
        if not self.is_running or self._process is None:
            raise InputError(
                "it was not started from this page; stop it where it was started, with Ctrl-C"
            )
        self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the run has ended, or until so much time has passed."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def close(self) -> None:
        """Pause the run and wait for it, as the server stops."""
        if self.is_running and self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self.wait(SECONDS_TO_STOP)
        if self._said:
            self._said.close()
