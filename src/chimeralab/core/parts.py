"""From a table of plain values to a frozen record; errors name the key and the choices.

A table may name a part that is code of others: it is found and hashed without running it, and run
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
# The key under which a lock describes the parts whose code is not ours.
PARTS = "outside_parts"


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
        raise InputError(f"{place} is {format_value(table)}; it takes a table of keys")
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
        raise InputError(f"{place} = {format_value(value)}: {reason}") from None


def choose(name: str, known: Iterable[str], what: str, or_else: str = "") -> None:
    """Refuse a name that is not among the known ones, with the closest one as a hint."""
    known = list(known)
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    more = f", {or_else}" if or_else else ""
    raise InputError(f"unknown {what}{hint}; known: {_listed(known)}{more}")


def format_value(value: Any) -> str:
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


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


@dataclass(frozen=True, slots=True)
class CodeFile:
    """The file behind a module that a plan names; without a hash, it is not to be found."""

    name: str
    path: Path | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.name}, sha256 {self.sha256 or 'unknown: it is not here'}"

    @property
    def effect(self) -> str:
        if self.path is None:
            return f"runs {self.name}, of which no file is in sight"
        command = "" if self.name == self.path.name else f"{self.name}, with "
        return f"runs {command}the code of {self.path}, sha256 {self.sha256}"


# Whose key a variable holds, by common usage: there it may go without a question.
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
    """A variable of the environment that a plan has sent to a server of its choice."""

    variable: str
    address: str

    @property
    def effect(self) -> str:
        return f"sends the environment variable {self.variable} to {urlsplit(self.address).netloc}"

    @property
    def is_usual(self) -> bool:
        """Whether it goes to the one whose key it is, or stays on this machine.

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


# Raises unless the user allows that the code is run, or that the key is sent.
Consent = Callable[[CodeFile | SentKey], None]


def allow_all(_asked: CodeFile | SentKey) -> None:
    """The consent of a caller who knows the plan."""


def find_code(module: str, folder: Path) -> CodeFile:
    """The file of a module: beside the plan, or among what is installed. Nothing is imported."""
    local = folder / f"{module}.py"
    path = local if local.is_file() else _installed(module)
    return code_file(path.name if path else local.name, path)


def code_file(name: str, path: Path | None) -> CodeFile:
    """A file with its hash, under a name that people know."""
    if path is None:
        return CodeFile(name)
    return CodeFile(name, path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest())


def _installed(module: str) -> Path | None:
    """Package by package: to ask for the last one at once would import those around it."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a name that no module can have
        return None
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations)
    found = Path(spec.origin) if spec and spec.origin else None
    return found if found and found.is_file() else None


def load_class(use: str, what: str, folder: Path, file: CodeFile | None = None) -> Any:
    """What `module:Name` names, in a file of the folder or in what is installed. This runs it."""
    module, _, name = use.partition(":")
    try:
        return getattr(_module(module, file or find_code(module, folder), folder), name)
    except Exception as error:  # whatever the code of others does when it is imported
        raise InputError(f"{what} can't be loaded: {error}") from error


def _module(name: str, file: CodeFile, folder: Path) -> types.ModuleType:
    """A file beside the plan goes by its path and content: names repeat, and files are edited."""
    if file.path is None or file.path != (folder / f"{name}.py").resolve():
        return importlib.import_module(name)
    unique = f"{file.path} {file.sha256}"
    if unique not in sys.modules:
        # The text that was hashed is run: neither a compiled copy nor a file swapped meanwhile.
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
    """What others need to know of a part of a seam: the method that it must have, and what it
    tells about itself, by the type of each. `base` is the class that parts inherit from, if any.
    """

    method: str
    tells: Mapping[str, Any]
    base: type = object


class StandIn:
    """In the place of a part whose code may not run: its settings and what it tells of itself."""

    code: ClassVar[CodeFile]


class PartLoader:
    """What lies beside a plan: its folder, and the code in it, which runs with consent only.

    Without consent, a part of the user's own is what `described` says of it: the lock of a plan.
    `code` has the files found so far, and `parts` what a lock says of each part: where it stands,
    which keys the plan gave it, all its settings, and what it tells of itself.
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
        """A part of the user's own: loaded, or what stands in for it."""
        what = f"use = {use!r} in {place}"
        file = find_code(use.partition(":")[0], self.folder)
        if self.consent is None:
            try:
                cls: Any = _stand_in(seam, use, place, file, self.locked())
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"plan.lock: what it says of {what} can't be read") from error
        else:
            self._allow(use, file)
            cls = load_class(use, what, self.folder, file)
            if not (isinstance(cls, type) and is_dataclass(cls)):
                raise InputError(f"{what} is not a dataclass; its fields are the settings")
        self.code[use] = file
        settings = read_record(cls, table, place)
        plain = plain_value(settings)
        told = {
            name: plain_value(getattr(settings, name))
            for name in seam.tells
            if hasattr(settings, name) and name not in plain
        }
        self.parts.append(
            {"place": place, "use": use, "given": list(table), "settings": plain, "tells": told}
        )
        return Part(use, settings)

    def take(self, words: str, path: Path | None) -> None:
        """Code that a part of ours runs for the plan, by the words with which the plan names it."""
        file = code_file(words if path is None or " " in words else path.name, path)
        if self.consent is not None:
            self._allow(words, file)
        self.code[words] = file

    def _allow(self, use: str, file: CodeFile) -> None:
        """Before it is run: it must be what was locked, and the user must want it."""
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
    """A class with the locked settings for defaults, which tells what the part told of itself."""
    described = [each for each in locked.get(PARTS, ()) if each["place"] == place]
    known = next((each for each in described if each["use"] == use), None)
    if known is None:
        raise InputError(
            f"use = {use!r} in {place} is code ({file}), which this command does not run, and no "
            "lock or run describes it; `chimera lock STUDY --allow-code` does"
        )

    def refuse(*_given: Any, **_named: Any) -> NoReturn:
        raise InputError(f"{place} is code of {file}, which this command does not run")

    tells = {
        name: read_value(hint, known["tells"][name], f"plan.lock {place} {name}")
        for name, hint in seam.tells.items()
        if name in known["tells"]
    }
    # A key that the plan gave has no default here: without it, the plan is not the locked one.
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
    """Read a table with `use = NAME`, where the name decides which other keys there are."""
    if not isinstance(table, Mapping) or not isinstance(table.get("use"), str):
        raise InputError(f"{place} needs use = NAME; known: {_listed(known)}, or 'module:Class'")
    use, settings = table["use"], {k: v for k, v in table.items() if k != "use"}
    if ":" in use:
        return loader.read(seam, use, settings, place)
    choose(use, known, f"use = {use!r} in {place}", or_else="or 'module:Class' for your own")
    return Part(use, read_record(known[use], settings, place))
