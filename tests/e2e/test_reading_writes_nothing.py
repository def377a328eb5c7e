"""Commands that only read leave every file of a study as it was, whatever state it is in."""

import hashlib
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from chimeralab.core import schema as schema_module
from chimeralab.core.schema import SCHEMA
from chimeralab.rating.invitations import RatingService
from chimeralab.study import Store, Study
from chimeralab.study import database as database_module
from chimeralab.web.app import Site, application
from chimeralab.web.safety import AllowedHosts, SecurityMiddleware, owner_auth
from tests.plans import PEOPLE_RATED, SMALL_TRIAL
from tests.studies import DETECTED, RUN, MakeStudy

Chimera = Callable[..., Any]
READERS = (
    "verify", "verify --quick", "show", "show --id", "check", "compare", "claims",
    "export --format csv", "export --format jsonl", "export --format preregistration",
    "export --format bundle",
)  # fmt: skip
TOKEN, PORT = "the-token-of-the-owner", 8472
STUDY_PAGES = (
    "/", "/study/1", "/study/1/talk/looping/p1/1", "/study/1/raters", "/study/1/reliability",
    "/study/1/report", "/study/1/export/ratings.csv", "/rate",
)  # fmt: skip
LONG_ENOUGH = ("turns = 4", "turns = 6")


def words(command: str, study: Path) -> list[str]:
    """A command about a study; what it writes goes next to the study."""
    name, *options = command.split()
    outside = study.parent
    match name:
        case "show" if options:
            talk = Study(study).talks[0].id
            return [name, str(study), "--id", talk, "--out", str(outside / "page.html")]
        case "export":
            return [name, str(study), *options, "--out", str(outside / f"out-{options[-1]}")]
        case "compare":
            return [name, str(study), str(study)]
        case "claims":
            paper = outside / "paper.md"
            paper.write_text("No numbers.\n", encoding="utf-8")
            return [name, str(paper), "--study", str(study)]
    return [name, str(study), *options]


def hashes(study: Path) -> dict[str, str]:
    """The hash of every file, without those that SQLite keeps next to an open database."""
    return {
        str(path.relative_to(study)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(study.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


@contextmanager
def unchanged(study: Path) -> Iterator[None]:
    before = hashes(study)
    yield
    assert hashes(study) == before


def leave_wal(study: Path) -> None:
    """Leave the last records in the WAL, and the part of a file, as a kill does."""
    with closing(sqlite3.connect(study / "study.db", isolation_level=None)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TABLE later (id)")
        db.execute("DROP TABLE later")
        for name in ("study.db", "study.db-wal"):
            shutil.copy(study / name, study.parent / name)
    for name in ("study.db", "study.db-wal"):
        shutil.move(study.parent / name, study / name)
    assert (study / "study.db-wal").stat().st_size
    machine = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    (study / f".plan.lock.{machine}-999999999.part").touch()


def forget_verdicts(study: Path) -> None:
    with closing(sqlite3.connect(study / "study.db")) as db, db:
        db.execute("DELETE FROM detections WHERE trajectory LIKE '%/1'")


STATES: dict[str, Callable[[Path], None]] = {
    "finished": lambda study: None,
    "killed": leave_wal,
    "not judged": forget_verdicts,
}


@pytest.fixture
def release_later_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, the code is that of a later version, whose migration adds a table."""

    def release() -> None:
        later = (*database_module.MIGRATIONS, "CREATE TABLE later (id INTEGER PRIMARY KEY)")
        monkeypatch.setattr(database_module, "MIGRATIONS", later)
        for module in (database_module, schema_module):
            monkeypatch.setattr(module, "SCHEMA", SCHEMA + 1)

    return release


@pytest.mark.parametrize("command", READERS)
def test_reading_command_leaves_a_study_as_it_was(
    chimera: Chimera, make_study: MakeStudy, command: str
) -> None:
    for state, bring_about in STATES.items():
        study = make_study(PEOPLE_RATED, LONG_ENOUGH, steps=DETECTED, name=f"{state}/study").path
        bring_about(study)
        with unchanged(study):
            ran = chimera(*words(command, study))
        # Verdicts were deleted: a finding, and no bundle.
        lacking = {"verify": 1, "verify --quick": 1, "export --format bundle": 2}
        code = lacking.get(command, 0) if state == "not judged" else 0
        assert ran.code == code, (state, ran.err)


@pytest.mark.parametrize("command", READERS)
def test_reading_command_leaves_a_trial_as_it_was(
    chimera: Chimera, make_study: MakeStudy, command: str
) -> None:
    study = make_study(SMALL_TRIAL, steps=RUN).path
    with unchanged(study):
        assert chimera(*words(command, study)).code == 0


@pytest.mark.parametrize("command", READERS)
def test_reading_command_does_not_migrate_an_older_study(
    chimera: Chimera,
    make_study: MakeStudy,
    release_later_version: Callable[[], None],
    command: str,
) -> None:
    study = make_study(PEOPLE_RATED, LONG_ENOUGH, steps=DETECTED).path
    (study / "plan.lock").unlink()
    release_later_version()
    with unchanged(study):
        ran = chimera(*words(command, study))
    if command != "check":  # which reads the plan alone
        assert f"schema {SCHEMA} and this chimera-lab reads {SCHEMA + 1}" in ran.out + ran.err


# Run a command without the privileges of root, for whom the mode of a folder does not count.
AS_ANYBODY = """
import ctypes, os, sys
for capability in (1, 2):  # writing and reading anywhere
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # drop it from the bounding set
os.execvp(sys.argv[1], sys.argv[1:])
"""


def run_as_anybody(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", AS_ANYBODY, *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="drops the privileges of Linux")
@pytest.mark.parametrize("state", ["finished", "killed"])
def test_study_in_a_read_only_folder_is_read_or_refused(make_study: MakeStudy, state: str) -> None:
    study = make_study(SMALL_TRIAL, steps=RUN).path
    for name in ("study.db-wal", "study.db-shm"):
        (study / name).unlink(missing_ok=True)
    STATES[state](study)
    study.chmod(0o555)
    before = sorted(study.iterdir())
    try:
        assert run_as_anybody("touch", study / "new").returncode  # it is read-only indeed
        with unchanged(study):
            for command in ("verify --quick", "export --format csv"):
                ran = run_as_anybody(sys.executable, "-m", "chimeralab", *words(command, study))
                if state == "finished":
                    assert ran.returncode == 0, ran.stderr
                else:
                    assert "which a database with a WAL needs" in ran.stdout + ran.stderr
                    assert "Traceback" not in ran.stderr
        assert sorted(study.iterdir()) == before
    finally:
        study.chmod(0o755)


def visit(study: Path, token: str, *pages: str) -> list[int]:
    """Open pages of the app in turn, and give the status of each."""
    site = Site([str(study)])
    hosts = AllowedHosts("127.0.0.1", PORT)
    app = SecurityMiddleware(application(site), hosts, [owner_auth(TOKEN), *site.authenticators])
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        client.cookies.set(f"chimera-{PORT}", token)
        return [client.get(page).status_code for page in pages]


@pytest.mark.parametrize("state", STATES)
def test_app_writes_nothing_while_nobody_rates_or_runs(make_study: MakeStudy, state: str) -> None:
    study = make_study(PEOPLE_RATED, LONG_ENOUGH, steps=(*DETECTED, "draw")).path
    with RatingService(Study(study)) as service:
        service.invite("ann")
    STATES[state](study)
    with unchanged(study):
        assert set(visit(study, "wrong", *STUDY_PAGES)) == {403}
        assert visit(study, TOKEN, *STUDY_PAGES) == [200] * 7 + [403]


def test_wrong_token_does_not_migrate_an_older_study(
    make_study: MakeStudy, release_later_version: Callable[[], None]
) -> None:
    study = make_study(PEOPLE_RATED, LONG_ENOUGH, steps=(*DETECTED, "draw")).path
    with RatingService(Study(study)) as service:
        token = service.invite("ann")
    release_later_version()
    with unchanged(study):
        assert visit(study, "wrong", "/rate", "/study/1/raters") == [403, 403]
        assert visit(study, TOKEN, "/study/1", "/study/1/raters") == [409, 400]
    assert visit(study, token, "/rate") == [200]  # now somebody rates
    with closing(sqlite3.connect(study / "study.db")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA + 1,)


def test_invited_rater_writes_only_from_the_first_label_on(make_study: MakeStudy) -> None:
    study = make_study(PEOPLE_RATED, LONG_ENOUGH, steps=(*DETECTED, "draw")).path
    with RatingService(Study(study)) as service:
        invitation = service.find_invitation(service.invite("ann"))
    assert invitation is not None
    with unchanged(study), RatingService(Study(study)) as service:
        assert [each.rater for each, *_ in service.progress()] == ["human:ann"]


def test_store_that_is_being_created_is_empty_or_complete(
    tmp_path: Path, release_later_version: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    release_later_version()
    path = tmp_path / "study.db"
    seen: list[str] = []
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        """A writer that is looked at before each of its statements."""

        def execute(self, *given: Any) -> sqlite3.Cursor:
            look()
            return super().execute(*given)

        def executescript(self, script: str, /) -> sqlite3.Cursor:
            look()
            return super().executescript(script)

    def look() -> None:
        if path.exists():
            try:
                database_module.open_to_read(path).close()
                seen.append("complete")
            except database_module.StoreError as error:
                seen.append(str(error))

    def watched(place: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        if place == path:
            options["factory"] = Watched
        return connect(place, *args, **options)

    monkeypatch.setattr(sqlite3, "connect", watched)
    Store(path).close()
    assert seen[-1] == "complete"
    empty = {each for each in seen if "still empty; try again" in each}
    assert {*seen} == {"complete", *empty}
    assert empty


def test_tables_that_appear_between_two_looks_are_not_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.touch()

    class Slow(sqlite3.Connection):
        """A reader whose second look comes when a writer has created the tables."""

        looks = 0

        def execute(self, *given: Any) -> sqlite3.Cursor:
            self.looks += 1
            if self.looks == 2:
                Store(path).close()
            return super().execute(*given)

    with closing(sqlite3.connect(path, factory=Slow)) as reader:
        assert database_module._read_schema(reader, path) == 0
