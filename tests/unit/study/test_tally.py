"""A copy without its WAL is reported, and its missing turns are not requested again."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chimeralab.runner import TurnStored
from chimeralab.study import Study, run_study
from chimeralab.study.database import StoreError, read_tally, tally_path
from chimeralab.study.verify import verify_study
from tests.plans import SCRIPTED


@pytest.fixture
def copies(make_study, tmp_path: Path) -> list[Path]:
    """Snapshots of a study folder after every fourth turn, as a kill would leave it."""
    study, made = make_study(SCRIPTED), []

    def look(news: object) -> None:
        if isinstance(news, TurnStored):
            made.append(tmp_path / f"copy-{len(made)}")
            if len(made) % 4 == 0:
                shutil.copytree(study.path, made[-1])

    run_study(study, publish=look)
    return [path for path in made if path.exists()]


def records_in(folder: Path) -> int | None:
    """None if a truncated WAL makes the database unreadable."""
    with closing(sqlite3.connect(folder / "study.db")) as db:
        try:
            return db.execute("SELECT count(*) FROM chain").fetchone()[0]
        except sqlite3.DatabaseError:
            return None


def test_copy_with_its_wal_can_be_resumed(copies):
    assert run_study(Study(copies[1], allow_code=True)).complete
    assert not verify_study(Study(copies[1])).findings
    assert read_tally(copies[1] / "study.db") == last_record(copies[1])


def test_the_database_alone_holds_its_tables_from_the_start(copies):
    (copies[0] / "study.db-wal").unlink()
    assert records_in(copies[0]) is not None


def test_the_database_alone_holds_every_conversation_that_ended(copies):
    for copy in copies:
        with Study(copy).archive() as archive:
            ended = archive.value("SELECT count(*) FROM trajectories WHERE outcome IS NOT NULL")
        (copy / "study.db-wal").unlink()
        with closing(sqlite3.connect(copy / "study.db")) as db:
            query = "SELECT count(*) FROM trajectories WHERE outcome IS NOT NULL"
            assert db.execute(query).fetchone()[0] >= ended - 1


def last_record(folder: Path) -> tuple[int, str]:
    with closing(sqlite3.connect(folder / "study.db")) as db:
        query = "SELECT id, lower(hex(head)) FROM chain ORDER BY id DESC LIMIT 1"
        return db.execute(query).fetchone()


def committed(folder: Path) -> int:
    tally = read_tally(folder / "study.db")
    assert tally is not None
    return tally[0]


@pytest.mark.parametrize("kept", [None, 0.02, 0.5])
def test_turns_lost_with_the_wal_are_reported_and_not_requested_again(copies, kept):
    lossy = 0
    for copy in copies:
        wal = copy / "study.db-wal"
        stored = committed(copy)
        if kept is None:
            wal.unlink()
        else:
            wal.write_bytes(wal.read_bytes()[: int(wal.stat().st_size * kept)])
        (copy / "study.db-shm").unlink(missing_ok=True)
        if (records_in(copy) or 0) >= stored:
            continue
        lossy += 1
        with pytest.raises(StoreError, match=r"wal is missing or truncated|is damaged") as refused:
            run_study(Study(copy, allow_code=True))
        if "is damaged" in str(refused.value):
            continue
        findings = verify_study(Study(copy, allow_code=True)).findings
        assert any("is missing or truncated" in finding.problem for finding in findings)
    assert lossy


def test_emptied_database_is_reported(copies):
    stored = committed(copies[2])
    assert stored > 12
    for name in ("study.db", "study.db-wal", "study.db-shm"):
        (copies[2] / name).unlink(missing_ok=True)
    with pytest.raises(StoreError, match=f"has none of the {stored} records"):
        run_study(Study(copies[2], allow_code=True))
    tally_path(copies[2] / "study.db").unlink()
    assert run_study(Study(copies[2], allow_code=True)).complete


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"-", b"\xff"])
def test_unreadable_count_is_written_again_and_a_finding_until_then(make_study, content):
    study = make_study(SCRIPTED)
    tally_path(study.store_path).write_bytes(content)
    assert run_study(study).complete
    assert read_tally(study.store_path) == last_record(study.path)
    tally_path(study.store_path).write_bytes(content)
    [found] = verify_study(Study(study.path)).findings
    assert "has no study.count" in found.problem
