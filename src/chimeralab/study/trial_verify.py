"""Are the stored trials what their answers make of them? Rows, events and hashes are made anew."""

from collections.abc import Iterator
from typing import NamedTuple

from chimeralab.runner.journal import events_of
from chimeralab.sandbox.scene import Scene
from chimeralab.sandbox.scored import Scored
from chimeralab.sandbox.scoring import Scorer
from chimeralab.sandbox.script import Script, score
from chimeralab.study.folder import Study
from chimeralab.study.lock import branch
from chimeralab.study.store import Archive, Row, written


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
    turns = list(archive.turns(session))
    yield from _changed_replies(session, turns, archive)
    answers = [turn["text"] for turn in turns]
    query = "SELECT * FROM trials WHERE trajectory = ? ORDER BY trial"
    stored = {row["trial"]: Scored.from_cells(row) for row in archive.rows(query, session)}
    ended = archive.value("SELECT outcome FROM trajectories WHERE id = ?", session) == "completed"
    if ended and len(stored) != len(answers):
        yield Misscored(session, f"has {len(answers)} answers and {len(stored)} trials")
    for trial, row in stored.items():
        if trial > len(answers):
            yield Misscored(session, f"trial {trial} has no answer")
            continue
        probed = _probed(archive, session, trial)
        if row != score(script, trial, answers, probed, Scorer()):
            yield Misscored(session, f"trial {trial} is not what its answers make of it")
        scene = script.scene(trial, answers, probed.get("alone"))
        if _recorded(archive, session, trial) != _done(scene):
            yield Misscored(session, f"trial {trial}: its events are not what was done to it")


def _changed_replies(session: str, turns: list[Row], archive: Archive) -> Iterator[Misscored]:
    """The probes whose reply does not give its hash; early versions stored replies without one."""
    opening = archive.value("SELECT opening FROM trajectories WHERE id = ?", session)
    before = {1: opening} | {turn["turn"] + 1: turn["hash"] for turn in turns}
    query = "SELECT * FROM probes WHERE trajectory = ? AND hash IS NOT NULL ORDER BY turn, probe"
    for row in archive.rows(query, session):
        trial, probe = row["turn"], row["probe"]
        if row["hash"] != branch(before.get(trial, ""), trial, probe, row["text"]):
            said = f"trial {trial}: the reply to its probe {probe}"
            yield Misscored(session, f"{said} is not the one that was stored")


def _probed(archive: Archive, session: str, trial: int) -> dict[str, str]:
    query = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
    return {row["probe"]: row["text"] for row in archive.rows(query, session, trial)}


def _recorded(archive: Archive, session: str, trial: int) -> list[tuple[str, str]]:
    query = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ?"
    return sorted((row["kind"], row["detail"]) for row in archive.rows(query, session, trial))


def _done(scene: Scene) -> list[tuple[str, str]]:
    return sorted((event.kind, written(event)) for event in events_of(scene))
