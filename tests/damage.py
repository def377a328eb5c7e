"""Damage the database of a study on purpose, cell by cell and page by page, and read it again.

`list_cells` names every column of the schema, `damage_cell` writes something into one row of it
that the program never writes, past every constraint, and `overwrite_pages` writes over the file
itself. `READERS` are the commands that read a study; `run` runs one in this process, and any
exception but an exit is a traceback that a user would see.
"""

import io
import random
import shutil
import sqlite3
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from chimeralab.cli.main import main
from chimeralab.rating.invitations import Invitation, RatingService
from chimeralab.rating.packets import DraftRating
from chimeralab.rating.rater_checks import check_rater
from chimeralab.study import Study
from chimeralab.study.database import MIGRATIONS
from tests.plans import PEOPLE_RATED, TRIAL, changed
from tests.studies import RUN, StudyCache

# What is written into a cell, as SQL. A column of numbers keeps text that is not a number, and a
# column of text turns a number into text.
KINDS: Mapping[str, str] = {
    "broken JSON": "'{'",
    "JSON of another shape": """'{"a": [7, {}]}'""",
    "an empty JSON list": "'[]'",
    "a JSON number": "'7'",
    "no characters": "''",
    "text": "'seven'",
    "text that is not UTF-8": "CAST(x'66ff66' AS TEXT)",
    "bytes": "x'00ff00'",
    "nothing": "NULL",
    "a huge number": str(2**62),
    "a negative number": "-3",
    "an infinite number": "9e999",
}

# Self-play with a countermeasure, which people rate and a third one adjudicates.
RATED_BY_PEOPLE = changed(
    PEOPLE_RATED,
    """
[conditions.nudged]
speakers = ["loops", "loops"]
countermeasure = { use = "nudge" }
[outcomes]
resamples = 100
permutations = 100
""",
    ("turns = 4", "turns = 6"),
    ("repeats = 4", "repeats = 2"),
)
# One arm per stressor, and an arm without any.
SMALL_TRIAL = changed(TRIAL, ('factorial = ["amnesia", "inf', 'each = ["amnesia", "inf'))


def full_selfplay(cache: StudyCache, to: Path) -> Path:
    """Copy a self-play study with rows in every table but those of trials."""

    def make(folder: Path) -> None:
        study = cache.copy(folder, RATED_BY_PEOPLE, steps=(*RUN, "detect", "draw"))
        check_rater(study, "rules")
        with RatingService(study) as service:
            for name, loops in (("ann", "1"), ("bob", "0")):
                _fill_in(service, _invite(service, name), loops, hand_in=True)
            _fill_in(service, _invite(service, "cid", adjudicate=True), "0", hand_in=True)
            service.study = Study(folder)
        with RatingService(study) as service:
            _fill_in(service, _invite(service, "eve"), "u", hand_in=False)

    return shutil.copytree(cache.once("damage-selfplay", make), to)


def full_trial(cache: StudyCache, to: Path) -> Path:
    """Copy a trial with rows in every table but those of raters."""
    return cache.copy(to, SMALL_TRIAL, steps=RUN).path


def _invite(service: RatingService, name: str, *, adjudicate: bool = False) -> Invitation:
    token = service.invite(name, task="adjudicate" if adjudicate else "rate")
    found = service.find_invitation(token)
    assert found is not None
    return found


def _fill_in(service: RatingService, who: Invitation, loops: str, *, hand_in: bool) -> None:
    for name, sheet in service.session(who).sheets.items():
        label = loops if sheet.texts[-1] == sheet.texts[-2] else "0"
        service.save(who, DraftRating(name, label, "1-2", "Read."))
    if hand_in:
        service.hand_in(who)


class Cell(NamedTuple):
    """A column of a table, and what is written into one of its rows."""

    table: str
    column: str
    kind: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}: {self.kind}"


def list_cells() -> Iterator[Cell]:
    """List every kind of damage to every column of the schema."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(";".join(MIGRATIONS))
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for table in tables:
            for _, column, *_ in db.execute(f"PRAGMA table_info({table})").fetchall():
                yield from (Cell(table, column, kind) for kind in KINDS)


def damage_cell(path: Path, cell: Cell) -> bool:
    """Damage one row of a column; False where nothing can be damaged.

    That is so where the table is empty, the cell holds that value already, or SQLite refuses it.
    """
    table, column = cell.table, cell.column
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        old = db.execute("SELECT name, sql FROM sqlite_master WHERE tbl_name = ?", [table])
        created = {name: sql for name, sql in old if sql is not None}
        triggers = [name for name, sql in created.items() if sql.startswith("CREATE TRIGGER")]
        for name in triggers:
            db.execute(f"DROP TRIGGER {name}")
        _rewrite_schema(db, table, created[table].replace(" NOT NULL", ""))
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            rows = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            keys = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[5]]
            key = ", ".join(keys)
            which = f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {rows // 2}"
            value = KINDS[cell.kind]
            done = db.execute(
                f"UPDATE {table} SET {column} = {value} "
                f"WHERE ({key}) = ({which}) AND CAST({column} AS TEXT) IS NOT CAST({value} AS TEXT)"
            )
            return done.rowcount == 1
    except sqlite3.IntegrityError:  # such as text for the number of a row
        return False
    finally:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            _rewrite_schema(db, table, created[table])
            for name in triggers:
                db.execute(created[name])


def _rewrite_schema(db: sqlite3.Connection, table: str, sql: str) -> None:
    """Change how a table is declared without touching its rows."""
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = ? WHERE type = 'table' AND name = ?", (sql, table))
    db.execute("PRAGMA writable_schema = RESET")


def overwrite_pages(path: Path, seed: int) -> str:
    """Overwrite some pages or bytes of a database at random, and say what was done."""
    rng = random.Random(seed)
    with closing(sqlite3.connect(path)) as db:  # everything into the file itself
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big") or 4096
    pages = len(data) // size
    how = rng.choice(("zeros", "noise", "another page", "some bytes", "cut off"))
    # The first page, which has the schema, is hit in one of eight.
    first = 0 if rng.randrange(8) == 0 else 1
    hit = sorted(rng.sample(range(first, pages), min(pages - 1, rng.choice((1, 2, 8)))))
    for page in hit:
        start = page * size
        if how == "zeros":
            data[start : start + size] = bytes(size)
        elif how == "noise":
            data[start : start + size] = rng.randbytes(size)
        elif how == "another page":
            other = rng.randrange(pages) * size
            data[start : start + size] = data[other : other + size]
        elif how == "some bytes":
            for _ in range(8):
                data[start + rng.randrange(size)] = rng.randrange(256)
    if how == "cut off":
        del data[hit[0] * size + rng.choice((0, size // 3)) :]
    path.write_bytes(data)
    return f"seed {seed}: {how} at page {', '.join(str(page + 1) for page in hit)} of {pages}"


class Ran(NamedTuple):
    """What a command did; `crash` is the traceback that a user would see."""

    code: int | None
    out: str
    err: str
    crash: str


def run(*arguments: object) -> Ran:
    """Run a command in this process."""
    code, crash = None, ""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["chimera", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except BaseException:
        crash = traceback.format_exc()
    finally:
        sys.argv = before
    return Ran(code, out.getvalue(), err.getvalue(), crash)


def readers(study: Path) -> dict[str, tuple[object, ...]]:
    """The commands that read a study, by name; what they write lies outside of it or is derived."""
    folder = study.parent
    paper = folder / "paper.md"
    if not paper.exists():
        paper.write_text("A paper without numbers.\n", encoding="utf-8")
    return {
        "verify": ("verify", study),
        "audit": ("audit", study),
        "export": ("export", study, "--format", "csv", "--out", folder / "tables"),
        "conversations": ("export", study, "--out", folder / "lines"),
        "bundle": ("export", study, "--format", "bundle", "--out", folder / "bundle"),
        "show": ("show", study),
        "detect": ("detect", study),
        "analyse": ("analyse", study),
        "compare": ("compare", study, study),
        "claims": ("claims", paper, "--study", study),
        "report": ("report", study),
    }


def read_all(study: Path, names: tuple[str, ...] = ()) -> dict[str, Ran]:
    """Run the commands of these names, or all of them."""
    commands = readers(study)
    return {name: run(*commands[name]) for name in names or commands}


def complaints(results: Mapping[str, Ran]) -> list[str]:
    """What a user must never see: a traceback, another exit code, a silent refusal."""
    found = []
    for name, ran in results.items():
        if ran.crash:
            found.append(f"{name}: {ran.crash}")
        elif ran.code not in (0, 1, 2):
            found.append(f"{name}: exit code {ran.code}")
        elif ran.code == 2 and not ran.err.strip():
            found.append(f"{name}: refused without a sentence")
    return found
