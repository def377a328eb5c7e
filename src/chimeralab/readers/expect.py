"""What a field must be, and the words for what stands there instead."""

from collections.abc import Mapping
from typing import Any


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


def mapping(value: Any, place: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise Unreadable(f"{place} is {kind(value)}, not an object")


def _misfit(holder: Mapping[str, Any], key: str, place: str, wanted: str) -> Unreadable:
    name = f"{place}.{key}" if place else key
    if key not in holder:
        return Unreadable(f"{name} is missing")
    return Unreadable(f"{name} is {kind(holder[key])}, not {wanted}")
