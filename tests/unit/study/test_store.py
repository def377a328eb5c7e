"""The database: durable, one writer, many readers, clear errors."""

import asyncio
import gc
import os
import sqlite3
import stat
from collections import namedtuple

import pytest

from chimeralab.core import schema as schema_module
from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file
from chimeralab.core.schema import FIRST_SCHEMA, SCHEMA
from chimeralab.study import Archive, Store, Study, run_study
from chimeralab.study import database as database_module
from chimeralab.study.database import StoreError, transaction
from tests.plans import SCRIPTED


def pragma(connection, name):
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_commits_survive_a_power_cut(tmp_path):
    store = Store(tmp_path / "study.db")
    assert pragma(store._db, "journal_mode") == "wal"
    assert pragma(store._db, "synchronous") == 2
    store.close()


def test_readers_see_a_run_in_progress(make_study):
    study = make_study(SCRIPTED)
    seen = []

    def look(news):
        with study.archive() as archive:
            seen.append(archive.value("SELECT count(*) FROM turns"))

    run_study(study, publish=look)
    assert seen[0] == 0
    assert seen[-1] == 48
    assert seen == sorted(seen)


def test_second_runner_is_refused_with_the_id_of_the_first(make_study):
    study = make_study(SCRIPTED)
    refusals = []

    def run_again(news):
        if not refusals:
            with pytest.raises(InputError) as caught:
                run_study(Study(study.path, allow_code=True))
            refusals.append(str(caught.value))

    run_study(study, publish=run_again)
    assert f"run 1 (process {os.getpid()} on " in refusals[0]


def test_running_twice_does_nothing_the_second_time(make_study):
    study = make_study(SCRIPTED)
    first = run_study(study)
    again = run_study(Study(study.path, allow_code=True))
    assert first.arms == again.arms
    with study.archive() as archive:
        assert archive.value("SELECT count(*) FROM runs") == 1


def test_a_study_can_be_run_from_a_notebook(make_study):
    async def cell():
        return run_study(make_study(SCRIPTED))

    assert asyncio.run(cell()).complete


def test_requests_in_flight_at_a_kill_are_closed_as_interrupted(make_study):
    study = make_study(SCRIPTED)
    run_study(study)
    store = Store(study.store_path)
    with transaction(store._db, store.path) as db:
        db.execute("UPDATE runs SET ended = NULL")
        db.execute("UPDATE attempts SET outcome = NULL WHERE id = 1")
    store.begin_run(None, {})
    rows = store._db.execute("SELECT outcome FROM attempts WHERE id = 1").fetchall()
    assert rows == [("interrupted",)]
    assert store._db.execute("SELECT reason FROM runs WHERE id = 1").fetchone() == ("killed",)
    store.close()


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_corrupt_database_is_named_before_anything_is_spent(content, make_study):
    study = make_study(SCRIPTED)
    study.store_path.write_bytes(content)
    with pytest.raises(StoreError, match=r"study.db: the file is damaged .*restore a copy"):
        run_study(study)


def test_damage_inside_the_database_is_found(make_study):
    study = make_study(SCRIPTED)
    run_study(study)
    data = bytearray(study.store_path.read_bytes())
    data[4096 * 3 : 4096 * 9] = b"\xff" * (4096 * 6)
    study.store_path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        run_study(Study(study.path, allow_code=True))


def test_database_of_another_program_is_left_alone(make_study):
    study = make_study(SCRIPTED)
    with sqlite3.connect(study.store_path) as other:
        other.execute("CREATE TABLE recipes (name)")
    other.close()
    with pytest.raises(StoreError, match="of another program"):
        run_study(study)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (SCHEMA + 1, r"later version .* install that version"),
        (FIRST_SCHEMA - 1, r"before the first release .* in a new folder"),
    ],
)
def test_database_of_an_unknown_schema_is_refused(make_study, schema, complaint):
    study = make_study(SCRIPTED)
    run_study(study)
    with sqlite3.connect(study.store_path) as other:
        other.execute(f"PRAGMA user_version = {schema}")
    other.close()
    with pytest.raises(StoreError, match=complaint):
        run_study(Study(study.path, allow_code=True))
    with pytest.raises(StoreError, match=complaint):
        Archive(study.store_path)


def test_every_schema_has_a_migration(tmp_path):
    assert len(database_module.MIGRATIONS) == SCHEMA - FIRST_SCHEMA + 1
    Store(tmp_path / "study.db").close()
    with Archive(tmp_path / "study.db") as archive:
        assert archive.value("PRAGMA user_version") == SCHEMA


def test_store_that_is_being_created_is_not_called_old(tmp_path):
    path = tmp_path / "study.db"
    path.touch()
    with pytest.raises(StoreError, match="still empty; try again"):
        Archive(path)


@pytest.fixture
def add_migration(monkeypatch):
    """Simulate a later version of the code with one more migration."""

    def add(script):
        monkeypatch.setattr(database_module, "MIGRATIONS", (*database_module.MIGRATIONS, script))
        for module in (database_module, schema_module):
            monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)

    return add


def test_older_database_is_migrated(make_study, add_migration):
    study = make_study(SCRIPTED)
    run_study(study)
    add_migration("CREATE TABLE later (id INTEGER PRIMARY KEY)")
    with pytest.raises(StoreError, match="`chimera run` migrates it"):
        Archive(study.store_path)
    store = Store(study.store_path)
    assert store._db.execute("SELECT count(*) FROM later").fetchone() == (0,)
    assert store.turns_stored() == 48
    store.close()


def test_migration_is_atomic(tmp_path, add_migration, monkeypatch):
    Store(tmp_path / "study.db").close()
    add_migration("CREATE TABLE later (id); CREATE TABLE turns (id)")
    with pytest.raises(StoreError):
        Store(tmp_path / "study.db")
    monkeypatch.undo()
    with Archive(tmp_path / "study.db") as archive:
        assert archive.value("SELECT count(*) FROM sqlite_master WHERE name = 'later'") == 0


def test_full_disk_is_reported_and_loses_nothing(make_study):
    study = make_study(SCRIPTED, ("turns = 6", "turns = 200"))
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        run_study(study, publish=FullDisk(study))
    assert run_study(Study(study.path, allow_code=True)).complete
    with study.archive() as archive:
        assert archive.value("PRAGMA integrity_check") == "ok"


class FullDisk:
    """Stop the database from growing once a run has begun."""

    def __init__(self, study):
        self.study = study
        self.full = False

    def __call__(self, news):
        if self.full:
            return
        for store in gc.get_objects():
            if type(store) is Store and store.path == self.study.store_path:
                pages = pragma(store._db, "page_count")
                store._db.execute(f"PRAGMA max_page_count = {pages + 5}")
                self.full = True


def test_a_disk_that_may_not_hold_the_study_is_refused_beforehand(make_study, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10**9, 10**9, 10**6))
    study = make_study(SCRIPTED)
    with pytest.raises(InputError, match=r"has 1 MB left and this study may need \d+ MB"):
        run_study(study)


@pytest.mark.parametrize(
    ("name", "said"),
    [(".running", "can't be written"), ("study.db", "is not a regular file; move it away")],
)
def test_unwritable_file_is_named_beforehand(name, said, make_study):
    study = make_study(SCRIPTED)
    (study.path / name).mkdir()
    with pytest.raises(InputError, match=said):
        run_study(study)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused_beforehand(make_study):
    study = make_study(SCRIPTED)
    study.path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(InputError, match="can't be written"):
            run_study(study)
    finally:
        study.path.chmod(stat.S_IRWXU)


def test_missing_store_is_reported(make_study):
    with pytest.raises(StoreError, match="`chimera run` creates it"):
        make_study(SCRIPTED).archive()


@pytest.mark.parametrize("place", [".", "report", "report/tables"])
def test_running_a_study_removes_what_a_killed_writer_left_and_reading_does_not(make_study, place):
    study = make_study(SCRIPTED)
    folder = study.path / place
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / "file.csv") as part:
        left = folder / part.name.replace(f"-{os.getpid()}.", "-999999999.")
        left.touch()
        reader = Study(study.path)
        assert left.exists()
        with reader.run_lock():
            assert part.exists()
            assert not left.exists()
