"""Export a study as Parquet, CSV or JSON Lines, and copy its store for a bundle."""

import json
import sqlite3
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from chimeralab.core.files import atomic_file, make_folder, write_text
from chimeralab.core.tables import Columns, open_table
from chimeralab.core.verdict_rows import verdict_rows
from chimeralab.readers.plain import dumps
from chimeralab.study import database
from chimeralab.study.chain import OBSERVED, row_key
from chimeralab.study.database import COPY_ID, explain_errors, name_cell, open_to_read
from chimeralab.study.folder import Study
from chimeralab.study.store import SECRET, Archive
from chimeralab.study.subjects import load_revisions
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
        # Counted from 1; the reason names them from `first_turn` on, as the rubric labels them.
        "turns": str,
        "first_turn": str,
        "step": str,
        "kinds": str,
        "attempts": str,
        "identity": str,
        "at": str,
    },
    # Which item was behind each sheet of a packet, and what its order was drawn with.
    "sheets": {
        "packet": str,
        "sheet": str,
        "item": str,
        "duplicate": bool,
        "purpose": str,
        "secret": str,
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
    "revisions": {
        "model": str,
        "run": int,
        "at": str,
        "declared_revision": str,
        "source": str,
        "told_revision": str,
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
        "c.prompt AS cluster, r.turns, json_extract(w.identity, '$.first_turn') AS first_turn, "
        "r.step, r.kinds, r.attempts, w.identity, r.at "
        "FROM ratings r JOIN raters w ON w.id = r.rater "
        "JOIN trajectories c ON c.id = r.trajectory ORDER BY w.name, c.position"
    ),
    "sheets": (
        "SELECT p.name AS packet, json_extract(e.value, '$.sheet') AS sheet, "
        "json_extract(e.value, '$.item') AS item, "
        "json_extract(e.value, '$.duplicate') AS duplicate, "
        "json_extract(p.packet, '$.purpose') AS purpose, s.value AS secret "
        "FROM packets p, json_each(p.packet, '$.entries') e LEFT JOIN study s "
        "ON s.key = 'secret' ORDER BY p.made, p.name, e.key"
    ),
    "runs": "SELECT * FROM runs ORDER BY id",
    # What a model told at one time replaces what it told before.
    "revisions": (
        "SELECT json_extract(s.value, '$.model') AS model, json_extract(s.value, '$.run') AS run, "
        "json_extract(s.value, '$.at') AS at, t.key AS source, t.value AS told_revision "
        "FROM study s LEFT JOIN json_each(s.value, '$.told') t "
        "WHERE s.key GLOB 'revision *' ORDER BY s.key, t.key"
    ),
}


def export_study(study: Study, kind: Format, folder: Path) -> tuple[Path, ...]:
    """Write the records into a folder, each file atomically.

    JSON Lines has one conversation per line, in the plain format that `chimera detect` reads.
    """
    make_folder(folder)
    own = study.plan.kind.export_tables()
    outcomes = folder / f"outcomes.{kind}"
    with open_table(outcomes, study.plan.kind.outcome_columns()) as write:
        for row in study.plan.kind.outcomes(study):
            write(row)
    judged: dict[str, dict[str, Any]] = {}
    if kind == "jsonl":
        conversations = folder / "trajectories.jsonl"
        write_conversations(study, conversations)
        with study.archive() as archive:
            written = [_write_table(archive, study, judged, folder / f"{n}.jsonl") for n in own]
        return (conversations, *written, outcomes)
    for detection in load_detections(study):
        [cells] = verdict_rows(replace(detection, trace=None))
        judged[detection.id] = {name: cells[name] for name in LOOPS}
    with study.archive() as archive:
        written = [
            _write_table(archive, study, judged, folder / f"{name}.{kind}")
            for name in (*TABLES, *own)
        ]
    return (*written, outcomes)


def copy_plan(study: Study, folder: Path) -> tuple[Path, ...]:
    """Copy the plan and its lock to tables that can't be analysed without them."""
    found = [path for path in (study.plan_path, study.lock_path) if path.is_file()]
    copies = [folder / path.name for path in found if study.plan.kind.export_tables()]
    for path, copy in zip(found, copies, strict=False):
        if path.resolve() != copy.resolve():
            write_text(copy, path.read_text(encoding="utf-8"))
    return tuple(copies)


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
    # Seeing the labels of a gate before it is decided would let one choose when to decide it, and
    # the sheets would tell raters what they are rating.
    sealed = find_sealed_items(study) if path.stem in ("ratings", "sheets") else ()
    adjudicated = load_adjudications(archive) if path.stem == "ratings" else {}
    revisions = load_revisions(study.plan, archive)
    # SQLite stores booleans as 0 and 1.
    flags = [name for name, kind in columns.items() if kind is bool]
    with open_table(path, columns) as write:
        for row in archive.rows(query):
            if sealed and (path.stem == "sheets" or row["item"] in sealed):
                continue
            if path.stem == "ratings":
                row["adjudicated"] = adjudicated.get(row["item"])
            subject = study.plan.models.get(row.get("model", ""))
            if subject and subject.revision:
                is_verified = revisions[row["model"]].state == "verified"
                row |= {"declared_revision": subject.revision, "revision_verified": is_verified}
            if path.stem == "trajectories":
                row.update(judged.get(row["id"], {}))
            for name in flags:
                if row.get(name) is not None:
                    flag = bool(row[name])
                    row[name] = str(flag).lower() if path.suffix == ".csv" else flag
            write({name: row.get(name) for name in columns})
    return path


def load_adjudications(archive: Archive) -> dict[str, Literal[0, 1] | None]:
    """The adjudicated labels, by conversation."""
    rows = archive.rows("SELECT trajectory, label FROM adjudications ORDER BY at")
    return {row["trajectory"]: row["label"] for row in rows}


# Rows that a bundle withholds while the gate is undecided. Packets, and the secret that they are
# drawn with, reveal which conversation is behind an item that people are still rating.
WITHHELD = {
    "ratings": "trajectory IN (SELECT value FROM json_each(:sealed))",
    "packets": "true",
    "study": f"key = '{SECRET}'",
}


def find_sealed_items(study: Study) -> AbstractSet[str]:
    """The conversations on which a gate may still be decided."""
    gate = study.plan.extras["gate"]
    with study.archive() as archive:
        samples = list(archive.rows("SELECT name, kind, sample, used, passed FROM samples"))
    made = [row for row in samples if row["kind"] == "gate" and row["used"]]
    if not gate.declared or len(made) >= gate.attempts or any(row["passed"] for row in made):
        return frozenset()
    unsealed = set()
    for row in samples:
        if row["kind"] != "gate" or row["used"]:
            with name_cell("samples", row, "sample"):
                unsealed |= {item["id"] for item in json.loads(row["sample"])["items"]}
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
        copy.execute(database.WITHHELD)
        for table, condition in WITHHELD.items() if sealed != "[]" else ():
            keys = ", ".join(OBSERVED[table])
            copy.execute(
                f"INSERT INTO withheld SELECT '{table}', chain_key({keys}) FROM {table} "  # noqa: S608
                f"WHERE {condition} ORDER BY {keys}",
                {"sealed": sealed},
            )
            copy.execute(f"DELETE FROM {table} WHERE {condition}", {"sealed": sealed})  # noqa: S608
        for table in database.PRIVATE:
            copy.execute(f"DROP TABLE IF EXISTS {table}")
        copy.execute(f"PRAGMA application_id = {COPY_ID}")
        # Deleted rows would remain in free pages.
        copy.execute("VACUUM")
        query = "SELECT count(*) FROM withheld WHERE kind != 'study'"
        return int(copy.execute(query).fetchone()[0])
