"""Studies after some of their steps, made once in a test session and copied for each test.

A test asks `make_study` for the files of a study (see `tests.plans`), changes and steps, and gets a
copy of its own. Equal studies are made once in a test session, by whichever of its processes is the
first to need them.
"""

import json
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import pytest
from filelock import FileLock

from chimeralab import pipeline
from chimeralab.rating.raters import find_rater, insert_ratings
from chimeralab.rating.ratings import Rating
from chimeralab.rating.samples import draw, load_items, open_store
from chimeralab.report.files import write_report
from chimeralab.study import RunOptions, Study
from chimeralab.study.database import transaction
from chimeralab.trial.store import load_trials
from chimeralab.trial.trials import TrialRow
from tests.plans import Change, Files, changed

Steps = tuple[str, ...]

# What people give as the reason of their labels.
REASON = "a label that nobody may compare yet"

RUN = ("lock", "run")
DETECTED = (*RUN, "detect")
# For people to rate: what is shown to them is drawn.
DRAWN = ("run", "draw")


def write_study(folder: Path, files: Files, *changes: Change) -> Study:
    """Write the files of a study, with changes, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in changed(files, *changes).items():
        (folder / name).write_text(text, encoding="utf-8")
    return Study(folder, allow_code=True)


def label(study: Study, person: str, choose: Callable[[str], bool]) -> None:
    """Enter the labels of a person, chosen by the names of the conversations."""
    with open_store(study) as db, transaction(db, study.store_path):
        rows = [
            (item, Rating(name, person, 1 if choose(name) else 0, REASON, turns=()))
            for name, item in load_items(study).items()
        ]
        insert_ratings(db, find_rater(study, person), rows)


def take_step(study: Study, step: str) -> None:
    """Take a study a step further.

    `label PERSON WORD` enters a 1 of a person for the conversations with a word in their names;
    `draw` draws the sample of the gate.
    """
    match step.split():
        case ["run"]:
            pipeline.run(study, RunOptions(watch=False))
        case ["rate", rater]:
            pipeline.rate(study, rater)
        case ["label", person, word]:
            label(study, person, lambda name: word in name)
        case ["draw"]:
            gate = study.plan.extras["gate"]
            draw(study, "gate", gate.sample, seed=gate.seed)
        case ["report"]:
            write_report(study)
        case [name]:
            getattr(pipeline, name)(study)


class StudyCache:
    """Studies after their steps, in a folder that the processes of a test session share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy(self, to: Path, files: Files, *changes: Change, steps: Steps = ()) -> Study:
        """A study in a folder of its own. The steps run in this process: patch it afterwards."""
        shutil.copytree(self._made(changed(files, *changes), steps), to)
        return Study(to, allow_code=True)

    def _made(self, files: Files, steps: Steps) -> Path:
        def make(folder: Path) -> None:
            if not steps:
                write_study(folder, files)
                return
            shutil.copytree(self._made(files, steps[:-1]), folder)
            take_step(Study(folder, allow_code=True), steps[-1])

        return self.once(sha256(json.dumps([files, steps]).encode()).hexdigest()[:16], make)

    def once(self, name: str, make: Callable[[Path], object]) -> Path:
        """The folder of this name, which is made where no process has made it; to be copied."""
        made = self.folder / name
        with FileLock(made.with_suffix(".lock")):
            if not made.exists():
                part = made.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                make(part)
                for wal in part.rglob("*.db-wal"):
                    assert wal.stat().st_size == 0, f"{wal} is still open"
                part.rename(made)
        return made


class MakeStudy(Protocol):
    """What the fixture `make_study` gives."""

    def __call__(
        self, files: Files, *changes: Change, steps: Steps = (), name: str = "study"
    ) -> Study: ...


def rows(study: Study) -> list[TrialRow]:
    """What is stored of the trials of a study."""
    return list(load_trials(study))


def recalled(study: Study, arm: str) -> list[bool]:
    """Whether each earlier fact that was asked for was known, in one arm."""
    return [
        bool(row.recall_correct)
        for row in rows(study)
        if row.arm == arm and row.recall_truth is not None
    ]


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> StudyCache:
    """The studies of this session, for fixtures that outlive a test."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "studies"
    folder.mkdir(exist_ok=True)
    return StudyCache(folder)


@pytest.fixture
def make_study(studies: StudyCache, tmp_path: Path) -> MakeStudy:
    """Studies of this test: their files with changes, after some steps, under a name."""

    def make(files: Files, *changes: Change, steps: Steps = (), name: str = "study") -> Study:
        if not steps:
            return write_study(tmp_path / name, files, *changes)
        return studies.copy(tmp_path / name, files, *changes, steps=steps)

    return make
