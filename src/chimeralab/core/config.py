"""A project's configuration: `[tool.chimera]` in pyproject.toml, or chimera.toml.

The nearest file above the working directory counts, alone. Guards in hooks read it at each tool
call, so this module imports next to nothing.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from chimeralab.core.errors import InputError

VARIABLE = "CHIMERA_CONFIG"
OFF = {"0", "off", "no", "false"}
OWN, SHARED = "chimera.toml", "pyproject.toml"
TABLE = "tool.chimera"
CHECKS = ("loop", "collapse", "nothing-judged")


class Config(NamedTuple):
    """The values of a file, by key, and the file; no values without one."""

    values: Mapping[str, Any]
    path: str = ""

    @property
    def place(self) -> str:
        """The file and its table, for people."""
        return self.path if self.path.endswith(OWN) else f"{self.path} [{TABLE}]"

    def refuse(self, key: str, reason: str) -> NoReturn:
        raise InputError(f"{self.place}: {key} {reason}")


NO_CONFIG = Config({})
# What was read of each file, and when that was written; None if it says nothing about us.
_read: dict[str, tuple[int, Config | None]] = {}


def find_config(folder: str | None = None) -> Config:
    """Read the configuration that holds in a folder, by default the working directory.

    The variable CHIMERA_CONFIG names another file, or is `off`.
    """
    named = os.environ.get(VARIABLE, "").strip()
    if named.lower() in OFF:
        return NO_CONFIG
    if named:
        return _load(named) or NO_CONFIG
    try:
        here = folder or os.getcwd()  # noqa: PTH109 - pathlib is slow to import
    except FileNotFoundError:  # the working directory was deleted
        return NO_CONFIG
    while True:
        for name in (OWN, SHARED):
            path = os.path.join(here, name)  # noqa: PTH118 - as above
            found = _load(path) if os.path.isfile(path) else None  # noqa: PTH113 - as above
            if found is not None:
                return found
        above = os.path.dirname(here)  # noqa: PTH120 - as above
        if above == here:
            return NO_CONFIG
        here = above


def _load(path: str) -> Config | None:
    """Read a file, or what was read of it before; None if it says nothing about this program."""
    try:
        written = os.stat(path).st_mtime_ns  # noqa: PTH116 - as above
        if path in _read and _read[path][0] == written:
            return _read[path][1]
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            found = _parse(path, file.read())
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror or error})") from None
    _read[path] = written, found
    return found


def _parse(path: str, content: bytes) -> Config | None:
    shared = not path.endswith(OWN)
    if shared and b"chimera" not in content:
        return None
    import tomllib  # noqa: PLC0415 - most folders have no configuration

    try:
        table: Any = tomllib.loads(content.decode("utf-8-sig").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        if shared and b"[tool.chimera" not in content:
            return None  # a broken file of the project, with nothing for us
        raise InputError(f"{path} is not valid TOML: {error!s:.200}") from None
    if shared:
        tools = table.get("tool")
        table = tools.get("chimera") if isinstance(tools, dict) else None
        if table is None:
            return None
    found = Config(table, path)
    _check(found)
    return found


def _check(config: Config) -> None:
    if not isinstance(config.values, dict):
        raise InputError(f"{config.place} is not a table of settings")
    for key, value in config.values.items():
        if key not in SETTINGS:
            from chimeralab.core.parts import choose  # noqa: PLC0415 - slow to import

            choose(key, SETTINGS, f"setting {key!r} in {config.place}")
        expected, fits, _ = SETTINGS[key]
        if not fits(value):
            config.refuse(key, f"is {value!r:.80}; expected {expected}")
    for tool in config.values.get("ignore", ()):
        for key in ("repeats", "identity"):
            if tool in config.values.get(key, {}):
                config.refuse(key, f"is given for {tool!r}, which is also under ignore")


def list_tools(config: Config, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The rules per tool of a configuration, as `tools=` takes them; those that are given win.

    >>> list_tools(Config({"ignore": ["wait"], "repeats": {"ls": 5}}), {"wait": {"repeats": 9}})
    {'wait': {'repeats': 9}, 'ls': {'repeats': 5}}
    """
    values = config.values
    tools: dict[str, Any] = dict.fromkeys(values.get("ignore", ()), "ignore")
    for key in ("repeats", "identity"):
        for tool, value in values.get(key, {}).items():
            tools[tool] = {**tools.get(tool, {}), key: value}
    return tools | dict(given or {})


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)


def _is_number(value: Any, least: float = 0) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= least


def _is_table(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


# What each setting expects, the check of it, and what it is for.
SETTINGS: dict[str, tuple[str, Callable[[Any], bool], str]] = {
    "ignore": ('names of tools, such as ["status"]', _is_texts, "tools whose calls never loop"),
    "repeats": (
        "a number of identical calls per tool, at least 2, such as { search = 6 }",
        _is_table(lambda value: isinstance(value, int) and _is_number(value, 2)),
        "identical calls of a tool that make a loop",
    ),
    "identity": (
        'names of arguments per tool, such as { bash = ["command"] }',
        _is_table(lambda value: bool(value) and _is_texts(value)),
        "arguments that make two calls of a tool the same",
    ),
    "thresholds": (
        "a table, such as { s1 = 0.95, loops = { on = 2.0 } }",
        lambda value: isinstance(value, dict),
        "of the locked rule; those of the loop detector under loops",
    ),
    "price": (
        "{ in = …, out = … }, per million tokens",
        lambda value: _is_table(_is_number)(value) and set(value) == {"in", "out"},
        "what a million tokens cost, for logs without prices",
    ),
    "formats": (
        'readers of your own, such as ["my_reader:MyFormat"]',
        lambda value: _is_texts(value) and all(":" in each for each in value),
        "formats of your own, next to the built-in ones",
    ),
    "columns": (
        '{ text = "said" }, and id, speaker or order',
        _is_table(lambda name: isinstance(name, str) and "," not in name),
        "column names of tables",
    ),
    "fail_on": (
        f"some of {', '.join(CHECKS)}, in a list",
        lambda value: _is_texts(value) and set(value) <= {*CHECKS},
        "what ends `detect` with exit code 1",
    ),
    "budget": (
        "limits of a conversation, such as { tokens = 100000 }",
        lambda value: isinstance(value, dict) and bool(value),
        "what guards let a conversation spend",
    ),
    "max_wait": ("seconds above 0", lambda value: _is_number(value, 1e-9), "how long agents wait"),
    "on_stop": ('"end" or "refuse"', lambda value: value in ("end", "refuse"), "how guards stop"),
}
