"""Blinded packets for human raters: a page to rate on, a sheet to fill in, and a key.

A packet reveals neither condition nor model. On import, every row must match one that was exported.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import write_text
from chimeralab.core.records import Record
from chimeralab.core.tables import open_table, read_rows
from chimeralab.core.text import neutralize
from chimeralab.rating.ratings import Item, Rating
from chimeralab.rating.rubric import Label, Rubric
from chimeralab.version import __version__

PAGE, SHEET = "packet.html", "ratings.csv"
# The ratings of a packet, one per item, and for each duplicated item whether both labels are equal
# (None where one is missing).
PacketRatings = tuple[tuple[Rating, ...], Mapping[str, bool | None]]

COLUMNS = {"sheet": str, "check": str, "label": str, "turns": str, "reason": str}
LABELS: dict[str, Label | None] = {"": None, "0": 0, "1": 1}
# The share of items that appear twice, for test-retest agreement.
DUPLICATES = 0.08
MASK = "█████"
TEMPLATES = Path(__file__).with_name("templates")
# The layout and style sheet of all pages.
LOOK = TEMPLATES.parents[1] / "report" / "templates"


@dataclass(frozen=True, slots=True)
class KeyEntry(Record):
    """The item behind a sheet."""

    sheet: str
    item: str
    text_sha256: str
    check: str
    duplicate: bool


@dataclass(frozen=True, slots=True)
class PacketKey(Record):
    """What it takes to import a packet; it is kept apart from the packet.

    A packet that is rated in the browser has no page, and so no `page_sha256`.
    """

    packet: str
    seed: int
    rubric_sha256: str
    page_sha256: str
    masked: tuple[str, ...]
    entries: tuple[KeyEntry, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "PacketKey":
        """Read a key from the values of `as_dict`."""
        entries = tuple(KeyEntry(**entry) for entry in values["entries"])
        return cls(**{**values, "masked": tuple(values["masked"]), "entries": entries})


@dataclass(frozen=True, slots=True)
class DraftRating(Record):
    """What a rater entered for a sheet: 0, 1 or unsure, the deciding turns and a reason.

    One read from a file has its line number and checksum.
    """

    sheet: str
    label: str = ""
    turns: str = ""
    reason: str = ""
    check: str = ""
    line: int = 0


def lay_out_packet(
    items: Sequence[Item], rubric: Rubric, seed: int, names: Sequence[str]
) -> tuple[dict[str, Item], PacketKey]:
    """Make the sheets of a packet, in order, and the key to them.

    Items are shuffled by `seed`, some are duplicated, and `names` are masked; the names of sheets
    reveal nothing.
    """
    if not items:
        raise InputError("there are no items to rate")
    shown = [Item(item.id, mask_names(item.texts, names)) for item in _shuffle(items, seed)]
    content = json.dumps([seed, [item.texts for item in shown]]).encode("ascii")
    name = "p" + hashlib.sha256(content).hexdigest()[:7]
    sheets = {f"{name}-{n:03}": item for n, item in enumerate(shown, 1)}
    whole, seen, entries = {item.id: item.sha256 for item in items}, set(), []
    for sheet, item in sheets.items():
        check = sheet_checksum(sheet, item)
        entries.append(KeyEntry(sheet, item.id, whole[item.id], check, item.id in seen))
        seen.add(item.id)
    return sheets, PacketKey(name, seed, rubric.sha256, "", tuple(names), tuple(entries))


def restore_sheets(key: PacketKey, items: Mapping[str, Item]) -> dict[str, Item]:
    """Make the sheets of an existing packet again."""
    _check_texts_unchanged(key, items)
    return {
        entry.sheet: Item(entry.sheet, mask_names(items[entry.item].texts, key.masked))
        for entry in key.entries
    }


def export_packet(
    folder: Path,
    items: Sequence[Item],
    rubric: Rubric,
    *,
    seed: int,
    masked: Sequence[str] = (),
) -> PacketKey:
    """Write the page and the empty sheet into a new folder, and return the key to keep."""
    sheets, key = lay_out_packet(items, rubric, seed, masked)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose a new folder for the packet")
    page = packet_page(key.packet, sheets, rubric)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / PAGE, page)
    with open_table(folder / SHEET, COLUMNS) as write:
        for entry in key.entries:
            write({**dict.fromkeys(COLUMNS, ""), "sheet": entry.sheet, "check": entry.check})
    return replace(key, page_sha256=hashlib.sha256(page.encode()).hexdigest())


def packet_page(name: str, sheets: Mapping[str, Item], rubric: Rubric) -> str:
    """Render the page: it works offline, escapes all texts and runs no script but its own."""
    script = (TEMPLATES / "packet.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader([TEMPLATES, LOOK]), autoescape=True, undefined=StrictUndefined
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("packet.html").render(
        name=name,
        rubric=rubric,
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=f"sha256-{digest}",
        version=__version__,
        sheets=[
            {
                "id": sheet,
                "check": sheet_checksum(sheet, item),
                "texts": [neutralize(text) for text in item.texts],
            }
            for sheet, item in sheets.items()
        ],
    )


def sheet_checksum(sheet: str, item: Item) -> str:
    """Hash a sheet as shown; the rater returns it with the label.

    The name of the sheet is hashed too, so that duplicates are not recognisable. The checksum is
    all letters because a spreadsheet rounds what looks like a number.
    """
    digest = hashlib.sha256(f"{sheet} {item.sha256}".encode()).hexdigest()
    return digest[:12].translate(str.maketrans("0123456789", "ghijklmnop"))


def read_sheet(path: Path) -> list[DraftRating]:
    """Read the rows of a filled-in sheet."""
    rows = []
    for line, row in read_rows(path, tuple(COLUMNS), kind=".csv"):
        cells = {name: row[name].strip() for name in COLUMNS}
        if cells["label"] not in LABELS:
            raise LogError(str(path), f"label {cells['label']!r}; a label is 0, 1 or blank", line)
        rows.append(DraftRating(**cells, line=line))
    return rows


def import_packet(
    sheet: Path, key: PacketKey, items: Mapping[str, Item], rubric: Rubric, rater: str
) -> PacketRatings:
    """Read a filled-in sheet; the first label of an item counts, its duplicate is the retest."""
    page = sheet.with_name(PAGE)
    if page.exists() and hashlib.sha256(page.read_bytes()).hexdigest() != key.page_sha256:
        raise InputError(f"{page} was edited after the export; its labels can't be trusted")
    rows = read_sheet(sheet)
    check_packet_rubric(key, rubric)
    ratings, repeated = collect_ratings(str(sheet), rows, key, items, rater)
    return tuple(replace(each, rubric=rubric.version) for each in ratings), repeated


def check_packet_rubric(key: PacketKey, rubric: Rubric) -> None:
    if rubric.sha256 != key.rubric_sha256:
        raise InputError(f"packet {key.packet} was made with another rubric")


def collect_ratings(
    source: str,
    filled: Sequence[DraftRating],
    key: PacketKey,
    items: Mapping[str, Item],
    rater: str,
) -> PacketRatings:
    """Convert filled-in sheets to ratings; `source` names the packet in errors."""
    rows = _by_sheet(filled, key, source)
    _check_texts_unchanged(key, items)
    first = {entry.item: rows[entry.sheet] for entry in key.entries if not entry.duplicate}
    again = {entry.item: rows[entry.sheet] for entry in key.entries if entry.duplicate}
    ratings = []
    for item, row in first.items():
        label = LABELS.get(row.label)
        unsaid = "No label was given." if label is None else "No reason was given."
        turns = read_turns(row.turns, len(items[item].texts))
        if turns is None:
            raise LogError(source, f"turns {row.turns!r}; write them like 4-7", row.line)
        ratings.append(Rating(item, rater, label, row.reason or unsaid, turns))
    if all(rating.label is None for rating in ratings):
        raise InputError(f"{source} has no label; fill it in first")
    repeated: dict[str, bool | None] = {}
    for item, row in again.items():
        one, other = LABELS.get(first[item].label), LABELS.get(row.label)
        repeated[item] = None if one is None or other is None else one == other
    return tuple(ratings), repeated


def _check_texts_unchanged(key: PacketKey, items: Mapping[str, Item]) -> None:
    for entry in key.entries:
        if entry.item not in items:
            raise InputError(
                f"sheet {entry.sheet!r} is for '{entry.item}', which is not in this study"
            )
        if items[entry.item].sha256 != entry.text_sha256:
            raise InputError(f"the text of '{entry.item}' has changed since the packet was made")


def _shuffle(items: Sequence[Item], seed: int) -> list[Item]:
    """Shuffle the items and repeat some of them in the second half of the packet."""
    rng = np.random.default_rng(seed)
    order = [items[n] for n in rng.permutation(len(items))]
    count = max(1, round(DUPLICATES * len(items))) if len(items) > 1 else 0
    again = [order[n] for n in range(count)]
    places = sorted(rng.integers((len(order) + 1) // 2, len(order) + 1, size=count).tolist())
    for place, item in reversed(list(zip(places, again, strict=True))):
        order.insert(max(place, count + 1), item)
    return order


def mask_names(texts: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Mask names that would reveal the condition or the model."""
    known = sorted(filter(None, names), key=len, reverse=True)
    if not known:
        return tuple(texts)
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in known), re.I)
    return tuple(pattern.sub(MASK, text) for text in texts)


def _by_sheet(rows: Sequence[DraftRating], key: PacketKey, source: str) -> dict[str, DraftRating]:
    """Index the rows by sheet; every exported sheet must occur once, unchanged."""
    known = {entry.sheet: entry for entry in key.entries}
    found: dict[str, DraftRating] = {}
    for row in rows:
        entry = known.get(row.sheet)
        if entry is None:
            reason = f"sheet {row.sheet!r} is not part of packet {key.packet}"
            raise LogError(source, reason, row.line)
        if row.sheet in found:
            raise LogError(source, f"sheet {row.sheet!r} occurs twice", row.line)
        if row.check != entry.check:
            reason = (
                f"the checksum of {row.sheet!r} does not match the export: was the text edited?"
            )
            raise LogError(source, reason, row.line)
        found[row.sheet] = row
    missing = next((sheet for sheet in known if sheet not in found), None)
    if missing is not None:
        raise LogError(source, f"sheet {missing!r} is missing; leave its label blank instead")
    return found


def read_turns(written: str, last: int) -> tuple[int, ...] | None:
    """Parse turns as people write them; None if they are invalid.

    >>> read_turns("4-6, 2", last=9), read_turns("4-12", last=9)
    ((4, 5, 6, 2), None)
    """
    turns: list[int] = []
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", written))):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if found is None or not 1 <= int(found[1]) <= int(found[2] or found[1]) <= last:
            return None
        turns.extend(range(int(found[1]), int(found[2] or found[1]) + 1))
    return tuple(dict.fromkeys(turns))


def format_turns(turns: Iterable[int]) -> str:
    """Format turns as ranges.

    >>> format_turns([4, 5, 6, 9])
    '4-6, 9'
    """
    spans: list[list[int]] = []
    for turn in sorted(set(turns)):
        if spans and spans[-1][1] == turn - 1:
            spans[-1][1] = turn
        else:
            spans.append([turn, turn])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
