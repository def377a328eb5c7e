"""A study as it stands, read from its store again and again: whoever runs it, and wherever.

Nothing is kept here that the store does not have, so a server that was stopped and started again
shows the same. The chain of the store says what was written since the last look.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from chimeralab.core.errors import ChimeraError
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Detection, Turn
from chimeralab.detection.guard import Guard
from chimeralab.detection.verdict import from_json
from chimeralab.study import Study
from chimeralab.study.run import watcher
from chimeralab.study.store import Archive, Row
from chimeralab.study.verdicts import detector_key, load_detections
from chimeralab.web.live import Feed, Patch, lines, patch
from chimeralab.web.pages import ENCODING
from chimeralab.web.progress import (
    AttemptTotals,
    Grid,
    RunChild,
    TalkCell,
    arrange,
    event_lines,
    failure_lines,
    figures,
    load_cells,
    run_state,
    totals,
    turn_line,
)

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_BETWEEN_COUNTS = 1.0
SECONDS_BETWEEN_TRIES = 1.0
SECONDS_BETWEEN_METRICS = 1.0
# Of the time that a long study runs, at most one part in so many goes into its numbers.
SHARE_OF_TIME = 5

_WRITTEN = "SELECT id, kind, key FROM chain WHERE id > ? ORDER BY id LIMIT 5000"
_LAST = "SELECT coalesce(max(id), 0) FROM "


class TalkGuards:
    """A guard for each conversation that is going on, with the last turn that it has heard."""

    def __init__(self, study: Study) -> None:
        self._listening: dict[str, tuple[Guard, int]] = {}
        plan = study.plan
        # Code of others is not run to show a page.
        strange = isinstance(plan.acting.settings, StandIn)
        self._start = (lambda: Guard(vectors=False)) if strange else watcher(plan, wanted=True)

    def mark(self, archive: Archive, cell: TalkCell) -> str:
        """What is to be said of a conversation after its new turns: collapsed, looping, or ''."""
        if self._start is None:
            return cell.mark
        if cell.id not in self._listening:
            self._listening[cell.id] = self._start(), 0
        guard, heard = self._listening.pop(cell.id)
        mark = cell.mark
        for row in archive.turns(cell.id):
            if row["turn"] <= heard:
                continue
            heard = row["turn"]
            with ENCODING:
                seen = guard.update(Turn(row["text"], row["speaker"], model=row["model"]))
            if seen.collapsed:
                mark = "collapsed"
            elif not mark and seen.loop and seen.loop.level != "notice":
                mark = "looping"
        if cell.outcome is None:
            self._listening[cell.id] = guard, heard
        return mark


class StudyWatch:
    """One study of the server: looks at its store, and tells open pages what has changed.

    `child` is the run that the server itself may start. `start` has `open`, `look`, `judge` and
    `measure` called again and again, each in its own rhythm.
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
            for target in (self._keep_looking, self._keep_judging, self._keep_measuring)
        ]

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def is_judged(self) -> bool:
        """Whether detectors judge its conversations; a trial measures its sessions instead."""
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

    # What pages ask for

    def summary(self) -> str:
        """How things stand, in a line."""
        if not self.ready.is_set():
            return "being opened"
        if self.problem is not None:
            return self.problem
        shown = self.figures()
        return f"{shown['state']}; {shown['talks']} {self.study.plan.kind.units.talk}s"

    def grid(self) -> Grid:
        return arrange(self.cells.values(), self.study.plan)

    def snapshot(self) -> Iterator[Patch]:
        """Everything that may change on the page of the study."""
        with self._lock:
            cells = list(self.cells.values())
        yield from (cell.patch() for cell in cells)
        yield from self.figure_patches()
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

    def detection(self, talk: str) -> Detection | None:
        """The verdict that the study has stored on a conversation."""
        query = "SELECT detection FROM detections WHERE trajectory = ? AND detector = ?"
        with self.study.archive() as archive:
            found = archive.value(query, talk, detector_key(self.study))
        return from_json(json.loads(found)) if found else None

    def progress(self) -> Patch:
        done = sum(cell.outcome is not None for cell in self.cells.values())
        return patch("progress", value=done, most=max(1, len(self.cells)))

    def run_state(self) -> tuple[bool, str]:
        """Whether the study is being run, and the same in words."""
        return run_state(self.study, self.cells.values())

    def figures(self) -> dict[str, str]:
        """The numbers over the grid, each under its name."""
        cells = list(self.cells.values())
        found = figures(self.study.plan, cells, self.totals, self.run_state())
        if not self.is_judged:
            del found["marked"]
        return found

    def figure_patches(self) -> Iterator[Patch]:
        """The numbers over the grid, and what there is to start, to pause or to mourn."""
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

    # Looking at the store

    def _keep_looking(self) -> None:
        while not self._stop.is_set() and not self.open():
            self._stop.wait(SECONDS_BETWEEN_TRIES)
        # A look that finds nothing new asks SQLite for one number.
        while not self._stop.wait(SECONDS_BETWEEN_LOOKS):
            self._try(self.look)

    def _try(self, work: Callable[[], None]) -> float:
        """Do some work, or tell the pages why it can't be done; say how many seconds it took."""
        began = time.monotonic()
        try:
            work()
        except (ChimeraError, OSError) as error:  # a moved or damaged store may come back
            self.feed.publish([patch("state", str(error))])
        return time.monotonic() - began

    def open(self) -> bool:
        """Open the study, and say whether it could be read.

        A plan that is damaged, or needs a lock first, may change: then it can be opened later.
        """
        try:
            self.study = Study(self.path)
            self.cells = {
                talk.id: TalkCell(talk.id, talk.condition, talk.prompt.id, talk.repeat)
                for talk in self.study.talks
            }
            self.look()
        except (ChimeraError, OSError) as error:
            self.problem = str(error)
        else:
            self.problem = None
        self.ready.set()
        return self.problem is None

    def look(self) -> None:
        """Take in what was written since the last look, and tell the pages."""
        with self._lock:
            if self._archive is None:
                if not self.study.store_path.is_file():
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
        touched, talked = self._touched(archive)
        for cell in load_cells(archive, touched):
            known = self.cells.get(cell.id)
            now = replace(cell, mark=known.mark if known else "")
            if now == known:
                continue
            self.cells[cell.id] = now
            self._to_judge.add(cell.id)
            if cell.id in self.talk_feeds:
                self.talk_feeds[cell.id].publish([patch("about", now.title)])
            yield now.patch()
        yield self.progress()
        for talk in talked:
            feed = self.talk_feeds.get(talk)
            if feed is not None and feed.is_watched:
                feed.publish([lines("turns", *map(turn_line, archive.turns(talk)))])
        yield from self._new_lines(archive)

    def _touched(self, archive: Archive) -> tuple[set[str] | None, set[str]]:
        """The conversations that something was written about (None: all), and that have a turn."""
        first = self._seen < 0
        if first:
            self._seen = archive.value(_LAST + "chain")
            self._last_failure = archive.value(_LAST + "attempts")
            self._last_event = archive.value(_LAST + "events")
            # A page may have been opened before there was a store.
            return None, set(self.talk_feeds)
        touched, talked = set[str](), set[str]()
        for row in archive.rows(_WRITTEN, self._seen):
            self._seen = row["id"]
            if row["kind"] in ("trajectories", "attempts", "turns", "events", "probes"):
                talk = json.loads(row["key"])[0]
                touched.add(talk)
                talked |= {talk} if row["kind"] == "turns" else set()
        return touched, talked

    def _new_lines(self, archive: Archive) -> Iterator[Patch]:
        # An attempt ends after later ones have begun, so its number says little: look back a bit.
        since = max(0, self._last_failure - 200)
        if failed := failure_lines(archive, "AND id > ? ORDER BY id", since):
            yield lines("failures", *failed)
        self._last_failure = max(self._last_failure, archive.value(_LAST + "attempts"))
        last = archive.value(_LAST + "events")
        if last > self._last_event:
            which = "WHERE id > ? AND id <= ? ORDER BY id"
            yield lines("events", *event_lines(archive, which, self._last_event, last))
            self._last_event = last

    # What takes longer: guards over the turns, totals, and metrics

    def _is_open(self) -> bool:
        """Whether there is a study to work on, once that is known; not when the server stops."""
        while not self._stop.is_set():
            if self.ready.wait(SECONDS_BETWEEN_TRIES) and self.problem is None:
                return True
            self._stop.wait(SECONDS_BETWEEN_LOOKS)
        return False

    def _keep_judging(self) -> None:
        while self._is_open():
            self._work.wait(SECONDS_BETWEEN_COUNTS)
            self._work.clear()
            # In a large study, counting must leave the processor to those who run it.
            self._stop.wait(max(0.1, min(2.0, 4 * self._try(self.judge))))

    def judge(self) -> None:
        """Count all attempts, and show new turns to the guards. Sessions of a trial have none."""
        if not self.is_judged:
            self._count()
            return
        if self._guards is None:
            self._take_over_marks()
            self._guards = TalkGuards(self.study)
        self._count()
        self._guard(self._guards)

    def _take_over_marks(self) -> None:
        """The verdicts that the study has stored already."""
        if not self.study.store_path.is_file():
            return
        for row in load_detections(self.study):
            mark = "collapsed" if row["collapsed"] else "looping" if row.get("looping") else ""
            self._to_judge.discard(row["id"])
            self._mark(row["id"], mark)

    def _guard(self, guards: TalkGuards) -> None:
        """Show new turns to the guard of each conversation."""
        with self._lock:
            waiting, self._to_judge = self._to_judge, set()
        if not waiting:
            return
        with self.study.archive() as archive:
            for talk in waiting:
                if self._stop.is_set():
                    return
                self._mark(talk, guards.mark(archive, self.cells[talk]))
        self.feed.publish(self.figure_patches())

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
        self.feed.publish(self.figure_patches())

    def _keep_measuring(self) -> None:
        while self._is_open() and not self.is_judged:
            spent = self._try(self.measure)
            self._stop.wait(max(SECONDS_BETWEEN_METRICS, SHARE_OF_TIME * spent))

    def measure(self) -> None:
        """Compute what is measured of each condition, as far as it has come."""
        if (seen := self._seen) != self._measured:
            self.metrics = self.study.plan.kind.live_results(self.study)
            self._measured = seen
            self.feed.publish(self.metric_patches())
