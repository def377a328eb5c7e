"""OpenAI chat logs: messages with roles, alone, as a bare list, or as request and response."""

from collections.abc import Mapping
from typing import Any

from chimeralab.core.records import Trajectory, Turn
from chimeralab.readers.expect import listing, mapping
from chimeralab.readers.extras import identity, scalars
from chimeralab.readers.messages import turn_of
from chimeralab.readers.places import Place

KEYS = ("messages", "traj")
ENVELOPES = ("request", "response", "body", "choices")


def matches(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and "role" in value[0]
    return isinstance(value, dict) and any(key in value for key in KEYS + ENVELOPES)


def read(value: Any, place: Place) -> Trajectory:
    fields = {"messages": value} if isinstance(value, list) else mapping(value, "the line")
    request, response = _opened(fields, "request"), _opened(fields, "response")
    reply = _reply(response)
    asked = _asked(request, is_needed=not reply)
    name = identity(fields, "id", "custom_id") or place.default_id()
    return Trajectory(name, asked + reply, _metadata(fields, request, response), str(place))


def _opened(fields: Mapping[str, Any], envelope: str) -> Mapping[str, Any]:
    """What a request or response holds, wherever it starts: in an envelope, its body, or bare."""
    for key in (envelope, "body"):
        inner = fields.get(key)
        fields = inner if isinstance(inner, dict) else fields
    return fields


def _asked(request: Mapping[str, Any], *, is_needed: bool) -> tuple[Turn, ...]:
    key = next((key for key in KEYS if key in request), None)
    if key is None and not is_needed:
        return ()
    messages = enumerate(listing(request, key or KEYS[0]))
    return tuple(turn_of(message, f"{key}[{n}]") for n, message in messages)


def _reply(response: Mapping[str, Any]) -> tuple[Turn, ...]:
    if not response.get("choices"):
        return ()
    choice = mapping(listing(response, "choices")[0], "choices[0]")
    return (turn_of(choice.get("message"), "choices[0].message"),)


def _metadata(*holders: Mapping[str, Any]) -> dict[str, Any]:
    fields, *envelopes = holders
    models = [holder["model"] for holder in envelopes if isinstance(holder.get("model"), str)]
    named = {"model": models[-1]} if models else {}
    return named | scalars(fields, but={"id"})
