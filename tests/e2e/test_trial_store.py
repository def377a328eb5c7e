"""Stored trials: equal to those in memory, exported with types, and tamper-evident."""

import asyncio
import csv
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chimeralab import pipeline
from chimeralab.runner import Brake, MemoryJournal, RunContext, converse_all
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.export import TABLES, export_study
from chimeralab.study.verify import verify_study
from chimeralab.trial.kind import Trial
from chimeralab.trial.store import load_trials
from chimeralab.trial.trials import COLUMNS, TrialLog
from tests.plans import trial
from tests.studies import RUN, MakeStudy, rows

FLAGS = [name for name, kind in COLUMNS.items() if kind is bool]


@pytest.fixture
def done(make_study) -> Study:
    return make_study(trial(design='factorial = ["amnesia", "infallibility"]', number=2), steps=RUN)


def flags(study: Study) -> list[list[bool | None]]:
    return [[row.cells()[name] for name in FLAGS] for row in load_trials(study)]


def test_trial_in_parquet_keeps_yes_and_no(done, tmp_path, chimera):
    ran = chimera("export", done.path, "--format", "parquet", "--out", tmp_path / "out")
    assert ran.code == 0
    written = {path.stem for path in (tmp_path / "out").glob("*.parquet")}
    assert written == TABLES.keys() | Trial().export_tables().keys() | {"outcomes"}
    trials = pq.read_table(tmp_path / "out" / "trials.parquet")
    assert {str(trials.schema.field(name).type) for name in FLAGS} == {"bool"}
    assert [[row[name] for name in FLAGS] for row in trials.to_pylist()] == flags(done)
    assert {True, False, None} <= {flag for row in flags(done) for flag in row}


def test_trial_in_csv_says_true_and_false_as_a_trial_log_does(done, tmp_path, chimera):
    assert chimera("export", done.path, "--format", "csv", "--out", tmp_path / "out").code == 0
    path: Path = tmp_path / "out" / "trials.csv"
    with path.open(newline="") as file:
        read = [[row[name] for name in FLAGS] for row in csv.DictReader(file)]
    words = {True: "true", False: "false", None: ""}
    assert read == [[words[flag] for flag in row] for row in flags(done)]
    path.write_text(path.read_text().replace("trajectory", "session", 1))
    log = [(t.correct, t.novel, t.bias) for t in TrialLog(path).read()]
    assert log == [(row.correct, row.novel, row.bias) for row in load_trials(done)]


AT = "WHERE trajectory = 'amnesia/ledger-1/1'"
REPLY = f"UPDATE probes SET text = '0.1' {AT} AND probe = 'confidence' AND turn = 2"
ROW = f"UPDATE trials SET confidence = 0.1 {AT} AND trial = 2"
CHANGED = (
    "amnesia/ledger-1/1: trial 2: the reply to its probe confidence is not the one that was stored"
)


def findings_after(study: Study, *tampering: str) -> list[str]:
    with closing(sqlite3.connect(study.store_path)) as db, db:
        for statement in tampering:
            db.execute(statement)
    return [str(finding) for finding in verify_study(study).findings]


def test_changed_reply_is_found_even_where_its_trial_was_changed_to_fit(done):
    assert findings_after(done) == []
    found = findings_after(done, REPLY, ROW)
    assert CHANGED in found
    assert (
        "amnesia/ledger-1/1: probe 2 confidence is not as recorded: changed from outside" in found
    )


def test_replies_exchanged_between_sessions_are_found(done):
    other = "(SELECT {} FROM probes o WHERE o.trajectory = 'sham/ledger-2/1' AND o.turn = 2)"
    both = f"text = {other.format('text')}, hash = {other.format('hash')}"
    found = findings_after(
        done, f"UPDATE probes SET {both} {AT} AND probe = 'confidence' AND turn = 2"
    )
    assert CHANGED in found


def test_tampered_trial_is_found(make_study):
    study = make_study(trial(number=1), steps=("run",))
    assert not verify_study(study).findings
    with sqlite3.connect(study.store_path) as db:
        db.execute(
            "UPDATE trials SET correct = 1 - correct WHERE trial = 4 AND trajectory LIKE 'c%'"
        )
        db.execute("DELETE FROM probes WHERE turn = 5 AND trajectory LIKE 'sham%'")
    found = [str(finding) for finding in verify_study(study).findings]
    assert any("trial 4 does not match its answers" in line for line in found)
    assert any("turn 5 lacks the reply to its probe" in line for line in found)


@pytest.fixture
def stressed(make_study) -> Study:
    """A finished trial in which something is done at every turn but the first."""
    design = 'each = ["amnesia"]\ncountermeasures = ["ledger"]'
    always = "[stressors.amnesia]\nfrequency = 1.0\nscope = 1.0\n"
    return make_study(trial(design=design, number=1), always, steps=("run",))


@pytest.mark.parametrize(
    ("tampering", "turn"),
    [
        ("DELETE FROM events WHERE turn = 6", 6),
        ("DELETE FROM events WHERE kind = 'ledger' AND turn = 5", 5),
        ("UPDATE events SET detail = replace(detail, 'is', 'was') WHERE turn = 6", 6),
        ("UPDATE events SET kind = 'sham' WHERE turn = 6 AND kind = 'amnesia'", 6),
        ("UPDATE events SET detail = '{}' WHERE turn = 6", 6),
        (
            "INSERT INTO events (trajectory, turn, kind, detail, at) SELECT id, 4, 'extra', "
            "'{\"injections\": []}', '' FROM trajectories",
            4,
        ),
        (
            "INSERT INTO events (trajectory, turn, kind, detail, at) "
            "SELECT trajectory, turn, kind, detail, at FROM events WHERE turn = 6",
            6,
        ),
    ],
)
def test_tampered_event_is_found(stressed, tampering, turn):
    assert not verify_study(stressed).findings
    with sqlite3.connect(stressed.store_path) as db:
        db.execute(tampering)
    found = [str(finding) for finding in verify_study(stressed).findings]
    assert found
    said = f"trial {turn}: its events do not match its script"
    named = [finding for finding in found if finding.endswith(said)]
    assert any(finding.startswith("amnesia-with-ledger/") for finding in named)
    chained = [finding for finding in found if finding not in named]
    assert chained
    assert all(" event" in finding and "record" in finding for finding in chained)


def test_trial_can_be_replayed_and_exported(make_study, tmp_path):
    study = make_study(trial(number=1), steps=("run",))
    replay = make_study(trial('use = "replay"\nstudy = "../study"', number=1), name="again")
    run_study(replay)
    assert rows(replay) == rows(study)
    written = {path.name for path in export_study(study, "csv", tmp_path / "out")}
    assert {"trials.csv", "probes.csv"} <= written
    lines = (tmp_path / "out" / "trials.csv").read_text().splitlines()
    assert len(lines) == 1 + len(rows(study))
    assert "noticed" in lines[0].split(",")


MODELS = (
    'use = "subject"',
    'use = "subject"\nrecall = 0.6\nforgetting = 0.2',
    'use = "subject"\ncredulity = 0.9\nrigidity = 0.8',
    'use = "subject"\nconformity = 0.7\noverconfidence = 0.2',
)
DESIGNS = (
    'factorial = ["amnesia", "infallibility", "conformity"]',
    'each = ["amnesia"]\ncountermeasures = ["ledger"]',
    "dose = { conformity.size = [0, 3, 8] }",
    'each = ["infallibility"]\ncountermeasures = ["review"]\nrepeats = 2',
    'each = ["conformity"]\ncountermeasures = ["commit"]',
)


@pytest.mark.parametrize(("model", "design"), list(product(MODELS, DESIGNS)))
def test_twenty_studies_give_the_same_rows_through_the_store_and_in_memory(
    make_study: MakeStudy, model: str, design: str
) -> None:
    study = make_study(trial(model, design, number=1))
    assert pipeline.run(study, RunOptions(watch=False)).complete
    journal = MemoryJournal()
    subject = study.plan.models["p"].part.settings.open()
    run = RunContext({"p": subject}, journal, Brake())
    asyncio.run(converse_all(study.talks, run, concurrency=4))
    assert list(load_trials(study)) == [
        row for talk in study.talks for row in journal.rows[talk.id]
    ]
    assert set(journal.outcomes.values()) == {"completed"}
