"""From a table of plain values to a frozen record; errors name the key and the choices."""

import hashlib
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Record):
    """An exchangeable part as a plan names it: which one, and its settings."""

    use: str
    settings: Any

    @property
    def is_outside(self) -> bool:
        """Whether it comes from code outside this package."""
        return ":" in self.use


def read_record(cls: type[T], table: Any, place: str) -> T:
    """Make a record of a table; `place` is the table's name, for errors."""
    if not isinstance(table, Mapping):
        raise InputError(f"{place} is {shown(table)}; it takes a table of keys")
    known = {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]
    for key in table:
        choose(key, known, f"key {key!r} in {place}")
    for name, f in known.items():
        if f.default is MISSING and f.default_factory is MISSING and name not in table:
            raise InputError(f"{place} needs a key {name!r}")
    hints = get_type_hints(cls, include_extras=True)
    values = {key: read_value(hints[key], value, f"{place} {key}") for key, value in table.items()}
    try:
        return cls(**values)
    except (InputError, ValueError) as error:  # what a record says about its own values
        raise InputError(f"{place} {error}") from error


def read_value(hint: Any, value: Any, place: str) -> Any:
    """Make one value fit its type: records inside it are read as records, the rest as it stands."""
    options = _options(hint)
    if value is None and types.NoneType in options:
        return None
    record: Any = next((option for option in options if is_dataclass(option)), None)
    if record is not None and (isinstance(value, Mapping) or str not in options):
        return read_record(record, value, place)
    items = next((option for option in options if get_origin(option) is tuple), None)
    if items is not None and isinstance(value, list):
        item_hint = get_args(items)[0]
        if any(is_dataclass(option) for option in _options(item_hint)):
            numbered = enumerate(value, start=1)
            return tuple(read_value(item_hint, item, f"{place}[{n}]") for n, item in numbered)
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import; a log needs none of it

    try:
        return _adapter(hint).validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"][0].lower() + first["msg"][1:]
        raise InputError(f"{place} = {shown(value)}: {reason}") from None


def read_part(known: Mapping[str, type], table: Any, place: str, folder: Path) -> Part:
    """Read a table with `use = NAME`, where the name decides which other keys there are."""
    if not isinstance(table, Mapping) or not isinstance(table.get("use"), str):
        raise InputError(f"{place} needs use = NAME; known: {_listed(known)}, or 'module:Class'")
    use = table["use"]
    if ":" in use:
        cls = load_outside(use, place, folder)
    else:
        choose(use, known, f"use = {use!r} in {place}", or_else="or 'module:Class' for your own")
        cls = known[use]
    return Part(use, read_record(cls, {k: v for k, v in table.items() if k != "use"}, place))


def locked_table(folder: Path, name: str) -> Mapping[str, Any] | None:
    """A later table of a plan as the lock in this folder has it; None where it has none.

    A plan that was locked keeps the defaults that it was locked with.
    """
    try:
        lock = json.loads((folder / "plan.lock").read_text(encoding="utf-8"))
        found = lock["resolved"]["extras"][name]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, Mapping) else None


def load_outside(use: str, place: str, folder: Path) -> type:
    """Import a part of the user's own, whose fields are the settings."""
    cls = load_class(use, f"use = {use!r} in {place}", folder)
    if not (isinstance(cls, type) and is_dataclass(cls)):
        raise InputError(
            f"use = {use!r} in {place} is not a dataclass; its fields are the settings"
        )
    return cls


def load_class(use: str, what: str, folder: Path) -> Any:
    """What `module:Name` names, in a file of the folder or in what is installed."""
    module_name, _, class_name = use.partition(":")
    try:
        return getattr(_module(module_name, folder), class_name)
    except Exception as error:  # whatever the code of others does when it is imported
        raise InputError(f"{what} can't be loaded: {error}") from error


def choose(name: str, known: Iterable[str], what: str, or_else: str = "") -> None:
    """Refuse a name that is not among the known ones, with the closest one as a hint."""
    known = list(known)
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    more = f", {or_else}" if or_else else ""
    raise InputError(f"unknown {what}{hint}; known: {_listed(known)}{more}")


def shown(value: Any) -> str:
    """A value as an error message shows it: in TOML's words where they differ, and short."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


@cache
def _adapter(hint: Any) -> "TypeAdapter[Any]":
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415 - as above

    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))


def _options(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without the constraints around it."""
    if get_origin(hint) is Annotated:
        return _options(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) is types.UnionType else (hint,)


def _module(name: str, folder: Path) -> types.ModuleType:
    """A file beside the plan goes by its path and content: names repeat, and files are edited."""
    file = (folder / f"{name}.py").resolve()
    if not file.is_file():
        return importlib.import_module(name)
    unique = f"{file} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, file)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[unique] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[unique]
            raise
    return sys.modules[unique]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
