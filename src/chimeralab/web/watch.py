"""Follow a study by polling its store, no matter which process runs it.

The only state is the store's, so a restarted server shows the same. The chain table says what was
written since the last poll.
"""

import json
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from chimeralab.core.errors import ChimeraError
from chimeralab.core.files import is_running
from chimeralab.core.numbers import format_clock
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Detection, Turn
from chimeralab.core.text import neutralize
from chimeralab.detection.guard import Guard
from chimeralab.detection.verdict import list_looping_turns
from chimeralab.study import Study
from chimeralab.study.run import guard_factory
from chimeralab.study.store import Archive, Row
from chimeralab.study.verdicts import load_detections
from chimeralab.web.live import Feed, Patch, lines, patch
from chimeralab.web.pages import ENCODING
from chimeralab.web.progress import (
    AttemptTotals,
    RunChild,
    TalkCell,
    event_lines,
    failure_lines,
    load_cells,
    totals,
    turn_line,
)

SECONDS_BETWEEN_POLLS = 0.1
SECONDS_BETWEEN_COUNTS = 1.0
SECONDS_BETWEEN_TRIES = 1.0
SECONDS_BETWEEN_METRICS = 1.0
# Pause this many times as long as the metrics took, so that they use less than a fifth of the time.
PAUSE_FACTOR = 5

_NEW_RECORDS = "SELECT id, kind, key FROM chain WHERE id > ? ORDER BY id LIMIT 5000"
_LAST = "SELECT coalesce(max(id), 0) FROM "


class TalkGuards:
    """A guard for each conversation in progress, with the last turn it has seen."""

    def __init__(self, study: Study) -> None:
        self._guards: dict[str, tuple[Guard, int]] = {}
        plan = study.plan
        # Showing a page must not run third-party code.
        third_party = isinstance(plan.acting.settings, StandIn)
        self._start = (
            (lambda: Guard(vectors=False, project=False))
            if third_party
            else guard_factory(plan, True)
        )

    def mark(self, archive: Archive, cell: TalkCell) -> TalkCell:
        """Judge the new turns of a conversation, and mark its cell."""
        if self._start is None:
            return cell
        if cell.id not in self._guards:
            self._guards[cell.id] = self._start(), 0
        guard, last = self._guards.pop(cell.id)
        mark, since, stuck = cell.mark, cell.since, cell.stuck
        for row in archive.turns(cell.id):
            if row["turn"] <= last:
                continue
            last = row["turn"]
            with ENCODING:
                seen = guard.update(Turn(row["text"], row["speaker"], model=row["model"]))
            if seen.collapsed:
                since, stuck = (since, stuck + 1) if mark == "collapsed" else (last, 1)
                mark = "collapsed"
            elif mark != "collapsed" and seen.loop and seen.loop.level != "notice":
                mark, since = "looping", since or seen.loop.loop.began
                stuck = last - since + 1
        if cell.outcome is None:
            self._guards[cell.id] = guard, last
        return replace(cell, mark=mark or "clear", since=since, stuck=stuck)


class StudyWatch:
    """Poll the store of a study, and publish changes to open pages.

    Three threads call `poll`, `judge` and `measure`, each at its own pace. `child` is the run
    process that the server may start.
    """

    def __init__(self, number: int, path: Path) -> None:
        self.number, self.path = number, path
        self.child = RunChild(path)
        self.feed = Feed()
        self.talk_feeds: dict[str, Feed] = {}
        self.problem: str | None = None
        self.cells: dict[str, TalkCell] = {}
        self.totals = AttemptTotals()
        self.metrics: Mapping[str, Mapping[str, str]] = {}
        self.ready = threading.Event()
        self._seen = 0
        self._last_failure = self._last_event = 0
        self._version: int | None = None
        self._archive: Archive | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._to_judge: set[str] = set()
        self._guards: TalkGuards | None = None
        self._measured = 0
        self._work = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"{target.__name__}-{number}", daemon=True)
            for target in (self._poll_forever, self._judge_forever, self._measure_forever)
        ]

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def is_judged(self) -> bool:
        """Whether detectors judge its conversations; trials are scored instead."""
        return self.study.plan.kind.judged

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        self._work.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=2)
        self.child.close()

    # For pages

    def summary(self) -> str:
        """Describe the state of the study in one line."""
        if not self.ready.is_set():
            return "opening"
        if self.problem is not None:
            return self.problem
        shown = self.figures()
        return f"{shown['state']}; {shown['talks']} {self.study.plan.kind.units.talk}s"

    def grid(self) -> dict[str, dict[str, list[TalkCell]]]:
        """Arrange the cells by prompt and condition, in the order of the plan."""
        plan = self.study.plan
        grid: dict[str, dict[str, list[TalkCell]]] = {
            prompt.id: {name: [] for name in plan.conditions} for prompt in plan.prompts
        }
        for cell in sorted(self.cells.values(), key=lambda cell: cell.repeat):
            grid.setdefault(cell.prompt, {}).setdefault(cell.condition, []).append(cell)
        return grid

    def snapshot(self) -> Iterator[Patch]:
        """Make patches for everything that may change on the page."""
        with self._lock:
            cells = list(self.cells.values())
        yield from (cell.patch() for cell in cells)
        yield from self.figure_patches()
        yield self.progress()
        yield from self.metric_patches()

    def talk_feed(self, talk: str) -> Feed:
        return self.talk_feeds.setdefault(talk, Feed())

    def turns(self, talk: str) -> list[Row]:
        """Load the turns of a conversation so far."""
        if not self.study.has_begun:
            return []
        with self.study.archive() as archive:
            return list(archive.turns(talk))

    def detection(self, talk: str) -> Detection | None:
        """Load the stored verdict on a conversation."""
        return next(load_detections(self.study, only=talk), None)

    def progress(self) -> Patch:
        """How many turns are done, of those that the cells may still have."""
        cells = list(self.cells.values())
        done = sum(cell.turns for cell in cells)
        return patch("progress", value=done, most=max(1, done + self.turns_missing(cells)))

    def turns_missing(self, cells: Sequence[TalkCell]) -> int:
        turns: int = self.study.plan.conversation.turns
        return sum(turns - cell.turns for cell in cells if not cell.outcome)

    def run_state(self) -> tuple[bool, str]:
        """Whether a process is running the study, and a description."""
        if not self.study.has_begun:
            return False, "not started"
        with self.study.archive() as archive:
            run = archive.last_run()
            why = archive.value("SELECT reason FROM runs ORDER BY id DESC LIMIT 1")
        if run is None:
            return False, "not started"
        if run.ended is None and (run.host != platform.node() or is_running(run.pid)):
            return True, f"running since {run.started[11:19]} UTC (process {run.pid})"
        if all(cell.outcome is not None for cell in list(self.cells.values())):
            return False, "complete"
        return False, neutralize(f"paused: {why or 'the process was killed'}")

    def figures(self) -> dict[str, str]:
        """Format the numbers above the grid."""
        plan, totals, cells = self.study.plan, self.totals, list(self.cells.values())
        running, state = self.run_state()
        ends = Counter(cell.outcome for cell in cells if cell.outcome)
        speed = totals.recent_tokens / totals.recent_seconds if totals.recent_seconds else 0.0
        attempts = ", ".join(f"{n:,} {name}" for name, n in totals.failures.most_common(4))
        missing = self.turns_missing(cells)
        limit = plan.run.max_cost
        if totals.unpriced:  # a sum would be too low
            cost = "unknown: some answers have no price"
            cost += "" if limit is None else f"; limit {limit:g}"
        else:
            cost = f"{totals.spent:.4g}" + ("" if limit is None else f" of at most {limit:g}")
            cost += "" if totals.spent or not totals.tokens else " (every price is 0)"
        pace = totals.run_seconds / totals.run_turns if running and totals.run_turns else None
        found = {
            "state": state,
            "talks": f"{ends.total():,} of {len(cells):,}",
            "turns": f"{sum(cell.turns for cell in cells):,}",
            "marked": f"{sum(cell.is_marked for cell in cells):,}",
            "early": f"{ends.total() - ends['completed']:,}",
            "attempts": attempts or "none",
            "speed": f"{speed:,.0f}" if running else "–",
            "cost": cost,
            "left": "–" if pace is None else format_clock(pace * missing),
        }
        if not self.is_judged:
            del found["marked"]
        return found

    def figure_patches(self) -> Iterator[Patch]:
        """Make patches for the numbers, the run buttons and the last error."""
        yield from (patch(name, value) for name, value in self.figures().items())
        running = self.child.is_running or self.run_state()[0]
        yield patch("may-run", hidden=running)
        yield patch("may-pause", hidden=not running)
        failure = self.child.failure
        yield patch("failure", failure or "", hidden=failure is None)

    def metric_patches(self) -> Iterator[Patch]:
        for arm, cells in self.metrics.items():
            for name, text in cells.items():
                yield patch(f"metric-{arm}-{name}", text)

    # Polling the store

    def _poll_forever(self) -> None:
        while not self._stop.is_set() and not self.open():
            self._stop.wait(SECONDS_BETWEEN_TRIES)
        # A poll without news is a single pragma.
        while not self._stop.wait(SECONDS_BETWEEN_POLLS):
            self._try(self.poll)

    def _try(self, work: Callable[[], None]) -> float:
        """Do some work, publish an error if it fails, and return the seconds it took."""
        began = time.monotonic()
        try:
            work()
        except (ChimeraError, OSError) as error:  # a moved or damaged store may come back
            self.feed.publish([patch("state", str(error))])
        return time.monotonic() - began

    def open(self) -> bool:
        """Open the study; return whether that worked, as a bad plan may be fixed later."""
        try:
            self.study = Study(self.path)
            self.cells = {
                talk.id: TalkCell(talk.id, talk.condition, talk.prompt.id, talk.repeat)
                for talk in self.study.talks
            }
            self.poll()
        except (ChimeraError, OSError) as error:
            self.problem = str(error)
        else:
            self.problem = None
        self.ready.set()
        return self.problem is None

    def poll(self) -> None:
        """Read what was written since the last poll, and publish it."""
        with self._lock:
            if self._archive is None:
                if not self.study.has_begun:
                    return
                self._archive = self.study.archive()
                self._seen, self._version = -1, None
            try:
                version = self._archive.value("PRAGMA data_version")
                if version == self._version:
                    return
                self._version = version
                patches = list(self._changes(self._archive))
            except (ChimeraError, OSError):
                self._archive = None
                raise
        self.feed.publish(patches)
        self._work.set()

    def _changes(self, archive: Archive) -> Iterator[Patch]:
        changed, spoken = self._read_chain(archive)
        for cell in load_cells(archive, changed):
            known = self.cells.get(cell.id)
            now = cell
            if known:
                now = replace(cell, mark=known.mark, since=known.since, stuck=known.stuck)
            if now == known:
                continue
            self.cells[cell.id] = now
            self._to_judge.add(cell.id)
            if cell.id in self.talk_feeds:
                self.talk_feeds[cell.id].publish([patch("about", now.title)])
            yield now.patch()
        yield self.progress()
        for talk in spoken:
            feed = self.talk_feeds.get(talk)
            if feed is not None and feed.is_watched:
                feed.publish([lines("turns", *map(turn_line, archive.turns(talk)))])
        yield from self._new_lines(archive)

    def _read_chain(self, archive: Archive) -> tuple[set[str] | None, set[str]]:
        """Find the conversations with new records (None: all), and those with new turns."""
        first = self._seen < 0
        if first:
            self._seen = archive.value(_LAST + "chain")
            self._last_failure = archive.value(_LAST + "attempts")
            self._last_event = archive.value(_LAST + "events")
            # A page may have been opened before the store existed.
            return None, set(self.talk_feeds)
        changed, spoken = set[str](), set[str]()
        for row in archive.rows(_NEW_RECORDS, self._seen):
            self._seen = row["id"]
            if row["kind"] in ("trajectories", "attempts", "turns", "events", "probes"):
                talk = json.loads(row["key"])[0]
                changed.add(talk)
                spoken |= {talk} if row["kind"] == "turns" else set()
        return changed, spoken

    def _new_lines(self, archive: Archive) -> Iterator[Patch]:
        # Attempts don't end in the order of their ids, so look back a bit.
        since = max(0, self._last_failure - 200)
        if failed := failure_lines(archive, "AND id > ? ORDER BY id", since):
            yield lines("failures", *failed)
        self._last_failure = max(self._last_failure, archive.value(_LAST + "attempts"))
        last = archive.value(_LAST + "events")
        if last > self._last_event:
            clause = "WHERE id > ? AND id <= ? ORDER BY id"
            yield lines("events", *event_lines(archive, clause, self._last_event, last))
            self._last_event = last

    # Slower work: guards, totals and metrics

    def _wait_until_open(self) -> bool:
        """Wait until the study is open; return False if the server stops first."""
        while not self._stop.is_set():
            if self.ready.wait(SECONDS_BETWEEN_TRIES) and self.problem is None:
                return True
            self._stop.wait(SECONDS_BETWEEN_POLLS)
        return False

    def _judge_forever(self) -> None:
        while self._wait_until_open():
            self._work.wait(SECONDS_BETWEEN_COUNTS)
            self._work.clear()
            # In a large study, leave most of the CPU to the run.
            self._stop.wait(max(0.1, min(2.0, 4 * self._try(self.judge))))

    def judge(self) -> None:
        """Update the totals, and show new turns to the guards; trials have none."""
        if not self.is_judged:
            self._count()
            return
        if self._guards is None:
            self._load_marks()
            self._guards = TalkGuards(self.study)
        self._count()
        self._guard(self._guards)

    def _load_marks(self) -> None:
        """Mark the conversations that have stored verdicts.

        What is shown is the declared rule's, and of conversations that it leaves out the loop's.
        """
        if not self.study.has_begun:
            return
        for found in load_detections(self.study):
            mark, since, stuck = "clear", 0, 0
            if found.collapsed:
                mark, since, stuck = "collapsed", found.collapsed[0], len(found.collapsed)
            elif found.looping:
                turns = sorted(list_looping_turns(found))
                mark, since, stuck = "looping", turns[0] if turns else 0, len(turns)
            self._to_judge.discard(found.id)
            self._mark(found.id, mark, since, stuck)

    def _guard(self, guards: TalkGuards) -> None:
        """Show the new turns of each conversation to its guard."""
        with self._lock:
            waiting, self._to_judge = self._to_judge, set()
        if not waiting:
            return
        with self.study.archive() as archive:
            for talk in waiting:
                if self._stop.is_set():
                    return
                cell = guards.mark(archive, self.cells[talk])
                self._mark(talk, cell.mark, cell.since, cell.stuck)
        self.feed.publish(self.figure_patches())

    def _mark(self, talk: str, mark: str, since: int, stuck: int) -> None:
        with self._lock:
            cell = self.cells.get(talk)
            marked = cell and replace(cell, mark=mark, since=since, stuck=stuck)
            if marked is None or cell == marked:
                return
            self.cells[talk] = marked
        self.feed.publish([self.cells[talk].patch()])

    def _count(self) -> None:
        if self.study.has_begun:
            with self.study.archive() as archive:
                self.totals = totals(archive)
        self.feed.publish(self.figure_patches())

    def _measure_forever(self) -> None:
        while self._wait_until_open() and not self.is_judged:
            spent = self._try(self.measure)
            self._stop.wait(max(SECONDS_BETWEEN_METRICS, PAUSE_FACTOR * spent))

    def measure(self) -> None:
        """Compute the metrics of each condition so far."""
        if (seen := self._seen) != self._measured:
            self.metrics = self.study.plan.kind.live_results(self.study)
            self._measured = seen
            self.feed.publish(self.metric_patches())
