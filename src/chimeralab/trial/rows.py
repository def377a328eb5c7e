"""The trials that a study has stored: as scored, as the metrics read them, and whether they fit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.parts import CodeFile, StandIn
from chimeralab.study.folder import Study
from chimeralab.study.lock import branch
from chimeralab.study.store import Archive, Row, written
from chimeralab.trial.analysis import SessionsLeftOut
from chimeralab.trial.marking import is_gone, score
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.scene import Injection
from chimeralab.trial.scored import PlacedTrial, Scored, SessionPlace, trials_of
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Script
from chimeralab.trial.session import events_of
from chimeralab.trial.trials import Numbered

_PROBED = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
_DONE = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ?"
_ROWS = """
    SELECT c.condition, c.prompt, c.repeat, c.outcome, t.* FROM trials t
    JOIN trajectories c ON c.id = t.trajectory ORDER BY c.position, t.trial
"""


def trial_plan(study: Study) -> TrialPlan:
    """What a trial was to do; refuses a study of another kind."""
    plan = study.plan.own
    if not isinstance(plan, TrialPlan):
        raise InputError(f'{study.path} is not a trial; its plan needs [study] kind = "trial"')
    return plan


def stored_trials(study: Study, *, whole: bool = False) -> Iterator[PlacedTrial]:
    """Every scored trial in the order of the plan; of `whole` sessions only, if asked for."""
    arms = trial_plan(study).arms
    courses = {course.id: course for course in trial_plan(study).courses}
    scripts = {talk.id: talk.script for talk in study.talks}
    with study.archive() as archive:
        for row in archive.rows(_ROWS):
            if whole and row["outcome"] != "completed":
                continue
            dose = arms[row["condition"]].dose
            where = (row["trajectory"], row["condition"], row["prompt"], row["repeat"], dose)
            scored = Scored.from_cells(row)
            stands = _stands(scripts.get(row["trajectory"]), scored)
            scored = replace(scored, pressed=replace(scored.pressed, stands=stands))
            if scored.recalled and scored.pressed.disturbed:
                done = _injections(archive, row["trajectory"], scored.trial)
                gone = is_gone(courses[row["prompt"]], scored.trial, done)
                scored = replace(scored, recalled=replace(scored.recalled, gone=gone))
            yield PlacedTrial(SessionPlace(*where), scored)


def _stands(script: Script | None, row: Scored) -> bool:
    """Whether what a stressor said about a trial's question could still be read there.

    Where that takes code which may not run, what was said counts as read.
    """
    if script is None or not (script.arm.spares_words or outside_code(script) is None):
        return row.pressed.bias
    return script.stands(row.trial)


def _injections(archive: Archive, session: str, trial: int) -> list[Injection]:
    """What was done to the subject at a trial, as it is on record."""
    return [
        Injection(event["kind"], **injection)
        for event in archive.rows(_DONE, session, trial)
        for injection in json.loads(event["detail"]).get("injections", ())
    ]


def left_out(study: Study) -> tuple[SessionsLeftOut, ...]:
    """The sessions that were begun and are not whole, by arm and by what became of them."""
    with study.archive() as archive:
        return tuple(
            SessionsLeftOut(row["condition"], row["became"], row["n"]) for row in archive.rows(_CUT)
        )


_CUT = """
    SELECT condition, coalesce(outcome, 'not finished') AS became, count(*) AS n FROM trajectories c
    WHERE coalesce(outcome, '') != 'completed'
    AND EXISTS (SELECT 1 FROM attempts a WHERE a.trajectory = c.id)
    GROUP BY condition, became ORDER BY min(c.position)
"""


class StudyTrials:
    """The trials of a study in the place of a trial log."""

    def __init__(self, study: Study) -> None:
        self.path: Path = study.path
        self.weights = trial_plan(study).weights
        self.unused: set[str] = set()
        self._study = study

    def read(self) -> Iterator[Numbered]:
        """Every trial, numbered as they come."""
        line = 0
        for place, session in groupby(stored_trials(self._study), key=lambda each: each.place):
            for trial in trials_of([each.row for each in session], place):
                line += 1
                yield Numbered(line, trial)


class Misscored(NamedTuple):
    """A session, and what is wrong with a trial of it."""

    place: str
    problem: str


def misscored(study: Study, archive: Archive) -> Iterator[Misscored]:
    """The trials that are missing, or not as their answers and probes say.

    Rows, events and hashes are made again from the stored answers; see `outside_code`.
    """
    for talk in study.talks:
        if talk.script is not None and outside_code(talk.script) is None:
            yield from _in_session(talk.id, talk.script, archive)


def outside_code(script: Script) -> CodeFile | None:
    """The code that a session can't be scored again without, where that may not run."""
    parts = (*script.arm.stressors.values(), script.arm.countermeasure)
    return next((part.code for part in parts if isinstance(part, StandIn)), None)


def _in_session(session: str, script: Script, archive: Archive) -> Iterator[Misscored]:
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
        replies = archive.rows(_PROBED, session, trial)
        probed = {reply["probe"]: reply["text"] for reply in replies}
        scored = score(script, trial, answers, probed, Scorer())
        # The text of a cell can be read in more than one way where an id or a name holds a mark.
        if row != scored and row.cells() != scored.cells():
            yield Misscored(session, f"trial {trial} is not what its answers make of it")
        scene = script.scene(trial, answers, probed)
        recorded = (
            (event["kind"], event["detail"]) for event in archive.rows(_DONE, session, trial)
        )
        if sorted(recorded) != sorted((event.kind, written(event)) for event in events_of(scene)):
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
