"""Packets of a study: handed to people without names, taken back as their ratings."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.rating.blind import KeyEntry, PacketKey, PacketPlan, export_packet
from chimeralab.rating.packet_return import PacketResult, import_packet
from chimeralab.rating.packet_rows import read_sheet
from chimeralab.study.database import transaction
from chimeralab.study.folder import Study
from chimeralab.study.rater_identity import identity_of, rubric_of
from chimeralab.study.rating_sections import HUMAN
from chimeralab.study.ratings import RatingStore, brought_up_to_date, candidates
from chimeralab.study.samples import sample_named


def hand_out(study: Study, folder: Path, only: str | None = None, seed: int = 0) -> PacketKey:
    """Write a blinded packet; the key to it stays in the store."""
    study.checked_lock()
    with brought_up_to_date(study) as db:
        known = {name: found.item for name, found in candidates(study).items()}
        wanted = sample_named(study, only).sample.ids if only else tuple(known)
        plan = PacketPlan(seed, masked=_names(study))
        key = export_packet(folder, [known[name] for name in wanted], rubric_of(study), plan)
        row = (key.packet, json.dumps(key.as_dict()), _now())
        with transaction(db, study.store_path):
            db.execute("INSERT OR REPLACE INTO packets VALUES (?, ?, ?)", row)
    return key


def take_back(study: Study, sheet: Path, rater: str) -> PacketResult:
    """Store the labels of a filled sheet, all or none."""
    study.checked_lock()
    if not rater.startswith(HUMAN):
        raise InputError(f"--rater {rater}: say who filled the packet, as {HUMAN}NAME")
    identity = identity_of(study, rater)
    items = {name: found.item for name, found in candidates(study).items()}
    result = import_packet(sheet, _key(study, sheet), items, rubric_of(study), rater)
    with RatingStore(study.store_path) as store:
        again = store.rated(identity) & {rating.item for rating in result.ratings}
        if again:
            raise InputError(f"{rater} has rated '{min(again)}' before; a label is given once")
        store.add(identity, [(items[rating.item], rating) for rating in result.ratings])
    return result


def _key(study: Study, sheet: Path) -> PacketKey:
    """The key of the packet that a sheet's rows name."""
    rows = read_sheet(sheet)
    if not rows:
        raise InputError(f"{sheet} has no row")
    name = rows[0].sheet.rpartition("-")[0]
    with brought_up_to_date(study), study.archive() as archive:
        text = archive.value("SELECT packet FROM packets WHERE name = ?", name)
    if text is None:
        raise InputError(f"{sheet}: packet '{name}' was not handed out by {study.path}")
    return _as_key(json.loads(text))


def _as_key(values: dict[str, Any]) -> PacketKey:
    entries = tuple(KeyEntry(**entry) for entry in values.pop("entries"))
    return PacketKey(**{**values, "masked": tuple(values["masked"])}, entries=entries)


def _names(study: Study) -> tuple[str, ...]:
    """What would tell the condition or the model."""
    plan = study.plan
    speakers = [who.name for each in plan.conditions.values() for who in each.speakers]
    settings = (subject.part.settings for subject in plan.models.values())
    served = [str(getattr(each, "model", "")) for each in settings]
    return tuple(filter(None, dict.fromkeys([*plan.conditions, *plan.models, *speakers, *served])))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
