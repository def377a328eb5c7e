"""A cache of estimates in the study folder: computed once, then read by every command."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json, read_regular, write_text
from chimeralab.core.schema import SCHEMA, json_text
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest, resolve
from chimeralab.study.steps import hash_files, lock_step, read_step

T = TypeVar("T")
FILE, STEP = "estimates.json", "estimates"
CHANGED = (
    f"{FILE} no longer matches the study (its records, plan, code or version), "
    "so the estimates are recomputed"
)
# Everything that an analysis may read of the records, without timestamps.
RECORDS = (
    "SELECT id, condition, prompt, bucket, repeat, outcome FROM trajectories ORDER BY position",
    "SELECT DISTINCT trajectory FROM attempts ORDER BY trajectory",
    "SELECT trajectory, turn, speaker, text FROM turns ORDER BY trajectory, turn",
    "SELECT trajectory, turn, kind, detail FROM events ORDER BY id",
    "SELECT trajectory, detector, detection FROM detections ORDER BY trajectory, detector",
    "SELECT * FROM trials ORDER BY trajectory, trial",
)


class Estimates:
    """The stored estimates of a study; outdated ones are recomputed.

    With `renew` they are then written. In a bundle they are neither read nor written: checking a
    copy means recomputing it.
    """

    def __init__(
        self, study: Study, *, renew: bool = False, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self.path: Path = study.path / FILE
        self._study, self._renew, self._warn = study, renew, warn
        self._warned = False

    def get_or_compute(
        self,
        kind: type[T],
        compute: Callable[[], T],
        *inputs: Any,
        known: Mapping[str, Any] | None = None,
    ) -> T:
        """Return the stored estimates of this kind, or the result of `compute`.

        They depend on the plan, the records, the version and further `inputs`, which are plain
        values. `known` objects are stored by name.
        """
        if self._fingerprint is None:
            return compute()
        key = digest([kind.__name__, self._fingerprint, inputs])
        stored = self._read()
        entry = stored.get(kind.__name__, {})
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            if entry["key"] == key:
                return _decode(entry["value"], _record_types(kind), known or {})  # type: ignore[no-any-return]
        if entry and not self._warned:
            self._warn(CHANGED)
            self._warned = True
        found = compute()
        if self._renew:
            stored[kind.__name__] = {"key": key, "value": encode(found, known or {})}
            text = json_text(stored)
            with suppress(InputError, OSError):  # the folder may be read-only
                # A process may be killed: what is there is what was locked, or nothing.
                self.path.unlink(missing_ok=True)
                lock_step(self._study, STEP, {FILE: hashlib.sha256(text.encode()).hexdigest()})
                write_text(self.path, text)
        return found

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            if hash_files(self._study.path, STEP) != read_step(self._study.path, STEP).get("files"):
                return {}
            found = parse_json(read_regular(self.path))
            if isinstance(found, dict) and found.pop("schema", None) == SCHEMA:
                return found
        return {}

    @cached_property
    def _fingerprint(self) -> str | None:
        """A hash of the resolved plan and the records; None in a bundle."""
        found = hashlib.sha256(digest(resolve(self._study.plan)).encode())
        with self._study.archive() as archive, archive.snapshot():
            if archive.is_copy:
                return None
            for query in RECORDS:
                for row in archive.rows(query):
                    found.update(json.dumps(list(row.values())).encode())
        return found.hexdigest()


def encode(value: Any, known: Mapping[str, Any]) -> Any:
    """Encode records as plain JSON that decodes to equal ones, to the last bit of a number.

    A record is an object with its name and fields; a tuple is stored under "()", a mapping under
    "{}", a set under "set", a known object under "=".
    """
    if value is None or isinstance(value, bool | int | float) or type(value) is str:
        return value
    if isinstance(value, str) or type(value) in {type(each) for each in known.values()}:
        same = ((name, each) for name, each in known.items() if type(each) is type(value))
        return {"=": next(name for name, each in same if each == value)}
    if is_dataclass(value):
        values = [getattr(value, each.name) for each in fields(value)]
        return {type(value).__name__: [encode(each, known) for each in values]}
    if isinstance(value, Mapping):
        return {"{}": [[encode(key, known), encode(each, known)] for key, each in value.items()]}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    name = type(value).__name__ if hasattr(value, "_fields") else "()"
    return {name: [encode(each, known) for each in value]}


def _decode(value: Any, types: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    if name == "=":
        return known[content]
    if name == "{}":
        return {_decode(key, types, known): _decode(each, types, known) for key, each in content}
    values = [_decode(each, types, known) for each in content]
    if name in ("()", "set"):
        return tuple(values) if name == "()" else frozenset(values)
    return types[name](*values)


def _record_types(hint: Any) -> dict[str, Any]:
    """A record type and those in its fields, by name: nothing else is decoded."""
    found: dict[str, Any] = {}
    waiting = [hint]
    while waiting:
        each = waiting.pop()
        waiting += get_args(each)
        is_record = is_dataclass(each) or hasattr(each, "_fields")
        if is_record and each.__name__ not in found:
            found[each.__name__] = each
            waiting += get_type_hints(each).values()
    return found
