"""What a trial has stored: exported with its types, and found out when it is changed."""

import csv
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chimeralab.sandbox.trial_logs import TrialLog
from chimeralab.study import Study, run_study
from chimeralab.study.export import TABLES, TRIAL_TABLES
from chimeralab.study.trial_rows import FLAGS, stored_trials
from chimeralab.study.verify import verify_study

PLAN = """
[study]
name = "stored"
kind = "trial"
[models.p]
use = "subject"
[trial]
subjects = ["p"]
factorial = ["amnesia", "infallibility"]
[scenarios]
use = "ledger"
number = 2
recall = 5
inference = 2
novel = 2
[layout]
beliefs = 1
tested = 1
"""


@pytest.fixture
def done(tmp_path) -> Study:
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    study = Study(folder)
    study.freeze()
    run_study(study)
    return study


def flags(study: Study) -> list[list[bool | None]]:
    return [[getattr(row, name) for name in FLAGS] for _, row in stored_trials(study)]


def test_a_trial_in_parquet_keeps_yes_and_no(done, tmp_path, chimera):
    ran = chimera("export", done.path, "--format", "parquet", "--out", tmp_path / "out")
    assert ran.code == 0
    written = {path.stem for path in (tmp_path / "out").iterdir()}
    assert written == TABLES.keys() | TRIAL_TABLES.keys()
    trials = pq.read_table(tmp_path / "out" / "trials.parquet")
    assert {str(trials.schema.field(name).type) for name in FLAGS} == {"bool"}
    assert [[row[name] for name in FLAGS] for row in trials.to_pylist()] == flags(done)
    assert {True, False, None} <= {flag for row in flags(done) for flag in row}


def test_a_trial_in_csv_says_true_and_false_as_a_trial_log_does(done, tmp_path, chimera):
    assert chimera("export", done.path, "--format", "csv", "--out", tmp_path / "out").code == 0
    path: Path = tmp_path / "out" / "trials.csv"
    with path.open(newline="") as file:
        read = [[row[name] for name in FLAGS] for row in csv.DictReader(file)]
    words = {True: "true", False: "false", None: ""}
    assert read == [[words[flag] for flag in row] for row in flags(done)]
    path.write_text(path.read_text().replace("trajectory", "session", 1))
    log = [(t.correct, t.novel, t.bias) for _, t in TrialLog(path).read()]
    assert log == [(row.correct, row.novel, row.bias) for _, row in stored_trials(done)]


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


def test_a_changed_reply_is_found_even_where_its_trial_was_changed_to_fit(done):
    assert findings_after(done) == []
    assert findings_after(done, REPLY, ROW) == [CHANGED]


def test_replies_exchanged_between_sessions_are_found(done):
    other = "(SELECT {} FROM probes o WHERE o.trajectory = 'sham/ledger-2/1' AND o.turn = 2)"
    both = f"text = {other.format('text')}, hash = {other.format('hash')}"
    found = findings_after(
        done, f"UPDATE probes SET {both} {AT} AND probe = 'confidence' AND turn = 2"
    )
    assert CHANGED in found


def test_a_reply_stored_before_replies_had_hashes_is_not_held_against_one(done):
    assert findings_after(done, "UPDATE probes SET hash = NULL", REPLY, ROW) == []
