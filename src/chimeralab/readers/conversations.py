"""JSON values and archives to conversations, each through the reader of its format."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers import claude_code, inspect, openai, plain, sharegpt
from chimeralab.readers.archive import open_archive
from chimeralab.readers.expect import Unreadable
from chimeralab.readers.json_text import Item
from chimeralab.readers.places import Place, Report
from chimeralab.readers.sniff import format_of, is_one_talk

READERS: Mapping[str, Callable[[Any, Place], Trajectory | claude_code.Entry | None]] = {
    "plain": plain.read,
    "openai": openai.read,
    "sharegpt": sharegpt.read,
    "inspect": inspect.read,
    "claude-code": claude_code.entry,
}


class Piece(NamedTuple):
    """What should be one conversation, or one line of a session."""

    value: Any
    place: Place


def from_items(
    items: Iterable[Item], place: Place, forced: str | None, bad: Report
) -> Iterator[Trajectory]:
    lines: list[claude_code.Entry] = []
    for piece in (piece for item in items for piece in pieces(item, place)):
        try:
            found = READERS[forced or format_of(piece.value)](piece.value, piece.place)
            if isinstance(found, Trajectory):
                yield _with_turns(found)
            elif found is not None:
                lines.append(found)
        except Unreadable as problem:
            bad(str(problem), piece.place)
    # The lines of a session mean nothing alone: they wait for the end of the file.
    yield from claude_code.conversations(lines, place)


def from_archive(stream: BinaryIO, place: Place, bad: Report) -> Iterator[Trajectory]:
    archive = open_archive(stream)
    run = inspect.run_of(archive)
    for name in inspect.sample_names(archive):
        member = place.inside(name)
        try:
            yield _with_turns(inspect.read(inspect.load(archive, name, run), member))
        except Unreadable as problem:
            bad(str(problem), member)


def pieces(item: Item, place: Place) -> Iterator[Piece]:
    """A value as it is, or the conversations in it where it is a list of them."""
    here = place.at(item.line)
    inner = _inner(item.value)
    if not inner:
        yield Piece(item.value, here)
    for number, value in enumerate(inner, 1):
        yield Piece(value, here.inside(f"conversation {number}"))


def _inner(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [] if is_one_talk(value) else value
    return inspect.samples_of(value)


def _with_turns(trajectory: Trajectory) -> Trajectory:
    if not trajectory.turns:
        raise Unreadable("has no turns")
    return trajectory
