"""The stored trials of a study: loading them, scoring them again, and counts by the user's code."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import groupby
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.parts import CodeFile, StandIn
from chimeralab.study.database import (
    StoreError,
    decode,
    name_cell,
    open_to_write,
    transaction,
)
from chimeralab.study.folder import Study
from chimeralab.study.lock import branch, digest
from chimeralab.study.store import Archive, Row, encode_detail, now
from chimeralab.trial.analysis import SessionsLeftOut
from chimeralab.trial.measures import CustomMeasure, HitRate
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Script
from chimeralab.trial.session import list_events, score
from chimeralab.trial.stressors import Arrival, Stressor
from chimeralab.trial.trials import TrialRow

_PROBES = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
_EVENTS = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ?"
_SESSION = "SELECT * FROM trials WHERE trajectory = ? ORDER BY trial"
_TRIALS = """
    SELECT c.condition, c.prompt, c.repeat, c.outcome, t.* FROM trials t
    JOIN trajectories c ON c.id = t.trajectory ORDER BY c.position, t.trial
"""
_INCOMPLETE = """
    SELECT condition, coalesce(outcome, 'not finished') AS became, count(*) AS n
    FROM trajectories c WHERE coalesce(outcome, '') != 'completed'
    AND EXISTS (SELECT 1 FROM attempts a WHERE a.trajectory = c.id)
    GROUP BY condition, became ORDER BY min(c.position)
"""


def trial_plan(study: Study) -> TrialPlan:
    """The trial's part of a plan; an error if the study is of another kind."""
    plan = study.plan.own
    if not isinstance(plan, TrialPlan):
        raise InputError(f'{study.path} is not a trial; its plan needs [study] kind = "trial"')
    return plan


def load_trials(study: Study, *, complete: bool = False) -> Iterator[TrialRow]:
    """Load the scored trials in plan order, or with `complete` only those of complete sessions."""
    arms = trial_plan(study).arms
    with study.archive() as archive:
        for row in archive.rows(_TRIALS):
            if complete and row["outcome"] != "completed":
                continue
            if row["condition"] not in arms:
                raise StoreError(
                    f"{study.store_path}: table trajectories, row {row['trajectory']}: column "
                    f"condition holds {row['condition']!r}, which is not an arm of the plan"
                )
            with name_cell("trials", row):
                yield TrialRow.from_cells(
                    row,
                    session=row["trajectory"],
                    arm=row["condition"],
                    scenario=row["prompt"],
                    repeat=row["repeat"],
                    dose=arms[row["condition"]].dose,
                )


def incomplete_sessions(study: Study) -> tuple[SessionsLeftOut, ...]:
    """The sessions that were started but did not complete, by arm and reason."""
    with study.archive() as archive:
        rows = archive.rows(_INCOMPLETE)
        return tuple(SessionsLeftOut(row["condition"], row["became"], row["n"]) for row in rows)


def rescore(study: Study, archive: Archive) -> Iterator[tuple[str, str]]:
    """Recompute trials, events and hashes from the stored answers; yield session and problem.

    Sessions that need code which may not run are skipped; see `missing_code`.
    """
    for talk in study.talks:
        if talk.script is not None and missing_code(talk.script) is None:
            turns = list(archive.turns(talk.id))
            for problem in (
                *_check_replies(talk.id, turns, archive),
                *_check_trials(talk.id, talk.script, turns, archive),
            ):
                yield talk.id, problem


def missing_code(script: Script) -> CodeFile | None:
    """The code without which a session can't be scored again, if it may not run."""
    parts = (*script.arm.stressors.values(), script.arm.countermeasure)
    return next((part.code for part in parts if isinstance(part, StandIn)), None)


def _check_trials(
    session: str, script: Script, turns: list[Row], archive: Archive
) -> Iterator[str]:
    answers = [turn["text"] for turn in turns]
    rows = list(archive.rows(_SESSION, session))
    outcome = archive.value("SELECT outcome FROM trajectories WHERE id = ?", session)
    if outcome == "completed" and len(rows) != len(answers):
        yield f"has {len(answers)} answers and {len(rows)} trials"
    for row in rows:
        trial = row["trial"]
        if trial > len(answers):
            yield f"trial {trial} has no answer"
            continue
        probed = {each["probe"]: each["text"] for each in archive.rows(_PROBES, session, trial)}
        cells = score(script, trial, answers, probed, Scorer()).cells()
        if any(row[name] != cell for name, cell in cells.items()):
            yield f"trial {trial} does not match its answers"
        events = list_events(script.scene(trial, answers, probed))
        stored = [(each["kind"], each["detail"]) for each in archive.rows(_EVENTS, session, trial)]
        if sorted(stored) != sorted((event.kind, encode_detail(event)) for event in events):
            yield f"trial {trial}: its events do not match its script"


def _check_replies(session: str, turns: list[Row], archive: Archive) -> Iterator[str]:
    """Report the probe replies that do not match their hash."""
    opening = archive.value("SELECT opening FROM trajectories WHERE id = ?", session)
    before = {1: opening} | {turn["turn"] + 1: turn["hash"] for turn in turns}
    query = "SELECT * FROM probes WHERE trajectory = ? ORDER BY turn, probe"
    for row in archive.rows(query, session):
        trial, probe = row["turn"], row["probe"]
        if row["hash"] != branch(before.get(trial, ""), trial, probe, row["text"]):
            yield f"trial {trial}: the reply to its probe {probe} is not the one that was stored"


def _own_counts(study: Study) -> Iterator[tuple[str, str, str, Any, tuple[TrialRow, ...]]]:
    """Yield session, name, key, part and trials for each of the user's own parts that counts.

    Measures of the user's own, and the checks of their stressors, are counted when a trial is run
    and stored, so that reading a study never runs code. The key covers all that a count depends on.
    """
    plan, code = trial_plan(study), study.plan.code
    if not (plan.measures or plan.own):
        return
    trials = load_trials(study, complete=True)
    for (session, arm), group in groupby(trials, key=lambda row: (row.session, row.arm)):
        rows = tuple(group)
        acting = {f"stressors.{name}" for name in plan.arms[str(arm)].stressors}
        stressors = {name: part for name, part in plan.own.items() if name in acting}
        for name, part in {**plan.measures, **stressors}.items():
            key = digest(["counted", name, code[part.use].sha256, part.as_dict()])
            yield session, name, key, part.settings, rows


def _count(name: str, part: Any, rows: tuple[TrialRow, ...]) -> Any:
    """Apply one of the user's parts to a session; the result is plain JSON."""
    if not isinstance(part, Stressor):
        tally = CustomMeasure(name, part).measure.tally
        assert tally is not None
        return list(tally(rows))
    return [
        {
            "words": [check.title, check.said, check.signal],
            "shows": [bool(check.shows(row)) for row in rows],
            "asks": [bool(check.asks(row)) for row in rows],
        }
        for check in part.checks
    ]


def count_sessions(study: Study) -> None:
    """Store the counts that are missing; this runs the plan's code."""
    known = _load_counts(study)
    missing = [each for each in _own_counts(study) if (each[0], each[2]) not in known]
    if not missing:
        return
    with closing(open_to_write(study.store_path)) as db:
        for session, name, key, part, rows in missing:
            row = (session, key, json.dumps(_count(name, part, rows)), now())
            with transaction(db, study.store_path):
                db.execute("INSERT OR IGNORE INTO detections VALUES (?, ?, ?, ?)", row)


def recount(study: Study) -> tuple[list[tuple[str, str]], Counter[CodeFile]]:
    """Recompute the stored counts.

    Returns the mismatches as session and problem, and the number of counts that can't be
    recomputed, by the code that may not run.
    """
    known = _load_counts(study) if study.plan.code else {}
    found, unchecked = [], Counter[CodeFile]()
    for session, name, key, part, rows in _own_counts(study):
        if (session, key) not in known:
            continue
        if isinstance(part, StandIn):
            unchecked[part.code] += 1
        elif _count(name, part, rows) != json.loads(known[session, key]["detection"]):
            found.append((session, f"the stored count of {name} does not match its trials"))
    return found, unchecked


def _load_counts(study: Study) -> dict[tuple[str, str], Row]:
    """The stored counts by session and key; they share a table with the verdicts of detectors."""
    with study.archive() as archive:
        rows = archive.rows("SELECT trajectory, detector, detection FROM detections")
        return {(row["trajectory"], row["detector"]): row for row in rows}


def restore_plan(study: Study) -> TrialPlan:
    """The plan for an analysis: stand-ins for the user's code answer from the stored counts."""
    restored: dict[str, dict[Any, Any]] = {}
    known = _load_counts(study)
    for session, name, key, part, rows in _own_counts(study):
        if not isinstance(part, StandIn):
            continue
        if (session, key) not in known:
            raise InputError(
                f"{name} ({part.code}) has not been counted in every session; "
                f"`chimera run {study.path} --allow-code` counts it"
            )
        found = known[session, key]
        answers = restored.setdefault(name, {})
        if isinstance(part, Stressor):
            with name_cell("detections", found, "detection"):
                _restore_checks(type(part), answers, json.loads(found["detection"]), rows)
        else:
            answers[rows] = decode(HitRate, "detections", found, "detection")
            type(part).tally = staticmethod(answers.__getitem__)  # type: ignore[attr-defined]
    return trial_plan(study)


def _restore_checks(
    cls: type[Stressor],
    answers: dict[Any, Any],
    found: list[Mapping[str, Any]],
    rows: tuple[TrialRow, ...],
) -> None:
    """Give a stand-in the checks of its stressor, answered from the counts of each trial."""
    for number, check in enumerate(found):
        for name in ("shows", "asks"):
            flags = answers.setdefault((number, name), {})
            flags.update(zip(rows, check[name], strict=True))
    cls.checks = tuple(
        Arrival(
            title=check["words"][0],
            said=check["words"][1],
            shows=answers[number, "shows"].__getitem__,
            signal=check["words"][2],
            asks=answers[number, "asks"].__getitem__,
        )
        for number, check in enumerate(found)
    )
