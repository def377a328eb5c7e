"""Code that others wrote: found and hashed without running it, and run only with consent."""

import hashlib
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from chimeralab.core.errors import InputError


@dataclass(frozen=True, slots=True)
class CodeFile:
    """The file behind a module that a plan names; without a hash, it is not to be found."""

    name: str
    path: Path | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.name}, sha256 {self.sha256 or 'unknown: it is not here'}"

    @property
    def does(self) -> str:
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
    def does(self) -> str:
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
    beside = folder / f"{module}.py"
    path = beside if beside.is_file() else _installed(module)
    return code_file(path.name if path else beside.name, path)


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
