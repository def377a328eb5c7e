"""Blinded packets for people: what they get to see, and the key that tells what it was."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.records import Record
from chimeralab.rating.packet_page import packet_page
from chimeralab.rating.packet_rows import check_of, write_sheet
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import Rubric

PAGE, SHEET = "packet.html", "ratings.csv"
FEWEST_DUPLICATES, MOST_DUPLICATES = 0.05, 0.10
MASK = "█████"


@dataclass(frozen=True, slots=True)
class KeyEntry(Record):
    """What stands behind one sheet of a packet."""

    sheet: str
    item: str
    text_sha256: str
    check: str
    duplicate: bool


@dataclass(frozen=True, slots=True)
class PacketKey(Record):
    """Everything that is needed to take a packet back. It is not part of the packet."""

    packet: str
    seed: int
    rubric_sha256: str
    page_sha256: str
    masked: tuple[str, ...]
    entries: tuple[KeyEntry, ...]


@dataclass(frozen=True, slots=True)
class PacketPlan(Record):
    """How a packet is made: shuffled by `seed`, so many duplicates, these names blacked out."""

    seed: int
    duplicates: float = 0.08
    masked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not FEWEST_DUPLICATES <= self.duplicates <= MOST_DUPLICATES:
            raise InputError(f"duplicates {self.duplicates}: give a share from 0.05 to 0.10")


def export_packet(
    folder: Path, items: Sequence[Item], rubric: Rubric, plan: PacketPlan
) -> PacketKey:
    """Write the page and the sheet to fill into a new folder, and give back the key to keep."""
    if not items:
        raise InputError("there is no item to rate")
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name a new folder for the packet")
    shown = [Item(item.id, _masked(item.texts, plan.masked)) for item in _shuffled(items, plan)]
    name = _name(shown, plan)
    sheets = [f"{name}-{n:03}" for n in range(1, len(shown) + 1)]
    page = packet_page(name, dict(zip(sheets, shown, strict=True)), rubric)
    key = PacketKey(
        packet=name,
        seed=plan.seed,
        rubric_sha256=rubric.sha256,
        page_sha256=hashlib.sha256(page.encode()).hexdigest(),
        masked=plan.masked,
        entries=_entries(sheets, shown, {item.id: item for item in items}),
    )
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / PAGE) as part:
        part.write_text(page, encoding="utf-8", newline="\n")
    write_sheet(folder / SHEET, [(entry.sheet, entry.check) for entry in key.entries])
    return key


def write_key(path: Path, key: PacketKey) -> None:
    """Keep a key where the raters do not look."""
    with replacing(path) as part:
        part.write_text(json.dumps(key.as_dict(), indent=1) + "\n", encoding="utf-8")


def read_key(path: Path) -> PacketKey:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        entries = tuple(KeyEntry(**entry) for entry in values.pop("entries"))
        return PacketKey(**{**values, "masked": tuple(values["masked"])}, entries=entries)
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is not the key of a packet") from None


def _shuffled(items: Sequence[Item], plan: PacketPlan) -> list[Item]:
    """All items and some of them twice, the second time in the other half of the packet."""
    rng = np.random.default_rng(plan.seed)
    order = [items[n] for n in rng.permutation(len(items))]
    count = max(1, round(plan.duplicates * len(items))) if len(items) > 1 else 0
    again = [order[n] for n in range(count)]
    places = sorted(rng.integers((len(order) + 1) // 2, len(order) + 1, size=count).tolist())
    for place, item in reversed(list(zip(places, again, strict=True))):
        order.insert(max(place, count + 1), item)
    return order


def _entries(
    sheets: Sequence[str], shown: Sequence[Item], originals: dict[str, Item]
) -> tuple[KeyEntry, ...]:
    seen: set[str] = set()
    entries = []
    for sheet, item in zip(sheets, shown, strict=True):
        whole = originals[item.id].sha256
        entries.append(KeyEntry(sheet, item.id, whole, check_of(sheet, item), item.id in seen))
        seen.add(item.id)
    return tuple(entries)


def _masked(texts: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The texts without the names that would tell the condition or the model."""
    known = sorted(filter(None, names), key=len, reverse=True)
    if not known:
        return tuple(texts)
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in known), re.I)
    return tuple(pattern.sub(MASK, text) for text in texts)


def _name(shown: Sequence[Item], plan: PacketPlan) -> str:
    content = json.dumps([plan.seed, [item.texts for item in shown]]).encode("ascii")
    return "p" + hashlib.sha256(content).hexdigest()[:7]
