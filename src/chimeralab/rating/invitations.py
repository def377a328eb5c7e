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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.auditing import audit_study, contested
from chimeralab.rating.packets import (
    LABELS,
    DraftRating,
    KeyEntry,
    PacketKey,
    check_of,
    lay_out,
    masked,
    read_turns,
    refuse_other_rubric,
    sheets_of,
    take_in,
    written_turns,
)
from chimeralab.rating.plan import HUMAN, GateTable
from chimeralab.rating.raters import (
    insert_ratings,
    planned_rater,
    rubric_of,
    stored_ratings,
    telling_names,
)
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import Rubric
from chimeralab.rating.samples import candidates, sample_named, stored_samples
from chimeralab.study.database import open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.store import RETESTS, now

Task = Literal["rate", "adjudicate"]
TOKEN_BYTES = 32
MAX_NAME = 60
MAX_REASON = 2_000
UNSURE = "u"
# The worked examples that a rater begins with are drafts too, under names of their own.
TRAINING = "training-"


@dataclass(frozen=True, slots=True)
class Invitation(Record):
    """Who was asked to do what, on which packet."""

    rater: str
    packet: str
    task: Task
    sample: str | None
    invited: str
    handed_in: str | None


class Desk(NamedTuple):
    """All that an invitation needs: its sheets in their order, the key to them, the rubric.

    `opinions` is what was said about each sheet, without who it was; only an adjudicator has any.
    """

    key: PacketKey
    sheets: Mapping[str, Item]
    opinions: Mapping[str, tuple[DraftRating, ...]]
    rubric: Rubric


class RatingRoom:
    """Invitations and drafts of one study. A server keeps one, in one thread."""

    def __init__(self, study: Study) -> None:
        if not study.store_path.is_file():
            raise InputError(f"{study.path} has not been run yet; start with `chimera run`")
        self.study = study
        self._db = open_to_write(study.store_path)
        self._desks: dict[str, Desk] = {}
        self._items: dict[str, Item] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @cached_property
    def _gate(self) -> GateTable:
        gate: GateTable = self.study.plan.extras["gate"]
        return gate

    def invite(self, name: str, only: str | None = None, task: Task = "rate") -> str:
        """Invite a person, and give back the token of their link. It can't be had again.

        Who has not handed in yet gets a new link to the same sheets, and the old one ends.
        """
        self.study.checked_lock()
        rater = rater_named(name)
        for_whom = self._to_adjudicate if task == "adjudicate" else self._to_rate
        sample, key = for_whom(rater, candidates(self.study), only)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with transaction(self._db, self.study.store_path) as db:
            packet = (key.packet, json.dumps(key.as_dict()), now())
            db.execute("INSERT OR IGNORE INTO packets VALUES (?, ?, ?)", packet)
            db.execute(
                "INSERT INTO invitations VALUES (?, ?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (rater, packet) DO UPDATE SET token_sha256 = excluded.token_sha256",
                (rater, key.packet, task, sample, _hashed(token), now()),
            )
        return token

    def invited(self, token: str) -> Invitation | None:
        """Whose token this is."""
        return next(iter(self._invitations("WHERE token_sha256 = ?", _hashed(token))), None)

    def progress(self) -> list[tuple[Invitation, int, int, int]]:
        """The sheets of everybody, how many have a label, and of how many they are unsure."""
        found = []
        for each in self._invitations("ORDER BY invited, rater"):
            given = [draft.label for draft in self.drafts(each).values()]
            sheets = len(self._key(each.packet).entries)
            labelled = sum(label in LABELS and label != "" for label in given)
            found.append((each, sheets, labelled, given.count(UNSURE)))
        return found

    def desk(self, invitation: Invitation) -> Desk:
        """The sheets of an invitation. Texts of finished conversations do not change."""
        packet = invitation.packet
        if packet not in self._desks:
            key = self._key(packet)
            # All conversations are read at once, as many raters come at once.
            if any(entry.item not in self._items for entry in key.entries):
                self._items = candidates(self.study)
            sheets = sheets_of(key, self._items)
            said = self._opinions(key) if invitation.task == "adjudicate" else {}
            self._desks[packet] = Desk(key, sheets, said, rubric_of(self.study))
        return self._desks[packet]

    def drafts(self, invitation: Invitation, *, training: bool = False) -> dict[str, DraftRating]:
        """The newest draft of each sheet."""
        query = "SELECT sheet, label, turns, reason FROM drafts WHERE packet = ? ORDER BY id"
        found = (DraftRating(*row) for row in self._db.execute(query, [invitation.packet]))
        return {each.sheet: each for each in found if each.sheet.startswith(TRAINING) == training}

    def save(self, invitation: Invitation, draft: DraftRating) -> DraftRating:
        """Keep a draft; every step is kept, to be undone.

        Changes to a reason or to turns belong to the label that they are for. Without a label the
        one that was given stays: what a page keeps by itself may come late.
        """
        self._refuse_handed_in(invitation)
        self._refuse_unfit(draft, self.desk(invitation))
        if not draft.label and (given := self.drafts(invitation).get(draft.sheet)):
            draft = replace(draft, label=given.label)
        cells = (draft.label, draft.turns, draft.reason, now())
        with transaction(self._db, self.study.store_path) as db:
            last = self._last_draft(invitation)
            if last and last[1:] == (draft.sheet, draft.label):
                query = "UPDATE drafts SET label = ?, turns = ?, reason = ?, at = ? WHERE id = ?"
                db.execute(query, (*cells, last[0]))
            else:
                query = "INSERT INTO drafts (packet, sheet, label, turns, reason, at) "
                query += "VALUES (?, ?, ?, ?, ?, ?)"
                db.execute(query, (invitation.packet, draft.sheet, *cells))
        return draft

    def undo(self, invitation: Invitation) -> str | None:
        """Take the last step back, and say which sheet it was on."""
        self._refuse_handed_in(invitation)
        with transaction(self._db, self.study.store_path) as db:
            last = self._last_draft(invitation)
            if last is None or last[1].startswith(TRAINING):
                return None
            db.execute("DELETE FROM drafts WHERE id = ?", [last[0]])
        return last[1]

    def hand_in(self, invitation: Invitation) -> tuple[int, int, str | None]:
        """Make the drafts ratings, all at once and for good; then see whether the gate is due.

        Says how many are stored, how many of them are blank, and the outcome of the gate if it
        could be decided now.
        """
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
        if invitation.task == "adjudicate":
            settled = []
            for entry in desk.key.entries:
                row = drafts[entry.sheet]
                said = (LABELS.get(row.label), row.reason, row.turns)
                settled.append((entry.item, invitation.sample, *said, invitation.rater, now()))
            query = "INSERT INTO adjudications VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._close(invitation, lambda db: db.executemany(query, settled))
            return len(settled), sum(row[2] is None for row in settled), None
        return self._store(invitation, desk, drafts)

    def settled(self) -> dict[str, DraftRating]:
        """The adjudicated label of each conversation, with its turns and reason."""
        query = "SELECT trajectory, label, turns, reason FROM adjudications ORDER BY at"
        return {
            row[0]: DraftRating(row[0], "" if row[1] is None else str(row[1]), row[2], row[3])
            for row in self._db.execute(query)
        }

    def _store(
        self, who: Invitation, desk: Desk, drafts: Mapping[str, DraftRating]
    ) -> tuple[int, int, str | None]:
        key, known = desk.key, candidates(self.study)
        refuse_other_rubric(key, desk.rubric)
        rows = [
            replace(drafts[entry.sheet], check=entry.check, line=n)
            for n, entry in enumerate(key.entries, 1)
        ]
        ratings, repeated = take_in(f"packet {key.packet}", rows, key, known, who.rater)
        rater = planned_rater(self.study, who.rater)
        rated = [(known[rating.item], rating) for rating in ratings]
        notes = {f"{RETESTS}{who.rater} {key.packet}": repeated}
        self._close(who, lambda db: insert_ratings(db, rater, rated, notes))
        return len(rated), sum(each.label is None for each in ratings), self._decide()

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
        drawn = [each for each in stored_samples(self.study) if each.kind == "gate"]
        if not self._gate.declared or (drawn and drawn[-1].used):
            return None
        try:
            return audit_study(self.study).gate.name
        except InputError:
            return None  # somebody is not done yet; `chimera audit` says who

    def _to_rate(
        self, rater: str, known: Mapping[str, Item], only: str | None
    ) -> tuple[str | None, PacketKey]:
        """The packet of a rater: a sample, or everything that is finished and not rated yet."""
        gate_due = [
            each.name
            for each in stored_samples(self.study)
            if each.kind == "gate" and not each.used
        ]
        sample = only or next(iter(gate_due), None)
        if waiting := self._waiting(rater, "rate", sample):
            return sample, waiting
        wanted = sample_named(self.study, sample).ids if sample else tuple(known)
        done = stored_ratings(self.study, rater)
        left = [known[name] for name in wanted if name not in done]
        if not left:
            what = sample or f"the {len(known)} finished conversations"
            raise InputError(f"there is nothing left for {rater} to rate in {what}")
        names = telling_names(self.study)
        return sample, lay_out(left, rubric_of(self.study), _seed(rater), names)[1]

    def _to_adjudicate(
        self, rater: str, known: Mapping[str, Item], only: str | None
    ) -> tuple[str | None, PacketKey]:
        """What the raters of the decided gate differ on, in an order of its own."""
        found = contested(self.study)
        if found is None:
            raise InputError("there is nothing to settle before the gate is decided")
        sample, differing = found[0].sample, found[0].disagreements
        if only not in (None, sample):
            raise InputError(f"what is settled is {sample}, the sample of the gate: not {only}")
        if not differing:
            raise InputError(f"the raters agree on all of {sample}: nothing is to be settled")
        if any(rater in each.labels for each in differing):
            raise InputError(f"{rater} rated this sample; a third person settles it")
        if waiting := self._waiting(rater, "adjudicate", sample):
            return sample, waiting
        if self._invitations("WHERE task = 'adjudicate' AND sample = ?", sample):
            raise InputError(f"somebody else settles {sample} already")
        seed, names = _seed(rater), telling_names(self.study)
        order = np.random.default_rng(seed).permutation(len(differing))
        name = "a" + hashlib.sha256(f"{rater} {sample}".encode()).hexdigest()[:7]
        entries = []
        for n, place in enumerate(order.tolist(), 1):
            item, sheet = known[differing[place].item], f"{name}-{n:03}"
            check = check_of(sheet, Item(item.id, masked(item.texts, names)))
            entries.append(KeyEntry(sheet, item.id, item.sha256, check, duplicate=False))
        rubric = rubric_of(self.study).sha256
        return sample, PacketKey(name, seed, rubric, "", names, tuple(entries))

    def _opinions(self, key: PacketKey) -> dict[str, tuple[DraftRating, ...]]:
        """What was said about each sheet, in an order that tells nobody who said it."""
        given = [stored_ratings(self.study, name) for name in self._gate.raters]
        rng, found = np.random.default_rng(key.seed), {}
        for entry in key.entries:
            opinions = [
                DraftRating(
                    entry.sheet,
                    str(each.label),
                    written_turns(each.turns),
                    masked([each.reason], key.masked)[0],
                )
                for rated in given
                if (each := rated.get(entry.item)) and each.label is not None
            ]
            found[entry.sheet] = tuple(opinions[n] for n in rng.permutation(len(opinions)))
        return found

    def _waiting(self, rater: str, task: Task, sample: str | None) -> PacketKey | None:
        """The packet that a rater was given and has not handed in."""
        where = "WHERE rater = ? AND task = ? AND sample IS ? AND handed_in IS NULL"
        found = self._invitations(where, rater, task, sample)
        return self._key(found[0].packet) if found else None

    def _invitations(self, where: str, *values: object) -> list[Invitation]:
        query = f"SELECT rater, packet, task, sample, invited, handed_in FROM invitations {where}"  # noqa: S608 - our own words
        return [Invitation(*row) for row in self._db.execute(query, values)]

    def _key(self, packet: str) -> PacketKey:
        row = self._db.execute("SELECT packet FROM packets WHERE name = ?", [packet]).fetchone()
        return PacketKey.of(json.loads(row[0]))

    def _last_draft(self, invitation: Invitation) -> tuple[int, str, str] | None:
        """The step that a rater took last: its number, its sheet, its label."""
        query = "SELECT id, sheet, label FROM drafts WHERE packet = ? ORDER BY id DESC LIMIT 1"
        row: tuple[int, str, str] | None = self._db.execute(query, [invitation.packet]).fetchone()
        return row

    def _refuse_handed_in(self, invitation: Invitation) -> None:
        where = "WHERE rater = ? AND packet = ? AND handed_in IS NOT NULL"
        if self._invitations(where, invitation.rater, invitation.packet):
            raise InputError("this was handed in already, and stays as it is")

    def _refuse_unfit(self, draft: DraftRating, desk: Desk) -> None:
        """Refuse what can't be meant of a sheet; a worked example has no turns to cite."""
        if draft.sheet.startswith(TRAINING):
            if draft.sheet not in training_names(desk.rubric):
                raise InputError("there is no such example")
            turns = 0
        elif draft.sheet not in desk.sheets:
            raise InputError("there is no such sheet in this invitation")
        else:
            turns = len(desk.sheets[draft.sheet].texts)
        if draft.label not in (*LABELS, UNSURE):
            raise InputError(f"label {draft.label!r}: give 0, 1 or {UNSURE}")
        if len(draft.reason) > MAX_REASON:
            raise InputError(
                f"a reason has at most {MAX_REASON:,} characters; one sentence will do"
            )
        if read_turns(draft.turns, turns) is None:
            raise InputError(f"turns {draft.turns!r}: write them like 4-7")


def training_names(rubric: Rubric) -> list[str]:
    """What the worked examples are called among the drafts."""
    return [f"{TRAINING}{n}" for n in range(1, len(rubric.examples) + 1)]


def rater_named(name: str) -> str:
    """The name of a person as a rater; what would look odd in a table is refused."""
    short = name.removeprefix(HUMAN).strip()
    if not short or len(short) > MAX_NAME or not short.isprintable():
        raise InputError(f"{name!r} is no name for a rater: give one of 1 to {MAX_NAME} letters")
    return f"{HUMAN}{short}"


def _hashed(token: str) -> str:
    """What is stored of a token: it is random and long, so its hash gives nothing away."""
    return hashlib.sha256(token.encode()).hexdigest()


def _seed(rater: str) -> int:
    """Everybody has an order of their own, and always the same."""
    return int.from_bytes(hashlib.sha256(rater.encode()).digest()[:4])
