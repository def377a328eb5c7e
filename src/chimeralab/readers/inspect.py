"""Inspect logs: an `.eval` archive with one member per sample, or the same as one JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zipfile import ZipFile

from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers.chat import ChatMessage, message_of, turns_of
from chimeralab.readers.fields import Unreadable, identity, listing, mapping, scalars
from chimeralab.readers.json_values import value_of
from chimeralab.readers.opening import read_member
from chimeralab.readers.seam import Place, Reader

HEADERS = ("header.json", "_journal/start.json")  # an unfinished log has only the second
RUN_FIELDS = {"samples", "plan", "status"}
CHUNKED = "/sample.json"
MEMBER = re.compile(rf"samples/.+_epoch_\d+(\.json|{CHUNKED})", re.DOTALL)
UNFINISHED = ("started", "cancelled")
ATTACHMENT = "attachment://"
OURS = "chimeralab"


@dataclass(frozen=True, slots=True)
class InspectSample:
    """One sample as it was logged, and what the log says of its run."""

    fields: Any
    run: Mapping[str, Any]
    unfinished: bool = False


class Inspect(Reader):
    """Samples of an evaluation by Inspect, in an archive or in one JSON."""

    name = "inspect"
    recognised = "a zip archive with header.json, or an object with eval and samples"
    turns = "a message of a sample; each sample and epoch is a conversation"
    left_out = (
        "events, scores, prompts that the user repeats word by word, attachments that no message "
        "names, the chunked layout"
    )
    zipped = True

    def __init__(self) -> None:
        self._run: Mapping[str, Any] = {}
        self._open = False

    def matches(self, value: Any) -> bool:
        is_log = isinstance(value, dict) and isinstance(value.get("eval"), dict)
        return isinstance(value, InspectSample) or (is_log and RUN_FIELDS & value.keys() != set())

    def inner(self, value: Any) -> list[Any]:
        """The samples of a log in its JSON form; none where it has none."""
        is_log = isinstance(value, dict) and self.matches(value)
        if not is_log or not isinstance(value.get("samples"), list):
            return []
        unfinished = value.get("status") in UNFINISHED
        return [InspectSample(sample, value["eval"], unfinished) for sample in value["samples"]]

    def members(self, archive: ZipFile) -> list[str]:
        """The samples of an archive, numbered ones in counting order; notes what was run."""
        names = set(archive.namelist())
        header = next((name for name in HEADERS if name in names), None)
        if header is None:
            raise Unreadable("is a zip archive, but not an Inspect log: it has no header.json")
        fields = mapping(value_of(read_member(archive, header)), header)
        self._run = mapping(fields.get("eval"), f"{header}: eval")
        self._open = fields.get("status") in UNFINISHED or header != HEADERS[0]
        return sorted(filter(MEMBER.fullmatch, names), key=_in_counting_order)

    def load(self, archive: ZipFile, name: str) -> Any:
        if name.endswith(CHUNKED):
            raise Unreadable("is stored in chunks, an experimental layout that is not read")
        return InspectSample(value_of(read_member(archive, name)), self._run, self._open)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        if not isinstance(value, InspectSample):
            raise Unreadable("is not an Inspect log with samples")
        fields = mapping(value.fields, "the sample")
        attachments = mapping(fields.get("attachments") or {}, "attachments")
        messages = listing(fields, "messages")
        turns = inspect_turns(_restored(message, attachments) for message in messages)
        metadata = {
            "model": identity(value.run, "model"),
            "task": identity(value.run, "task"),
            "sample": identity(fields, "id"),
            "epoch": fields["epoch"] if identity(fields, "epoch") else None,
        }
        # By its uuid a sample is known to Scout; what the task says of it can be grouped by.
        metadata |= {"uuid": fields["uuid"]} if identity(fields, "uuid") else {}
        metadata |= scalars(mapping(fields.get("metadata") or {}, "metadata"), but=metadata)
        metadata |= {"unfinished": True} if value.unfinished else {}
        name = place.default_id()
        if metadata["sample"] is not None and metadata["epoch"] is not None:
            task = f"{metadata['task']}/" if metadata["task"] else ""
            name = f"{task}{metadata['sample']}_epoch_{metadata['epoch']}"
        yield Trajectory(name, turns, metadata, str(place))


def inspect_turns(messages: Iterable[Any]) -> tuple[Turn, ...]:
    """The turns of a sample, as its messages are logged.

    What the user says for the second time word by word is a prompt of the solver ("please go on"):
    nobody says it, and an agent that does something new each time is not going round in circles.
    """
    heard: set[str] = set()

    def read() -> Iterator[ChatMessage]:
        for n, message in enumerate(messages):
            found = _by_speaker(message, f"messages[{n}]")
            if found.turn.role == "user" and found.turn.spoken:
                found = _unsaid(found) if found.turn.text in heard else found
                heard.add(found.turn.text)
            yield found

    return turns_of(read())


def _by_speaker(message: Any, place: str) -> ChatMessage:
    """A message as a turn. Those of our self-play say who speaks, and the seed prompt nobody says.

    Inspect has no names beside the roles, so they stand in the metadata of the message.
    """
    metadata = message.get("metadata") if isinstance(message, dict) else None
    ours = metadata.get(OURS) if isinstance(metadata, dict) else None
    if not isinstance(ours, dict):
        return message_of(message, place)
    found = message_of(message | {"name": ours.get("speaker")}, place)
    return _unsaid(found) if ours.get("seed") else found


def _unsaid(message: ChatMessage) -> ChatMessage:
    return message._replace(turn=replace(message.turn, spoken=False))


def _in_counting_order(name: str) -> list[str]:
    return [part.zfill(20) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _restored(message: Any, attachments: Mapping[str, Any]) -> Any:
    """The message with its long texts back in place of the references to them."""
    if not attachments or not isinstance(message, dict):
        return message
    content = message.get("content")
    if isinstance(content, list):
        parts = [
            part | {"text": _looked_up(part["text"], attachments)}
            if isinstance(part, dict) and "text" in part
            else part
            for part in content
        ]
        return message | {"content": parts}
    return message | {"content": _looked_up(content, attachments)}


def _looked_up(text: Any, attachments: Mapping[str, Any]) -> Any:
    if isinstance(text, str) and text.startswith(ATTACHMENT):
        return attachments.get(text.removeprefix(ATTACHMENT), text)
    return text
