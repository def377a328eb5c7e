"""What raters put down before they hand in: drafts, which may be changed and taken back."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.packets import read_turns
from chimeralab.rating.rubric import Rubric
from chimeralab.study.database import transaction
from chimeralab.study.raters import now

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
