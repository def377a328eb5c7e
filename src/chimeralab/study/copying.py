"""The records of a study as one file for others: nobody writes to it, and no sealed label is in it.

It is the store itself, chain and all, so that whatever reads a study reads the copy as well.
"""

import json
import sqlite3
from collections.abc import Set as AbstractSet
from contextlib import closing
from pathlib import Path

from chimeralab.study.chain import OBSERVED, row_key
from chimeralab.study.database import COPY_ID, open_to_read, plainly
from chimeralab.study.folder import Study

# Who could compare labels before the gate is decided could choose when to decide it; a packet says
# which conversation is behind an item that people are still rating.
WITHHELD = {"ratings": "trajectory IN (SELECT value FROM json_each(:sealed))", "packets": "true"}
# Who was sent a link, and what they have not handed in, is nobody else's business.
PRIVATE = ("invitations", "drafts")


def sealed_items(study: Study) -> AbstractSet[str]:
    """Conversations whose labels nobody compares yet, as a gate may still be decided on them."""
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
    """Copy the store; says how many rows stay behind because the gate may still be decided."""
    sealed = json.dumps(sorted(sealed_items(study)))
    with (
        plainly(target),
        closing(open_to_read(study.store_path)) as store,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        store.backup(copy)
        # A database that looks for a WAL leaves files beside it whenever it is read.
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
        # What was deleted would still stand in free pages.
        copy.execute("VACUUM")
        return int(copy.execute("SELECT count(*) FROM withheld").fetchone()[0])
