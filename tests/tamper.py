"""A hundred ways to tamper with a study or its bundle, each of which `verify` names.

A few can't be found from inside the folder: these name a sentence of the documented list in
`docs/studies.md`, and some of them are found with an earlier root hash (`--expect`).
"""

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from chimeralab.bundle import write_bundle
from chimeralab.bundle.documents import CRATE, crate, readme
from chimeralab.bundle.manifest import is_bundle, write_manifest
from chimeralab.rating.study_audit import audit_study
from chimeralab.report.files import write_report
from chimeralab.study import Study
from chimeralab.study.chain import OBSERVED, next_head, row_hash, row_key
from chimeralab.study.database import MANIFEST, tally_path, update_tally
from chimeralab.study.lock import digest, make_lock, write_lock
from chimeralab.study.steps import hash_files, lock_step
from tests.damage import RATED_BY_PEOPLE, full_selfplay, run
from tests.plans import trial
from tests.studies import RUN, StudyCache

PAGE = Path(__file__).parents[1] / "docs" / "studies.md"
Apply = Callable[[Path], object]
COUNTING = '''
"""A measure of one's own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hasty:
    says = "hasty answers"

    def tally(self, rows):
        return len(rows) // 2, len(rows)
'''


class Way(NamedTuple):
    """A way to tamper with a copy of a target.

    `named` is part of the finding; or `listed` part of the documented list, and then `witness`
    says whether an earlier root hash reveals it. A `quick` verification skips vectors and report.
    """

    name: str
    target: str
    apply: Apply
    named: str = ""
    listed: str = ""
    witness: bool = False
    quick: bool = True


def make_targets(cache: StudyCache) -> dict[str, Path]:
    """A study with a gate and a report, an older copy, its bundle, and a trial with own code."""

    def make(folder: Path) -> None:
        study = Study(full_selfplay(cache, folder / "study"))
        audit_study(study)
        write_report(study)
        write_bundle(study, folder / "bundle")
        cache.copy(folder / "older", RATED_BY_PEOPLE, steps=(*RUN, "detect", "draw"))
        files = trial(design='each = ["amnesia", "conformity"]', number=2) | {"mine.py": COUNTING}
        own = '\n[measures.hasty]\nuse = "mine:Hasty"\n'
        files["plan.toml"] += own
        write_report(cache.copy(folder / "trial", files, steps=RUN))
        for path in folder.iterdir():
            found = verify(path)["findings"]
            assert found == [], f"{path.name} before any attack: {found}"

    folder = cache.once("tamper", make)
    return {name: folder / name for name in ("study", "bundle", "trial", "older")}


def verify(folder: Path, *options: str) -> dict[str, list[dict[str, str]]]:
    """What `chimera verify` finds; its exit code has to fit."""
    ran = run("verify", folder, "--json", *options)
    assert not ran.crash, ran.crash
    found: dict[str, list[dict[str, str]]] = json.loads(ran.out)
    assert ran.code == (1 if found["findings"] else 0), f"exit code {ran.code}"
    return found


def find_problem(way: Way, copy: Path, original: Path) -> str | None:
    """Say what is wrong with how `verify` reacts to a study that was tampered with."""
    options = ["--quick"] if way.quick else []
    said = [f"{each['place']}: {each['problem']}" for each in verify(copy, *options)["findings"]]
    if way.named:
        return None if any(way.named in each for each in said) else f"not named, but: {said}"
    listed = PAGE.read_text(encoding="utf-8").partition("### What `verify` can't see")[2]
    if way.listed not in " ".join(listed.partition("\n## ")[0].split()):
        return f"{way.listed!r} is not on the documented list"
    if said:
        return f"it is on the documented list, but found: {said}"
    latest = original.with_name("study") if way.target == "older" else original
    root = verify(latest, "--quick")["root"]
    found = verify(copy, "--quick", "--expect", str(root))["findings"]
    return None if bool(found) == way.witness else f"with an earlier root hash: {found}"


# What is done to a copy.


def sql(*statements: str) -> Apply:
    def apply(copy: Path) -> None:
        with closing(sqlite3.connect(copy / "study.db", isolation_level=None)) as db:
            changes = db.total_changes
            schema = db.execute("SELECT group_concat(sql) FROM sqlite_master").fetchone()
            for statement in statements:
                db.execute(statement)
            after = db.execute("SELECT group_concat(sql) FROM sqlite_master").fetchone()
            assert db.total_changes > changes or schema != after, "nothing was changed"

    return apply


def edit(name: str, old: str = "", new: str = " ") -> Apply:
    """Replace a text of a file once, or add to its end."""

    def apply(copy: Path) -> None:
        data = (copy / name).read_bytes()
        assert old.encode() in data, f"{name} has no {old!r}"
        changed = data.replace(old.encode(), new.encode(), 1) if old else data + new.encode()
        (copy / name).write_bytes(changed)

    return apply


def remove(name: str) -> Apply:
    def apply(copy: Path) -> None:
        path = copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return apply


def add(name: str, text: str = "{}\n") -> Apply:
    def apply(copy: Path) -> None:
        assert not (copy / name).exists()
        (copy / name).write_text(text, encoding="utf-8")

    return apply


def after(*steps: Apply) -> Apply:
    """One after the other; of a bundle the manifest is written again at the end."""

    def apply(copy: Path) -> None:
        for step in steps:
            step(copy)
        if is_bundle(copy):
            write_manifest(copy)

    return apply


def rewrite_chain(copy: Path) -> None:
    """Let the chain have a record for each row that there is, with heads to match."""
    with closing(sqlite3.connect(copy / "study.db", isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        rows = {
            (table, row_key(*(row[name] for name in keys))): row_hash(
                *(cell for name in row.keys() for cell in (name, row[name]))  # noqa: SIM118
            )
            for table, keys in OBSERVED.items()
            for row in db.execute(f"SELECT * FROM {table}")
        }
        records = db.execute("SELECT id, kind, change, key, row FROM chain ORDER BY id").fetchall()
        last = {(each["kind"], each["key"]): each["id"] for each in records}
        head, number = b"", 0
        db.execute("DELETE FROM chain")
        for old, kind, change, key, row in map(tuple, records):
            if (kind, key) in rows:
                number += 1
                row_now = rows[kind, key] if last[kind, key] == old else row
                head = next_head(head, kind, change, key, row_now)
                db.execute(
                    "INSERT INTO chain VALUES (?, ?, ?, ?, ?, ?)",
                    (number, kind, change, key, row_now, head),
                )


def rewrite_count(copy: Path) -> None:
    tally_path(copy / "study.db").unlink()
    with closing(sqlite3.connect(copy / "study.db")) as db:
        update_tally(db, copy / "study.db")


def rewrite_locks(copy: Path) -> None:
    for path in (copy / "steps").iterdir():
        lock_step(Study(copy), path.stem, hash_files(copy, path.stem))


def rewrite_documents(copy: Path) -> None:
    """Write the documents of a bundle that list its files again."""
    (copy / "README.md").write_text(readme(Study(copy)), encoding="utf-8")
    (copy / CRATE).write_text(crate(Study(copy)), encoding="utf-8")


def lock_again(copy: Path) -> None:
    """Lock the plan as it is now, as if nothing had been locked before."""
    write_lock(copy / "plan.lock", make_lock(Study(copy).plan))


def edit_lock(name: str, **values: object) -> Apply:
    """Change values in a lock, and its hash with them."""

    def apply(copy: Path) -> None:
        found = json.loads((copy / name).read_text(encoding="utf-8"))
        del found["sha256"]
        found |= values
        text = json.dumps({**found, "sha256": digest(found)})
        (copy / name).write_text(text, encoding="utf-8")

    return apply


def count(records: int) -> Apply:
    def apply(copy: Path) -> None:
        text = (copy / "study.count").read_text(encoding="ascii")
        length, head = text.split()
        (copy / "study.count").write_text(f"{int(length) + records:<20}{head}\n", encoding="ascii")

    return apply


# Undoing the gate: its labels, the sample's use, and the records of both.
UNDO = sql(
    "DROP TRIGGER a_gate_sample_is_used_once",
    "UPDATE samples SET used = NULL, labels_sha256 = NULL, passed = NULL",
    "DELETE FROM adjudications",
    "DELETE FROM ratings",
    "DELETE FROM chain WHERE id >= (SELECT min(id) FROM chain WHERE kind = 'ratings')",
)
TRIGGER = (
    "CREATE TRIGGER a_gate_sample_is_used_once BEFORE UPDATE ON samples\n"
    "WHEN old.used IS NOT NULL OR new.kind != old.kind OR new.sample != old.sample\n"
    "BEGIN SELECT RAISE(ABORT, 'a gate sample is used once'); END"
)
FORGET = "DELETE FROM attempts WHERE outcome = 'answered' AND id = (SELECT max(id) FROM attempts)"
FIRST = "rowid = 1"
# For each table: the target, the cell that is edited, and a row that is added.
ROWS: dict[str, tuple[str, str, str]] = {
    "study": ("study", "value = 'x' WHERE key = 'secret'", "'note', 'x'"),
    "runs": ("study", "version = '9.0'", "9, 1, 'h', '1', NULL, '{}', '2020-01-01T00:00', '', ''"),
    "trajectories": (
        "study",
        "outcome = 'refusal' WHERE position = 1",
        "'free/p9/1', 99, 'free', 'p9', '', '', 1, '', NULL, NULL, NULL, NULL, NULL",
    ),
    "attempts": (
        "study",
        "cost = 9.5 WHERE id = 1",
        "NULL, 1, 'free/p1/1', 1, 'free', 1, 1.0, 1.0, 1, '', '', 'refusal', '', '', 1, 1, '', "
        "1.0, 1.0, '', 1.0",
    ),
    "charges": ("study", "", "1, 'free', 'check', 1.0, '2020-01-01T00:00'"),
    "turns": (
        "study",
        "text = 'Forged.' WHERE trajectory = 'free/p1/1' AND turn = 2",
        "'free/p1/1', 7, 'free-1', 'free', 'More.', 'stop', 999, ''",
    ),
    "probes": ("trial", "text = '1'", "'x', 1, 'p', 'text', 999, NULL"),
    "events": ("study", "turn = 3", "NULL, 'free/p1/1', 2, 'intervention', '{}', ''"),
    "detections": (
        "study",
        "detection = json_set(detection, '$.collapsed_turns', 0)",
        f"'free/p1/1', '{'0' * 64}', '{{}}', '2020-01-01T00:00'",
    ),
    "trials": ("trial", "correct = 1 WHERE correct = 0", ""),
    "raters": ("study", "name = 'human:zoe' WHERE name = 'human:ann'", "'x', 'human:zoe', '{}'"),
    "ratings": (
        "study",
        "label = 1 - label",
        "'free/p1/1', 'x', 1, '', '[]', NULL, '[]', '[]', '[]', '', ''",
    ),
    "samples": ("study", "", "'gate-9', 'gate', '{}', '{}', '', NULL, NULL, NULL"),
    "packets": ("study", "made = '2020-01-01T00:00'", "'x', '{}', '2020-01-01T00:00'"),
    "adjudications": ("study", "label = 1 - label", "'free/p1/1', 'x', 1, '', '[]', 'x', ''"),
}


def list_rows() -> Iterator[Way]:
    """Rows of each table that are edited, deleted and added from outside."""
    for table, (target, cell, row) in ROWS.items():
        if cell:
            ways = sql(f"UPDATE {table} SET {cell}")
            yield Way(f"edit {table}", target, ways, "not as recorded: changed from outside")
            ways = sql(f"DELETE FROM {table}")
            yield Way(f"delete {table}", target, ways, "no longer in the store: deleted")
        if row:
            ways = sql(f"INSERT INTO {table} VALUES ({row})")
            yield Way(f"add to {table}", target, ways, "added from outside")
    counts = sql("DELETE FROM detections")
    yield Way("delete counts", "trial", counts, "no longer in the store: deleted")
    other = "(SELECT o.text FROM turns o WHERE o.trajectory = turns.trajectory AND o.turn = 3)"
    swap = sql(f"UPDATE turns SET text = {other} WHERE turn = 2")
    yield Way("double a turn", "study", swap, "turn 2 is not the one that was stored")
    yield Way("remove the database", "study", remove("study.db"), "study.db: it is missing, but")
    empty = after(remove("study.db"), add("study.db", ""))
    yield Way("empty the database", "study", empty, "is still empty")


def list_chain() -> Iterator[Way]:
    """The chain itself, its length, and rows together with their records."""
    gone = "was locked at"
    once = after(sql(FORGET), rewrite_chain)
    yield Way("drop the chain", "study", sql("DROP TABLE chain"), "its chain was removed")
    yield Way("empty the chain", "study", sql("DELETE FROM chain"), "has none of the")
    yield Way("cut the chain", "study", sql("DELETE FROM chain WHERE id > 90"), "lacks the last")
    for name, statement, named in (
        ("take out a record", "DELETE FROM chain WHERE id = 9", "record 9 is missing"),
        ("edit a record", "UPDATE chain SET row = zeroblob(32) WHERE id = 9", "record 9 ("),
        ("edit a head", "UPDATE chain SET head = zeroblob(32) WHERE id = 9", "record 9 ("),
        ("rename a record", "UPDATE chain SET key = '[\"x\"]' WHERE id = 9", "record 9 ("),
        ("recast a record", "UPDATE chain SET change = 'changed' WHERE id = 9", "record 9 ("),
        (
            "edit the last head",
            "UPDATE chain SET head = zeroblob(32) WHERE id = (SELECT max(id) FROM chain)",
            "was changed",
        ),
    ):
        yield Way(name, "study", sql(statement), named)
    yield Way("undo the gate", "study", UNDO, "lacks the last")
    yield Way("undo the gate and its record", "study", after(UNDO, remove("audit")), gone)
    counted = after(UNDO, sql(TRIGGER), remove("audit"), rewrite_count)
    yield Way("undo the gate and the count", "study", counted, "audit.lock: it was locked at")
    unlocked = after(counted, remove("steps/audit.lock"))
    yield Way("undo the gate and its lock", "study", unlocked, "report.lock: it was locked at")
    without = after(counted, remove("steps"))
    yield Way("undo the gate and all locks", "study", without, "steps/run.lock: it is missing")
    yield Way("rewrite the chain", "study", once, "lacks the last")
    yield Way("rewrite chain and count", "study", after(once, rewrite_count), gone)
    yield Way(
        "continue a chain that was cut",
        "study",
        sql(
            "DELETE FROM chain WHERE id > 91",
            "UPDATE chain SET (kind, change, key, row, head) = "
            "(SELECT kind, change, key, row, head FROM chain WHERE id = 90) WHERE id = 91",
        ),
        "record 91 (",
    )
    yield Way("remove the count", "study", remove("study.count"), "has no study.count")
    yield Way(
        "empty the count",
        "study",
        after(remove("study.count"), add("study.count", "")),
        "has no study.count",
    )
    yield Way("raise the count", "study", count(3), "lacks the last 3 of")
    yield Way(
        "rewrite everything", "trial",
        after(sql("DELETE FROM events", "DELETE FROM trials", "DELETE FROM probes",
                  "DELETE FROM turns", "DELETE FROM attempts", "DELETE FROM detections",
                  "UPDATE trajectories SET outcome = NULL, reason = NULL, ended = NULL, "
                  "turns = NULL, closing = NULL"),
              rewrite_chain, rewrite_count, rewrite_locks),
        listed="a folder that was rewritten as a whole", witness=True,
    )  # fmt: skip
    yield Way("put an older copy back", "older", lambda _: None,
              listed="an older copy that was put back", witness=True)  # fmt: skip


def list_schema() -> Iterator[Way]:
    """What the database does besides holding rows."""
    added, changed = "not part of the schema", "not as the schema declares it"
    lost = "but no longer there"
    dormant = "CREATE TRIGGER dormant AFTER INSERT ON ratings BEGIN DELETE FROM ratings; END"
    for name, statement, named in (
        ("add a trigger", dormant, added),
        ("add a table", "CREATE TABLE notes (text)", added),
        ("add an index", "CREATE INDEX quick ON turns (model)", added),
        ("add a view", "CREATE VIEW shown AS SELECT * FROM turns", added),
        ("add statistics", "ANALYZE", added),
        ("drop a trigger", "DROP TRIGGER a_gate_sample_is_used_once", lost),
        ("drop an index", "DROP INDEX attempts_of_turn", lost),
        ("add a column", "ALTER TABLE ratings ADD COLUMN hint TEXT", changed),
        ("claim to be a copy", f"PRAGMA application_id = {0x63686962}", added),
    ):
        copy = after(
            sql(statement, "CREATE TABLE withheld (kind TEXT NOT NULL, key TEXT NOT NULL)")
        )
        yield Way(name, "study", copy if "copy" in name else sql(statement), named)


def list_plan() -> Iterator[Way]:
    """The plan and its lock."""
    changed, other = "not as locked", "under a different lock than the present plan.lock"
    fewer = edit("plan.toml", "turns = 6", "turns = 5")
    yield Way("edit the plan", "study", fewer, changed)
    yield Way("edit a prompt", "study", edit("plan.toml", "Tell a tale.", "Tell."), changed)
    yield Way("lock again", "study", after(fewer, lock_again), other)
    yield Way("edit the lock", "study", edit("plan.lock", '"turns": 6', '"turns": 5'), "was edited")
    at = edit_lock("plan.lock", locked_at="2020-01-01T00:00:00+00:00")
    yield Way("edit the time of the lock", "study", at, other)
    yield Way("remove the lock", "study", remove("plan.lock"), other)
    code = edit("mine.py", "// 2", "// 3")
    yield Way("edit the code of a measure", "trial", code, "not as locked: outside_code")


def list_files() -> Iterator[Way]:
    """What steps wrote, and their locks."""
    wrote = "it is not the file that `chimera {} wrote"
    report, audit = (wrote.format(f"{step}`") for step in ("report", "audit"))
    for name in ("index.html", "numbers.json", "numbers.tex", "tables/software.csv"):
        yield Way(f"edit report/{name}", "study", edit(f"report/{name}"), report)
    yield Way("edit the page of a trial", "trial", edit("report/index.html", "<title>", "<title>0"),
              report)  # fmt: skip
    table = remove("report/tables/software.csv")
    yield Way("remove a table of the report", "study", table, "it is missing; `chi")
    extra = add("report/tables/new.csv")
    yield Way("add a table to the report", "study", extra, "did not write it")
    yield Way("remove the report", "study", remove("report"), "report/index.html: it is missing")
    yield Way("edit estimates", "study", edit("estimates.json"), "`chimera estimates` wrote")
    passed = edit("audit/gate-record.json", '"verdict": "', '"verdict": "not ')
    yield Way("edit the gate record", "study", passed, "but its labels disagree")
    yield Way("edit the gate's page", "study", edit("audit/gate-record.md"), audit)
    yield Way("edit the validity", "study", edit("audit/validity.json"), audit)
    yield Way("remove the gate record", "study", remove("audit"), "it is missing; `chimera audit`")
    yield Way("edit a step's lock", "study", edit("steps/run.lock", '"records": ', '"records": 1'),
              "run.lock: it was edited")  # fmt: skip
    other = edit_lock("steps/run.lock", head="0" * 64)
    yield Way("edit a step's lock and hash", "study", other, "run.lock: it was locked at")
    yield Way("remove a step's lock", "study", remove("steps/detect.lock"), "it is missing, but")
    yield Way("add a lock", "study", add("steps/rate.lock"), "no step wrote it")
    numbers = after(edit("report/numbers.json"), rewrite_locks)
    listed = "a report, a gate record or estimates that were edited together with"
    yield Way("edit a report with its lock", "study", numbers, listed=listed)
    yield Way("lower the count", "study", count(-3), "does not continue")
    draft = sql("UPDATE drafts SET label = '1'")
    yield Way("edit a draft", "study", draft, listed="invitations and drafts")


def list_bundle() -> Iterator[Way]:
    """A bundle, whose manifest is written again."""
    records = "it does not match the records of the bundle"
    yield Way("edit a file of a bundle", "bundle", edit("codebook.md"), "is not the file in")
    yield Way("edit the manifest", "bundle", edit(MANIFEST, "  codebook", "  notebook"), MANIFEST)
    yield Way("remove a file of a bundle", "bundle", remove("codebook.md"), "but not in the bundle")
    for name in ("tables/outcomes.csv", "tables/turns.csv", "trajectories.jsonl", "README.md",
                 "preregistration.md", "codebook.md", "ro-crate-metadata.json"):  # fmt: skip
        yield Way(f"rehash {name}", "bundle", after(edit(name)), f"{name}: {records}")
    for name in ("index.html", "numbers.json"):
        relocked = after(edit(f"report/{name}"), rewrite_locks)
        named = f"report/{name}: {records}"
        yield Way(f"rehash report/{name}", "bundle", relocked, named, quick=False)
    made = edit("versions.json", '"bundle_made_with": "', '"bundle_made_with": "9.')
    yield Way("claim another version", "bundle", after(made), "are not checked: it says")
    root = edit("versions.json", '"root_hash": "', '"root_hash": "0')
    yield Way("claim another root hash", "bundle", after(root), f"versions.json: {records}")
    gate = after(edit("audit/gate-record.md"))
    yield Way("rehash the gate record", "bundle", gate, "`chimera audit` wrote")
    text = after(sql("UPDATE turns SET text = 'Forged.' WHERE turn = 2"))
    yield Way("rehash the records", "bundle", text, "not as recorded: changed from outside")
    yield Way("remove the manifest", "bundle", remove(MANIFEST), f"{MANIFEST}: it is missing, but")
    for name, change in (("tables/new.csv", add), ("tables/turns.csv", remove)):
        rewritten = after(change(name), rewrite_documents)
        yield Way(f"{change.__name__} {name}", "bundle", rewritten, f"{name}: {records}")
    hide = sql("INSERT INTO withheld SELECT kind, key FROM chain WHERE kind = 'ratings'",
               "DELETE FROM ratings")  # fmt: skip
    yield Way("claim withheld labels", "bundle", after(hide), "no longer in the store: deleted")
    undone = after(UNDO, sql(TRIGGER), remove("audit"), rewrite_documents)
    yield Way("undo the gate of a bundle", "bundle", undone, "audit.lock: it was locked at")
    drawn = after(
        edit("report/index.html", "<svg", "<svg id='new'"), rewrite_locks, rewrite_documents
    )
    yield Way("edit a drawing", "bundle", drawn, listed="drawings in a bundle", quick=False)
    cited = after(edit("CITATION.cff", "TO FILL IN", "Ada"), rewrite_documents)
    yield Way("edit the citation", "bundle", cited, listed="the author's own documents")


ATTACKS = tuple(
    way
    for ways in (list_rows, list_chain, list_schema, list_plan, list_files, list_bundle)
    for way in ways()
)
# One of each group and what is on the documented list, for the normal tests.
SUBSET = tuple(
    number
    for number, way in enumerate(ATTACKS)
    if re.match(
        "edit turns|undo the gate and the|add a trigger|remove the (data|mani)|lock|claim", way.name
    )
    or way.listed
)
