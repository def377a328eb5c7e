"""Inspect logs: an `.eval` archive with one member per sample, or the same as one JSON."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zipfile import ZipFile

from chimeralab.core.records import Trajectory
from chimeralab.readers.archive import read_member
from chimeralab.readers.expect import Unreadable, listing, mapping
from chimeralab.readers.extras import identity
from chimeralab.readers.json_text import value_of
from chimeralab.readers.messages import turn_of
from chimeralab.readers.places import Place

HEADERS = ("header.json", "_journal/start.json")  # an unfinished log has only the second
RUN_FIELDS = {"samples", "plan", "status"}
CHUNKED = "/sample.json"
MEMBER = re.compile(rf"samples/.+_epoch_\d+(\.json|{CHUNKED})", re.DOTALL)
ATTACHMENT = "attachment://"


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample as it was logged, and what the log says of its run."""

    fields: Any
    run: Mapping[str, Any]


def matches(value: Any) -> bool:
    is_log = isinstance(value, dict) and isinstance(value.get("eval"), dict)
    return isinstance(value, Sample) or (is_log and RUN_FIELDS & value.keys() != set())


def samples_of(log: Any) -> list[Sample]:
    """The samples of a log in its JSON form; none where it has none."""
    if not isinstance(log, dict) or not matches(log) or not isinstance(log.get("samples"), list):
        return []
    return [Sample(sample, log["eval"]) for sample in log["samples"]]


def run_of(archive: ZipFile) -> Mapping[str, Any]:
    """What was run, from the header of an archive."""
    names = set(archive.namelist())
    header = next((name for name in HEADERS if name in names), None)
    if header is None:
        raise Unreadable("is a zip archive, but no Inspect log: it has no header.json")
    fields = mapping(value_of(read_member(archive, header)), header)
    return mapping(fields.get("eval"), f"{header}: eval")


def sample_names(archive: ZipFile) -> list[str]:
    """The members that hold a sample, numbered ones in counting order."""
    names = {name for name in archive.namelist() if MEMBER.fullmatch(name)}
    return sorted(names, key=_in_counting_order)


def _in_counting_order(name: str) -> list[str]:
    return [part.zfill(20) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def load(archive: ZipFile, name: str, run: Mapping[str, Any]) -> Sample:
    if name.endswith(CHUNKED):
        raise Unreadable("is stored in chunks, an experimental layout that is not read")
    return Sample(value_of(read_member(archive, name)), run)


def read(sample: Any, place: Place) -> Trajectory:
    if not isinstance(sample, Sample):
        raise Unreadable("is no Inspect log with samples")
    fields = mapping(sample.fields, "the sample")
    attachments = mapping(fields.get("attachments") or {}, "attachments")
    turns = tuple(
        turn_of(_restored(message, attachments), f"messages[{n}]")
        for n, message in enumerate(listing(fields, "messages"))
    )
    metadata = _metadata(fields, sample.run)
    return Trajectory(_name(metadata) or place.default_id(), turns, metadata, str(place))


def _metadata(fields: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": identity(run, "model"),
        "task": identity(run, "task"),
        "sample": identity(fields, "id"),
        "epoch": fields["epoch"] if identity(fields, "epoch") else None,
    }


def _name(metadata: Mapping[str, Any]) -> str | None:
    if metadata["sample"] is None or metadata["epoch"] is None:
        return None
    name = f"{metadata['sample']}_epoch_{metadata['epoch']}"
    return f"{metadata['task']}/{name}" if metadata["task"] else name


def _restored(message: Any, attachments: Mapping[str, Any]) -> Any:
    """The message with its long texts back in place of the references to them."""
    if not attachments or not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list):
        return message | {"content": [_restored_text(part, attachments) for part in content]}
    return message | {"content": _looked_up(content, attachments)}


def _restored_text(part: Any, attachments: Mapping[str, Any]) -> Any:
    if isinstance(part, dict) and "text" in part:
        return part | {"text": _looked_up(part["text"], attachments)}
    return part


def _looked_up(text: Any, attachments: Mapping[str, Any]) -> Any:
    if isinstance(text, str) and text.startswith(ATTACHMENT):
        return attachments.get(text.removeprefix(ATTACHMENT), text)
    return text
