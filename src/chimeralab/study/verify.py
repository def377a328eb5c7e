"""Is a study still what it was? What is derived is computed again, what was observed is chained.

`findings` do not fit. `deviations` fit, but a reader has to know of them. `notes` are how it went.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import Detection, Record
from chimeralab.runner import Prompt, Talk, TurnRecord
from chimeralab.study.chain import Chain
from chimeralab.study.export import find_sealed_items
from chimeralab.study.folder import Study
from chimeralab.study.lock import (
    Lock,
    LockError,
    digest,
    link,
    list_changes,
    opening,
    resolve,
)
from chimeralab.study.store import Archive, Row
from chimeralab.study.verdicts import Finding, recompute_verdicts


@dataclass(frozen=True, slots=True)
class Deviation(Record):
    """Something that fits, and that a reader has to know of."""

    kind: str
    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class ExpectedHead(Record):
    """An earlier root hash of a study: after which record it stood, and how many followed."""

    head: str
    record: int
    followed: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Verification(Record):
    """What was checked, and all that did not fit.

    `root` is the head of the chain over `records` records, and the lock before there are any.
    `corrected` are the verdicts that the texts give where others are stored.
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
    expected: ExpectedHead | None = None
    corrected: Mapping[str, Detection] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The three lists and what they rest on."""
        values = self.as_dict()
        del values["corrected"]
        findings = [finding._asdict() for finding in self.findings]
        return {"ok": not self.findings, **values, "findings": findings}


def verify_study(study: Study, *, quick: bool = False, expect: str | None = None) -> Verification:
    """Recompute everything. Nothing is written.

    `quick` leaves out the verdicts that need vectors; `expect` is a root hash from earlier.
    """
    expected = expect and expect.strip().lower()
    if expected is not None and not re.fullmatch("[0-9a-f]{64}", expected):
        raise InputError(f"--expect {expect}: a root hash has 64 hexadecimal digits")
    found = _Found()
    lock = _check_lock(study, found)
    conversations = turns = 0
    chain = None
    if study.store_path.exists():
        with study.archive() as archive, archive.snapshot():
            chain = _check_store(study, archive, lock, found, quick=quick)
            conversations = archive.value("SELECT count(*) FROM trajectories")
            turns = archive.value("SELECT count(*) FROM turns")
    else:
        found.notes.append("nothing has been run yet")
    known = _expected(expected, lock, chain, found) if expected else None
    return Verification(
        locked=lock is not None,
        conversations=conversations,
        turns=turns,
        findings=tuple(found.findings),
        deviations=tuple(found.deviations),
        notes=tuple(found.notes),
        checked=tuple(found.checked),
        unchecked=tuple(found.unchecked),
        root=(chain and chain.head) or (lock.sha256 if lock else None),
        records=len(chain.records) if chain else 0,
        expected=known,
        corrected=found.corrected,
    )


@dataclass(slots=True)
class _Found:
    """What the checks have found so far."""

    findings: list[Finding] = field(default_factory=list)
    deviations: list[Deviation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    corrected: dict[str, Detection] = field(default_factory=dict)


def _check_lock(study: Study, found: _Found) -> Lock | None:
    """The lock, and whether the plan is still the locked one."""
    try:
        lock = study.lock
    except LockError as error:
        found.findings.append(Finding("plan.lock", str(error)))
        return None
    if lock is None:
        sentence = "there is no plan.lock: the study is exploratory"
        found.deviations.append(Deviation("exploratory outcomes", "plan.toml", sentence))
        return None
    present = resolve(study.plan)
    then, now = lock.resolved.get("chimeralab"), present["chimeralab"]
    if then != now:
        found.notes.append(f"locked with chimera-lab {then}, verified with {now}")
    for use, sha256 in lock.resolved.get("outside_code", {}).items():
        if sha256 is not None and present["outside_code"].get(use, "") is None:
            present["outside_code"][use] = sha256
            found.unchecked.append(f"the code of {use}, which is not here (sha256 {sha256})")
    changes = list_changes({**lock.resolved, "chimeralab": now}, present)
    found.findings += [Finding("plan.toml", f"not as locked: {change}") for change in changes]
    found.checked.append("the plan against its lock")
    return lock


def _check_store(
    study: Study, archive: Archive, lock: Lock | None, found: _Found, *, quick: bool
) -> Chain | None:
    place = archive.path.name
    sound = archive.value("PRAGMA integrity_check")
    if sound != "ok":
        found.findings.append(Finding(place, f"the database is damaged: {sound}"))
        return None
    found.findings += _store_findings(archive, study, lock)
    found.checked.append("every conversation against the plan, and its turns against their hashes")
    # A database without its WAL is sound, only smaller, so that no hash tells.
    if missing := archive.shortfall():
        found.findings.append(Finding(place, missing))
    chain = _check_chain(study, archive, found)
    found.deviations += _deviations(archive)
    found.notes += _history(archive)
    for again in (
        recompute_verdicts(study, archive, quick=quick),
        *study.plan.kind.recompute(study, archive),
    ):
        found.findings += again.findings
        found.checked += again.checked
        found.unchecked += again.unchecked
        found.notes += again.notes
        found.corrected |= again.corrected
    return chain


def _check_chain(study: Study, archive: Archive, found: _Found) -> Chain | None:
    if not archive.value("SELECT count(*) FROM sqlite_master WHERE name = 'chain'"):
        found.findings.append(Finding(archive.path.name, "its chain was taken out"))
        return None
    chain = archive.chain(may_withhold=bool(find_sealed_items(study)))
    found.findings += [Finding(*misfit) for misfit in chain.misfits]
    if chain.withheld:
        rows = plural(chain.withheld, "label or packet", "labels and packets")
        found.notes.append(f"this copy was made before the gate was decided, without {rows}")
    found.checked.append(f"the chain of {plural(len(chain.records), 'record')}")
    return chain


def _expected(
    head: str, lock: Lock | None, chain: Chain | None, found: _Found
) -> ExpectedHead | None:
    """Which earlier root hash this is; one that the study never had is a finding."""
    records = len(chain.records) if chain else 0
    at, after = None, ""
    if lock is not None and head == lock.sha256:
        at, after = 0, "the lock, before anything was recorded"
    elif chain is not None and (record := chain.at(head)):
        at, after = record.id, f"the head after record {record.id:,} ({record.place})"
    if at is None:
        problem = f"{head} was never a root hash of this study: it was rewritten since"
        found.findings.append(Finding("root hash", problem))
        return None
    sentence = f"{head} is {after}; {plural(records - at, 'record')} followed"
    found.notes.append(sentence)
    return ExpectedHead(head, at, records - at, sentence)


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


def _history(archive: Archive) -> Iterator[str]:
    runs = list(archive.rows("SELECT host, reason, ended FROM runs ORDER BY id"))
    if len(runs) > 1:
        cut = [run["reason"] or "still open" for run in runs if run["reason"] or not run["ended"]]
        why = f" ({', '.join(dict.fromkeys(cut))})" if cut else ""
        yield f"it was run in {len(runs)} runs{why}"
    hosts = list(dict.fromkeys(run["host"] for run in runs))
    if len(hosts) > 1:
        yield f"it was run on {len(hosts)} hosts: {', '.join(hosts)}"


def _store_findings(archive: Archive, study: Study, lock: Lock | None) -> Iterator[Finding]:
    place = archive.path.name
    kept = {row["key"]: row["value"] for row in archive.rows("SELECT key, value FROM study")}
    now = lock.sha256 if lock else ""
    if kept.get("lock", "") != now:
        yield Finding(place, "it was run under another lock than the plan.lock of now")
    if lock and "resolved" in kept and digest(json.loads(kept["resolved"])) != lock.sha256:
        yield Finding(place, "the plan that it keeps is not the locked one")
    for run in archive.rows("SELECT id, lock FROM runs"):
        if (run["lock"] or "") != now:
            yield Finding(
                f"run {run['id']}", "it was made under another lock than the plan.lock of now"
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
        said = TurnRecord(*(turn[key] for key in ("turn", "speaker", "model", "text", "finish")))
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
