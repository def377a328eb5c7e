"""The logs that a server shows: read and judged in the background, told to open pages as it goes.

The conversations stand on a shelf that goes when the server stops; the logs themselves are only
read.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chimeralab import readers
from chimeralab.core.errors import ChimeraError, InputError, LogError
from chimeralab.core.numbers import counted
from chimeralab.core.records import Detection, Trajectory
from chimeralab.core.text import readable
from chimeralab.detection.detectors import LOCKED, LOOPS
from chimeralab.detection.measure import measurer_for
from chimeralab.detection.verdict import verdict
from chimeralab.report.listing import FoundInTalk
from chimeralab.web.conversation import ENCODING
from chimeralab.web.live import Feed, Patch, patch
from chimeralab.web.shelf import Kept, Shelf

# A field with more different values than this is searched by typing one.
MOST_CHOICES = 30
MOST_FIELDS = 5
MOST_NOTES = 20
# Conversations are judged together until so many turns are at hand; a page may be opened between.
TURNS_AT_ONCE = 200
SECONDS_BETWEEN_NEWS = 0.25


class Library:
    """Conversations of logs. `start` reads and judges them; all else may be asked meanwhile."""

    def __init__(self, paths: Sequence[str], leave_out: Sequence[Path] = ()) -> None:
        self.paths = tuple(paths)
        self.feed = Feed()
        self.notes: list[str] = []
        self.state = "reading"
        self.read = self.judged = 0
        self.choices: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._leave_out = [path.resolve() for path in leave_out]
        self.shelf = Shelf()
        self._last_news = 0.0
        self._news: list[Patch] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="judging", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Wait until all is judged."""
        self._thread.join()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self.shelf.close()

    # What pages ask for

    def fields(self) -> dict[str, Counter[str]]:
        """The fields that one may choose a value of."""
        few = {name: dict(seen) for name, seen in list(self.choices.items())}
        telling = [name for name, seen in few.items() if 1 < len(seen) <= MOST_CHOICES]
        # A model is asked for most.
        telling.sort(key=lambda name: (name != "model", name))
        return {name: Counter(few[name]) for name in telling[:MOST_FIELDS]}

    def standing(self) -> Iterator[Patch]:
        """How far the judging has come."""
        most = max(1, self.read)
        value = most if self.state == "done" else self.judged
        yield patch("progress", self.sentence(), value=value, most=most)
        if self.state != "reading":
            yield patch("unread", reload=True)
        if self.state == "done":
            yield patch("end")

    def sentence(self) -> str:
        """How far the judging has come, in words."""
        if self.state == "done" and self.judged == self.read:
            return f"{counted(self.read, 'conversation')}, all judged"
        if self.state == "done":
            return f"{counted(self.read, 'conversation')}, {self.judged:,} judged for collapse"
        if self.state == "reading":
            return f"reading: {self.read:,} conversations so far"
        return f"judged {self.judged:,} of {self.read:,} conversations"

    # The work behind

    def _work(self) -> None:
        try:
            self.read_all()
            self.state = "judging"
            self._judge_all()
        except (ChimeraError, OSError, MemoryError) as error:
            self.note(f"stopped: {error}")
        finally:
            self.state = "done"
            self._tell(at_once=True)

    def note(self, text: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes.append(text)

    def read_all(self) -> None:
        """Take in every conversation; words alone say at once whether it loops."""
        words = measurer_for(None, _no_encoder)
        for path in self.paths:
            try:
                for measured in words.measure(self._wanted(path)):
                    if self._stopped.is_set():
                        return
                    detection = verdict(measured, None, None, loops=LOOPS)
                    self._enter(measured.trajectory, detection)
            except InputError as error:
                # A folder of studies need not hold logs as well.
                if not any(Path(path).resolve() in folder.parents for folder in self._leave_out):
                    self.note(str(error))

    def _bad(self, error: LogError) -> None:
        self.note(f"skipped {error}")

    def _wanted(self, path: str) -> Iterator[Trajectory]:
        """All but what lies in a study, which has a page of its own."""
        for trajectory in readers.read_all([path], on_bad=self._bad):
            place = Path(trajectory.source or "").resolve()
            if not any(folder in place.parents for folder in self._leave_out):
                yield trajectory

    def _enter(self, trajectory: Trajectory, detection: Detection) -> None:
        self.read += 1
        fields = {
            readable(k): readable(str(v))
            for k, v in detection.metadata.items()
            if v not in ("", None)
        }
        models = sorted({turn.model for turn in trajectory.turns if turn.model})
        if models:
            fields.setdefault("model", "+".join(models))
        with self.shelf.writing():
            self.shelf.enter(self.read, trajectory, fields)
            self._judge(self.read, detection)
        for name, value in fields.items():
            if len(self.choices[name]) <= MOST_CHOICES:
                self.choices[name][value] += 1
        self._tell()

    def _judge_all(self) -> None:
        """Add the verdict on collapse and the similarities, which need vectors."""
        from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - slow to import

        try:
            encoder = default_encoder()
        except (ChimeraError, OSError) as error:
            self.note(f"no verdicts on collapse and no similarities: {error}")
            return
        measurer = measurer_for(LOCKED, lambda: encoder)
        for group in self._handfuls():
            if self._stopped.is_set():
                return
            with ENCODING:
                measured = list(measurer.measure([kept.trajectory for kept in group.values()]))
            with self.shelf.writing():
                for (n, kept), each in zip(group.items(), measured, strict=True):
                    new = verdict(each, LOCKED, encoder, loops=None, trace=True)
                    self._judge(n, _with_loops(new, kept.detection))
                    self.judged += 1
            self._tell()

    def _handfuls(self) -> Iterator[dict[int, Kept]]:
        group: dict[int, Kept] = {}
        for n in range(1, self.read + 1):
            kept = self.shelf.keep(n)
            assert kept is not None
            group[n] = kept
            if sum(len(each.trajectory.turns) for each in group.values()) >= TURNS_AT_ONCE:
                yield group
                group = {}
        if group:
            yield group

    def _judge(self, n: int, detection: Detection) -> None:
        self._news += row_patches(n, self.shelf.judge(n, detection))

    def _tell(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._last_news >= SECONDS_BETWEEN_NEWS:
            self._last_news = now
            news, self._news = self._news, []
            self.feed.publish([*news, *self.standing()])


def row_patches(key: int, found: FoundInTalk) -> Iterator[Patch]:
    """What changes in a row of the table once it is judged."""
    yield patch(f"{key}", look=found.look)
    cells = {
        "judged": found.who,
        "loop": found.loop,
        "since": "" if found.since is None else found.since,
        "share": found.share_in_words,
        "evidence": found.evidence or "",
    }
    for name, text in cells.items():
        yield patch(f"{key}-{name}", text)
    if found.strip is not None:
        for looping, name in ((False, "calm"), (True, "stuck")):
            yield patch(f"{key}-{name}", path=found.bars(looping=looping))


def _with_loops(new: Detection, words: Detection | None) -> Detection:
    """A verdict on collapse, with what the words have said already."""
    if words is None:
        return new
    return replace(
        new,
        steps=words.steps,
        looping=words.looping,
        loops=words.loops,
        loop_score=words.loop_score,
        loop_detector=words.loop_detector,
    )


def _no_encoder() -> Any:
    raise AssertionError("words need no encoder")
