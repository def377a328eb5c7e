"""The plain format, which Chimera Lab writes: an id, and turns with a speaker and a text."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from chimeralab.core.records import RESULT_ROLES, Call, Tokens, Trajectory, Turn
from chimeralab.core.schema import json_text
from chimeralab.readers.chat import parse_cost, parse_time, parse_tokens, result_text
from chimeralab.readers.seam import (
    CERTAIN,
    Place,
    Reader,
    Unreadable,
    as_object,
    get_id,
    get_list,
    get_text,
    json_type,
    optional_text,
    other_fields,
)

RESERVED = {"schema", "id", "turns", "metadata", "about"}
SEEDS = {"seed", "prompt"}
UNSPOKEN = RESULT_ROLES | {"system"}


class Plain(Reader):
    """An id, and turns with a speaker and a text."""

    name = "plain"
    keys = frozenset({"turns"})
    recognised = "an object with turns"
    turns = "a text, or an object with a speaker, a text and calls"
    left_out = "nothing"

    def matches(self, value: Any) -> bool:
        return isinstance(value, dict) and "turns" in value

    def sureness(self, value: Any) -> float:
        # It counts whatever the other fields are called, since people write it by hand.
        return CERTAIN if self.matches(value) else 0.0

    def is_exact(self, value: Any) -> bool:
        return is_ours(value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        fields = as_object(value, "the line")
        turns = tuple(
            _turn(turn, f"turns[{n}]") for n, turn in enumerate(get_list(fields, "turns"))
        )
        name = get_id(fields, "id") or place.default_id()
        # A log of others may have a `schema` of its own; ours is a number.
        ours = {"schema", "about"} if is_ours(fields) else set()
        metadata = other_fields(fields, exclude={"id", "turns"} | ours)
        about = as_object(fields.get("about") or {}, "about") if ours else fields
        tokens = _tokens(about.get("tokens", about.get("usage")))
        parent = optional_text(about, "parent") if ours else None
        yield Trajectory(name, turns, metadata, str(place), tokens, parse_cost(about), parent)


def is_ours(value: Any) -> bool:
    """Whether Chimera Lab wrote a conversation, which then says exactly what it means."""
    return isinstance(value, dict) and type(value.get("schema")) is int and "turns" in value


def dumps(trajectory: Trajectory) -> str:
    """Write a conversation as one line of JSON that reads back as the same conversation.

    >>> dumps(Trajectory("a", (Turn("Hi.", "Ann"),), {"model": "m"}))
    '{"schema": 12, "id": "a", "turns": [{"speaker": "Ann", "text": "Hi."}], "model": "m"}'
    """
    metadata = dict(trajectory.metadata)
    hidden = {key: metadata.pop(key) for key in RESERVED & metadata.keys()}
    turns = []
    for turn in trajectory.turns:
        given = {"speaker": turn.speaker, "role": turn.role, "text": turn.text, "model": turn.model}
        entry: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if turn.calls:
            calls = [call.as_dict().items() for call in turn.calls]
            entry["calls"] = [{k: v for k, v in call if v is not None} for call in calls]
        given = {"reasoning": turn.reasoning, "at": turn.at, "agent": turn.agent}
        entry |= {key: value for key, value in given.items() if value is not None} | _usage(turn)
        only_calls = bool(turn.calls) and not turn.text.strip()
        if turn.spoken != (_is_spoken(turn.speaker, turn.role) and not only_calls):
            entry["spoken"] = turn.spoken
        turns.append(entry)
    fields = {"id": trajectory.id, "turns": turns}
    about = _usage(trajectory)
    about |= {} if trajectory.parent is None else {"parent": trajectory.parent}
    nested = ({"metadata": hidden} if hidden else {}) | ({"about": about} if about else {})
    return json_text(fields | metadata | nested)


def _usage(record: Turn | Trajectory) -> dict[str, Any]:
    cost = {} if record.cost is None else {"cost": record.cost}
    return cost | ({"tokens": record.tokens.as_dict()} if record.tokens else {})


def _turn(turn: Any, place: str) -> Turn:
    if isinstance(turn, str):
        return Turn(turn)
    if not isinstance(turn, dict):
        raise Unreadable(f"{place} is {json_type(turn)}, not text or an object")
    speaker = optional_text(turn, "speaker", place)
    role = optional_text(turn, "role", place)
    model = optional_text(turn, "model", place)
    spoken = turn.get("spoken")
    if spoken is None:
        spoken = _is_spoken(speaker, role)
    elif not isinstance(spoken, bool):
        raise Unreadable(f"{place}.spoken is {json_type(spoken)}, not true or false")
    calls: tuple[Call, ...] = ()
    if turn.get("calls"):
        made = enumerate(get_list(turn, "calls", place))
        calls = tuple(_call(call, f"{place}.calls[{n}]") for n, call in made)
    text = "" if calls and "text" not in turn else get_text(turn, "text", place)
    # A message that only calls tools is a step, but not spoken.
    spoken = spoken and (bool(text.strip()) or not calls)
    reasoning = optional_text(turn, "reasoning", place)
    tokens = _tokens(turn.get("tokens", turn.get("usage")))
    at = parse_time(turn.get("at", turn.get("timestamp")))
    agent = optional_text(turn, "agent", place)
    cost = parse_cost(turn)
    return Turn(text, speaker, role, model, spoken, calls, reasoning, tokens, cost, at, agent)


def _tokens(given: Any) -> Tokens | None:
    if not isinstance(given, dict) or "estimated" not in given:
        return parse_tokens(given)
    counts = {key: given.get(key) for key in ("input", "output", "total")}
    whole = {key: count if type(count) is int else None for key, count in counts.items()}
    return Tokens(**whole, estimated=given["estimated"] is True)


def _call(call: Any, place: str) -> Call:
    fields = as_object(call, place)
    result, error = fields.get("result"), fields.get("error")
    if not (error is None or isinstance(error, bool | str)):
        raise Unreadable(f"{place}.error is {json_type(error)}, not true, false or text")
    if isinstance(error, str) and result is None:
        result = error
    return Call(
        get_text(fields, "name", place),
        fields.get("arguments"),
        None if result is None else result_text(result),
        bool(error) if error is not None else None,
    )


@lru_cache  # few distinct speakers, asked for every turn
def _is_spoken(speaker: str | None, role: str | None) -> bool:
    part = role.lower() if role else ""
    return part not in UNSPOKEN and part not in SEEDS and (speaker or "").lower() not in UNSPOKEN
