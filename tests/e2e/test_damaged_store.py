"""A damaged store is named, by table, row and column; no command ends in a traceback.

The quick tests damage a column of each table. `pytest -m slow tests/e2e/test_damaged_store.py`
writes every kind of damage into every column, and runs every command that reads.
"""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from chimeralab.study import Study, run_study
from chimeralab.study.database import CONTENT, StoreError, find_damage, open_to_read
from chimeralab.study.verify import verify_study
from chimeralab.web.watch import StudyWatch
from tests.damage import (
    Cell,
    complaints,
    damage_cell,
    full_selfplay,
    full_trial,
    list_cells,
    overwrite_pages,
    read_all,
    readers,
    run,
)
from tests.studies import StudyCache

MAKE: dict[str, Callable[[StudyCache, Path], Path]] = {
    "selfplay": full_selfplay,
    "trial": full_trial,
}
TABLES = tuple(dict.fromkeys(cell.table for cell in list_cells()))
# All but `verify` and those that draw charts, which take seconds.
QUICK = ("audit", "export", "conversations", "show", "detect", "analyse", "compare", "claims")
SLOW_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60)]


@pytest.fixture
def selfplay(studies: StudyCache, tmp_path: Path) -> Path:
    return full_selfplay(studies, tmp_path / "study")


def damage(study: Path, table: str, column: str, kind: str) -> None:
    assert damage_cell(study / "study.db", Cell(table, column, kind))


def scan(study: Path) -> dict[str, list[tuple[str, str]]]:
    with closing(sqlite3.connect(study / "study.db")) as db:
        return find_damage(db)


def test_sound_studies_have_no_damage(studies: StudyCache, tmp_path: Path) -> None:
    for name, make in MAKE.items():
        study = make(studies, tmp_path / name)
        assert scan(study) == {}
        assert verify_study(Study(study), quick=True).findings == ()


# Found by attack: each of these ended `verify`, `audit` or `export` in a traceback.
FOUND = (
    Cell("detections", "detection", "broken JSON"),
    Cell("detections", "detection", "JSON of another shape"),
    Cell("samples", "sample", "broken JSON"),
    Cell("samples", "sample", "JSON of another shape"),
    Cell("samples", "drawn_by", "an empty JSON list"),
    Cell("ratings", "turns", "broken JSON"),
    Cell("ratings", "turns", "JSON of another shape"),
    Cell("study", "value", "bytes"),
    Cell("chain", "key", "broken JSON"),
    Cell("chain", "key", "an empty JSON list"),
    Cell("chain", "kind", "text"),
    Cell("turns", "text", "bytes"),
    Cell("turns", "text", "text that is not UTF-8"),
    Cell("turns", "text", "nothing"),
    Cell("trajectories", "position", "text"),
    Cell("trajectories", "repeat", "an infinite number"),
    Cell("attempts", "cost", "an infinite number"),
    Cell("runs", "started", "text"),
    Cell("ratings", "label", "a huge number"),
)


@pytest.mark.parametrize("cell", FOUND, ids=str)
def test_damaged_cell_is_listed_by_verify_and_refused_by_others(selfplay: Path, cell: Cell) -> None:
    damage(selfplay, *cell)
    ran = run("verify", selfplay, "--quick")
    assert (ran.code, ran.crash) == (1, "")
    assert f"table {cell.table}, row" in ran.out
    assert f"column {cell.column} holds" in ran.out
    for name in ("audit", "export", "show"):
        ran = run(*readers(selfplay)[name])
        if scan(selfplay):
            assert ran.code == 2, name
            assert f"table {cell.table}, row" in ran.err
            assert f"column {cell.column} holds" in ran.err
            assert "restore a copy" in ran.err
        assert complaints({name: ran}) == []


def test_note_with_the_plan_of_the_first_run_is_named(selfplay: Path) -> None:
    with closing(sqlite3.connect(selfplay / "study.db")) as db, db:
        db.execute("UPDATE study SET value = '{' WHERE key = 'resolved'")
    ran = run("verify", selfplay, "--quick")
    assert ran.code == 1
    assert 'table study, row resolved: column value holds "{"' in ran.out


@pytest.mark.parametrize("table", TABLES)
def test_verify_names_every_damaged_column_of_a_table(
    studies: StudyCache, tmp_path: Path, table: str
) -> None:
    for name, make in MAKE.items():
        study = make(studies, tmp_path / name)
        cells = [cell for cell in list_cells() if (cell.table, cell.kind) == (table, "bytes")]
        damaged = [cell for cell in cells if damage_cell(study / "study.db", cell)]
        if not damaged:
            continue
        ran = run("verify", study, "--quick")
        assert (ran.code, ran.crash) == (1, "")
        named = {cell.column for cell in damaged if f"column {cell.column} holds" in ran.out}
        assert named == {cell.column for cell in damaged}
        assert "the plan against its lock" in ran.out  # the other checks go on


def test_every_table_has_a_row_in_one_of_the_studies(studies: StudyCache, tmp_path: Path) -> None:
    counts = dict.fromkeys(TABLES, 0)
    for name, make in MAKE.items():
        with closing(sqlite3.connect(make(studies, tmp_path / name) / "study.db")) as db:
            for table in TABLES:
                counts[table] += db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    # Only models that are billed fill the table of charges.
    assert [table for table, n in counts.items() if not n] == ["charges"]


def test_columns_with_rules_of_their_own_are_in_the_schema() -> None:
    assert CONTENT.keys() <= {f"{cell.table}.{cell.column}" for cell in list_cells()}


def test_verify_checks_the_rows_that_are_sound(selfplay: Path) -> None:
    with closing(sqlite3.connect(selfplay / "study.db")) as db, db:
        db.execute("UPDATE turns SET text = x'00' WHERE trajectory = 'free/p1/1' AND turn = 2")
        db.execute("UPDATE turns SET text = 'Forged.' WHERE trajectory = 'free/p2/1' AND turn = 2")
    found = [str(each) for each in verify_study(Study(selfplay), quick=True).findings]
    assert "free/p2/1: turn 2 is not the one that was stored" in found
    assert "free/p2/1: turn 2 is not as recorded: changed from outside" in found
    assert "free/p1/1: turn 2 is not as recorded: changed from outside" in found
    assert 'table turns, row free/p1/1 2: column text holds "b' in found[0]


def test_damaged_rows_are_counted_and_the_first_named(selfplay: Path) -> None:
    with closing(sqlite3.connect(selfplay / "study.db")) as db, db:
        db.execute("UPDATE turns SET text = x'00'")
    [[(place, _)]] = scan(selfplay).values()
    assert place.startswith("table turns, rows free/p1/1 1, free/p1/1 2, ")
    assert place.endswith(" and 67 more")


def test_damaged_cell_is_named_before_a_run_or_a_rating(selfplay: Path) -> None:
    damage(selfplay, "events", "detail", "broken JSON")
    with pytest.raises(StoreError, match=r"table events, row .* column detail holds"):
        run_study(Study(selfplay))
    watch = StudyWatch(1, selfplay)
    assert not watch.open()
    assert "column detail holds" in (watch.problem or "")


def test_numbers_that_json_does_not_know_are_not_damage(selfplay: Path) -> None:
    with closing(sqlite3.connect(selfplay / "study.db")) as db, db:
        db.execute("""UPDATE runs SET settings = '{"max_cost": Infinity}'""")
    assert scan(selfplay) == {}


def test_damaged_file_is_named_with_the_way_out(selfplay: Path) -> None:
    store = selfplay / "study.db"
    data = bytearray(store.read_bytes())
    data[4096 * 3 : 4096 * 9] = b"\xff" * (4096 * 6)
    store.write_bytes(data)
    ran = run("verify", selfplay, "--quick")
    assert (ran.code, ran.crash) == (1, "")
    assert "the file is damaged" in ran.out
    assert "restore a copy" in ran.out
    assert "`sqlite3 study.db .recover | sqlite3 rescued.db`" in ran.out
    ran = run("export", selfplay, "--out", selfplay.parent / "out")
    assert ran.code == 2
    assert ".recover" in ran.err


def test_damaged_schema_that_sqlite_quotes_is_named(selfplay: Path) -> None:
    """The message quotes bytes that are not UTF-8, which Python can't decode."""
    store = selfplay / "study.db"
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    store.write_bytes(
        store.read_bytes().replace(b"CREATE TABLE turns", b"CREATE T\xca\xca\xcaE turns")
    )
    with pytest.raises(StoreError, match=r"damaged .*not UTF-8.*\.recover"):
        open_to_read(store)


ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


def test_view_in_place_of_a_table_is_never_read(selfplay: Path) -> None:
    """It could give rows without end."""
    with closing(sqlite3.connect(selfplay / "study.db", isolation_level=None)) as db:
        db.execute("ALTER TABLE turns RENAME TO kept")
        db.execute(f"CREATE VIEW turns AS {ENDLESS} SELECT kept.* FROM kept, n")
    said = "turns is a view in place of the table"
    ran = run("verify", selfplay, "--quick")
    assert (ran.code, ran.crash) == (1, "")
    assert said in ran.out
    for name in ("audit", "export", "show"):
        ran = run(*readers(selfplay)[name])
        assert (ran.code, ran.crash) == (2, "")
        assert said in ran.err
    with pytest.raises(StoreError, match=said):
        run_study(Study(selfplay))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("seed", [*range(6), *SLOW_SEEDS])
def test_overwritten_pages_end_in_a_sentence(
    studies: StudyCache, tmp_path: Path, name: str, seed: int
) -> None:
    study = MAKE[name](studies, tmp_path / "study")
    what = overwrite_pages(study / "study.db", seed)
    chosen = ("verify", "export", "show") if seed < 6 else ()
    assert complaints(read_all(study, chosen)) == [], what


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("table", TABLES)
def test_no_damaged_cell_ends_a_command_in_a_traceback(
    studies: StudyCache, tmp_path: Path, name: str, table: str
) -> None:
    found = []
    for n, cell in enumerate(cell for cell in list_cells() if cell.table == table):
        study = MAKE[name](studies, tmp_path / str(n) / "study")
        if damage_cell(study / "study.db", cell):
            results = read_all(study, ("verify", *QUICK, *(["report"] if n % 7 == 0 else [])))
            found += [f"{cell}: {each}" for each in complaints(results)]
            if results["verify"].code == 0 and "Not checked: none" in results["verify"].out:
                found.append(f"{cell}: verify neither names it nor says that it is not checked")
        shutil.rmtree(tmp_path / str(n))
    assert found == []
