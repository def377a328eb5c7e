"""Bring a study of 0.1.0, which was never released, to the format of today.

What that version did by default stands in the plan then, the plan is locked again, the records are
entered into a new database, which chains them, and the rows of a trial are scored again.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from chimeralab.study import Study
from chimeralab.study.chain import OBSERVED
from chimeralab.study.database import open_to_write
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.session import score

# In the plan of that version, and as the present one says the same.
DEFAULTS = {
    "selfplay": {
        "[outcomes]\n": '[outcomes]\nfamily = "estimand"\n',
        "[gate]\n": '[gate]\nrule = "point"\n',
    },
    "trial": {
        'measures = ["ledger"]\n': "",
        "[layout]\n": (
            '[stressors.amnesia]\nalso = ["everything"]\n'
            '[answers]\nconstrained = false\nunreadable = "record"\n'
            "[sampling]\nmax_tokens = 256\n"
            "[arms.amnesia-with-ledger]\nstressors = { amnesia = {} }\n"
            'countermeasure = { use = "ledger" }\n[layout]\n'
        ),
    },
}
TABLES = (*OBSERVED, "detections", "trials")
COMPLETE = "UPDATE trials SET stands = ?, gone = ? WHERE trajectory = ? AND trial = ?"


def carry_over(folder: Path) -> None:
    """Rewrite plan, lock and database of a study in place."""
    plan = folder / "plan.toml"
    text = plan.read_text(encoding="utf-8")
    for old, new in DEFAULTS[folder.name].items():
        assert old in text
        text = text.replace(old, new)
    plan.write_text(text, encoding="utf-8")
    (folder / "plan.lock").unlink()
    earlier = (folder / "study.db").rename(folder / "earlier.db")
    study = Study(folder)
    lock = study.freeze()
    with (
        closing(sqlite3.connect(earlier)) as source,
        closing(open_to_write(study.store_path)) as db,
    ):
        db.execute("PRAGMA foreign_keys = OFF")
        source.row_factory = sqlite3.Row
        there = {name for (name,) in source.execute("SELECT name FROM sqlite_master")}
        kept = {"lock": lock.sha256, "resolved": json.dumps(lock.resolved, sort_keys=True)}
        for table in (name for name in TABLES if name in there):
            for row in map(dict, source.execute(f"SELECT * FROM {table}")):
                if table == "study":
                    row["value"] = kept.get(row["key"], row["value"])
                if table == "runs":
                    row["lock"] = lock.sha256
                names, places = ", ".join(row), ", ".join("?" * len(row))
                db.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", [*row.values()])
        for talk in study.talks:
            if talk.script is not None:
                _complete_rows(db, talk.id, talk.script)
    earlier.unlink()


def _complete_rows(db: sqlite3.Connection, session: str, script: object) -> None:
    """Add to the rows of a session what follows from its script."""
    query = "SELECT text FROM turns WHERE trajectory = ? ORDER BY turn"
    answers = [text for (text,) in db.execute(query, (session,))]
    for turn in range(1, len(answers) + 1):
        query = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
        probed = dict(db.execute(query, (session, turn)).fetchall())
        row = score(script, turn, answers, probed, Scorer())  # type: ignore[arg-type]
        db.execute(COMPLETE, (row.stands, row.gone, session, turn))
