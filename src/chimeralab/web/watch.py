"""A study as it stands, read from its store again and again: whoever runs it, and wherever.

Nothing is kept here that the store does not have, so a server that was stopped and started again
shows the same. The chain of the store says what was written since the last look.
"""

import json
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.errors import ChimeraError
from chimeralab.core.numbers import between, counted, number
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Detection, Turn
from chimeralab.core.result_words import MARK
from chimeralab.core.text import inert
from chimeralab.detection.guard import Guard
from chimeralab.detection.verdict import from_json
from chimeralab.sandbox.columns import columns_of
from chimeralab.sandbox.metrics import PARTS, Metrics, measure
from chimeralab.sandbox.scored import trials_of
from chimeralab.study import Study
from chimeralab.study.database import CHAINED
from chimeralab.study.detecting import detector_key, stored_detections
from chimeralab.study.run import watcher
from chimeralab.study.store import Archive, Row
from chimeralab.study.trial.rows import stored_trials
from chimeralab.web.conversation import ENCODING
from chimeralab.web.live import Feed, Patch, lines, patch

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_COUNTS = 1.0
SECONDS_BETWEEN_TRIES = 1.0
SECONDS_BETWEEN_METRICS = 1.0
# Of the time that a long study runs, at most one part in so many goes into its numbers.
SHARE_OF_TIME = 5
RESAMPLES = 300
MOST_LINES = 40
# Tokens a second are those of this last while.
RECENT_SECONDS = 30.0

_CELLS = """
    SELECT t.id, t.condition, t.prompt, t.repeat, t.outcome, t.reason,
        (SELECT count(*) FROM turns u WHERE u.trajectory = t.id) AS turns
    FROM trajectories t
"""
_FAILED = """
    SELECT id, trajectory, turn, outcome, reason, ended FROM attempts
    WHERE outcome IS NOT NULL AND outcome != 'answered'
"""
_DONE = "SELECT id, trajectory, turn, kind, detail, at FROM events"
_WRITTEN = "SELECT id, kind, key FROM chain WHERE id > ? ORDER BY id LIMIT 5000"


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
        return inert(f"{what}: {outcome}{why}, {counted(self.turns, 'turn')}{mark}")

    def patch(self) -> Patch:
        return patch(f"cell-{self.id}", self.text, look=self.look, title=self.title)


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


class StudyWatch:
    """One study of the server: looks at its store, and tells open pages what has changed."""

    def __init__(self, number: int, path: Path) -> None:
        self.number, self.path = number, path
        self.feed = Feed()
        self.talk_feeds: dict[str, Feed] = {}
        self.problem: str | None = None
        self.cells: dict[str, TalkCell] = {}
        self.totals = AttemptTotals()
        self.metrics: dict[str, Metrics] = {}
        self.ready = threading.Event()
        self._seen = 0
        self._last_failure = self._last_event = 0
        self._version: int | None = None
        self._archive: Archive | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._to_judge: set[str] = set()
        self._judging = False
        self._work = threading.Event()
        self._guards: dict[str, tuple[Guard, int]] = {}
        self._threads = [
            threading.Thread(target=target, name=f"{target.__name__}-{number}", daemon=True)
            for target in (self._look, self._judge, self._measure)
        ]

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def is_behind(self) -> bool:
        """Whether there are turns that no guard has seen yet."""
        return self._judging or bool(self._to_judge)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        self._work.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=2)

    # What pages ask for

    def grid(self) -> dict[str, dict[str, list[TalkCell]]]:
        """The conversations by prompt and condition, in the order of the plan."""
        found: dict[str, dict[str, list[TalkCell]]] = {
            prompt.id: {name: [] for name in self.study.plan.conditions}
            for prompt in self.study.plan.prompts
        }
        for cell in sorted(self.cells.values(), key=lambda cell: cell.repeat):
            found.setdefault(cell.prompt, {}).setdefault(cell.condition, []).append(cell)
        return found

    def standing(self) -> Iterator[Patch]:
        """Everything that may change on the page of the study."""
        with self._lock:
            cells = list(self.cells.values())
        yield from (cell.patch() for cell in cells)
        yield from (patch(each.name, each.value) for each in self.figures())
        yield self.progress()
        yield from self.metric_patches()

    def talk_feed(self, talk: str) -> Feed:
        return self.talk_feeds.setdefault(talk, Feed())

    def turns(self, talk: str) -> list[Row]:
        """What was said in a conversation so far."""
        if not self.study.store_path.is_file():
            return []
        with self.study.archive() as archive:
            return list(archive.turns(talk))

    def failures(self) -> list[dict[str, str]]:
        """The newest failed attempts, the last one first."""
        return self._lines(f"{_FAILED} ORDER BY id DESC LIMIT ?", failure_line)

    def events(self, talk: str | None = None) -> list[dict[str, str]]:
        """What was done to conversations last, or all that was done to one; the last first."""
        if talk is not None:
            return self._lines(f"{_DONE} WHERE trajectory = ? ORDER BY id DESC", event_line, talk)
        return self._lines(f"{_DONE} ORDER BY id DESC LIMIT ?", event_line)

    def _lines(self, query: str, line: Any, value: Any = MOST_LINES) -> list[dict[str, str]]:
        if not self.study.store_path.is_file():
            return []
        with self.study.archive() as archive:
            return [line(row) for row in archive.rows(query, value)]

    def detection(self, talk: str) -> Detection | None:
        """The verdict that the study has stored on a conversation."""
        query = "SELECT detection FROM detections WHERE trajectory = ? AND detector = ?"
        with self.study.archive() as archive:
            found = archive.value(query, talk, detector_key(self.study))
        return from_json(json.loads(found)) if found else None

    def progress(self) -> Patch:
        done = sum(cell.outcome is not None for cell in self.cells.values())
        return patch("progress", value=done, most=max(1, len(self.cells)))

    def figures(self) -> list[StandingFigure]:
        """The numbers over the grid."""
        cells, totals = list(self.cells.values()), self.totals
        ends = Counter(cell.outcome for cell in cells if cell.outcome)
        failed = ends.total() - ends["completed"]
        marked = sum(bool(cell.mark) for cell in cells)
        speed = totals.recent_tokens / totals.recent_seconds if totals.recent_seconds else 0.0
        limit = self._cost_limit()
        cost = "unknown" if totals.unpriced else f"{totals.spent:.4g}"
        attempts = ", ".join(f"{n:,} {name}" for name, n in totals.failures.most_common(4))
        running, trial = self.running(), self.study.plan.trial is not None
        talks = "Sessions" if trial else "Conversations"
        marking = f"{MARK.collapsed} or looping".capitalize()
        return [
            StandingFigure("state", "Run", self.run_in_words()),
            StandingFigure("talks", talks, f"{ends.total():,} of {len(cells):,}"),
            StandingFigure("turns", "Turns", f"{sum(cell.turns for cell in cells):,}"),
            *([] if trial else [StandingFigure("marked", marking, f"{marked:,}")]),
            StandingFigure("failed", "Ended otherwise", f"{failed:,}"),
            StandingFigure("attempts", "Failed attempts", attempts or "none"),
            StandingFigure("speed", "Tokens per second", f"{speed:,.0f}" if running else "–"),
            StandingFigure(
                "cost", "Cost", cost + (f" of at most {limit:g}" if limit is not None else "")
            ),
            StandingFigure("left", "Time left", self.time_left() if running else "–"),
        ]

    def time_left(self) -> str:
        """As long as the turns that are missing take at the pace of this run."""
        each = self.study.plan.conversation.turns
        missing = sum(each - cell.turns for cell in self.cells.values() if cell.outcome is None)
        if not self.totals.run_turns:
            return "–"
        seconds = self.totals.run_seconds / self.totals.run_turns * missing
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

    def run_in_words(self) -> str:
        """Whether it is being run, by whom, and why it is not."""
        if not self.study.store_path.is_file():
            return "not begun"
        with self.study.archive() as archive:
            run = archive.last_run()
            why = archive.value("SELECT reason FROM runs ORDER BY id DESC LIMIT 1")
        if run is None:
            return "not begun"
        if self.running():
            return f"running since {run.started[11:19]} UTC (process {run.pid})"
        if all(cell.outcome is not None for cell in self.cells.values()):
            return "complete"
        return inert(f"paused: {why or 'the run was killed'}")

    def running(self) -> bool:
        """Whether a process on this machine is running it, or one elsewhere says so."""
        if not self.study.store_path.is_file():
            return False
        with self.study.archive() as archive:
            run = archive.last_run()
        if run is None or run.ended is not None:
            return False
        return run.host != platform.node() or _is_alive(run.pid)

    def metric_patches(self) -> Iterator[Patch]:
        for arm, metrics in self.metrics.items():
            for name, text in metric_cells(metrics).items():
                yield patch(f"metric-{arm}-{name}", text)

    def _cost_limit(self) -> float | None:
        limit: float | None = self.study.plan.run.max_cost
        return limit

    # Looking at the store

    def _look(self) -> None:
        while not self._stop.is_set() and not self._opens():
            self.ready.set()
            self._stop.wait(SECONDS_BETWEEN_TRIES)
        self.ready.set()
        while not self._stop.is_set():
            # A look that finds nothing new asks SQLite for one number.
            self._stop.wait(SECONDS_BETWEEN_LOOKS)
            try:
                self.look()
            except (ChimeraError, OSError) as error:  # a moved or damaged store may come back
                self.feed.publish([patch("state", str(error))])
                self._archive = None

    def _opens(self) -> bool:
        """Open the study; a plan that can't be read, or needs a lock first, may change."""
        try:
            self.study = Study(self.path)
            self.cells = {
                talk.id: TalkCell(talk.id, talk.condition, talk.prompt.id, talk.repeat)
                for talk in self.study.talks
            }
            self.look()
        except (ChimeraError, OSError) as error:
            self.problem = str(error)
            return False
        self.problem = None
        return True

    def look(self) -> None:
        """Take in what was written since the last look, and tell the pages."""
        with self._lock:
            if self._archive is None:
                if not self.study.store_path.is_file():
                    return
                self._archive = self.study.archive()
                self._seen, self._version = -1, None
            archive = self._archive
            version = archive.value("PRAGMA data_version")
            if version == self._version:
                return
            self._version = version
            patches = list(self._changes(archive))
        self.feed.publish(patches)
        self._work.set()

    def _changes(self, archive: Archive) -> Iterator[Patch]:
        touched, talked = self._touched(archive)
        for cell in self._read_cells(archive, touched):
            known = self.cells.get(cell.id)
            now = replace(cell, mark=known.mark if known else "")
            if now == known:
                continue
            self.cells[cell.id] = now
            self._to_judge.add(cell.id)
            yield now.patch()
        yield self.progress()
        for talk in talked:
            self._tell_turns(archive, talk)
        yield from self._new_lines(archive)

    def _touched(self, archive: Archive) -> tuple[set[str] | None, set[str]]:
        """The conversations that something was written about (None: all), and that have a turn."""
        first = self._seen < 0
        if archive.value("PRAGMA user_version") < CHAINED:
            return None, set()
        if first:
            self._seen = archive.value("SELECT coalesce(max(id), 0) FROM chain")
            self._last_failure = archive.value("SELECT coalesce(max(id), 0) FROM attempts")
            self._last_event = archive.value("SELECT coalesce(max(id), 0) FROM events")
            return None, set()
        touched, talked = set[str](), set[str]()
        for row in archive.rows(_WRITTEN, self._seen):
            self._seen = row["id"]
            if row["kind"] in ("trajectories", "attempts", "turns", "events", "probes"):
                talk = json.loads(row["key"])[0]
                touched.add(talk)
                talked |= {talk} if row["kind"] == "turns" else set()
        return touched, talked

    @staticmethod
    def _read_cells(archive: Archive, wanted: set[str] | None) -> Iterator[TalkCell]:
        if wanted is None:
            yield from (TalkCell(**row) for row in archive.rows(_CELLS))
            return
        for talk in wanted:
            yield from (TalkCell(**row) for row in archive.rows(f"{_CELLS} WHERE t.id = ?", talk))

    def _tell_turns(self, archive: Archive, talk: str) -> None:
        feed = self.talk_feeds.get(talk)
        if feed is not None and feed.is_watched:
            feed.publish([lines("turns", *map(turn_line, archive.turns(talk)))])

    def _new_lines(self, archive: Archive) -> Iterator[Patch]:
        # An attempt ends after later ones have begun, so its number says little: look back a bit.
        failed = archive.rows(f"{_FAILED} AND id > ? ORDER BY id", max(0, self._last_failure - 200))
        if new := [failure_line(row) for row in failed]:
            yield lines("failures", *new)
        last = archive.value("SELECT coalesce(max(id), 0) FROM attempts")
        self._last_failure = max(self._last_failure, last)
        done = list(archive.rows(f"{_DONE} WHERE id > ? ORDER BY id", self._last_event))
        if done:
            self._last_event = done[-1]["id"]
            yield lines("events", *map(event_line, done))

    # What takes longer: guards over the turns, totals, and metrics

    def _is_open(self) -> bool:
        """Whether there is a study to work on, once that is known; not when the server stops."""
        while not self._stop.is_set():
            if self.ready.wait(SECONDS_BETWEEN_TRIES) and self.problem is None:
                return True
            self._stop.wait(SECONDS_BETWEEN_LOOKS)
        return False

    def _judge(self) -> None:
        start: Callable[[], Guard] | None = None
        known = False
        while self._is_open():
            self._work.wait(SECONDS_BETWEEN_COUNTS)
            self._work.clear()
            began = time.monotonic()
            try:
                if not known:
                    self._judge_known()
                    start = self._guard_factory()
                    known = True
                self._count()
                self._guard(start)
            except (ChimeraError, OSError) as error:  # such as a store that is being made
                self.feed.publish([patch("state", str(error))])
            # In a large study, counting must leave the processor to those who run it.
            self._stop.wait(max(0.1, min(2.0, 4 * (time.monotonic() - began))))

    def _judge_known(self) -> None:
        """Take over the verdicts that the study has stored already."""
        if not self.study.store_path.is_file() or self.study.plan.trial is not None:
            return
        for row in stored_detections(self.study):
            self._to_judge.discard(row["id"])
            mark = "collapsed" if row["collapsed"] else "looping" if row.get("looping") else ""
            self._mark(row["id"], mark)

    def _guard_factory(self) -> Callable[[], Guard] | None:
        plan = self.study.plan
        if plan.trial is not None:
            return None
        if isinstance(plan.acting.settings, StandIn):  # code of others is not run to show a page
            return lambda: Guard(vectors=False)
        return watcher(plan, wanted=True)

    def _guard(self, start: Callable[[], Guard] | None) -> None:
        """Show new turns to the guard of each conversation."""
        with self._lock:
            waiting, self._to_judge = self._to_judge, set()
            self._judging = bool(waiting)
        if start is None or not waiting:
            self._judging = False
            return
        with self.study.archive() as archive:
            for talk in waiting:
                if self._stop.is_set():
                    return
                guard, heard = self._guards.pop(talk) if talk in self._guards else (start(), 0)
                mark = self.cells[talk].mark
                for row in archive.turns(talk):
                    if row["turn"] <= heard:
                        continue
                    heard = row["turn"]
                    with ENCODING:
                        seen = guard.update(Turn(row["text"], row["speaker"], model=row["model"]))
                    if seen.collapsed:
                        mark = "collapsed"
                    elif not mark and seen.loop and seen.loop.level != "notice":
                        mark = "looping"
                if self.cells[talk].outcome is None:
                    self._guards[talk] = (guard, heard)
                self._mark(talk, mark)
        self._judging = False
        self.feed.publish(patch(each.name, each.value) for each in self.figures())

    def _mark(self, talk: str, mark: str) -> None:
        with self._lock:
            cell = self.cells.get(talk)
            if cell is None or cell.mark == mark:
                return
            self.cells[talk] = replace(cell, mark=mark)
        self.feed.publish([self.cells[talk].patch()])

    def _count(self) -> None:
        if self.study.store_path.is_file():
            with self.study.archive() as archive:
                self.totals = totals(archive)
        self.feed.publish(patch(each.name, each.value) for each in self.figures())

    def _measure(self) -> None:
        """Compute the metrics of each arm again and again, as far as they have come."""
        measured = 0
        while self._is_open() and self.study.plan.trial:
            began = time.monotonic()
            try:
                if (stored := self._trials_stored()) != measured:
                    self.metrics, measured = self._metrics_so_far(), stored
                    self.feed.publish(self.metric_patches())
            except (ChimeraError, OSError) as error:
                self.feed.publish([patch("state", str(error))])
            spent = time.monotonic() - began
            self._stop.wait(max(SECONDS_BETWEEN_METRICS, SHARE_OF_TIME * spent))

    def _trials_stored(self) -> int:
        if not self.study.store_path.is_file():
            return 0
        with self.study.archive() as archive:
            return int(archive.value("SELECT count(*) FROM trials"))

    def _metrics_so_far(self) -> dict[str, Metrics]:
        plan = self.study.plan.trial
        assert plan is not None
        arms: dict[str, list[Any]] = {}
        for place, row in stored_trials(self.study):
            arms.setdefault(place.arm, []).extend(trials_of([row], place))
        rng = np.random.default_rng(0)
        return {
            arm: measure(columns_of(trials), plan.weights, rng=rng, resamples=RESAMPLES)
            for arm, trials in arms.items()
        }


def totals(archive: Archive) -> AttemptTotals:
    """Tokens, cost and failures of all attempts, and the pace of the last run."""
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
    moment = datetime.now(UTC)
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


def metric_cells(metrics: Metrics) -> dict[str, str]:
    """The metrics of an arm as they are shown, each with its interval."""
    cells = {"sessions": f"{metrics.sessions:,}", "trials": f"{metrics.trials:,}"}
    for name in PARTS:
        part = getattr(metrics, name)
        cells[name] = number(part.value, 2)
        if part.value is not None and part.interval is not None:
            cells[name] += f" ({between(part.interval, 2)})"
    return cells


def turn_line(row: Mapping[str, Any]) -> dict[str, str]:
    """A turn as a line of a list."""
    head = f"{row['turn']} {row['speaker']}"
    return {"id": f"turn-{row['turn']}", "head": inert(head), "text": inert(row["text"])}


def failure_line(row: Mapping[str, Any]) -> dict[str, str]:
    """A failed attempt as a line of a list."""
    where = f"{row['trajectory']}, turn {row['turn']}"
    text = f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]
    return {"id": f"failure-{row['id']}", "head": inert(where), "text": inert(text)}


def event_line(row: Mapping[str, Any]) -> dict[str, str]:
    """Something that was done to a conversation, as a line of a list."""
    where = f"{row['trajectory']}, turn {row['turn']}: {row['kind']}"
    return {"id": f"event-{row['id']}", "head": inert(where), "text": inert(_told(row["detail"]))}


def _told(detail: str) -> str:
    """The detail of an event in a line: what a stressor put in or took out, or its fields."""
    found = json.loads(detail)
    injections: Iterable[Mapping[str, Any]] = found.get("injections", ())
    said = [
        ", ".join(f"{name} {value}" for name, value in each.items() if value not in (None, "", []))
        for each in injections
    ]
    rest = [f"{name} {value}" for name, value in found.items() if name != "injections"]
    text = "; ".join([*said, *rest])
    return text if len(text) <= 300 else text[:299] + "…"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True
