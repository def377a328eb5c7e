"""Blinded packets for human raters: a page to rate on, a sheet to fill in, and a key.

A packet reveals neither condition nor model. On import, every row must match one that was exported.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import remove_stale_parts, write_text
from chimeralab.core.records import Record
from chimeralab.core.tables import open_table, read_rows
from chimeralab.core.text import neutralize
from chimeralab.rating.ratings import Item, Rating, Shuffler
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

    `purpose` says for whom or what it was drawn: with the secret, it determines the order.
    A packet that is rated in the browser has no page, and so no `page_sha256`.
    """

    packet: str
    purpose: str
    rubric_sha256: str
    page_sha256: str
    masked: tuple[str, ...]
    entries: tuple[KeyEntry, ...]


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
    items: Sequence[Item],
    rubric: Rubric,
    shuffler: Shuffler,
    names: Sequence[str] = (),
    share: float = DUPLICATES,
) -> tuple[dict[str, Item], PacketKey]:
    """Make the sheets of a packet, in order, and the key to them.

    Items are shuffled and a `share` of them appears twice; the names of sheets reveal nothing, and
    `names` are masked.
    """
    if not items:
        raise InputError("there are no items to rate")
    known = {item.id: item for item in items}
    name = "p" + shuffler.hash("packet", *sorted(known))[:7]
    order = _repeat_some(shuffler.order(known), share, shuffler)
    sheets, entries, seen = dict[str, Item](), list[KeyEntry](), set[str]()
    for n, each in enumerate(order, 1):
        sheet, item = f"{name}-{n:03}", known[each]
        sheets[sheet] = Item(each, mask_names(item.texts, names))
        check = sheet_checksum(sheet, sheets[sheet])
        entries.append(KeyEntry(sheet, each, item.sha256, check, each in seen))
        seen.add(each)
    return sheets, PacketKey(
        name, shuffler.purpose, rubric.sha256, "", tuple(names), tuple(entries)
    )


def restore_sheets(key: PacketKey, items: Mapping[str, Item]) -> dict[str, Item]:
    """Make the sheets of an existing packet again."""
    _check_texts_unchanged(key, items)
    return {
        entry.sheet: Item(entry.sheet, mask_names(items[entry.item].texts, key.masked))
        for entry in key.entries
    }


def export_packet(
    folder: Path,
    packet: tuple[Mapping[str, Item], PacketKey],
    rubric: Rubric,
    keep: Callable[[PacketKey], object] = lambda key: key,
) -> PacketKey:
    """Write the page and the empty sheet of a packet into a new folder, and return the key.

    `keep` is given the key before anything is written: no packet exists without one. A page that
    lacks its sheet was left by a process that was killed, and gets it.
    """
    sheets, key = packet
    page = packet_page(key.packet, sheets, rubric)
    key = replace(key, page_sha256=hashlib.sha256(page.encode()).hexdigest())
    remove_stale_parts(folder)
    found = {path.name: path for path in folder.iterdir()} if folder.exists() else {}
    if found and not (found.keys() == {PAGE} and found[PAGE].read_bytes() == page.encode()):
        raise InputError(f"{folder} is not empty; choose a new folder for the packet")
    keep(key)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / PAGE, page)
    with open_table(folder / SHEET, COLUMNS) as write:
        for entry in key.entries:
            write({**dict.fromkeys(COLUMNS, ""), "sheet": entry.sheet, "check": entry.check})
    return key


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
    ratings, repeated = collect_ratings(str(sheet), rows, key, items, rubric)
    return tuple(replace(each, rater=rater) for each in ratings), repeated


def check_packet_rubric(key: PacketKey, rubric: Rubric) -> None:
    if rubric.sha256 != key.rubric_sha256:
        raise InputError(f"packet {key.packet} was made with another rubric")


def collect_ratings(
    source: str,
    filled: Sequence[DraftRating],
    key: PacketKey,
    items: Mapping[str, Item],
    rubric: Rubric,
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
        turns = rubric.read_turns(row.turns, len(items[item].texts))
        if turns is None:
            how = rubric.label_turns(range(5, 9))
            raise LogError(source, f"turns {row.turns!r}; write them like {how}", row.line)
        rating = Rating(item, "", label, row.reason or unsaid, turns)
        rating = replace(rating, rubric=rubric.version, first_turn=rubric.first_turn)
        ratings.append(rating)
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


def _repeat_some(order: Sequence[str], share: float, shuffler: Shuffler) -> list[str]:
    """Repeat the first items in the second half of the packet."""
    count = max(1, round(share * len(order))) if share and len(order) > 1 else 0
    result, half = list(order), (len(order) + 1) // 2
    drawn = (int(shuffler.hash("place", str(n)), 16) for n in range(count))
    places = sorted(half + number % (len(order) + 1 - half) for number in drawn)
    for place, item in reversed(list(zip(places, order[:count], strict=True))):
        result.insert(max(place, count + 1), item)
    return result


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
