"""Turn tables of a plan into frozen records, and load the parts that they name.

Errors name the key and the choices. Custom code is located and hashed without running it, and runs
only with consent.
"""

import hashlib
import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from difflib import get_close_matches
from functools import cache, partial
from importlib.machinery import PathFinder
from ipaddress import ip_address
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    NoReturn,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import urlsplit

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record, plain_value

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
# The key under which a lock describes custom parts.
PARTS = "outside_parts"


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A part as a plan names it, with its settings."""

    use: str
    settings: Any

    @property
    def is_outside(self) -> bool:
        """Whether it is custom code from outside this package."""
        return ":" in self.use


def read_record(cls: type[T], table: Any, place: str) -> T:
    """Read a record from a table; `place` names the table in errors."""
    if not isinstance(table, Mapping):
        raise InputError(f"{place} must be a table of keys, not {format_value(table)}")
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
    except (InputError, ValueError) as error:  # raised by the record's own checks
        raise InputError(f"{place} {error}") from error


def read_value(hint: Any, value: Any, place: str) -> Any:
    """Read one value of a type, with the records inside it."""
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
        return _adapter(hint, strict=True).validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = first["msg"][0].lower() + first["msg"][1:]
        raise InputError(f"{place} = {format_value(value)}: {reason}") from None


def choose(name: object, known: Iterable[str], what: str, or_else: str = "") -> None:
    """Raise unless a name is known, with the closest match as a hint; a file may hold any type."""
    known = list(known)
    if name in known:
        return
    near = get_close_matches(str(name), known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    more = f", {or_else}" if or_else else ""
    raise InputError(f"unknown {what}{hint}; known: {_join_names(known)}{more}")


def format_value(value: Any) -> str:
    """Format a value for an error message: as TOML writes it, and shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def validate(hint: Any, value: Any) -> Any:
    """Build a value of a type, with the records inside it, from JSON values.

    >>> validate(tuple[int, ...], [1, 2])
    (1, 2)
    """
    return _adapter(hint).validate_python(value)


@cache
def _adapter(hint: Any, *, strict: bool = False) -> "TypeAdapter[Any]":
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415 - as above

    config = ConfigDict(strict=True, allow_inf_nan=False) if strict else None
    return TypeAdapter(hint, config=config)


def _options(hint: Any) -> tuple[Any, ...]:
    """List the alternatives of a type, without annotations."""
    if get_origin(hint) is Annotated:
        return _options(get_args(hint)[0])
    return get_args(hint) if get_origin(hint) is types.UnionType else (hint,)


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class CodeFile:
    """The source file of a module that a plan names; path and hash are None if not found."""

    name: str
    path: Path | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.name}, sha256 {self.sha256 or 'unknown (file not found)'}"

    @property
    def effect(self) -> str:
        if self.path is None:
            return f"runs {self.name} (source file not found)"
        command = "" if self.name == self.path.name else f"{self.name}, with "
        return f"runs {command}the code of {self.path}, sha256 {self.sha256}"


# Hosts to which the usual API keys may be sent without consent.
OWNERS = {
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
    "GROQ_API_KEY": "api.groq.com",
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
}


@dataclass(frozen=True, slots=True)
class SentKey:
    """An environment variable that a plan sends to a server."""

    variable: str
    address: str

    @property
    def effect(self) -> str:
        return f"sends the environment variable {self.variable} to {urlsplit(self.address).netloc}"

    @property
    def is_usual(self) -> bool:
        """Whether it goes to the provider that issued the key, or stays on this machine.

        >>> SentKey("OPENAI_API_KEY", "https://api.openai.com/v1").is_usual
        True
        >>> SentKey("OPENAI_API_KEY", "https://api.openai.com.evil.org/v1").is_usual
        False
        """
        url = urlsplit(self.address)
        host = url.hostname or ""
        with suppress(ValueError):
            return ip_address(host).is_loopback
        owned = url.scheme == "https" and OWNERS.get(self.variable) == host
        return owned or host == "localhost"


# Raises unless the user allows the code to run, or the key to be sent.
Consent = Callable[[CodeFile | SentKey], None]


def allow_all(_asked: CodeFile | SentKey) -> None:
    """Consent to everything: for callers that trust the plan."""


def find_code(module: str, folder: Path) -> CodeFile:
    """Find the file of a module, next to the plan or installed, without importing it."""
    local = folder / f"{module}.py"
    path = local if local.is_file() else _find_installed(module)
    return code_file(path.name if path else local.name, path)


def code_file(name: str, path: Path | None) -> CodeFile:
    """Hash a file, under the name to show for it."""
    if path is None:
        return CodeFile(name)
    return CodeFile(name, path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest())


def _find_installed(module: str) -> Path | None:
    """Find a module package by package, since `find_spec` on a dotted name imports its parents."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # not a valid module name
        return None
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    found = Path(spec.origin) if spec and spec.origin else None
    return found if found and found.is_file() else None


def load_class(use: str, what: str, folder: Path, file: CodeFile | None = None) -> Any:
    """Import `module:Name` from a file of the folder or an installed package."""
    module, _, name = use.partition(":")
    try:
        return getattr(_module(module, file or find_code(module, folder), folder), name)
    except Exception as error:  # custom code may raise anything
        raise InputError(f"{what} can't be loaded: {error}") from error


def _module(name: str, file: CodeFile, folder: Path) -> types.ModuleType:
    """Import a module; a file next to the plan is keyed by path and hash, as it may be edited."""
    if file.path is None or file.path != (folder / f"{name}.py").resolve():
        return importlib.import_module(name)
    unique = f"{file.path} {file.sha256}"
    if unique not in sys.modules:
        # Run exactly the bytes that were hashed: no compiled copy, no file swapped meanwhile.
        text = file.path.read_bytes()
        if hashlib.sha256(text).hexdigest() != file.sha256:
            raise InputError(f"{file.name} changed while it was read")
        sys.modules[unique] = module = types.ModuleType(unique)
        module.__file__ = str(file.path)
        try:
            exec(compile(text, file.path, "exec"), module.__dict__)  # noqa: S102
        except BaseException:
            del sys.modules[unique]
            raise
    return sys.modules[unique]


class Seam(NamedTuple):
    """What a kind of part looks like: its required method, and the attributes that a lock keeps.

    `attributes` has the type of each; `base` is the class that parts inherit from, if any.
    """

    method: str
    attributes: Mapping[str, Any]
    base: type = object


class StandIn:
    """A placeholder for a part whose code may not run, with its locked settings and attributes."""

    code: ClassVar[CodeFile]


class PartLoader:
    """Loads the parts that a plan names; custom code next to the plan runs only with consent.

    Without consent, a custom part is a `StandIn` made from `described`, the plan's lock. `code` has
    the files found so far; `parts` has what a lock keeps of each part: its place in the plan, the
    keys given there, all settings, and its attributes.
    """

    def __init__(
        self,
        folder: Path,
        consent: Consent | None = None,
        described: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.folder = folder
        self.consent = consent
        self.code: dict[str, CodeFile] = {}
        self.parts: list[dict[str, Any]] = []
        self.locked = described

    def read(self, seam: Seam, use: str, table: Mapping[str, Any], place: str) -> Part:
        """Load a custom part, or its stand-in."""
        what = f"use = {use!r} in {place}"
        file = find_code(use.partition(":")[0], self.folder)
        if self.consent is None:
            try:
                cls: Any = _stand_in(seam, use, place, file, self.locked())
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"plan.lock: the entry for {what} can't be read") from error
        else:
            self._allow(use, file)
            cls = load_class(use, what, self.folder, file)
            if not (isinstance(cls, type) and is_dataclass(cls)):
                raise InputError(f"{what} is not a dataclass; its fields are the settings")
        self.code[use] = file
        settings = read_record(cls, table, place)
        plain = plain_value(settings)
        attributes = {
            name: plain_value(getattr(settings, name))
            for name in seam.attributes
            if hasattr(settings, name) and name not in plain
        }
        self.parts.append(
            {
                "place": place,
                "use": use,
                "given": list(table),
                "settings": plain,
                "tells": attributes,
            }
        )
        return Part(use, settings)

    def register_code(self, words: str, path: Path | None) -> None:
        """Register code that a built-in part runs for the plan, under the words of the plan."""
        file = code_file(words if path is None or " " in words else path.name, path)
        if self.consent is not None:
            self._allow(words, file)
        self.code[words] = file

    def _allow(self, use: str, file: CodeFile) -> None:
        """Check that a file is the locked one, and ask for consent, before it runs."""
        locked = self.locked().get("outside_code", {}).get(use)
        if locked is not None and file.sha256 not in (None, locked):
            raise InputError(
                f"{file.name} is not the file that was locked or first run "
                f"(sha256 {locked} → {file.sha256}); undo the change, or start a new study"
            )
        if file not in self.code.values() and self.consent is not None:
            self.consent(file)


def _stand_in(
    seam: Seam, use: str, place: str, file: CodeFile, locked: Mapping[str, Any]
) -> type[StandIn]:
    """Make a class with the locked settings as defaults, and the locked attributes."""
    described = [each for each in locked.get(PARTS, ()) if each["place"] == place]
    known = next((each for each in described if each["use"] == use), None)
    if known is None:
        raise InputError(
            f"use = {use!r} in {place} is code ({file}), which this command does not run, and no "
            "lock or run describes it; run `chimera lock STUDY --allow-code`"
        )

    def refuse(*_given: Any, **_named: Any) -> NoReturn:
        raise InputError(f"{place} is code of {file}, which this command does not run")

    tells = {
        name: read_value(hint, known["tells"][name], f"plan.lock {place} {name}")
        for name, hint in seam.attributes.items()
        if name in known["tells"]
    }
    # A key that the plan gave has no default here: a plan without it is not the locked one.
    defaults = {
        key: None if key in known["given"] else value for key, value in known["settings"].items()
    }
    columns = [(key, Any, field(default_factory=partial(copy, v))) for key, v in defaults.items()]
    namespace = {**tells, seam.method: refuse, "code": file}
    bases = (StandIn, seam.base) if seam.base is not object else (StandIn,)
    name = use.partition(":")[2]
    return make_dataclass(name, columns, bases=bases, namespace=namespace, frozen=True)


def read_part(
    known: Mapping[str, type], table: Any, place: str, loader: PartLoader, seam: Seam
) -> Part:
    """Read a part from a table with `use = NAME`, which decides the other keys."""
    if not isinstance(table, Mapping) or not isinstance(table.get("use"), str):
        raise InputError(
            f"{place} needs use = NAME; known: {_join_names(known)}, or 'module:Class'"
        )
    use, settings = table["use"], {k: v for k, v in table.items() if k != "use"}
    if ":" in use:
        return loader.read(seam, use, settings, place)
    choose(use, known, f"use = {use!r} in {place}", or_else="or 'module:Class' for your own")
    return Part(use, read_record(known[use], settings, place))
