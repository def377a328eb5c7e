"""Rating in the browser: invitations, drafts, and handing them in.

An invitation is a packet that stays on the server. Its rater enters drafts, which only they can see
and change; handing them in turns them into ratings for good. A third person adjudicates what the
raters of a decided gate disagree on: that label is stored alongside theirs and replaces neither.
"""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Self

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.gate import HUMAN, Gate
from chimeralab.rating.packets import (
    LABELS,
    DraftRating,
    PacketKey,
    check_packet_rubric,
    collect_ratings,
    lay_out_packet,
    mask_names,
    restore_sheets,
)
from chimeralab.rating.plan import load_study_rubric
from chimeralab.rating.raters import (
    find_rater,
    identifying_names,
    insert_ratings,
    load_packet_key,
    load_ratings,
)
from chimeralab.rating.ratings import Item, Shuffler
from chimeralab.rating.rubric import Rubric
from chimeralab.rating.samples import find_sample, load_items, load_samples
from chimeralab.rating.study_audit import audit_study, load_decided_gate
from chimeralab.study.database import StoreError, open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.store import RETESTS, Archive, draw_secret, now

Task = Literal["rate", "adjudicate"]
TOKEN_BYTES = 32
MAX_NAME = 60
MAX_REASON = 2_000
UNSURE = "u"
# Worked examples are stored as drafts too, under sheet names with this prefix.
TRAINING = "training-"
_INVITATIONS = "SELECT rater, packet, task, sample, invited, handed_in FROM invitations"


@dataclass(frozen=True, slots=True)
class Invitation(Record):
    """Who was asked to do what, on which packet."""

    rater: str
    packet: str
    task: Task
    sample: str | None
    invited: str
    handed_in: str | None


@dataclass(frozen=True, slots=True)
class RaterSession:
    """An invitation with its sheets in order, the key to them, and what the rater has entered.

    `opinions` are the anonymised ratings of each sheet; only an adjudicator gets them.
    """

    invitation: Invitation
    key: PacketKey
    sheets: Mapping[str, Item]
    opinions: Mapping[str, tuple[DraftRating, ...]]
    rubric: Rubric
    drafts: Mapping[str, DraftRating] = field(default_factory=dict)
    training: Mapping[str, DraftRating] = field(default_factory=dict)

    @property
    def n_labelled(self) -> int:
        return sum(each.label != "" for each in self.drafts.values())

    @property
    def next_example(self) -> int | None:
        """The number of the next worked example to try; adjudicators skip them."""
        if self.invitation.task == "adjudicate":
            return None
        names = list_training_sheets(self.rubric)
        return next((n for n, name in enumerate(names, 1) if name not in self.training), None)

    def draft(self, sheet: str) -> DraftRating:
        return self.drafts.get(sheet, DraftRating(sheet))


class RatingService:
    """The invitations and drafts of one study, used from a single thread.

    The store is opened for writing, and migrated, once a rater or the owner has something to write.
    """

    def __init__(self, study: Study) -> None:
        if not study.store_path.is_file():
            raise InputError(f"{study.path} has not been run yet; start with `chimera run`")
        self.study = study
        self._db: sqlite3.Connection | None = None
        self._sessions: dict[str, RaterSession] = {}
        self._items: dict[str, Item] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._db is not None:
            self._db.close()

    def _open(self) -> sqlite3.Connection:
        self._db = self._db or open_to_write(self.study.store_path)
        return self._db

    @cached_property
    def _gate(self) -> Gate:
        gate: Gate = self.study.plan.extras["gate"]
        return gate

    def invite(self, name: str, only: str | None = None, task: Task = "rate") -> str:
        """Invite a person and return the token of their link, which is not stored.

        Inviting someone again before they have handed in replaces their link and keeps their work.
        """
        self.study.check_lock()
        self._open()
        rater = normalize_rater_name(name)
        make_packet = self._adjudication_packet if task == "adjudicate" else self._rating_packet
        sample, key = make_packet(rater, load_items(self.study), only)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with transaction(self._open(), self.study.store_path) as db:
            packet = (key.packet, json.dumps(key.as_dict()), now())
            db.execute("INSERT OR IGNORE INTO packets VALUES (?, ?, ?)", packet)
            db.execute(
                "INSERT INTO invitations VALUES (?, ?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (rater, packet) DO UPDATE SET token_sha256 = excluded.token_sha256",
                (rater, key.packet, task, sample, _hash_token(token), now()),
            )
        return token

    def find_invitation(self, token: str) -> Invitation | None:
        """Look a token up without writing: anybody may present one."""
        with Archive(self.study.store_path, any_schema=True) as archive:
            rows = archive.rows(f"{_INVITATIONS} WHERE token_sha256 = ?", _hash_token(token))
            return next((Invitation(**row) for row in rows), None)

    def progress(self) -> list[tuple[Invitation, int, int, int]]:
        """Count the sheets, labels and unsure labels of each invitation."""
        found = []
        for each in self._invitations("ORDER BY invited, rater"):
            given = [draft.label for draft in self.drafts(each).values()]
            sheets = len(self._key(each.packet).entries)
            labelled = sum(label in LABELS and label != "" for label in given)
            found.append((each, sheets, labelled, given.count(UNSURE)))
        return found

    def session(self, invitation: Invitation) -> RaterSession:
        """Load the sheets of an invitation and its drafts.

        Sheets are cached: the text of a finished conversation does not change.
        """
        self._open()
        packet = invitation.packet
        if packet not in self._sessions:
            key = self._key(packet)
            # Read all conversations at once: raters tend to arrive together.
            if any(entry.item not in self._items for entry in key.entries):
                self._items = load_items(self.study)
            sheets = restore_sheets(key, self._items)
            opinions = self._opinions(key) if invitation.task == "adjudicate" else {}
            rubric = load_study_rubric(self.study)
            self._sessions[packet] = RaterSession(invitation, key, sheets, opinions, rubric)
        drafts, training = (self.drafts(invitation, training=each) for each in (False, True))
        cached = self._sessions[packet]
        return replace(cached, invitation=invitation, drafts=drafts, training=training)

    def drafts(self, invitation: Invitation, *, training: bool = False) -> dict[str, DraftRating]:
        """Load the latest draft of each sheet."""
        query = "SELECT sheet, label, turns, reason FROM drafts WHERE packet = ? ORDER BY id"
        with self.study.archive() as archive:
            found = [DraftRating(**row) for row in archive.rows(query, invitation.packet)]
        return {each.sheet: each for each in found if each.sheet.startswith(TRAINING) == training}

    def save(self, invitation: Invitation, draft: DraftRating) -> DraftRating:
        """Store a draft: a new undo step, or the last one again if sheet and label are the same.

        A draft without a label keeps the earlier one: an autosave may arrive after the label.
        """
        self._check_open(invitation)
        session = self.session(invitation)
        _check_draft(draft, session)
        if not draft.label:
            draft = replace(draft, label=session.draft(draft.sheet).label)
        cells = (draft.label, draft.turns, draft.reason, now())
        with transaction(self._open(), self.study.store_path) as db:
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
        """Undo the last step and return its sheet."""
        self._check_open(invitation)
        with transaction(self._open(), self.study.store_path) as db:
            last = self._last_draft(invitation)
            if last is None or last[1].startswith(TRAINING):
                return None
            db.execute("DELETE FROM drafts WHERE id = ?", [last[0]])
        return last[1]

    def hand_in(self, invitation: Invitation) -> tuple[int, int, str | None]:
        """Turn the drafts into ratings, all at once and for good, and decide the gate if it is due.

        Returns the number of ratings, the number without a label, and the outcome of the gate.
        """
        session = self.session(invitation)
        self._check_open(invitation)
        unlabelled = [
            n for n, name in enumerate(session.sheets, 1) if not session.draft(name).label
        ]
        if unlabelled:
            numbers = ", ".join(map(str, unlabelled[:10])) + (" …" if len(unlabelled) > 10 else "")
            raise InputError(f"{len(unlabelled)} have no label yet: {numbers}")
        if invitation.task == "adjudicate":
            rows = []
            for entry in session.key.entries:
                draft = session.drafts[entry.sheet]
                cells = (LABELS.get(draft.label), draft.reason, draft.turns)
                rows.append((entry.item, invitation.sample, *cells, invitation.rater, now()))
            query = "INSERT INTO adjudications VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._close(invitation, lambda db: db.executemany(query, rows))
            return len(rows), sum(row[2] is None for row in rows), None
        return self._store(session)

    def load_adjudications(self) -> dict[str, DraftRating]:
        """Load the adjudicated label of each conversation, with its turns and reason."""
        with self.study.archive() as archive:
            rows = list(archive.rows("SELECT * FROM adjudications ORDER BY at"))
        return {
            row["trajectory"]: DraftRating(
                row["trajectory"],
                "" if row["label"] is None else str(row["label"]),
                row["turns"],
                row["reason"],
            )
            for row in rows
        }

    def _store(self, session: RaterSession) -> tuple[int, int, str | None]:
        who, key, known = session.invitation, session.key, load_items(self.study)
        check_packet_rubric(key, session.rubric)
        drafts = [
            replace(session.drafts[entry.sheet], check=entry.check, line=n)
            for n, entry in enumerate(key.entries, 1)
        ]
        source = f"packet {key.packet}"
        ratings, repeated = collect_ratings(source, drafts, key, known, session.rubric)
        rater = find_rater(self.study, who.rater)
        rated = [(known[rating.item], rating) for rating in ratings]
        notes = {f"{RETESTS}{who.rater} {key.packet}": repeated}
        self._close(who, lambda db: insert_ratings(db, rater, rated, notes))
        return len(rated), sum(each.label is None for each in ratings), self._decide()

    def _close(self, who: Invitation, write: Callable[[sqlite3.Connection], object]) -> None:
        """Mark an invitation as handed in and write its rows, in one transaction."""
        with transaction(self._open(), self.study.store_path) as db:
            query = (
                "UPDATE invitations SET handed_in = ? "
                "WHERE rater = ? AND packet = ? AND handed_in IS NULL"
            )
            if not db.execute(query, (now(), who.rater, who.packet)).rowcount:
                raise InputError("this was handed in already and can't be changed")
            write(db)

    def _decide(self) -> str | None:
        """Decide the gate once all of its raters are done; the store prevents a second decision."""
        drawn = [each for each in load_samples(self.study) if each.kind == "gate"]
        if not self._gate.declared or (drawn and drawn[-1].used):
            return None
        try:
            return audit_study(self.study).gate.name
        except InputError:
            return None  # a rater is not done yet; `chimera audit` names them

    def _rating_packet(
        self, rater: str, known: Mapping[str, Item], only: str | None
    ) -> tuple[str | None, PacketKey]:
        """Make the packet of a rater: a sample, or everything finished that they have not rated."""
        gate_due = [
            each.name for each in load_samples(self.study) if each.kind == "gate" and not each.used
        ]
        sample = only or next(iter(gate_due), None)
        if pending := self._pending_packet(rater, "rate", sample):
            return sample, pending
        wanted = find_sample(self.study, sample).ids if sample else tuple(known)
        done = load_ratings(self.study, rater)
        left = [known[name] for name in wanted if name not in done]
        if not left:
            what = sample or f"the {len(known)} finished conversations"
            raise InputError(f"{rater} has nothing left to rate in {what}")
        return sample, self._lay_out(left, "rate", sample, rater)

    def _adjudication_packet(
        self, rater: str, known: Mapping[str, Item], only: str | None
    ) -> tuple[str | None, PacketKey]:
        """Make a packet of what the raters of the decided gate disagree on."""
        found = load_decided_gate(self.study)
        if found is None:
            raise InputError("there is nothing to adjudicate before the gate is decided")
        sample, differing = found[0].sample, found[0].disagreements
        if only not in (None, sample):
            raise InputError(f"only the gate sample {sample} can be adjudicated, not {only}")
        if not differing:
            raise InputError(f"the raters agree on all of {sample}: there is nothing to adjudicate")
        if any(rater in each.labels for each in differing):
            raise InputError(f"{rater} rated this sample; a third person must adjudicate it")
        if pending := self._pending_packet(rater, "adjudicate", sample):
            return sample, pending
        if self._invitations("WHERE task = 'adjudicate' AND sample = ?", sample):
            raise InputError(f"someone else is already adjudicating {sample}")
        items = [known[each.item] for each in differing]
        return sample, self._lay_out(items, "adjudicate", sample, rater, share=0.0)

    def _lay_out(
        self, items: Sequence[Item], task: Task, sample: str | None, rater: str, **more: float
    ) -> PacketKey:
        rubric, names = load_study_rubric(self.study), identifying_names(self.study)
        shuffler = Shuffler(draw_secret(self._open()), f"{task} {sample or 'all'} {rater}")
        return lay_out_packet(items, rubric, shuffler, names, **more)[1]

    def _opinions(self, key: PacketKey) -> dict[str, tuple[DraftRating, ...]]:
        """Collect the ratings of each sheet in a random order, which hides whose they are."""
        given = {name: load_ratings(self.study, name) for name in self._gate.raters}
        shuffler, found = Shuffler(draw_secret(self._open()), key.purpose), {}
        rubric = load_study_rubric(self.study)
        for entry in key.entries:
            found[entry.sheet] = tuple(
                DraftRating(
                    entry.sheet,
                    str(each.label),
                    rubric.label_turns(each.turns),
                    mask_names([each.reason], key.masked)[0],
                )
                for rater in sorted(given, key=lambda name: shuffler.hash(entry.sheet, name))
                if (each := given[rater].get(entry.item)) and each.label is not None
            )
        return found

    def _pending_packet(self, rater: str, task: Task, sample: str | None) -> PacketKey | None:
        """Find the packet that a rater was given and has not handed in."""
        where = "WHERE rater = ? AND task = ? AND sample IS ? AND handed_in IS NULL"
        found = self._invitations(where, rater, task, sample)
        return self._key(found[0].packet) if found else None

    def _invitations(self, where: str, *values: object) -> list[Invitation]:
        with self.study.archive() as archive:
            rows = archive.rows(f"{_INVITATIONS} {where}", *values)
            return [Invitation(**row) for row in rows]

    def _key(self, packet: str) -> PacketKey:
        key = load_packet_key(self.study, packet)
        if key is None:
            raise StoreError(f"{self.study.store_path}: packet {packet} is missing")
        return key

    def _last_draft(self, invitation: Invitation) -> tuple[int, str, str] | None:
        """Load the id, sheet and label of the last step."""
        query = "SELECT id, sheet, label FROM drafts WHERE packet = ? ORDER BY id DESC LIMIT 1"
        row: tuple[int, str, str] | None = (
            self._open().execute(query, [invitation.packet]).fetchone()
        )
        return row

    def _check_open(self, invitation: Invitation) -> None:
        where = "WHERE rater = ? AND packet = ? AND handed_in IS NOT NULL"
        if self._invitations(where, invitation.rater, invitation.packet):
            raise InputError("this was handed in already and can't be changed")


def _check_draft(draft: DraftRating, session: RaterSession) -> None:
    """Reject an unknown sheet, a bad label or bad turns; worked examples have no turns to cite."""
    if draft.sheet.startswith(TRAINING):
        if draft.sheet not in list_training_sheets(session.rubric):
            raise InputError(f"there is no example {draft.sheet!r}")
        turns = 0
    elif draft.sheet not in session.sheets:
        raise InputError(f"this invitation has no sheet {draft.sheet!r}")
    else:
        turns = len(session.sheets[draft.sheet].texts)
    if draft.label not in (*LABELS, UNSURE):
        raise InputError(f"label {draft.label!r}: give 0, 1 or {UNSURE}")
    if len(draft.reason) > MAX_REASON:
        raise InputError(f"a reason has at most {MAX_REASON:,} characters; one sentence will do")
    if session.rubric.read_turns(draft.turns, turns) is None:
        how = session.rubric.label_turns(range(5, 9))
        raise InputError(f"turns {draft.turns!r}: write them like {how}")


def list_training_sheets(rubric: Rubric) -> list[str]:
    """List the sheet names of the worked examples."""
    return [f"{TRAINING}{n}" for n in range(1, len(rubric.examples) + 1)]


def normalize_rater_name(name: str) -> str:
    """Return `human:NAME`, or reject a name that can't be printed in a table."""
    short = name.removeprefix(HUMAN).strip()
    if not short or len(short) > MAX_NAME or not short.isprintable():
        raise InputError(f"invalid rater name {name!r}: use 1 to {MAX_NAME} printable characters")
    return f"{HUMAN}{short}"


def _hash_token(token: str) -> str:
    """Hash a token for storage; it is long and random, so a plain hash is enough."""
    return hashlib.sha256(token.encode()).hexdigest()
