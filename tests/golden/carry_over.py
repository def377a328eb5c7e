"""Bring a trial of 0.1.0 to the columns of today: its rows are scored again from its answers."""

from contextlib import closing
from pathlib import Path

from chimeralab.study import Study
from chimeralab.study.database import open_to_write
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.session import score

COMPLETE = "UPDATE trials SET stands = ?, gone = ? WHERE trajectory = ? AND trial = ?"
ANSWERS = "SELECT text FROM turns WHERE trajectory = ? ORDER BY turn"
PROBED = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"


def carry_over(folder: Path) -> int:
    """Add `stands` and `gone` to every stored trial; says how many there were."""
    study, carried = Study(folder), 0
    with closing(open_to_write(study.store_path)) as db:
        for talk in study.talks:
            assert talk.script is not None
            answers = [text for (text,) in db.execute(ANSWERS, (talk.id,))]
            for turn in range(1, len(answers) + 1):
                probed = dict(db.execute(PROBED, (talk.id, turn)).fetchall())
                row = score(talk.script, turn, answers, probed, Scorer())
                done = db.execute(COMPLETE, (row.stands, row.gone, talk.id, turn))
                carried += done.rowcount
    return carried
