"""Bring a study of 0.1.0, which was never released, to the format of today.

What that version did by default stands in the plan then, the plan is locked again, the records are
entered into a new database, which chains them, and the rows of a trial are scored again.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from chimeralab.rating.plan import load_study_rubric
from chimeralab.rating.rubric import Rubric
from chimeralab.study import Study
from chimeralab.study.chain import OBSERVED
from chimeralab.study.database import open_to_write
from chimeralab.study.lock import digest
from chimeralab.study.steps import FILES, ROWS, hash_files, lock_step
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
        ids: dict[str, str] = {}
        kept = {"lock": lock.sha256, "resolved": json.dumps(lock.resolved, sort_keys=True)}
        scripts = {talk.id: talk.script for talk in study.talks}
        for table in (name for name in OBSERVED if name in there):
            for row in map(dict, source.execute(f"SELECT * FROM {table}")):
                if table == "study":
                    row["value"] = kept.get(row["key"], row["value"])
                if table == "runs":
                    row["lock"] = lock.sha256
                if table == "raters":
                    ids[row["id"]] = row["id"] = _name_rubric(row, load_study_rubric(study))
                if row.get("rater") in ids:
                    row["rater"] = ids[row["rater"]]
                if table == "trials":
                    row.update(_score_again(db, row["trajectory"], row["trial"], scripts))
                names, places = ", ".join(row), ", ".join("?" * len(row))
                db.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", [*row.values()])
    earlier.unlink()
    _drop_certainty(folder)
    _lock_steps(study)


def _drop_certainty(folder: Path) -> None:
    """Bring what was recorded of an audit to the intervals that are shown today."""
    for record in (*folder.glob("audit/gate-record.json"), *folder.glob("recorded/audit.json")):
        record.write_text(json.dumps(_without_certainty(json.loads(record.read_text()))))


def _without_certainty(value: Any) -> Any:
    """Take out intervals of kappa without width: it is 0 in every resample, and not certain."""
    if isinstance(value, list):
        return [_without_certainty(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_certainty(each) for name, each in value.items()}
    if kept.get("kappa_ci_bootstrap") == [0.0, 0.0]:
        why = "one rater never varies: this interval would have no width; see kappa_ci_score"
        kept["kappa_ci_bootstrap"] = None
        kept["reasons"] = {**kept["reasons"], "kappa_ci": why, "kappa_ci_bootstrap": why}
    return kept


def _lock_steps(study: Study) -> None:
    for step in (*ROWS, *FILES):
        files = hash_files(study.path, step)
        if files or step in ROWS:
            lock_step(study, step, files)


def _name_rubric(row: dict[str, str], rubric: Rubric) -> str:
    """Put the rubric as it is worded now into the identity of a rater; return the new id."""
    rules = {"rubric_sha256": rubric.sha256, "first_turn": rubric.first_turn}
    identity = json.loads(row["identity"]) | rules
    row["identity"] = json.dumps(identity, sort_keys=True)
    return digest(identity)


def _score_again(
    db: sqlite3.Connection, session: str, turn: int, scripts: Mapping[str, Any]
) -> dict[str, Any]:
    """What follows for a row of a session from its script."""
    query = "SELECT text FROM turns WHERE trajectory = ? ORDER BY turn"
    answers = [text for (text,) in db.execute(query, (session,))]
    query = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
    probed = dict(db.execute(query, (session, turn)).fetchall())
    row = score(scripts[session], turn, answers, probed, Scorer())
    return {"stands": row.stands, "gone": row.gone}
