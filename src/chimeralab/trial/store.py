"""The trials that a study has stored, whether they fit, and what its own code counts in them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import groupby
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.parts import CodeFile, StandIn
from chimeralab.study.database import open_to_write, transaction
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

_PROBED = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
_DONE = "SELECT kind, detail FROM events WHERE trajectory = ? AND turn = ?"
_OF_SESSION = "SELECT * FROM trials WHERE trajectory = ? ORDER BY trial"
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


def load_trials(study: Study, *, whole: bool = False) -> Iterator[TrialRow]:
    """Every scored trial in the order of the plan; of `whole` sessions only, if asked for."""
    arms = trial_plan(study).arms
    with study.archive() as archive:
        for row in archive.rows(_ROWS):
            if not whole or row["outcome"] == "completed":
                yield TrialRow.from_cells(
                    row,
                    session=row["trajectory"],
                    arm=row["condition"],
                    scenario=row["prompt"],
                    repeat=row["repeat"],
                    dose=arms[row["condition"]].dose,
                )


def incomplete_sessions(study: Study) -> tuple[SessionsLeftOut, ...]:
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


def rescore(study: Study, archive: Archive) -> Iterator[tuple[str, str]]:
    """The trials that are missing, or not as their answers and probes say: session and problem.

    Rows, events and hashes are made again from the stored answers; see `missing_code`.
    """
    for talk in study.talks:
        if talk.script is not None and missing_code(talk.script) is None:
            turns = list(archive.turns(talk.id))
            rows = {row["trial"]: row for row in archive.rows(_OF_SESSION, talk.id)}
            problems = (
                *_check_replies(talk.id, turns, archive),
                *_check_trials(talk.id, talk.script, turns, rows, archive),
            )
            yield from ((talk.id, problem) for problem in problems)


def missing_code(script: Script) -> CodeFile | None:
    """The code that a session can't be scored again without, where that may not run."""
    parts = (*script.arm.stressors.values(), script.arm.countermeasure)
    return next((part.code for part in parts if isinstance(part, StandIn)), None)


def _check_trials(
    session: str, script: Script, turns: list[Row], rows: Mapping[int, Row], archive: Archive
) -> Iterator[str]:
    answers = [turn["text"] for turn in turns]
    ended = archive.value("SELECT outcome FROM trajectories WHERE id = ?", session) == "completed"
    if ended and len(rows) != len(answers):
        yield f"has {len(answers)} answers and {len(rows)} trials"
    for trial, row in rows.items():
        if trial > len(answers):
            yield f"trial {trial} has no answer"
            continue
        replies = archive.rows(_PROBED, session, trial)
        probed = {reply["probe"]: reply["text"] for reply in replies}
        scored = score(script, trial, answers, probed, Scorer()).cells()
        if any(row[name] != cell for name, cell in scored.items()):
            yield f"trial {trial} is not what its answers make of it"
        scene = script.scene(trial, answers, probed)
        recorded = (
            (event["kind"], event["detail"]) for event in archive.rows(_DONE, session, trial)
        )
        expected = sorted((event.kind, encode_detail(event)) for event in list_events(scene))
        if sorted(recorded) != expected:
            yield f"trial {trial}: its events are not what was done to it"


def _check_replies(session: str, turns: list[Row], archive: Archive) -> Iterator[str]:
    """The probes whose reply does not give its hash."""
    opening = archive.value("SELECT opening FROM trajectories WHERE id = ?", session)
    before = {1: opening} | {turn["turn"] + 1: turn["hash"] for turn in turns}
    query = "SELECT * FROM probes WHERE trajectory = ? ORDER BY turn, probe"
    for row in archive.rows(query, session):
        trial, probe = row["turn"], row["probe"]
        if row["hash"] != branch(before.get(trial, ""), trial, probe, row["text"]):
            yield f"trial {trial}: the reply to its probe {probe} is not the one that was stored"


def _iterate_counts(study: Study) -> Iterator[tuple[str, str, str, Any, tuple[TrialRow, ...]]]:
    """Every session with every part of the user's own that counts in it.

    Session, name of the part, key, part, and trials; the key is all that the count depends on. A
    measure of the user's own is counted, and the checks of a stressor of the user's own are made,
    when a trial is run: for all that only read later.
    """
    plan, code = trial_plan(study), study.plan.code
    if not (plan.measures or plan.own):
        return
    trials = load_trials(study, whole=True)
    for (session, arm), group in groupby(trials, key=lambda row: (row.session, row.arm)):
        rows = tuple(group)
        acting = {f"stressors.{name}" for name in plan.arms[str(arm)].stressors}
        stressors = {name: part for name, part in plan.own.items() if name in acting}
        for name, part in {**plan.measures, **stressors}.items():
            key = digest(["counted", name, code[part.use].sha256, part.as_dict()])
            yield session, name, key, part.settings, rows


def _count(name: str, part: Any, rows: tuple[TrialRow, ...]) -> Any:
    """What a part of the user's own makes of a session, as plain values."""
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
    """Count what was not counted yet; the code of the plan is run for it."""
    known = _load_counts(study)
    missing = [
        (session, key, name, part, rows)
        for session, name, key, part, rows in _iterate_counts(study)
        if (session, key) not in known
    ]
    if not missing:
        return
    with closing(open_to_write(study.store_path)) as db:
        for session, key, *counted in missing:
            row = (session, key, json.dumps(_count(*counted)), now())
            with transaction(db, study.store_path):
                db.execute("INSERT OR IGNORE INTO detections VALUES (?, ?, ?, ?)", row)


def recount(study: Study) -> tuple[list[tuple[str, str]], Counter[CodeFile]]:
    """Count again what parts of the user's own make of each session.

    What is not as stored, as session and problem, and how many counts can't be made again, by the
    code that would have to run.
    """
    known = _load_counts(study) if study.plan.code else {}
    found, unchecked = [], Counter[CodeFile]()
    for session, name, key, part, rows in _iterate_counts(study):
        if (session, key) not in known:
            continue
        if isinstance(part, StandIn):
            unchecked[part.code] += 1
        elif _count(name, part, rows) != known[session, key]:
            found.append((session, f"what {name} counted in it is not what its trials give"))
    return found, unchecked


def _load_counts(study: Study) -> dict[tuple[str, str], Any]:
    """What was counted, by session and key; it stands beside the verdicts of detectors."""
    with study.archive() as archive:
        rows = archive.rows("SELECT trajectory, detector, detection FROM detections")
        return {(r["trajectory"], r["detector"]): json.loads(r["detection"]) for r in rows}


def restore_plan(study: Study) -> TrialPlan:
    """The plan of a trial for whoever counts: what stands in for parts answers as those did."""
    recalled: dict[str, dict[Any, Any]] = {}
    known = _load_counts(study)
    for session, name, key, part, rows in _iterate_counts(study):
        if not isinstance(part, StandIn):
            continue
        if (session, key) not in known:
            raise InputError(
                f"{name} has not been counted in every session, by {part.code}; "
                f"`chimera run {study.path} --allow-code` counts it"
            )
        found = known[session, key]
        answers = recalled.setdefault(name, {})
        if isinstance(part, Stressor):
            _restore_checks(type(part), answers, found, rows)
        else:
            answers[rows] = HitRate(*found)
            type(part).tally = staticmethod(answers.__getitem__)  # type: ignore[attr-defined]
    return trial_plan(study)


def _restore_checks(
    cls: type[Stressor],
    answers: dict[Any, Any],
    found: list[Mapping[str, Any]],
    rows: tuple[TrialRow, ...],
) -> None:
    """The checks of a stressor, which answer for every trial that was there."""
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
