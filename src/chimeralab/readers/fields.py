"""What a field of a log must be, the words for what stands there instead, and the metadata."""

from collections.abc import Container, Mapping
from typing import Any

MAX_DEPTH = 64


class Unreadable(ValueError):
    """Something in a log is not what it should be; the message is the reason alone.

    `line` counts from the beginning of whatever was being read.
    """

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def kind(value: Any) -> str:
    """What a JSON value is, in words.

    >>> kind(3.5), kind([]), kind(None)
    ('a number', 'a list', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"


def text(holder: Mapping[str, Any], key: str, place: str = "") -> str:
    value = holder.get(key)
    if isinstance(value, str):
        return value
    raise _misfit(holder, key, place, "text")


def text_or_none(holder: Mapping[str, Any], key: str, place: str = "") -> str | None:
    value = holder.get(key)
    if value is None or isinstance(value, str):
        return value
    raise _misfit(holder, key, place, "text")


def listing(holder: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    value = holder.get(key)
    if isinstance(value, list):
        return value
    raise _misfit(holder, key, place, "a list")


def listing_if_any(holder: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    return [] if holder.get(key) is None else listing(holder, key, place)


def mapping(value: Any, place: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise Unreadable(f"{place} is {kind(value)}, not an object")


def _misfit(holder: Mapping[str, Any], key: str, place: str, wanted: str) -> Unreadable:
    name = f"{place}.{key}" if place else key
    if key not in holder:
        return Unreadable(f"{name} is missing")
    return Unreadable(f"{name} is {kind(holder[key])}, not {wanted}")


def identity(fields: Mapping[str, Any], *keys: str) -> str | None:
    """The first id that is given; a number will do."""
    for key in keys:
        value = fields.get(key)
        if isinstance(value, bool | list | dict):
            raise Unreadable(f"{key} is {kind(value)}, not text")
        if value is not None and value != "":
            return str(value)
    return None


def everything(fields: Mapping[str, Any], but: Container[str]) -> dict[str, Any]:
    """All other fields; those of a nested `metadata` come up to the same level."""
    kept = {key: value for key, value in fields.items() if key not in but}
    if isinstance(kept.get("metadata"), dict):
        kept |= kept.pop("metadata")
    for key, value in kept.items():
        level = [value]
        for _ in range(MAX_DEPTH):
            level = [inner for outer in level for inner in _inside(outer)]
            if not level:
                break
        else:
            raise Unreadable(f"{key} is nested too deeply")
    return kept


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def scalars(fields: Mapping[str, Any], but: Container[str]) -> dict[str, Any]:
    """All other fields that are one value: tool lists and nested payloads stay behind."""
    kept = everything(fields, but)
    return {key: value for key, value in kept.items() if not isinstance(value, list | dict)}
