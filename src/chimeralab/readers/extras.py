"""The fields beside the turns, kept as metadata."""

from collections.abc import Container, Mapping
from typing import Any

from chimeralab.readers.expect import Unreadable, kind

MAX_DEPTH = 64


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
        _check_depth(key, value)
    return kept


def scalars(fields: Mapping[str, Any], but: Container[str]) -> dict[str, Any]:
    """All other fields that are one value: tool lists and nested payloads stay behind."""
    kept = everything(fields, but)
    return {key: value for key, value in kept.items() if not isinstance(value, list | dict)}


def _check_depth(key: str, value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise Unreadable(f"{key} is nested too deeply")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
