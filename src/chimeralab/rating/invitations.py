"""People who rate a study on a server: who is invited, what they put down, what they hand in.

An invitation is a packet that stays here. What its rater puts down is a draft, which nobody else
sees and which may be changed; when it is handed in it becomes ratings like any other, for good. In
the same way a third person settles what the raters of a decided gate differ on: that label stands
beside theirs, never in place of one.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.auditing import audit_study, contested
from chimeralab.rating.packets import (
    LABELS,
    FilledPacket,
    FilledRow,
    KeyEntry,
    PacketKey,
    PacketPlan,
    check_of,
    lay_out,
    masked,
    read_turns,
    sheets_of,
    take_in,
)
from chimeralab.rating.plan import HUMAN, GateTable
from chimeralab.rating.rate import telling_names
from chimeralab.rating.raters import (
    Candidate,
    candidates,
    insert_ratings,
    now,
    planned_rater,
    rubric_of,
    stored_ratings,
)
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import Label, Rubric
from chimeralab.rating.samples import sample_named, stored_samples
from chimeralab.study.database import open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.store import RETESTS

Task = Literal["rate", "adjudicate"]
TOKEN_BYTES = 32
LONGEST_NAME = 60


UNSURE = "u"
GIVEN = ("", "0", "1", UNSURE)
LONGEST_REASON = 2_000
# The worked examples that a rater begins with are drafts too, under names of their own.
TRAINING = "training-"


@dataclass(frozen=True, slots=True)
class DraftRating(Record):
    """What a rater has put down for a sheet: a label, or that they are unsure, turns, a reason."""

    sheet: str
    label: str = ""
    turns: str = ""
    reason: str = ""


class LastDraft(NamedTuple):
    """The step that a rater took last."""

    id: int
    sheet: str
    label: str


class Drafts:
    """The drafts of a study, by the packet that they are for. Every step is kept, to be undone."""

    def __init__(self, db: sqlite3.Connection, store: Path) -> None:
        self._db = db
        self._store = store

    def of(self, packet: str, *, training: bool = False) -> dict[str, DraftRating]:
        """The newest draft of each sheet."""
        query = "SELECT sheet, label, turns, reason FROM drafts WHERE packet = ? ORDER BY id"
        found = (DraftRating(*row) for row in self._db.execute(query, [packet]))
        return {each.sheet: each for each in found if each.sheet.startswith(TRAINING) == training}

    def save(self, packet: str, draft: DraftRating) -> DraftRating:
        """Keep a draft. Changes to a reason or to turns belong to the label that they are for.

        Without a label the one that was given stays: what a page keeps by itself may come late.
        """
        if not draft.label and (given := self.of(packet).get(draft.sheet)):
            draft = replace(draft, label=given.label)
        cells = (draft.label, draft.turns, draft.reason, now())
        with transaction(self._db, self._store) as db:
            last = self._last(packet, db)
            if last and last.sheet == draft.sheet and last.label == draft.label:
                query = "UPDATE drafts SET label = ?, turns = ?, reason = ?, at = ? WHERE id = ?"
                db.execute(query, (*cells, last.id))
            else:
                query = "INSERT INTO drafts (packet, sheet, label, turns, reason, at) "
                query += "VALUES (?, ?, ?, ?, ?, ?)"
                db.execute(query, (packet, draft.sheet, *cells))
        return draft

    def undo(self, packet: str) -> str | None:
        """Take the last step back, and say which sheet it was on."""
        with transaction(self._db, self._store) as db:
            last = self._last(packet, db)
            if last is None or last.sheet.startswith(TRAINING):
                return None
            db.execute("DELETE FROM drafts WHERE id = ?", [last.id])
        return last.sheet

    def _last(self, packet: str, db: sqlite3.Connection) -> LastDraft | None:
        query = "SELECT id, sheet, label FROM drafts WHERE packet = ? ORDER BY id DESC LIMIT 1"
        row = db.execute(query, [packet]).fetchone()
        return LastDraft(*row) if row else None


def refuse_unfit(draft: DraftRating, turns: int) -> None:
    """Refuse what can't be meant of a conversation with so many turns."""
    if draft.label not in GIVEN:
        raise InputError(f"label {draft.label!r}: give 0, 1 or {UNSURE}")
    if len(draft.reason) > LONGEST_REASON:
        raise InputError(
            f"a reason has at most {LONGEST_REASON:,} characters; one sentence will do"
        )
    if read_turns(draft.turns, turns) is None:
        raise InputError(f"turns {draft.turns!r}: write them like 4-7")


def training_names(rubric: Rubric) -> list[str]:
    """What the worked examples are called among the drafts."""
    return [f"{TRAINING}{n}" for n in range(1, len(rubric.examples) + 1)]


def written_turns(turns: Iterable[int]) -> str:
    """Turns as people write them.

    >>> written_turns([4, 5, 6, 9])
    '4-6, 9'
    """
    spans: list[list[int]] = []
    for turn in sorted(set(turns)):
        if spans and spans[-1][1] == turn - 1:
            spans[-1][1] = turn
        else:
            spans.append([turn, turn])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


@dataclass(frozen=True, slots=True)
class Invitation(Record):
    """Who was asked to do what, on which packet."""

    rater: str
    packet: str
    task: Task
    sample: str | None
    invited: str
    handed_in: str | None


class Opinion(NamedTuple):
    """What one rater said about a conversation, without who it was."""

    label: Label
    turns: tuple[int, ...]
    reason: str


class Sheet(NamedTuple):
    """A conversation as a rater sees it; an adjudicator sees what others said, too."""

    name: str
    texts: tuple[str, ...]
    opinions: tuple[Opinion, ...] = ()


class Desk(NamedTuple):
    """All that an invitation needs: its sheets in their order, the key to them, the rubric."""

    invitation: Invitation
    key: PacketKey
    sheets: Mapping[str, Sheet]
    rubric: Rubric


class Progress(NamedTuple):
    """How far a rater has come."""

    invitation: Invitation
    sheets: int
    labelled: int
    unsure: int


class HandedIn(NamedTuple):
    """What became of drafts that were handed in, and of the gate if it could be decided now."""

    stored: int
    blank: int
    gate: str | None


def hashed(token: str) -> str:
    """What is stored of a token: it is random and long, so its hash gives nothing away."""
    return hashlib.sha256(token.encode()).hexdigest()


class RatingRoom:
    """Invitations and drafts of one study. A server keeps one, in one thread."""

    def __init__(self, study: Study) -> None:
        if not study.store_path.is_file():
            raise InputError(f"{study.path} has not been run yet; start with `chimera run`")
        self.study = study
        self._db = open_to_write(study.store_path)
        self._drafts = Drafts(self._db, study.store_path)
        self._desks: dict[tuple[str, str], Desk] = {}
        self._items: dict[str, Item] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def invite(self, name: str, only: str | None = None, task: Task = "rate") -> str:
        """Invite a person, and give back the token of their link. It can't be had again.

        Who has not handed in yet gets a new link to the same sheets, and the old one ends.
        """
        self.study.checked_lock()
        rater = rater_named(name)
        known = candidates(self.study)
        for_whom = self._to_adjudicate if task == "adjudicate" else self._to_rate
        sample, key = for_whom(rater, known, only)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with transaction(self._db, self.study.store_path) as db:
            packet = (key.packet, json.dumps(key.as_dict()), now())
            db.execute("INSERT OR IGNORE INTO packets VALUES (?, ?, ?)", packet)
            db.execute(
                "INSERT INTO invitations VALUES (?, ?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (rater, packet) DO UPDATE SET token_sha256 = excluded.token_sha256",
                (rater, key.packet, task, sample, hashed(token), now()),
            )
        return token

    def invited(self, token: str) -> Invitation | None:
        """Whose token this is."""
        return next(iter(self._invitations("WHERE token_sha256 = ?", hashed(token))), None)

    def progress(self) -> list[Progress]:
        """How far everybody has come; not what they have put down."""
        found = []
        for each in self._invitations("ORDER BY invited, rater"):
            given = [draft.label for draft in self.drafts(each).values()]
            sheets = len(self._key(each.packet).entries)
            labelled = sum(label in LABELS and label != "" for label in given)
            found.append(Progress(each, sheets, labelled, given.count(UNSURE)))
        return found

    def desk(self, invitation: Invitation) -> Desk:
        """The sheets of an invitation. Texts of finished conversations do not change."""
        place = (invitation.rater, invitation.packet)
        if place not in self._desks:
            key = self._key(invitation.packet)
            shown = sheets_of(key, self._items_of(key))
            said = self._opinions(key) if invitation.task == "adjudicate" else {}
            sheets = {
                name: Sheet(name, item.texts, said.get(item.id, ())) for name, item in shown.items()
            }
            self._desks[place] = Desk(invitation, key, sheets, rubric_of(self.study))
        return self._desks[place]._replace(invitation=invitation)

    def drafts(self, invitation: Invitation, *, training: bool = False) -> dict[str, DraftRating]:
        """The newest draft of each sheet."""
        return self._drafts.of(invitation.packet, training=training)

    def save(self, invitation: Invitation, draft: DraftRating) -> DraftRating:
        """Keep a draft."""
        self._refuse_handed_in(invitation)
        desk = self.desk(invitation)
        if draft.sheet.startswith(TRAINING):
            if draft.sheet not in training_names(desk.rubric):
                raise InputError("there is no such example")
            refuse_unfit(draft, 0)
        else:
            if draft.sheet not in desk.sheets:
                raise InputError("there is no such sheet in this invitation")
            refuse_unfit(draft, len(desk.sheets[draft.sheet].texts))
        return self._drafts.save(invitation.packet, draft)

    def undo(self, invitation: Invitation) -> str | None:
        """Take the last step back, and say which sheet it was on."""
        self._refuse_handed_in(invitation)
        return self._drafts.undo(invitation.packet)

    def hand_in(self, invitation: Invitation) -> HandedIn:
        """Make the drafts ratings, all at once and for good; then see whether the gate is due."""
        desk, drafts = self.desk(invitation), self.drafts(invitation)
        self._refuse_handed_in(invitation)
        open_ones = [
            n
            for n, name in enumerate(desk.sheets, 1)
            if not drafts.get(name, DraftRating(name)).label
        ]
        if open_ones:
            named = ", ".join(map(str, open_ones[:10])) + (" …" if len(open_ones) > 10 else "")
            raise InputError(f"{len(open_ones)} have no label yet: {named}")
        rows = [
            FilledRow(
                line=n,
                sheet=entry.sheet,
                check=entry.check,
                label=LABELS.get(drafts[entry.sheet].label),
                turns=drafts[entry.sheet].turns,
                reason=drafts[entry.sheet].reason,
            )
            for n, entry in enumerate(desk.key.entries, 1)
        ]
        if invitation.task == "adjudicate":
            return self._settle(desk, rows)
        return self._store(desk, rows)

    def settled(self) -> dict[str, DraftRating]:
        """The adjudicated label of each conversation, with its turns and reason."""
        query = "SELECT trajectory, label, turns, reason FROM adjudications ORDER BY at"
        return {
            row[0]: DraftRating(row[0], "" if row[1] is None else str(row[1]), row[2], row[3])
            for row in self._db.execute(query)
        }

    def _store(self, desk: Desk, rows: list[FilledRow]) -> HandedIn:
        who, key = desk.invitation, desk.key
        known = {name: found.item for name, found in candidates(self.study).items()}
        filled = FilledPacket(f"packet {key.packet}", rows)
        result = take_in(filled, key, known, desk.rubric, who.rater)
        identity = planned_rater(self.study, who.rater).identity
        rated = [(known[rating.item], rating) for rating in result.ratings]
        notes = {f"{RETESTS}{who.rater} {key.packet}": result.repeated}
        self._close(who, lambda db: insert_ratings(db, identity, rated, notes))
        return HandedIn(len(rated), result.blank, self._decide())

    def _settle(self, desk: Desk, rows: list[FilledRow]) -> HandedIn:
        who, items = desk.invitation, {entry.sheet: entry.item for entry in desk.key.entries}
        settled = [
            (items[row.sheet], who.sample, row.label, row.reason, row.turns, who.rater, now())
            for row in rows
        ]
        query = "INSERT INTO adjudications VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._close(who, lambda db: db.executemany(query, settled))
        return HandedIn(len(rows), sum(row.label is None for row in rows), None)

    def _close(self, who: Invitation, write: Callable[[sqlite3.Connection], object]) -> None:
        """Store what was handed in, and that it was, together or not at all."""
        with transaction(self._db, self.study.store_path) as db:
            query = (
                "UPDATE invitations SET handed_in = ? "
                "WHERE rater = ? AND packet = ? AND handed_in IS NULL"
            )
            if not db.execute(query, (now(), who.rater, who.packet)).rowcount:
                raise InputError("this was handed in already, and stays as it is")
            write(db)

    def _decide(self) -> str | None:
        """Decide the gate if all of its raters are done; the store lets nobody do it twice."""
        gate: GateTable = self.study.plan.extras["gate"]
        drawn = [each for each in stored_samples(self.study) if each.draw.kind == "gate"]
        if not gate.declared or (drawn and drawn[-1].used):
            return None
        try:
            return audit_study(self.study).outcome
        except InputError:
            return None  # somebody is not done yet; `chimera audit` says who

    def _to_rate(
        self, rater: str, known: Mapping[str, Candidate], only: str | None
    ) -> tuple[str | None, PacketKey]:
        """The packet of a rater: a sample, or everything that is finished and not rated yet."""
        gate_due = [
            each.name
            for each in stored_samples(self.study)
            if each.draw.kind == "gate" and not each.used
        ]
        sample = only or next(iter(gate_due), None)
        waiting = self._waiting(rater, "rate", sample)
        if waiting:
            return sample, self._key(waiting.packet)
        wanted = sample_named(self.study, sample).sample.ids if sample else tuple(known)
        done = stored_ratings(self.study, rater)
        left = [known[name].item for name in wanted if name not in done]
        if not left:
            what = sample or f"the {len(known)} finished conversations"
            raise InputError(f"there is nothing left for {rater} to rate in {what}")
        how = PacketPlan(_seed(rater), masked=telling_names(self.study))
        return sample, lay_out(left, rubric_of(self.study), how).key

    def _to_adjudicate(
        self, rater: str, known: Mapping[str, Candidate], only: str | None
    ) -> tuple[str | None, PacketKey]:
        """What the raters of the decided gate differ on, in an order of its own."""
        found = contested(self.study)
        if found is None:
            raise InputError("there is nothing to settle before the gate is decided")
        sample, differing = found[0].sample, found[0].audit.disagreements
        if only not in (None, sample):
            raise InputError(f"what is settled is {sample}, the sample of the gate: not {only}")
        if not differing:
            raise InputError(f"the raters agree on all of {sample}: nothing is to be settled")
        if any(rater in each.labels for each in differing):
            raise InputError(f"{rater} rated this sample; a third person settles it")
        waiting = self._waiting(rater, "adjudicate", sample)
        if waiting:
            return sample, self._key(waiting.packet)
        if self._invitations("WHERE task = 'adjudicate' AND sample = ?", sample):
            raise InputError(f"somebody else settles {sample} already")
        seed, names = _seed(rater), telling_names(self.study)
        order = np.random.default_rng(seed).permutation(len(differing))
        name = "a" + hashlib.sha256(f"{rater} {sample}".encode()).hexdigest()[:7]
        entries = []
        for n, place in enumerate(order.tolist(), 1):
            item = known[differing[place].item].item
            shown = Item(item.id, masked(item.texts, names))
            sheet = f"{name}-{n:03}"
            entries.append(
                KeyEntry(sheet, item.id, item.sha256, check_of(sheet, shown), duplicate=False)
            )
        rubric = rubric_of(self.study).sha256
        return sample, PacketKey(name, seed, rubric, "", names, tuple(entries))

    def _opinions(self, key: PacketKey) -> dict[str, tuple[Opinion, ...]]:
        """What was said about each conversation, in an order that tells nobody who said it."""
        gate: GateTable = self.study.plan.extras["gate"]
        given = [stored_ratings(self.study, name) for name in gate.raters]
        rng, found = np.random.default_rng(key.seed), {}
        for entry in key.entries:
            said = [rated[entry.item] for rated in given if entry.item in rated]
            opinions = [
                Opinion(each.label, each.turns, masked([each.reason], key.masked)[0])
                for each in said
                if each.label is not None
            ]
            found[entry.item] = tuple(opinions[n] for n in rng.permutation(len(opinions)))
        return found

    def _items_of(self, key: PacketKey) -> Mapping[str, Item]:
        """The conversations of a packet; all are read at once, as many raters come at once."""
        if any(entry.item not in self._items for entry in key.entries):
            self._items = {name: found.item for name, found in candidates(self.study).items()}
        return self._items

    def _waiting(self, rater: str, task: Task, sample: str | None) -> Invitation | None:
        where = "WHERE rater = ? AND task = ? AND sample IS ? AND handed_in IS NULL"
        return next(iter(self._invitations(where, rater, task, sample)), None)

    def _invitations(self, where: str, *values: object) -> list[Invitation]:
        query = f"SELECT rater, packet, task, sample, invited, handed_in FROM invitations {where}"  # noqa: S608 - our own words
        return [Invitation(*row) for row in self._db.execute(query, values)]

    def _key(self, packet: str) -> PacketKey:
        row = self._db.execute("SELECT packet FROM packets WHERE name = ?", [packet]).fetchone()
        return PacketKey.of(json.loads(row[0]))

    def _refuse_handed_in(self, invitation: Invitation) -> None:
        where = "WHERE rater = ? AND packet = ? AND handed_in IS NOT NULL"
        if self._invitations(where, invitation.rater, invitation.packet):
            raise InputError("this was handed in already, and stays as it is")


def rater_named(name: str) -> str:
    """The name of a person as a rater; what would look odd in a table is refused."""
    short = name.removeprefix(HUMAN).strip()
    if not short or len(short) > LONGEST_NAME or not short.isprintable():
        raise InputError(
            f"{name!r} is no name for a rater: give one of 1 to {LONGEST_NAME} letters"
        )
    return f"{HUMAN}{short}"


def _seed(rater: str) -> int:
    """Everybody has an order of their own, and always the same."""
    return int.from_bytes(hashlib.sha256(rater.encode()).digest()[:4])
