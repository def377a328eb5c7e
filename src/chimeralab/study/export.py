"""Export a study as Parquet, CSV or JSON Lines, and copy its store for a bundle."""

import json
import sqlite3
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from chimeralab.core.files import atomic_file, make_folder
from chimeralab.core.tables import Columns, open_table
from chimeralab.core.verdict_rows import verdict_rows
from chimeralab.detection.verdict import from_json
from chimeralab.readers.plain import dumps
from chimeralab.study.chain import OBSERVED, row_key
from chimeralab.study.database import COPY_ID, explain_errors, open_to_read
from chimeralab.study.folder import Study
from chimeralab.study.store import Archive
from chimeralab.study.verdicts import load_detections

Format = Literal["parquet", "csv", "jsonl"]

LOOPS: Columns = {"steps": int, "looping": bool, "loop_score": float, "loops": str}
TALK: Columns = {
    "trajectory": str,
    "condition": str,
    "prompt": str,
    "bucket": str,
    "repeat": int,
}
TABLES: dict[str, Columns] = {
    "trajectories": {
        **TALK,
        "position": int,
        "prompt_text": str,
        "outcome": str,
        "reason": str,
        "ended": str,
        "turns": int,
        "opening": str,
        "closing": str,
        # The loop detector's results, if the conversation has been judged.
        **LOOPS,
    },
    "turns": {
        **TALK,
        "turn": int,
        "speaker": str,
        "model": str,
        "text": str,
        "finish": str,
        "prompt_tokens": int,
        "completion_tokens": int,
        "cost": float,
        "seconds": float,
        "temperature": float,
        "seed": int,
        "reported_model": str,
        "declared_revision": str,
        "revision_verified": bool,
        "hash": str,
    },
    "attempts": {
        "id": int,
        "run": int,
        **TALK,
        "turn": int,
        "probe": str,
        "model": str,
        "outcome": str,
        "reason": str,
        "rejected_text": str,
        "seed": int,
        "temperature": float,
        "top_p": float,
        "max_tokens": int,
        "started": str,
        "ended": str,
        "prompt_tokens": int,
        "completion_tokens": int,
        "reported_model": str,
        "cost": float,
        "seconds": float,
    },
    "events": {**TALK, "turn": int, "kind": str, "detail": str, "at": str},
    # The columns that `chimera audit` reads, and more about each label.
    "ratings": {
        "item": str,
        "rater": str,
        "label": int,
        # Adjudications are added to the labels, never put in their place.
        "adjudicated": int,
        "reason": str,
        "stratum": str,
        "cluster": str,
        "turns": str,
        "step": str,
        "kinds": str,
        "attempts": str,
        "identity": str,
        "at": str,
    },
    "runs": {
        "id": int,
        "pid": int,
        "host": str,
        "version": str,
        "lock": str,
        "settings": str,
        "started": str,
        "ended": str,
        "reason": str,
    },
}
_QUERIES = {
    "trajectories": "SELECT *, id AS trajectory FROM trajectories ORDER BY position",
    "turns": (
        "SELECT c.condition, c.prompt, c.bucket, c.repeat, a.*, t.* FROM turns t "
        "JOIN trajectories c ON c.id = t.trajectory JOIN attempts a ON a.id = t.attempt "
        "ORDER BY c.position, t.turn"
    ),
    "attempts": (
        "SELECT c.condition, c.prompt, c.bucket, c.repeat, a.* FROM attempts a "
        "JOIN trajectories c ON c.id = a.trajectory ORDER BY a.id"
    ),
    "events": (
        "SELECT c.condition, c.prompt, c.bucket, c.repeat, e.* FROM events e "
        "JOIN trajectories c ON c.id = e.trajectory ORDER BY e.id"
    ),
    "ratings": (
        "SELECT r.trajectory AS item, w.name AS rater, r.label, r.reason, c.condition AS stratum, "
        "c.prompt AS cluster, r.turns, r.step, r.kinds, r.attempts, w.identity, r.at "
        "FROM ratings r JOIN raters w ON w.id = r.rater "
        "JOIN trajectories c ON c.id = r.trajectory ORDER BY w.name, c.position"
    ),
    "runs": "SELECT * FROM runs ORDER BY id",
}


def export_study(study: Study, kind: Format, folder: Path) -> tuple[Path, ...]:
    """Write the records into a folder, each file atomically.

    JSON Lines has one conversation per line, in the plain format that `chimera detect` reads.
    """
    make_folder(folder)
    outcomes = folder / f"outcomes.{kind}"
    with open_table(outcomes, study.plan.kind.outcome_columns()) as write:
        for row in study.plan.kind.outcomes(study):
            write(row)
    if kind == "jsonl":
        conversations = folder / "trajectories.jsonl"
        write_conversations(study, conversations)
        return (conversations, outcomes)
    judged = {}
    for row in load_detections(study):
        [cells] = verdict_rows(replace(from_json(row), trace=None))
        judged[row["id"]] = {name: cells[name] for name in LOOPS}
    tables = (*TABLES, *study.plan.kind.export_tables())
    with study.archive() as archive:
        written = [
            _write_table(archive, study, judged, folder / f"{name}.{kind}") for name in tables
        ]
    return (*written, outcomes)


def write_ratings(study: Study, folder: Path) -> Path:
    """Write the labels of all raters, with adjudications, to `ratings.csv`."""
    with study.archive() as archive:
        return _write_table(archive, study, {}, folder / "ratings.csv")


def write_conversations(study: Study, path: Path) -> None:
    """Write conversations in the plain format, one per line."""
    with atomic_file(path) as part, part.open("w", encoding="utf-8") as file:
        for trajectory in study.trajectories():
            print(dumps(trajectory), file=file)


def _write_table(
    archive: Archive, study: Study, judged: Mapping[str, Mapping[str, Any]], path: Path
) -> Path:
    own = study.plan.kind.export_tables()
    columns, query = own.get(path.stem) or (TABLES[path.stem], _QUERIES[path.stem])
    # Seeing the labels of a gate before it is decided would let one choose when to decide it.
    sealed = find_sealed_items(study) if path.stem == "ratings" else ()
    adjudicated = load_adjudications(archive) if path.stem == "ratings" else {}
    # SQLite stores booleans as 0 and 1.
    flags = [name for name, kind in columns.items() if kind is bool]
    with open_table(path, columns) as write:
        for row in archive.rows(query):
            if path.stem == "ratings":
                if row["item"] in sealed:
                    continue
                row["adjudicated"] = adjudicated.get(row["item"])
            subject = study.plan.models.get(row.get("model", ""))
            if subject and subject.revision:
                # No server lets us verify a declared revision.
                row |= {"declared_revision": subject.revision, "revision_verified": False}
            if path.stem == "trajectories":
                row.update(judged.get(row["id"], {}))
            for name in flags:
                if row.get(name) is not None:
                    flag = bool(row[name])
                    row[name] = str(flag).lower() if path.suffix == ".csv" else flag
            write(row)
    return path


def load_adjudications(archive: Archive) -> dict[str, Literal[0, 1] | None]:
    """The adjudicated labels, by conversation."""
    rows = archive.rows("SELECT trajectory, label FROM adjudications ORDER BY at")
    return {row["trajectory"]: row["label"] for row in rows}


# Rows that a bundle withholds while the gate is undecided. Packets reveal which conversation is
# behind an item that people are still rating.
WITHHELD = {"ratings": "trajectory IN (SELECT value FROM json_each(:sealed))", "packets": "true"}
# Invitations and unsubmitted drafts are private.
PRIVATE = ("invitations", "drafts")


def find_sealed_items(study: Study) -> AbstractSet[str]:
    """The conversations on which a gate may still be decided."""
    gate = study.plan.extras["gate"]
    with study.archive() as archive:
        samples = list(archive.rows("SELECT kind, sample, used, passed FROM samples"))
    made = [row for row in samples if row["kind"] == "gate" and row["used"]]
    if not gate.declared or len(made) >= gate.attempts or any(row["passed"] for row in made):
        return frozenset()
    unsealed = {
        item["id"]
        for row in samples
        if row["kind"] != "gate" or row["used"]
        for item in json.loads(row["sample"])["items"]
    }
    return {talk.id for talk in study.talks} - unsealed


def copy_records(study: Study, target: Path) -> int:
    """Copy the store, and return the number of rows withheld for an undecided gate."""
    sealed = json.dumps(sorted(find_sealed_items(study)))
    with (
        explain_errors(target),
        closing(open_to_read(study.store_path)) as store,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        store.backup(copy)
        # In WAL mode, reading would create files next to the copy.
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.create_function("chain_key", -1, row_key, deterministic=True)
        copy.execute("CREATE TABLE withheld (kind TEXT NOT NULL, key TEXT NOT NULL)")
        for table, condition in WITHHELD.items() if sealed != "[]" else ():
            keys = ", ".join(OBSERVED[table])
            copy.execute(
                f"INSERT INTO withheld SELECT '{table}', chain_key({keys}) FROM {table} "  # noqa: S608
                f"WHERE {condition} ORDER BY {keys}",
                {"sealed": sealed},
            )
            copy.execute(f"DELETE FROM {table} WHERE {condition}", {"sealed": sealed})  # noqa: S608
        for table in PRIVATE:
            copy.execute(f"DROP TABLE IF EXISTS {table}")
        copy.execute(f"PRAGMA application_id = {COPY_ID}")
        # Deleted rows would remain in free pages.
        copy.execute("VACUUM")
        return int(copy.execute("SELECT count(*) FROM withheld").fetchone()[0])
