"""Taking a filled packet back: every row must be one that was handed out, and unchanged."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Record
from chimeralab.rating.blind import PAGE, KeyEntry, PacketKey
from chimeralab.rating.packet_rows import FilledRow, read_sheet
from chimeralab.rating.ratings import Item, Rating
from chimeralab.rating.rubric import Rubric
from chimeralab.stats.panel import Panel, panel


@dataclass(frozen=True, slots=True)
class PacketResult(Record):
    """The ratings of a packet, one an item, and how far the rater agrees with the duplicates."""

    ratings: tuple[Rating, ...]
    retest: Panel
    blank: int


def import_packet(
    sheet: Path, key: PacketKey, items: Mapping[str, Item], rubric: Rubric, rater: str
) -> PacketResult:
    """Read a filled sheet. The first label of an item counts, its duplicate is the retest."""
    if rubric.sha256 != key.rubric_sha256:
        raise InputError(f"packet {key.packet} was made with another rubric; rate by that one")
    _refuse_edited_page(sheet.with_name(PAGE), key)
    rows = _by_sheet(read_sheet(sheet), key, sheet)
    for entry in key.entries:
        _refuse_changed_item(entry, items)
    first = {entry.item: rows[entry.sheet] for entry in key.entries if not entry.duplicate}
    again = {entry.item: rows[entry.sheet] for entry in key.entries if entry.duplicate}
    ratings = tuple(_rating(row, items[item], rater, rubric, sheet) for item, row in first.items())
    if all(rating.label is None for rating in ratings):
        raise InputError(f"{sheet} holds no label; fill it in and hand it back")
    columns = ([rows[item].label for item in again] for rows in (first, again))
    retest = panel(*columns, rng=np.random.default_rng(key.seed))
    return PacketResult(ratings, retest, sum(rating.label is None for rating in ratings))


def _refuse_edited_page(page: Path, key: PacketKey) -> None:
    """Where the page lies beside the sheet, it must be the one that was handed out."""
    if page.exists() and hashlib.sha256(page.read_bytes()).hexdigest() != key.page_sha256:
        raise InputError(f"{page} was edited after it was made; the labels can't be trusted")


def _by_sheet(rows: list[FilledRow], key: PacketKey, path: Path) -> dict[str, FilledRow]:
    known = {entry.sheet: entry for entry in key.entries}
    found: dict[str, FilledRow] = {}
    for row in rows:
        entry = known.get(row.sheet)
        if entry is None:
            reason = f"sheet {row.sheet!r} is not part of packet {key.packet}"
            raise LogError(str(path), reason, row.line)
        if row.sheet in found:
            raise LogError(str(path), f"sheet {row.sheet!r} comes twice", row.line)
        if row.check != entry.check:
            reason = f"the check of {row.sheet!r} is not the one handed out: was the text edited?"
            raise LogError(str(path), reason, row.line)
        found[row.sheet] = row
    missing = next((sheet for sheet in known if sheet not in found), None)
    if missing is not None:
        raise LogError(str(path), f"sheet {missing!r} is missing; leave its label blank instead")
    return found


def _refuse_changed_item(entry: KeyEntry, items: Mapping[str, Item]) -> None:
    item = items.get(entry.item)
    if item is None:
        raise InputError(
            f"sheet {entry.sheet!r} stands for '{entry.item}', which is not known here"
        )
    if item.sha256 != entry.text_sha256:
        raise InputError(f"the text of '{entry.item}' has changed since the packet was made")


def _rating(row: FilledRow, item: Item, rater: str, rubric: Rubric, path: Path) -> Rating:
    turns = _turns(row, item, path)
    reason = row.reason or ("No label was given." if row.label is None else "No reason was given.")
    return Rating(item.id, rater, row.label, reason, turns, rubric=rubric.version)


def _turns(row: FilledRow, item: Item, path: Path) -> tuple[int, ...]:
    """Turns as people write them: "4-7", "4, 5, 6"."""
    turns: list[int] = []
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", row.turns))):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if found is None or not 1 <= int(found[1]) <= int(found[2] or found[1]) <= len(item.texts):
            raise LogError(str(path), f"turns {row.turns!r}; write them like 4-7", row.line)
        turns.extend(range(int(found[1]), int(found[2] or found[1]) + 1))
    return tuple(dict.fromkeys(turns))
