"""Are the stored trials what their answers make of them? Every row is scored anew."""

from collections.abc import Iterator
from typing import NamedTuple

from chimeralab.sandbox.scored import Scored, score
from chimeralab.sandbox.scoring import Scorer
from chimeralab.sandbox.script import Script
from chimeralab.study.archive import Archive
from chimeralab.study.folder import Study
from chimeralab.study.trial_rows import scored_of


class Misscored(NamedTuple):
    """A session, and what is wrong with a trial of it."""

    place: str
    problem: str


def misscored(study: Study, archive: Archive) -> Iterator[Misscored]:
    """The trials that are missing, or not as their answers and probes say."""
    for talk in study.talks:
        if talk.script is not None:
            yield from _session(talk.id, talk.script, archive)


def _session(session: str, script: Script, archive: Archive) -> Iterator[Misscored]:
    answers = [turn["text"] for turn in archive.turns(session)]
    query = "SELECT * FROM trials WHERE trajectory = ? ORDER BY trial"
    stored = {row["trial"]: scored_of(row) for row in archive.rows(query, session)}
    ended = archive.value("SELECT outcome FROM trajectories WHERE id = ?", session) == "completed"
    if ended and len(stored) != len(answers):
        yield Misscored(session, f"has {len(answers)} answers and {len(stored)} trials")
    for trial, row in stored.items():
        if trial > len(answers) or row != _anew(session, script, trial, answers, archive):
            yield Misscored(session, f"trial {trial} is not what its answers make of it")


def _anew(session: str, script: Script, trial: int, answers: list[str], archive: Archive) -> Scored:
    query = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
    probed = {row["probe"]: row["text"] for row in archive.rows(query, session, trial)}
    return score(script, trial, answers, probed, Scorer())
