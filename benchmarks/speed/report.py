"""The report of a study of 720 runs of 40 turns: under 60 seconds and under 15 MB."""

import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.table import Result, keep
from chimeralab.models.phantom import line
from chimeralab.runner import Talk, TurnRecord
from chimeralab.study import Store, Study
from chimeralab.study.database import open_to_write, transaction
from chimeralab.study.folder import new_study
from chimeralab.study.lock import link, opening, resolve
from chimeralab.study.verdicts import detect_study

COMMAND = "python -m benchmarks.speed.report"
SENTENCES_A_TURN = 8
# How likely a condition is to fall into a loop at a turn, and to leave it again.
HABITS = {
    "HOMO_A": (0.06, 0.10),
    "HOMO_B": (0.14, 0.03),
    "HOMO_C": (0.02, 0.25),
    "HETERO_ROT": (0.035, 0.18),
}


def main() -> None:
    from chimeralab.report.files import write_report  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        study = made_study(Path(folder) / "study")
        detect_study(study)
        started = time.perf_counter()
        written = write_report(study)
        seconds = time.perf_counter() - started
        size = written.page.stat().st_size / 1e6
    note = f"{len(study.talks)} runs of 40 turns, verdicts stored; {len(written.files)} files"
    keep(Result("report, time", f"{seconds:.0f} s", "60 s", seconds < 60, COMMAND, note))
    keep(Result("report, page", f"{size:.1f} MB", "15 MB", size < 15, COMMAND, note))


def made_study(folder: Path) -> Study:
    """A finished and locked study of 720 made conversations."""
    new_study(folder, "escape-velocity")
    study = Study(folder)
    study.freeze()
    with closing(Store(study.store_path)) as store:
        store.write_notes(resolved=json.dumps(resolve(study.plan)), lock=study.lock.sha256)
        store.enter_talks(study.talks)
        run = store.begin_run(study.lock.sha256, {})
        store.end_run(None)
    with closing(open_to_write(study.store_path)) as db, transaction(db, study.store_path):
        for talk in study.talks:
            _enter(db, talk, run)
    return study


def _enter(db: Any, talk: Talk, run: int) -> None:
    rng = random.Random(talk.id)
    looping = list(_course(talk, rng))
    said = list(_said(talk, looping, rng))
    previous = opening(talk.id, talk.prompt)
    for turn in said:
        previous = link(previous, turn)
        attempt = _attempts(db, talk, turn, run, rng)
        values = (talk.id, *turn.as_dict().values(), attempt, previous)
        db.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    db.execute(
        "UPDATE trajectories SET outcome = 'completed', ended = 'then', turns = ?, closing = ? "
        "WHERE id = ?",
        (len(said), previous, talk.id),
    )


def _attempts(db: Any, talk: Talk, turn: TurnRecord, run: int, rng: random.Random) -> int:
    """The answer, and now and then a failure before it."""
    outcomes = ["server"] * (rng.random() < 0.01) + ["answered"]
    for outcome in outcomes:
        row = (run, talk.id, turn.turn, turn.model, outcome, f"{turn.model}-served")
        cursor = db.execute(
            "INSERT INTO attempts (run, trajectory, turn, model, outcome, reported_model, "
            "temperature, top_p, max_tokens, started) VALUES (?, ?, ?, ?, ?, ?, 1, 1, 1, '')",
            row,
        )
    return int(cursor.lastrowid)


def _course(talk: Talk, rng: random.Random) -> Iterator[bool]:
    """Whether each turn goes round in circles; prompts differ in how far they invite that."""
    into, out = HABITS[talk.condition]
    into *= random.Random(talk.prompt.id).lognormvariate(0, 0.6)
    looping = False
    for _ in range(talk.rules.turns):
        looping = rng.random() > out if looping else rng.random() < into
        yield looping


def _said(talk: Talk, looping: list[bool], rng: random.Random) -> Iterator[TurnRecord]:
    text = ""
    for number, stuck in enumerate(looping, start=1):
        text = text if stuck and text else _text(rng)
        speaker = talk.speakers[talk.slot(number)]
        yield TurnRecord(number, speaker.name, speaker.model, text, "stop")


def _text(rng: random.Random) -> str:
    return " ".join(line(rng.randrange(2**32), "made", n) for n in range(SENTENCES_A_TURN))


if __name__ == "__main__":
    main()
