"""Changes to a finished study are detected, including each way that once went unnoticed."""

import csv
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chimeralab import weights
from chimeralab.embedding import encoder as encoder_module
from chimeralab.rating.rater_checks import check_rater
from chimeralab.rating.study_audit import audit_study
from chimeralab.report.files import write_report
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.chain import next_head
from chimeralab.study.database import StoreError, tally_path, update_tally
from chimeralab.study.lock import digest, make_lock, write_lock
from chimeralab.study.steps import hash_files, lock_step
from chimeralab.study.verdicts import detect_study
from chimeralab.study.verify import verify_study
from tests.e2e.servers.named_server import NamedServer
from tests.plans import SELFPLAY, Files, changed
from tests.studies import DETECTED, MakeStudy, label

QUIETLY = RunOptions(watch=False)
# Of two models behind a server; what two raters say of them differs.
PLAN = """
[models.loops]
use = "openai"
model = "loops"
base_url = "URL"
max_retries = 0
[models.free]
use = "openai"
model = "free"
base_url = "URL"
max_retries = 0
[conversation]
turns = 6
repeats = 4
[prompts]
items = [
  { id = "p1", text = "Plan a trip." },
  { id = "p2", text = "Tell a tale." },
  { id = "p3", text = "Count." },
]
[gate]
raters = ["rules", "human:ann"]
threshold = 0.80
rule = "point"
"""


@pytest.fixture(scope="session")
def server() -> Iterator[NamedServer]:
    with NamedServer() as running:
        yield running


@pytest.fixture
def served(server: NamedServer) -> Files:
    server.name = "first"
    return changed(SELFPLAY, PLAN, ("URL", server.url))


@pytest.fixture
def study(make_study: MakeStudy, served: Files) -> Study:
    """A study that was locked, run, judged, rated and audited; its gate failed."""
    return make_study(served, steps=(*DETECTED, "rate rules", "label human:ann p1", "audit"))


def tamper(study: Study, *statements: str) -> None:
    with closing(sqlite3.connect(study.store_path)) as db, db:
        for statement in statements:
            db.execute(statement)


def findings(study: Study) -> list[str]:
    return [str(found) for found in verify_study(Study(study.path)).findings]


def assert_found(study: Study, *problems: str) -> None:
    found = findings(study)
    for problem in problems:
        assert any(problem in each for each in found), (problem, found)


WIPE = (
    "DELETE FROM detections WHERE trajectory IN (SELECT id FROM trajectories WHERE {which})",
    "DELETE FROM ratings WHERE trajectory IN (SELECT id FROM trajectories WHERE {which})",
    "DELETE FROM turns WHERE trajectory IN (SELECT id FROM trajectories WHERE {which})",
    "DELETE FROM attempts WHERE trajectory IN (SELECT id FROM trajectories WHERE {which})",
    "UPDATE trajectories SET outcome = NULL, reason = NULL, ended = NULL, turns = NULL, "
    "closing = NULL WHERE {which}",
)


def wipe(study: Study, which: str) -> None:
    tamper(study, *(statement.format(which=which) for statement in WIPE))


def test_untouched_study_has_no_findings(study: Study) -> None:
    verified = verify_study(study)
    assert verified.findings == ()
    assert verified.deviations == ()
    assert verified.notes == ()
    assert verified.unchecked == ()
    assert "24 verdicts recomputed from their texts" in verified.checked
    assert "the gate, decided again on the stored labels" in verified.checked


def test_verdicts_set_to_no_collapse_are_found_and_not_reported(
    chimera: Callable[..., Any], study: Study
) -> None:
    with closing(sqlite3.connect(study.store_path)) as db, db:
        rows = db.execute("SELECT trajectory, detection FROM detections").fetchall()
        for name, text in rows:
            if name.startswith("looping"):
                verdict = json.loads(text)
                assert verdict["collapsed_turns"] > 0
                verdict |= {"collapsed": [], "collapsed_turns": 0, "collapse_rate": 0.0}
                verdict |= {"at_risk_rate": 0.0, "first_collapse_turn": None, "episodes": []}
                row = (json.dumps(verdict), name)
                db.execute("UPDATE detections SET detection = ? WHERE trajectory = ?", row)
    verified = verify_study(Study(study.path))
    assert len(verified.findings) == 2 * len(verified.corrected) == 24
    assert_found(study, "looping/p1/1: its stored verdict is not what its texts give", " 0 → ")
    assert chimera("verify", study.path).code == 1
    chimera("report", study.path)
    page = (study.path / "report" / "index.html").read_text(encoding="utf-8")
    assert "24 findings" in page
    with (study.path / "report" / "tables" / "conditions.csv").open(encoding="utf-8") as table:
        (looping,) = (line for line in csv.reader(table) if line[0] == "looping")
    assert float(looping[2]) > 0.5


def test_twelve_conversations_run_again_with_another_model_are_found(
    study: Study, server: NamedServer
) -> None:
    wipe(study, "condition = 'free'")
    server.name = "second"
    run_study(Study(study.path), QUIETLY)
    detect_study(Study(study.path))
    assert_found(study, "wiped and run again")
    again = [each for each in findings(study) if "the conversation is recorded again" in each]
    assert len(again) == 12
    kinds = {each.kind for each in verify_study(Study(study.path)).deviations}
    assert kinds == {"attempts missing in the numbering"}


def test_another_model_behind_the_endpoint_is_a_deviation(
    make_study: MakeStudy, served: Files, server: NamedServer
) -> None:
    study = make_study(served, steps=("lock",))
    asked = 0

    def swap(news: object) -> None:
        nonlocal asked
        asked += 1
        server.name = "first" if asked < 40 else "second"

    run_study(study, QUIETLY, swap)
    verified = verify_study(study)
    assert verified.findings == ()
    assert {each.kind for each in verified.deviations} == {"changed reported_model"}
    assert "free-first, free-second" in "".join(each.sentence for each in verified.deviations)


def test_one_conversation_wiped_and_run_again_is_found(study: Study) -> None:
    wipe(study, "id = 'free/p2/3'")
    run_study(Study(study.path), QUIETLY)
    detect_study(Study(study.path))
    assert_found(study, "free/p2/3: the conversation is recorded again", "free/p2/3: 6 turns (1, 2")


def test_edited_gate_record_is_found(chimera: Callable[..., Any], study: Study) -> None:
    path = study.path / "audit" / "gate-record.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["verdict"] == "failed"
    record["verdict"] = "passed"
    record["audit"]["kappa"] = 0.91
    path.write_text(json.dumps(record), encoding="utf-8")
    assert_found(study, "gate-record.json: it says", "recomputed): kappa 0.91 →")
    assert chimera("verify", study.path).code == 1


def test_gate_record_without_a_decision_is_found(study: Study, tmp_path: Path) -> None:
    tamper(study, "DELETE FROM samples")
    assert_found(study, "gate-record.json: it records a gate that has not been decided")


def test_changed_labels_are_found(study: Study) -> None:
    tamper(study, "UPDATE ratings SET label = 1 - label WHERE trajectory = 'free/p1/1'")
    assert_found(study, "free/p1/1: 2 ratings", "its labels changed after the gate was decided")


def test_deleted_labels_are_found(study: Study) -> None:
    tamper(study, "DELETE FROM ratings WHERE trajectory = 'free/p1/1'")
    assert_found(study, "free/p1/1: 2 ratings", "deleted")


def test_labels_replaced_before_the_gate_is_decided_are_found(study: Study) -> None:
    tamper(study, "DELETE FROM samples")
    shutil.rmtree(study.path / "audit")
    tamper(study, "DELETE FROM ratings WHERE rater IN (SELECT id FROM raters WHERE name LIKE 'h%')")
    label(study, "human:ann", lambda name: "looping" in name)
    assert audit_study(Study(study.path)).gate.passed
    assert_found(study, "free/p1/1: rating", "wiped and run again", "samples: sample gate-1 is")


def test_deleted_failed_attempts_are_found(study: Study) -> None:
    with study.archive() as archive:
        rows = archive.rows("SELECT trajectory FROM attempts WHERE outcome != 'answered'")
        failed = [row["trajectory"] for row in rows]
    assert failed
    tamper(study, "DELETE FROM attempts WHERE outcome != 'answered'")
    found = [each for each in findings(study) if " attempt" in each and "deleted" in each]
    assert {each.partition(":")[0] for each in found} == set(failed)
    (deviation,) = verify_study(Study(study.path)).deviations
    assert deviation.sentence == f"{len(failed)} of their numbers are missing"


def lock_again(study: Study, old: str, new: str) -> Study:
    """Change the plan, and put a new lock where the old one was, in the folder and in the store."""
    text = study.plan_path.read_text(encoding="utf-8")
    assert old in text
    study.plan_path.write_text(text.replace(old, new), encoding="utf-8")
    changed = Study(study.path)
    lock = make_lock(changed.plan)
    write_lock(changed.lock_path, lock)
    with closing(sqlite3.connect(study.store_path)) as db, db:
        resolved = json.dumps(lock.resolved, sort_keys=True)
        db.execute("UPDATE study SET value = ? WHERE key = 'resolved'", [resolved])
        db.execute("UPDATE study SET value = ? WHERE key = 'lock'", [lock.sha256])
        db.execute("UPDATE runs SET lock = ?", [lock.sha256])
    return changed


def test_study_locked_again_with_a_lower_gate_is_found(study: Study) -> None:
    tamper(study, "DELETE FROM samples")
    shutil.rmtree(study.path / "audit")
    changed = lock_again(study, "threshold = 0.80", "threshold = -0.30")
    assert audit_study(changed).gate.passed
    assert_found(changed, "study: 2 study (lock, resolved) are not as recorded", "samples: sample")


def test_study_locked_again_with_fewer_repeats_is_found(study: Study) -> None:
    tamper(study, *(f"DELETE FROM {t} WHERE trajectory LIKE '%/4'" for t in OF_A_CONVERSATION))
    tamper(study, "DELETE FROM trajectories WHERE repeat = 4")
    changed = lock_again(study, "repeats = 4", "repeats = 3")
    assert_found(changed, "are not as recorded", "free/p1/4: the conversation is recorded, but no")


def test_study_locked_again_without_one_prompt_is_found(study: Study) -> None:
    tamper(study, *(f"DELETE FROM {t} WHERE trajectory LIKE '%/p3/%'" for t in OF_A_CONVERSATION))
    tamper(study, "DELETE FROM trajectories WHERE prompt = 'p3'")
    changed = lock_again(study, '  { id = "p3", text = "Count." },\n', "")
    assert_found(changed, "are not as recorded", "free/p3/1: the conversation is recorded, but no")


def test_changed_time_of_the_lock_is_found(study: Study) -> None:
    stored = json.loads(study.lock_path.read_text(encoding="utf-8"))
    stored["locked_at"] = "2020-01-01T00:00:00+00:00"
    study.lock_path.write_text(json.dumps(stored), encoding="utf-8")
    assert_found(study, "was edited: its contents do not match its hash")
    del stored["sha256"]
    study.lock_path.write_text(json.dumps(stored | {"sha256": digest(stored)}), encoding="utf-8")
    assert_found(study, "run 1: it was made under a different lock")


OF_A_CONVERSATION = ("detections", "ratings", "turns", "attempts")


def test_chain_taken_out_is_found(study: Study) -> None:
    tamper(study, "DROP TABLE chain")
    assert_found(study, "study.db: its chain was removed")


def test_record_taken_out_of_the_chain_is_found(study: Study) -> None:
    tamper(study, "DELETE FROM chain WHERE id = 9")
    assert_found(study, "the chain: record 9 is missing")


def test_record_changed_in_the_chain_is_found(study: Study) -> None:
    tamper(study, "UPDATE chain SET row = zeroblob(32) WHERE id = 9")
    assert_found(study, "the chain: record 9 (")


def test_rewritten_chain_is_found_by_an_earlier_root_hash(
    chimera: Callable[..., Any], study: Study
) -> None:
    published = verify_study(study).root
    tamper(study, "DELETE FROM attempts WHERE outcome != 'answered'")
    rewrite_chain(study)
    *found, last = verify_study(Study(study.path), expect=published).findings
    assert "was never a root hash of this study" in str(last)
    assert {each.place for each in found} == {"study.db", *(f"steps/{s}.lock" for s in STEPS)}
    forget_length(study)
    assert verify_study(Study(study.path), expect=published).findings == (last,)
    assert verify_study(Study(study.path)).findings == ()
    ran = chimera("verify", study.path, "--expect", published, "--json")
    assert ran.code == 1
    assert ran.json["expected"] is None
    assert {each["kind"] for each in ran.json["deviations"]} == {
        "attempts missing in the numbering"
    }


STEPS = ("run", "detect", "audit")


def forget_length(study: Study) -> None:
    """Write what says how long the chain was again, for the chain that there is now."""
    tally_path(study.store_path).unlink()
    with closing(sqlite3.connect(study.store_path)) as db:
        update_tally(db, study.store_path)
    for step in STEPS:
        lock_step(study, step, hash_files(study.path, step))


def test_gate_undone_with_the_end_of_the_chain_is_found(study: Study) -> None:
    tamper(
        study,
        "DROP TRIGGER a_gate_sample_is_used_once",
        "DELETE FROM samples",
        "DELETE FROM chain WHERE id > (SELECT max(id) FROM chain WHERE kind = 'ratings')",
    )
    shutil.rmtree(study.path / "audit")
    assert_found(
        study,
        "trigger a_gate_sample_is_used_once: it is part of the schema, but no longer there",
        "study.db: lacks the last 2 of",
        "steps/audit.lock: it was locked at",
        "audit/gate-record.json: it is missing; `chimera audit` writes it again",
    )
    with pytest.raises(StoreError, match="no longer there"):
        audit_study(Study(study.path))


def test_deleted_verdicts_are_found(study: Study) -> None:
    tamper(study, "DELETE FROM detections")
    found = findings(study)
    assert len(found) == 24
    assert all("recorded, but no longer in the store: deleted" in each for each in found)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        (
            "CREATE TRIGGER dormant AFTER INSERT ON ratings BEGIN DELETE FROM ratings; END",
            "trigger dormant",
        ),
        ("CREATE TABLE notes (text)", "table notes"),
        ("CREATE INDEX quick ON turns (model)", "index quick"),
        ("CREATE VIEW shown AS SELECT * FROM turns", "view shown"),
    ],
)
def test_what_is_not_ours_in_the_schema_is_found_and_never_written_with(
    study: Study, statement: str, place: str
) -> None:
    tamper(study, statement)
    assert findings(study) == [f"{place}: it is not part of the schema: added from outside"]
    with pytest.raises(StoreError, match="it is not part of the schema"):
        label(study, "human:eve", lambda name: True)


def test_edited_files_of_a_report_and_a_gate_are_found(study: Study) -> None:
    write_report(study)
    assert findings(study) == []
    names = ("report/index.html", "report/numbers.json", "report/numbers.tex", "estimates.json")
    others = ("audit/gate-record.md", "audit/validity.json", "report/tables/conditions.csv")
    for name in (*names, *others):
        path = study.path / name
        path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    found = {each.partition(": ")[0] for each in findings(study)}
    assert found == {*names, *others}
    write_report(Study(study.path))
    assert {each.partition(": ")[0] for each in findings(study)} == {
        "audit/gate-record.md",
        "audit/validity.json",
    }


def test_interrupted_report_is_found(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("chimeralab.report.files.write_numbers", stop)
        with pytest.raises(KeyboardInterrupt):
            write_report(study)
    assert findings(study) == ["report: it is incomplete; `chimera report` writes it again"]
    write_report(Study(study.path))
    assert findings(study) == []


def test_edited_estimates_are_not_used(study: Study) -> None:
    write_report(study)
    path = study.path / "estimates.json"
    true = (study.path / "report" / "numbers.json").read_bytes()
    stored = path.read_text(encoding="utf-8")
    path.write_text(stored.replace(": [0.", ": [1.").replace(", 0.", ", 0.9"), encoding="utf-8")
    write_report(Study(study.path))
    assert (study.path / "report" / "numbers.json").read_bytes() == true


def rewrite_chain(study: Study) -> None:
    """Take the records of deleted attempts out, and compute every head again."""
    with closing(sqlite3.connect(study.store_path)) as db, db:
        db.execute(
            "DELETE FROM chain WHERE kind = 'attempts' AND json_extract(key, '$[1]') NOT IN "
            "(SELECT id FROM attempts)"
        )
        rows = db.execute("SELECT id, kind, change, key, row FROM chain ORDER BY id").fetchall()
        head = b""
        for number, (old, *record) in enumerate(rows, start=1):
            head = next_head(head, *record)
            db.execute("UPDATE chain SET id = ?, head = ? WHERE id = ?", (number, head, old))


def test_every_earlier_root_hash_is_accepted_and_placed(
    chimera: Callable[..., Any], study: Study
) -> None:
    locked = chimera("lock", study.path, "--json").json
    assert locked["locked_at"]
    ran = chimera("verify", study.path, "--expect", locked["sha256"], "--json")
    assert ran.code == 0
    records = ran.json["records"]
    assert ran.json["expected"]["followed"] == records > 300
    with study.archive() as archive:
        head = bytes(archive.value("SELECT head FROM chain WHERE id = 10")).hex()
    expected = chimera("verify", study.path, "--expect", head, "--json").json["expected"]
    assert (expected["record"], expected["followed"]) == (10, records - 10)
    said = chimera("verify", study.path, "--expect", head).out
    assert f"{head} is the head after record 10 (" in said
    assert chimera("verify", study.path, "--expect", "abc").code == 2


def test_lock_verify_report_and_export_print_one_root_hash(
    chimera: Callable[..., Any], study: Study, tmp_path: Path
) -> None:
    root = verify_study(study).root
    assert root is not None
    locked = chimera("lock", study.path).out
    assert root in locked
    assert "Publish the hash and time" in locked
    assert f"root hash {root}" in chimera("verify", study.path).out
    assert root in chimera("report", study.path).err
    assert root in (study.path / "report" / "index.html").read_text(encoding="utf-8")
    assert root in chimera("export", study.path, "--out", tmp_path / "out").out


def test_quick_leaves_out_the_vectors_and_says_so(
    chimera: Callable[..., Any], study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "chimeralab.study.verdicts.study_encoder", lambda: pytest.fail("an encoder was opened")
    )
    ran = chimera("verify", study.path, "--quick", "--json")
    assert ran.code == 0
    assert ran.json["unchecked"] == ["24 stored verdicts were not recomputed (--quick)"]
    assert "no mismatch in what was checked" in chimera("verify", study.path, "--quick").out


def test_overwritten_encoder_is_found(
    chimera: Callable[..., Any],
    study: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = weights.ensure("minilm")
    place = tmp_path / "cache" / own.relative_to(weights.cache_root())
    shutil.copytree(own, place)
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path / "cache"))
    file = place / "model.safetensors"
    seen = file.stat()
    with file.open("r+b") as opened:
        opened.seek(20_000_000)
        opened.write(bytes(4_000_000))
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert set(weights.file_states("minilm").values()) == {"present"}
    assert_found(study, "encoder: ", "is not the encoder's file")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    tamper(study, "DELETE FROM detections")
    ran = chimera("detect", study.path)
    assert ran.code == 2
    assert "is not the encoder's file" in ran.err


def test_forged_cached_vector_is_not_used(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "vectors.db"
    monkeypatch.setattr(encoder_module, "vector_cache", lambda: cache)
    assert verify_study(study).findings == ()
    with closing(sqlite3.connect(cache)) as db, db:
        kept = db.execute("SELECT count(*) FROM vectors").fetchone()[0]
        length = db.execute("SELECT length(vector) FROM vectors").fetchone()[0]
        forged = np.ones(length // 4, dtype=np.float32).tobytes()
        db.execute("UPDATE vectors SET vector = ?", [forged])
    verified = verify_study(Study(study.path))
    assert verified.findings == ()
    (note,) = verified.notes
    assert "cached vectors had not been made by this machine" in note
    assert kept > 10
    assert verify_study(Study(study.path)).notes == ()


def test_vector_of_another_text_is_not_used(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "vectors.db"
    monkeypatch.setattr(encoder_module, "vector_cache", lambda: cache)
    verify_study(study)
    with closing(sqlite3.connect(cache)) as db, db:
        one = db.execute("SELECT vector FROM vectors").fetchone()[0]
        db.execute("UPDATE vectors SET vector = ?", [one])
    verified = verify_study(Study(study.path))
    assert verified.findings == ()
    assert "had not been made by this machine" in "".join(verified.notes)


def test_check_of_a_rater_is_in_the_chain(study: Study) -> None:
    check_rater(study, "rules")
    assert findings(study) == []
    tamper(study, "UPDATE study SET value = '{}' WHERE key LIKE 'check of rater %'")
    assert_found(study, "not as recorded: changed from outside")
    tamper(study, "DELETE FROM study WHERE key LIKE 'check of rater %'")
    assert_found(study, "recorded, but no longer in the store: deleted")


def test_loops_of_another_loop_detector_are_listed_as_not_recomputed(study: Study) -> None:
    tamper(
        study,
        "UPDATE detections SET detection = "
        "json_set(detection, '$.loop_detector.operating_point', 'loops-0')",
    )
    verified = verify_study(Study(study.path))
    assert all("not as recorded" in each.problem for each in verified.findings)
    said = "not recomputed: the loops of 24 verdicts, judged by loops-0"
    assert verified.unchecked == (said,)
