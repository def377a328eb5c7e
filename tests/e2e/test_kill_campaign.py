"""Commands that write are killed at random moments: nothing is lost, left over or orphaned."""

import multiprocessing
import os
import random
import select
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from chimeralab import pipeline
from chimeralab.cli.main import COMMANDS
from chimeralab.study import Study
from chimeralab.study.lock import read_lock
from chimeralab.study.verify import verify_study
from tests import killed_command
from tests.plans import SELFPLAY, changed
from tests.studies import write_study
from tests.tiny_model import CONTENT, write_wheel

KILLS = {
    "run": 90, "lock": 50, "detect": 45, "rate": 45, "export": 25, "report": 20, "models pull": 25,
}  # fmt: skip
TURNS = 10
STUDY = changed(
    SELFPLAY,
    f"""
[conversation]
turns = {TURNS}
repeats = 4
[detector]
use = "loops"
[outcomes]
resamples = 100
permutations = 100
""",
)
# Modules that commands import while they run.
ALSO_IMPORTED = ("chimeralab.pipeline", "chimeralab.report.files", "chimeralab.rating.raters")


def outliving(session: int) -> list[int]:
    """The processes of a session, without those that only wait to be noticed as dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = path.read_text(encoding="ascii").rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if state != "Z" and int(of) == session:
            found.append(int(path.parent.name))
    return found


def await_end(session: int) -> None:
    """Wait until the last process of a session has ended; one that never does is an orphan."""
    while left := outliving(session):
        try:
            ended = os.pidfd_open(left[0])
        except ProcessLookupError:
            continue
        select.select([ended], [], [])
        os.close(ended)


class Target(NamedTuple):
    """A command to kill: its words, how its place is made new, and what must hold when it is done.

    `share` is the part of a whole run within which it is killed; what a kill may leave behind is
    looked at by `held`.
    """

    words: tuple[str, ...]
    renew: Callable[[], None]
    whole: Callable[[], None]
    share: float = 1.0
    held: Callable[[], None] = lambda: None


class Campaign:
    """Kills commands, and counts."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self.processes = multiprocessing.get_context("forkserver")
        modules = (COMMANDS[name.split()[0]][0].partition(":")[0] for name in KILLS)
        self.processes.set_forkserver_preload(
            [*(f"chimeralab.cli.{module}" for module in modules), *ALSO_IMPORTED]
        )
        self.rng = random.Random(300)
        self.kills = Counter[str]()

    def start(self, words: tuple[str, ...]) -> multiprocessing.process.BaseProcess:
        process = self.processes.Process(
            target=killed_command.chimera, args=(words, self.environment)
        )
        process.start()
        return process

    def to_the_end(self, words: tuple[str, ...]) -> float:
        """Run a command undisturbed, and say how long it took."""
        started = time.monotonic()
        process = self.start(words)
        process.join()
        assert process.exitcode == 0, words
        assert not list(self.folder.rglob("*.part"))
        return time.monotonic() - started

    def kill(self, name: str, target: Target) -> None:
        target.renew()
        self.to_the_end(target.words)
        target.whole()
        target.renew()
        seconds = self.to_the_end(target.words) * target.share  # the first pays for imports
        target.whole()
        target.renew()
        while self.kills[name] < KILLS[name]:
            process = self.start(target.words)
            process.join(self.rng.uniform(0.0, seconds))
            killed = process.is_alive()
            process.kill()
            process.join()
            await_end(process.pid or 0)
            self.kills[name] += killed
            target.held()
            if not killed:
                self.to_the_end(target.words)
                target.whole()
                target.renew()
        self.to_the_end(target.words)
        target.whole()


class Places:
    """A study and the other places that commands write to, made new and looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.study = folder / "study"
        self.cache = folder / "cache"
        self.out = folder / "out"
        self.exported: dict[str, bytes] = {}

    def renewed(self, *steps: Callable[[Study], object]) -> Callable[[], None]:
        """What makes it a study on which these steps were done."""
        template = self.folder / f"after-{len(steps)}"
        write_study(template, STUDY)
        for step in steps:
            step(Study(template))

        def renew() -> None:
            shutil.rmtree(self.study, ignore_errors=True)
            shutil.copytree(template, self.study)

        return renew

    def every_turn_once(self) -> None:
        study = Study(self.study)
        with study.archive() as archive:
            rows = [(r["trajectory"], r["turn"]) for r in archive.rows("SELECT * FROM turns")]
        assert sorted(rows) == sorted((t.id, n) for t in study.talks for n in range(1, TURNS + 1))
        verified = verify_study(study)
        assert (verified.findings, verified.deviations) == ((), ())

    def once_in(self, table: str) -> Callable[[], None]:
        def whole() -> None:
            self.every_turn_once()
            study = Study(self.study)
            with study.archive() as archive:
                rows = [row["trajectory"] for row in archive.rows(f"SELECT * FROM {table}")]
            assert sorted(rows) == sorted(talk.id for talk in study.talks)

        return whole

    def lock_is_whole(self) -> None:
        """A lock is there as a whole, or not at all; the next command starts without it."""
        if (self.study / "plan.lock").exists():
            read_lock(self.study / "plan.lock")
            (self.study / "plan.lock").unlink()

    def report_is_whole(self) -> None:
        page = (self.study / "report" / "index.html").read_text(encoding="utf-8")
        assert page.rstrip().endswith("</html>")
        self.every_turn_once()

    def export_is_whole(self) -> None:
        found = {path.name: path.read_bytes() for path in self.out.iterdir()}
        self.exported = self.exported or found
        assert found == self.exported

    def model_is_whole(self) -> None:
        for name, content in CONTENT.items():
            assert [path.read_bytes() for path in self.cache.rglob(name)] == [content]

    def targets(self) -> dict[str, Target]:
        """Every command that writes, from `lock` on."""
        place, out = str(self.study), str(self.out)
        lock, run, detect = pipeline.lock, pipeline.run, pipeline.detect
        planned, locked = self.renewed(), self.renewed(lock)
        ran, judged = self.renewed(lock, run), self.renewed(lock, run, detect)
        pulled, cache = ("models", "pull", "tiny"), self.cache
        return {
            "lock": Target(("lock", place), planned, self.lock_is_whole, held=self.lock_is_whole),
            "run": Target(("run", place, "--no-watch"), locked, self.every_turn_once, share=0.3),
            "detect": Target(("detect", place), ran, self.once_in("detections"), share=0.6),
            "rate": Target(("rate", place), ran, self.once_in("ratings"), share=0.6),
            "export": Target(
                ("export", place, "--format", "csv", "--out", out), judged, self.export_is_whole
            ),
            "report": Target(("report", place), judged, self.report_is_whole),
            "models pull": Target(
                pulled, lambda: shutil.rmtree(cache, ignore_errors=True), self.model_is_whole
            ),
        }


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks for processes as Linux lists them")
def test_300_kills_lose_nothing_and_leave_no_files(tmp_path, capsys, monkeypatch):
    # Else each process would begin by importing pytest again.
    monkeypatch.setattr("__main__.__file__", None, raising=False)
    monkeypatch.setattr("__main__.__spec__", None, raising=False)
    places = Places(tmp_path)
    environment = {
        "CHIMERA_CACHE": str(places.cache),
        "HF_HUB_OFFLINE": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(write_wheel(tmp_path / "index").parent),
    }
    campaign = Campaign(tmp_path, environment)
    started = time.monotonic()
    for name, target in places.targets().items():
        campaign.kill(name, target)
        with capsys.disabled():
            print(f" {name}: {time.monotonic() - started:.0f} s", end="", flush=True)
    with capsys.disabled():
        counts = ", ".join(f"{name} {n}" for name, n in campaign.kills.items())
        seconds = time.monotonic() - started
        print(f"\n{campaign.kills.total()} kills in {seconds:.0f} s: {counts}")
    assert campaign.kills == KILLS
    assert campaign.kills.total() == 300
