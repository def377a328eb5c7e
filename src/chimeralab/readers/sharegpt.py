"""ShareGPT logs: conversations of `from` and `value`, or of pairs of a question and an answer."""

from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers.expect import Unreadable, listing, mapping, text
from chimeralab.readers.extras import identity, scalars
from chimeralab.readers.messages import Content, role_of, spoken_turn, turn_of
from chimeralab.readers.places import Place

KEYS = ("conversations", "conversation")
PAIR_SIDES = ("system", "human", "user", "gpt", "bot", "assistant")


def matches(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and "from" in value[0]
    return isinstance(value, dict) and any(key in value for key in KEYS)


def read(value: Any, place: Place) -> Trajectory:
    fields = {KEYS[0]: value} if isinstance(value, list) else mapping(value, "the line")
    key = next((key for key in KEYS if key in fields), KEYS[0])
    entries = enumerate(listing(fields, key))
    turns = tuple(turn for n, entry in entries for turn in _turns(entry, f"{key}[{n}]"))
    name = identity(fields, "id", "conversation_id") or place.default_id()
    return Trajectory(name, turns, scalars(fields, but={"id"}), str(place))


def _turns(entry: Any, place: str) -> Iterator[Turn]:
    fields = mapping(entry, place)
    if "from" in fields:
        yield _message(fields, place)
    elif "role" in fields:
        yield turn_of(fields, place)
    else:
        yield from _pair(fields, place)


def _message(fields: Mapping[str, Any], place: str) -> Turn:
    role = role_of(text(fields, "from", place))
    return spoken_turn(Content(text(fields, "value", place), tools=False), role, None, None)


def _pair(fields: Mapping[str, Any], place: str) -> Iterator[Turn]:
    sides = [side for side in PAIR_SIDES if side in fields]
    if not sides:
        raise Unreadable(f"{place}.from is missing")
    for side in sides:
        yield spoken_turn(
            Content(text(fields, side, place), tools=False), role_of(side), None, None
        )
