"""One session of a trial as it went: what was shown, what was done to it, what was answered."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.sandbox.scene import Injection
from chimeralab.sandbox.script import Script
from chimeralab.sandbox.stressors.sham import NAME as SHAM
from chimeralab.study import Study
from chimeralab.study.archive import Archive, Row

MOST_TRIALS = 16
VERDICTS = {1: "right", 0: "wrong", None: "can't be read"}
DONE = {"removed": "Removed from memory", "altered": "Altered in memory"}


class ShownLine(NamedTuple):
    """A line of what the subject was shown; `by` names the stressor that put it there."""

    text: str
    by: str | None = None


class Disturbance(NamedTuple):
    """Something done to an earlier episode: what, to which trial, and both versions."""

    what: str
    trial: int
    text: str
    instead: str | None


class ShownTrial(NamedTuple):
    """One trial: disturbances first, then the message, then the answer and whether it is right."""

    number: int
    disturbances: Sequence[Disturbance]
    lines: Sequence[ShownLine]
    answer: str
    verdict: str
    truth: str


class ShownSession(NamedTuple):
    """The first trials of a session; `left_out` more are in the study."""

    id: str
    arm: str
    trials: Sequence[ShownTrial]
    left_out: int


def example_sessions(material: TrialMaterial, subject: str) -> list[ShownSession]:
    """One session of every stressor alone, and one of sham."""
    wanted: dict[str, str] = {}
    for name, arm in material.plan.arms.items():
        bare = arm.countermeasure is None
        alone = bare and (len(arm.stressors) == 1 or arm.sham)
        if material.plan.subjects[name] == subject and alone and name in material.injections:
            # Of several doses the last is the strongest, and shows most.
            wanted[SHAM if arm.sham else next(iter(arm.stressors))] = name
    return [
        show_session(material.study, session, material.short(name, subject))
        for name in wanted.values()
        if (session := _first_session(material.study, name)) is not None
    ]


def _first_session(study: Study, condition: str) -> str | None:
    """A session in which something was done, the first of them that was answered."""
    query = """
        SELECT t.id FROM trajectories t WHERE t.condition = ?
        AND EXISTS (SELECT 1 FROM events e WHERE e.trajectory = t.id)
        AND EXISTS (SELECT 1 FROM trials r WHERE r.trajectory = t.id) ORDER BY t.position LIMIT 1
    """
    with study.archive() as archive:
        return next((row["id"] for row in archive.rows(query, condition)), None)


def show_session(study: Study, session: str, arm: str, most: int = MOST_TRIALS) -> ShownSession:
    """The first trials of a session, every injection in its place."""
    talk = next((talk for talk in study.talks if talk.id == session), None)
    if talk is None or talk.script is None:
        raise InputError(f"{study.path} has no session {session!r}")
    with study.archive() as archive:
        answers = [turn["text"] for turn in archive.turns(session)]
        rows = list(archive.rows(_TRIALS, session))
        shown = [_trial(row, talk.script, answers, archive) for row in rows[:most]]
    return ShownSession(session, arm, shown, len(rows) - len(shown))


_TRIALS = "SELECT trajectory, trial, correct, truth FROM trials WHERE trajectory = ? ORDER BY trial"
_ALONE = "SELECT text FROM probes WHERE trajectory = ? AND turn = ? AND probe = 'alone'"
_EVENTS = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ? ORDER BY id"


def _trial(row: Row, script: Script, answers: Sequence[str], archive: Archive) -> ShownTrial:
    session, turn = row["trajectory"], row["trial"]
    alone = next((probe["text"] for probe in archive.rows(_ALONE, session, turn)), None)
    done = list(injections(archive, session, turn))
    said = {each.text: each.stressor for each in done if each.action == "said"}
    lines = script.scene(turn, answers, alone).present.ordered
    return ShownTrial(
        number=turn,
        disturbances=[_disturbance(each) for each in done if each.action != "said"],
        lines=[ShownLine(line.text, said.get(line.text)) for line in lines],
        answer=answers[turn - 1],
        verdict=VERDICTS[row["correct"]],
        truth=row["truth"],
    )


def injections(archive: Archive, session: str, turn: int) -> Iterator[Injection]:
    """What was done to a session at a turn, from the log of events."""
    for event in archive.rows(_EVENTS, session, turn):
        for detail in json.loads(event["detail"])["injections"]:
            yield Injection(event["kind"], **detail)


def _disturbance(each: Injection) -> Disturbance:
    return Disturbance(DONE[each.action], each.turn, each.text, each.instead)
