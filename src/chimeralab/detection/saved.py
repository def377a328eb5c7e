"""The state of a guard as plain JSON values, and back. Nothing is loaded but classes of ours."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.records import Call, Loop
from chimeralab.detection.calls import CallLog, Made
from chimeralab.detection.evidence import KeptMessage, TextMemory
from chimeralab.detection.locked import Locked, LockedStream
from chimeralab.detection.loops import LoopingTurns, Loops, LoopStream, Sum, ToolRule
from chimeralab.detection.seam import Signal
from chimeralab.detection.words import MessageWords

_ROWS = {
    cls.__name__: cls for cls in (Call, Loop, Made, KeptMessage, ToolRule, Signal, Locked, Loops)
}
_OBJECTS = {
    cls.__name__: cls for cls in (CallLog, TextMemory, LockedStream, LoopStream, LoopingTurns, Sum)
}
_LISTS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "MessageWords": MessageWords,
}


def to_plain(value: Any) -> Any:
    """A value of the guard's as JSON can hold it."""
    name = type(value).__name__
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if name in _ROWS:
        names = getattr(value, "_fields", None) or type(value).__dataclass_fields__
        return {"row": name, "cells": {each: to_plain(getattr(value, each)) for each in names}}
    if name in _OBJECTS:
        return {"object": name, "cells": {k: to_plain(v) for k, v in vars(value).items()}}
    if isinstance(value, dict):
        pairs = [[to_plain(k), to_plain(v)] for k, v in value.items()]
        return {"dict": name, "pairs": pairs}
    if isinstance(value, deque):
        return {"deque": value.maxlen, "items": [to_plain(item) for item in value]}
    if name in _LISTS:
        return {"list": name, "items": [to_plain(item) for item in value]}
    raise InputError(f"a guard with a {name} of your own can't be saved")


def from_plain(plain: Any) -> Any:
    """The value that `to_plain` wrote; refuses what it did not write."""
    if not isinstance(plain, dict):
        return plain
    try:
        return _made(plain)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"this is not the state of a guard ({error!r})") from None


def _made(plain: dict[str, Any]) -> Any:
    if "row" in plain:
        cells = {name: from_plain(cell) for name, cell in plain["cells"].items()}
        return _ROWS[plain["row"]](**cells)
    if "object" in plain:
        cls: Any = _OBJECTS[plain["object"]]
        made = cls.__new__(cls)
        vars(made).update({name: from_plain(cell) for name, cell in plain["cells"].items()})
        return made
    if "dict" in plain:
        pairs = {from_plain(key): from_plain(value) for key, value in plain["pairs"]}
        if plain["dict"] == "defaultdict":
            return defaultdict(list, pairs)
        return Counter(pairs) if plain["dict"] == "Counter" else pairs
    items = [from_plain(item) for item in plain["items"]]
    return deque(items, plain["deque"]) if "deque" in plain else _LISTS[plain["list"]](items)
