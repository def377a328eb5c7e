"""Is a study still what it was? Every hash is computed again, from the plan to the last turn."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chimeralab.core.records import Record
from chimeralab.runner import Prompt, Said, Talk
from chimeralab.study.folder import Study
from chimeralab.study.lock import Lock, LockError, differences, digest, link, opening, resolve
from chimeralab.study.store import Archive, Row
from chimeralab.study.trial.rows import misscored


class Finding(NamedTuple):
    """Something that is not as it was locked or stored."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Verification(Record):
    """What was recomputed, and all that did not fit."""

    locked: bool
    conversations: int
    turns: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def verify_study(study: Study) -> Verification:
    """Recompute everything. Nothing is written."""
    findings: list[Finding] = []
    notes: list[str] = []
    lock = None
    try:
        lock = study.lock
    except LockError as error:
        findings.append(Finding("plan.lock", str(error)))
    if lock:
        present = json.loads(json.dumps(resolve(study.plan)))
        then, now = lock.resolved.get("chimeralab"), present["chimeralab"]
        if then != now:
            notes.append(f"locked with chimera-lab {then}, verified with {now}")
        changes = differences({**lock.resolved, "chimeralab": now}, present)
        findings += [Finding("plan.toml", f"not as locked: {change}") for change in changes]
    elif not findings:
        notes.append("there is no plan.lock: the study is exploratory")
    conversations = turns = 0
    if study.store_path.exists():
        with study.archive() as archive:
            findings += _store_findings(archive, study, lock)
            # A database without its WAL is sound, only smaller, so that no hash above tells.
            if missing := archive.shortfall():
                findings.append(Finding(archive.path.name, missing))
            conversations = archive.value("SELECT count(*) FROM trajectories")
            turns = archive.value("SELECT count(*) FROM turns")
    else:
        notes.append("nothing has been run yet")
    return Verification(lock is not None, conversations, turns, tuple(findings), tuple(notes))


def _store_findings(archive: Archive, study: Study, lock: Lock | None) -> Iterator[Finding]:
    place = archive.path.name
    sound = archive.value("PRAGMA integrity_check")
    if sound != "ok":
        yield Finding(place, f"the database is damaged: {sound}")
        return
    kept = {row["key"]: row["value"] for row in archive.rows("SELECT key, value FROM study")}
    if kept.get("lock", "") != (lock.sha256 if lock else ""):
        yield Finding(place, "it was run under another lock than the plan.lock of now")
    if lock and "resolved" in kept and digest(json.loads(kept["resolved"])) != lock.sha256:
        yield Finding(place, "the plan that it keeps is not the locked one")
    planned = {talk.id: talk for talk in study.talks}
    stored = {row["id"] for row in archive.rows("SELECT id FROM trajectories")}
    yield from (Finding(name, "planned, but not in the store") for name in planned.keys() - stored)
    for row in archive.talks():
        if row["id"] in planned:
            yield from _talk_findings(row, planned[row["id"]], list(archive.turns(row["id"])))
        else:
            yield Finding(row["id"], "in the store, but not planned")
    for row in archive.rows(_LONE_ATTEMPTS):
        yield Finding(row["trajectory"], f"turn {row['turn']} {row['problem']}")
    if study.plan.trial is not None:
        yield from (Finding(*found) for found in misscored(study, archive))


def _talk_findings(row: Row, talk: Talk, turns: list[Row]) -> Iterator[Finding]:
    prompt = Prompt(row["prompt"], row["prompt_text"], row["bucket"])
    about = (row["condition"], prompt, row["repeat"])
    if about != (talk.condition, talk.prompt, talk.repeat):
        yield Finding(talk.id, "its prompt, condition or repeat is not the planned one")
    if row["opening"] != opening(talk.id, prompt):
        yield Finding(talk.id, "its opening hash does not fit its prompt")
    yield from _chain_findings(row, turns)
    # A countermeasure may put another model in a speaker's place, but never another speaker.
    for turn in turns:
        planned = talk.speakers[talk.slot(turn["turn"])]
        if turn["speaker"] != planned.name:
            yield Finding(talk.id, f"turn {turn['turn']} is by another speaker than planned")
        elif turn["model"] != planned.model and talk.countermeasure is None:
            yield Finding(talk.id, f"turn {turn['turn']} is by another model than planned")
    if row["outcome"] == "completed" and len(turns) != talk.rules.turns:
        yield Finding(talk.id, f"completed with {len(turns)} of {talk.rules.turns} turns")


def _chain_findings(row: Row, turns: list[Row]) -> Iterator[Finding]:
    previous = row["opening"]
    for number, turn in enumerate(turns, start=1):
        said = Said(*(turn[key] for key in ("turn", "speaker", "model", "text", "finish")))
        if turn["turn"] != number:
            yield Finding(row["id"], f"turn {number} is missing")
            return
        if turn["hash"] != link(previous, said):
            yield Finding(row["id"], f"turn {number} is not the one that was stored")
            return
        previous = turn["hash"]
    if row["outcome"] is not None and (row["closing"], row["turns"]) != (previous, len(turns)):
        yield Finding(row["id"], f"it ended with {row['turns']} turns and now has {len(turns)}")


# Every answered attempt is exactly one turn: a turn that was taken out at the end of an unfinished
# conversation, where no hash follows it, still leaves its attempt behind.
_LONE_ATTEMPTS = """
    SELECT a.trajectory, a.turn, 'was answered, but is not there' AS problem FROM attempts a
    LEFT JOIN turns t ON t.attempt = a.id AND t.trajectory = a.trajectory AND t.turn = a.turn
    WHERE a.outcome = 'answered' AND a.probe = '' AND t.attempt IS NULL
    UNION ALL
    SELECT a.trajectory, a.turn, 'lacks the reply to its probe ' || a.probe FROM attempts a
    LEFT JOIN probes p ON p.attempt = a.id
    WHERE a.outcome = 'answered' AND a.probe != '' AND p.attempt IS NULL
    UNION ALL
    SELECT t.trajectory, t.turn, 'is there, but was never answered' FROM turns t
    LEFT JOIN attempts a ON a.id = t.attempt AND a.outcome = 'answered'
    WHERE a.id IS NULL
"""
