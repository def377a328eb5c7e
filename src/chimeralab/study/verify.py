"""Verify a study: recompute what is derived, and check the hashes over what was observed.

`findings` contradict the records or the lock; `deviations` are consistent, but a reader has to know
about them; `notes` say how the study was run.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.parts import PARTS
from chimeralab.core.records import Detection, Record
from chimeralab.runner import Prompt, Talk, TurnRecord
from chimeralab.study.chain import Chain
from chimeralab.study.database import MANIFEST, StoreError, advise, is_file_damage, tally_path
from chimeralab.study.export import find_sealed_items
from chimeralab.study.folder import Study
from chimeralab.study.lock import (
    Lock,
    LockError,
    link,
    list_changes,
    opening,
    resolve,
)
from chimeralab.study.steps import FOLDER, check_steps
from chimeralab.study.store import Archive, Row
from chimeralab.study.subjects import load_revisions
from chimeralab.study.verdicts import CheckResult, Deviation, Finding, recompute_verdicts


@dataclass(frozen=True, slots=True)
class Verification(Record):
    """The result of a verification.

    `root` is the head of the chain over `records` records, or the lock before there are any.
    `expected` describes the root hash that was asked for. `corrected` has the recomputed verdicts
    where others are stored.
    """

    locked: bool
    conversations: int
    turns: int
    findings: tuple[Finding, ...]
    deviations: tuple[Deviation, ...] = ()
    notes: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    root: str | None = None
    records: int = 0
    expected: Mapping[str, Any] | None = None
    corrected: Mapping[str, Detection] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        values = self.as_dict()
        del values["corrected"]
        findings = [finding._asdict() for finding in self.findings]
        return {"ok": not self.findings, **values, "findings": findings}


def verify_study(
    study: Study, *, quick: bool = False, expect: str | None = None, is_reporting: bool = False
) -> Verification:
    """Recompute everything, without writing anything.

    `quick` skips the verdicts that need vectors; `expect` is an earlier root hash. A report that is
    being made does not report the one that it replaces.
    """
    expected = expect and expect.strip().lower()
    if expected is not None and not re.fullmatch("[0-9a-f]{64}", expected):
        raise InputError(f"--expect {expect}: a root hash has 64 hexadecimal digits")
    found = CheckResult()
    conversations = turns = 0
    chain = None
    with study.tolerate_damage():
        lock = _check_lock(study, found)
        if not study.store_path.exists():
            found.notes += ("nothing has been run yet",)
            if tally_path(study.store_path).exists() or (study.path / FOLDER).exists():
                problem = "it is missing, but the study was run: records were stored in it"
                found.findings += (Finding(study.store_path.name, problem),)
        else:
            with (
                _list_damage(study, found, "the records"),
                study.archive() as archive,
                archive.snapshot(),
            ):
                chain = _check_store(study, archive, lock, found, quick=quick)
                steps = check_steps(study, archive, chain, is_reporting=is_reporting)
                found.findings += tuple(Finding(*misfit) for misfit in steps)
                if archive.is_copy and not is_reporting and not (study.path / MANIFEST).is_file():
                    problem = f"it is missing, but {archive.path.name} is that of a bundle"
                    found.findings += (Finding(MANIFEST, problem),)
                found.checked += ("chain and files against the locks of the steps",)
                conversations = archive.value("SELECT count(*) FROM main.trajectories")
                turns = archive.value("SELECT count(*) FROM main.turns")
    known = _find_root(expected, lock, chain, found) if expected else None
    return Verification(
        locked=lock is not None,
        conversations=conversations,
        turns=turns,
        findings=found.findings,
        deviations=found.deviations,
        notes=found.notes,
        checked=found.checked,
        unchecked=found.unchecked,
        root=(chain and chain.head) or (lock.sha256 if lock else None),
        records=len(chain.records) if chain else 0,
        expected=known,
        corrected=found.corrected,
    )


def _check_lock(study: Study, found: CheckResult) -> Lock | None:
    """Read the lock, and compare the plan with it."""
    try:
        lock = study.lock
    except LockError as error:
        found.findings += (Finding("plan.lock", str(error)),)
        return None
    if lock is None:
        sentence = "there is no plan.lock: the study is exploratory"
        found.deviations += (Deviation("exploratory outcomes", "plan.toml", sentence),)
        return None
    present = resolve(study.plan)
    then, now = lock.resolved.get("chimeralab"), present["chimeralab"]
    if then != now:
        found.notes += (f"locked with chimera-lab {then}, verified with {now}",)
    for use, sha256 in lock.resolved.get("outside_code", {}).items():
        if sha256 is not None and present["outside_code"].get(use, "") is None:
            present["outside_code"][use] = sha256
            found.unchecked += (f"the code of {use}, which is not available (sha256 {sha256})",)
    changes = list_changes({**lock.resolved, "chimeralab": now}, present)
    found.findings += tuple(Finding("plan.toml", f"not as locked: {each}") for each in changes)
    found.checked += ("the plan against its lock",)
    return lock


def _check_store(
    study: Study, archive: Archive, lock: Lock | None, found: CheckResult, *, quick: bool
) -> Chain | None:
    place, chain = archive.path.name, None
    for row in archive.rows("PRAGMA integrity_check"):
        if is_file_damage(row["integrity_check"]):
            problem = advise(f"malformed: {row['integrity_check']}")
            found.findings += (Finding(place, problem),)
            break
    found.findings += tuple(Finding(*each) for each in archive.foreign())
    for cells in (study.damage or {}).values():
        found.findings += tuple(Finding(*cell) for cell in cells)
    what = "every conversation against the plan, and its turns against their hashes"
    with _list_damage(study, found, what):
        found.findings += tuple(_store_findings(archive, study, lock))
        found.checked += (what,)
    with _list_damage(study, found, "the chain"):
        chain = _check_chain(study, archive, found)
    with _list_damage(study, found, "deviations"):
        if not archive.is_copy and archive.value("SELECT count(*) FROM invitations"):
            found.unchecked += ("invitations and drafts, which are in no hash",)
        found.deviations += tuple(_deviations(archive))
        for name, revision in load_revisions(study.plan, archive).items():
            if revision.changed or revision.state == "contradicted":
                found.deviations += (Deviation("another revision", name, revision.sentence),)
        found.notes += tuple(_describe_runs(archive))
    with _list_damage(study, found, "the verdicts"):
        found.add(recompute_verdicts(study, archive, quick=quick))
    with _list_damage(study, found, f"what a {study.plan.kind.name} study derives"):
        for again in study.plan.kind.recompute(study, archive):
            found.add(again)
    return chain


@contextmanager
def _list_damage(study: Study, found: CheckResult, what: str) -> Iterator[None]:
    """List damage that ends a check as a finding, and go on with the other checks."""
    try:
        yield
    except StoreError as error:
        found.findings += (Finding(study.store_path.name, str(error)),)
        found.unchecked += (f"{what}: {study.store_path.name} can't be read",)


def _check_chain(study: Study, archive: Archive, found: CheckResult) -> Chain | None:
    if not archive.value("SELECT count(*) FROM sqlite_master WHERE name = 'chain'"):
        found.findings += (Finding(archive.path.name, "its chain was removed"),)
        return None
    # No hash shows that a WAL is missing: the database is sound, only smaller.
    if missing := archive.shortfall():
        found.findings += (Finding(archive.path.name, missing),)
    chain = archive.chain(may_withhold=bool(find_sealed_items(study)))
    found.findings += tuple(Finding(*misfit) for misfit in chain.misfits)
    if chain.withheld:
        rows = plural(chain.withheld, "label or packet", "labels and packets")
        found.notes += (f"this copy was made before the gate was decided, without {rows}",)
    found.checked += (f"the chain of {plural(len(chain.records), 'record')}",)
    return chain


def _find_root(
    head: str, lock: Lock | None, chain: Chain | None, found: CheckResult
) -> dict[str, Any] | None:
    """Find an earlier root hash; one that the study never had is a finding."""
    records = len(chain.records) if chain else 0
    at, after = None, ""
    if lock is not None and head == lock.sha256:
        at, after = 0, "the lock, before anything was recorded"
    elif chain is not None and (record := chain.at(head)):
        at, after = record.id, f"the head after record {record.id:,} ({record.place})"
    if at is None:
        problem = f"{head} was never a root hash of this study, or the study was rewritten since"
        found.findings += (Finding("root hash", problem),)
        return None
    sentence = f"{head} is {after}; {plural(records - at, 'record')} followed"
    found.notes += (sentence,)
    return {"head": head, "record": at, "followed": records - at, "sentence": sentence}


def _deviations(archive: Archive) -> Iterator[Deviation]:
    for row in archive.rows(_REPORTED):
        names = ", ".join(sorted(json.loads(row["names"])))
        sentence = f"answered under more than one name: {names}"
        yield Deviation("changed reported_model", row["model"], sentence)
    versions = [row["version"] for row in archive.rows("SELECT DISTINCT version FROM runs")]
    if len(versions) > 1:
        sentence = f"run with more than one version of chimera-lab: {', '.join(versions)}"
        yield Deviation("changed package version", "runs", sentence)
    for row in archive.rows(_ANSWERED_TWICE):
        sentence = f"turn {row['turn']} was answered {row['n']} times"
        yield Deviation("conversations run again", row["trajectory"], sentence)
    gap = archive.value("SELECT coalesce(max(id), 0) - count(*) FROM attempts")
    if gap:
        sentence = f"{gap} of their numbers are missing"
        yield Deviation("attempts missing in the numbering", "attempts", sentence)
    decided = archive.value("SELECT count(*) FROM samples WHERE kind = 'gate' AND used IS NOT NULL")
    if decided > 1:
        sentence = f"it was decided {decided} times, on as many samples"
        yield Deviation("a gate decided twice", "gate", sentence)
    for row in archive.rows(_LABELLED_TWICE):
        sentence = f"labelled {plural(row['n'], 'conversation')} more than once"
        yield Deviation("labels imported twice", row["name"], sentence)


_REPORTED = """
    SELECT model, json_group_array(DISTINCT reported_model) AS names FROM attempts
    WHERE reported_model IS NOT NULL GROUP BY model HAVING count(DISTINCT reported_model) > 1
"""
_ANSWERED_TWICE = """
    SELECT trajectory, turn, count(*) AS n FROM attempts WHERE outcome = 'answered'
    GROUP BY trajectory, turn, probe HAVING n > 1
"""
_LABELLED_TWICE = """
    SELECT name, count(*) AS n FROM (
        SELECT w.name, r.trajectory FROM ratings r JOIN raters w ON w.id = r.rater
        GROUP BY w.name, r.trajectory HAVING count(*) > 1
    ) GROUP BY name
"""


def _describe_runs(archive: Archive) -> Iterator[str]:
    runs = list(archive.rows("SELECT host, reason, ended FROM runs ORDER BY id"))
    if len(runs) > 1:
        reasons = [
            run["reason"] or "still open" for run in runs if run["reason"] or not run["ended"]
        ]
        why = f" ({', '.join(dict.fromkeys(reasons))})" if reasons else ""
        yield f"it took {len(runs)} runs{why}"
    hosts = list(dict.fromkeys(run["host"] for run in runs))
    if len(hosts) > 1:
        yield f"it was run on {len(hosts)} hosts: {', '.join(hosts)}"


def _is_plan(ran: Any, lock: Lock) -> bool:
    """Whether the plan that ran is the locked one, perhaps with new defaults that are off.

    So it is if the version that ran continues the one that locked.
    """
    if not isinstance(ran, dict) or ran.get(PARTS) != lock.resolved.get(PARTS):
        return False
    return not list_changes(lock.resolved, {**ran, "chimeralab": lock.resolved["chimeralab"]})


def _store_findings(archive: Archive, study: Study, lock: Lock | None) -> Iterator[Finding]:
    place = archive.path.name
    notes = {row["key"]: row["value"] for row in archive.rows("SELECT key, value FROM study")}
    now = lock.sha256 if lock else ""
    if notes.get("lock", "") != now:
        yield Finding(place, "it was run under a different lock than the present plan.lock")
    if lock and "resolved" in notes and not _is_plan(json.loads(notes["resolved"]), lock):
        yield Finding(place, "its copy of the plan is not the locked one")
    for run in archive.rows("SELECT id, lock FROM runs"):
        if (run["lock"] or "") != now:
            yield Finding(
                f"run {run['id']}", "it was made under a different lock than the present plan.lock"
            )
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


def _talk_findings(row: Row, talk: Talk, turns: list[Row]) -> Iterator[Finding]:
    prompt = Prompt(row["prompt"], row["prompt_text"], row["bucket"])
    about = (row["condition"], prompt, row["repeat"])
    if about != (talk.condition, talk.prompt, talk.repeat):
        yield Finding(talk.id, "its prompt, condition or repeat is not the planned one")
    if row["opening"] != opening(talk.id, prompt):
        yield Finding(talk.id, "its opening hash does not fit its prompt")
    yield from _chain_findings(row, turns)
    # A countermeasure may replace a speaker's model, but never the speaker.
    for turn in turns:
        planned = talk.speakers[talk.slot(turn["turn"])]
        if turn["speaker"] != planned.name:
            yield Finding(talk.id, f"turn {turn['turn']} is by a different speaker than planned")
        elif turn["model"] != planned.model and talk.countermeasure is None:
            yield Finding(talk.id, f"turn {turn['turn']} is by a different model than planned")
    if row["outcome"] == "completed" and len(turns) != talk.rules.turns:
        yield Finding(talk.id, f"completed with {len(turns)} of {talk.rules.turns} turns")


def _chain_findings(row: Row, turns: list[Row]) -> Iterator[Finding]:
    previous = row["opening"]
    for number, turn in enumerate(turns, start=1):
        record = TurnRecord(*(turn[key] for key in ("turn", "speaker", "model", "text", "finish")))
        if turn["turn"] != number:
            yield Finding(row["id"], f"turn {number} is missing")
            return
        if turn["hash"] != link(previous, record):
            yield Finding(row["id"], f"turn {number} is not the one that was stored")
            return
        previous = turn["hash"]
    if row["outcome"] is not None and (row["closing"], row["turns"]) != (previous, len(turns)):
        yield Finding(row["id"], f"it ended with {row['turns']} turns and now has {len(turns)}")


# Every answered attempt is exactly one turn: a turn removed from the end of an unfinished
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
