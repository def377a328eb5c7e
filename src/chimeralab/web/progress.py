"""Progress of a study: cells of the grid, totals, feed lines, and the run process."""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import percent, plural
from chimeralab.core.result_words import MARK
from chimeralab.core.text import neutralize
from chimeralab.study.database import name_cell
from chimeralab.study.store import Archive
from chimeralab.web.live import Patch, patch

# The window of tokens per second.
RECENT_SECONDS = 30.0
MAX_LINE = 300
SECONDS_TO_STOP = 20
MAX_ERROR = 2_000

_CELLS = """
    SELECT t.id, t.condition, t.prompt, t.repeat, t.outcome, t.reason,
        (SELECT count(*) FROM turns u WHERE u.trajectory = t.id) AS turns
    FROM trajectories t
"""
_FAILURES = """
    SELECT id, trajectory, turn, outcome, reason FROM attempts
    WHERE outcome IS NOT NULL AND outcome != 'answered'
"""
_EVENTS = "SELECT id, trajectory, turn, kind, detail FROM events"


# The grid


@dataclass(frozen=True, slots=True)
class TalkCell:
    """One conversation in the grid; a guard marks it as collapsed, looping or clear.

    `since` is the first turn that is marked, and `stuck` the number of them.
    """

    id: str
    condition: str
    prompt: str
    repeat: int
    outcome: str | None = None
    reason: str | None = None
    turns: int = 0
    mark: str = ""
    since: int = 0
    stuck: int = 0

    @property
    def is_marked(self) -> bool:
        return self.mark in ("collapsed", "looping")

    @property
    def state(self) -> str:
        if self.outcome == "completed":
            return "done"
        if self.outcome is not None:
            return "failed"
        return "running" if self.turns else "planned"

    @property
    def text(self) -> str:
        """The text of the cell, with words and symbols so that colour is not needed."""
        sign = {"failed": "✕", "running": "…"}.get(self.state, "")
        if self.is_marked:
            share = percent(self.stuck / self.turns, 0) if self.turns else ""
            return f"since {self.since}: {share} of {plural(self.turns, 'turn')}{sign}"
        if self.mark == "clear" and self.state == "done":
            return "no loop"
        return (str(self.turns) if self.turns else "·") + sign

    @property
    def look(self) -> str:
        fill = (
            f"fill-{round(10 * self.stuck / self.turns)}" if self.is_marked and self.turns else ""
        )
        return " ".join(filter(None, ("cell", self.state, self.mark, fill)))

    @property
    def title(self) -> str:
        """A description of the cell."""
        mark = {"collapsed": f", {MARK.collapsed}", "looping": ", loops"}.get(self.mark, "")
        outcome = self.outcome or self.state
        why = f" ({self.reason})" if self.reason else ""
        what = f"{self.condition}, {self.prompt}, repeat {self.repeat}"
        return neutralize(f"{what}: {outcome}{why}, {plural(self.turns, 'turn')}{mark}")

    def patch(self) -> Patch:
        return patch(f"cell-{self.id}", self.text, look=self.look, title=self.title)


def load_cells(archive: Archive, wanted: set[str] | None) -> Iterator[TalkCell]:
    """Load the cells of these conversations, or of all."""
    if wanted is None:
        yield from (TalkCell(**row) for row in archive.rows(_CELLS))
        return
    for talk in wanted:
        yield from (TalkCell(**row) for row in archive.rows(f"{_CELLS} WHERE t.id = ?", talk))


# The numbers


@dataclass
class AttemptTotals:
    """Totals over all attempts in the store, and the pace of the last run."""

    tokens: int = 0
    recent_tokens: int = 0
    recent_seconds: float = 0.0
    spent: float = 0.0
    unpriced: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    run_turns: int = 0
    run_seconds: float = 0.0


def totals(archive: Archive, moment: datetime | None = None) -> AttemptTotals:
    """Compute the totals at a moment, by default now."""
    sums = next(
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
        tokens=int(sums["tokens"]),
        spent=sums["spent"],
        unpriced=int(sums["unpriced"]),
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


# The lines

Line = dict[str, str]
"""A line of a feed: its anchor `id`, `head` and `text`."""


def turn_line(row: Mapping[str, Any]) -> Line:
    head = f"{row['turn']} {row['speaker']}"
    return {"id": f"turn-{row['turn']}", "head": neutralize(head), "text": neutralize(row["text"])}


def failure_lines(archive: Archive, clause: str, *values: object) -> list[Line]:
    """Load failed attempts as lines; `clause` ends the query."""
    found = []
    for row in archive.rows(f"{_FAILURES} {clause}", *values):
        head = f"{row['trajectory']}, turn {row['turn']}"
        text = f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]
        found.append(
            {"id": f"failure-{row['id']}", "head": neutralize(head), "text": neutralize(text)}
        )
    return found


def event_lines(archive: Archive, clause: str, *values: object) -> list[Line]:
    """Load interventions and stressor events as lines; `clause` ends the query."""
    found = []
    for row in archive.rows(f"{_EVENTS} {clause}", *values):
        head = f"{row['trajectory']}, turn {row['turn']}: {row['kind']}"
        with name_cell("events", row, "detail"):
            text = _describe_event(json.loads(row["detail"]))
        found.append(
            {"id": f"event-{row['id']}", "head": neutralize(head), "text": neutralize(text)}
        )
    return found


def _describe_event(detail: Mapping[str, Any]) -> str:
    """Describe an event in one line: what a stressor added or removed, then other fields."""
    injections = [
        f"{each['action']} ({each['kind']}): {each['text']}"
        + (f" → {each['instead']}" if each.get("instead") else "")
        for each in detail.get("injections", ())
    ]
    rest = [f"{name} {value}" for name, value in detail.items() if name != "injections"]
    text = "; ".join([*injections, *rest])
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"


# The run


class RunChild:
    """A `chimera run` process for one study.

    It is the ordinary command: a run paused here can be resumed in a terminal, and vice versa.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def failure(self) -> str | None:
        """The last line of stderr, if the last run could not do its work."""
        if self._process is None or self._process.poll() in (None, 0, 1) or self._stderr is None:
            return None
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        return (lines or ["the run failed without a message"])[-1][:MAX_ERROR]

    def start(self) -> None:
        """Start or resume the run."""
        with self._lock:
            if self.is_running:
                raise InputError("the study is already running")
            if self._stderr:
                self._stderr.close()
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - read when the run is over
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chimeralab", "run", str(self._path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                # Ctrl-C in the terminal must reach only the server, which then pauses the run.
                start_new_session=True,
            )

    def pause(self) -> None:
        """Stop after the requests in flight."""
        if not self.is_running or self._process is None:
            raise InputError("this run was started elsewhere; stop it there with Ctrl-C")
        self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the run has ended, or for a number of seconds."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def close(self) -> None:
        """Pause the run and wait for it, when the server stops."""
        if self.is_running and self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self.wait(SECONDS_TO_STOP)
        if self._stderr:
            self._stderr.close()
