"""What `detect` and guards can be told: rules per tool, and thresholds.

A call or a command says it, or the project's configuration.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from chimeralab.core.config import find_config, list_tools
from chimeralab.core.errors import InputError
from chimeralab.detection.locked import LOCKED, LockedRule
from chimeralab.detection.loops import IDENTICAL_CALLS, LOOPS, Loops, check_loops

Tools = Mapping[str, Literal["ignore"] | Mapping[str, int | Sequence[str]]]


def read_rules(tools: Tools | None) -> tuple[dict[str, int | None], dict[str, tuple[str, ...]]]:
    """By tool, the number of identical calls that make a loop, None for an ignored tool, and the
    arguments that make two calls the same.

    >>> read_rules({"wait": "ignore", "bash": {"repeats": 5, "identity": ["command"]}})
    ({'wait': None, 'bash': 5}, {'bash': ('command',)})
    """
    rules, identities = dict[str, int | None](), dict[str, tuple[str, ...]]()
    if not isinstance(tools, Mapping | None):
        raise InputError(
            f"tools is {tools!r:.60}, a {type(tools).__name__}; expected a rule per tool, such as"
            " {'wait': 'ignore'}"
        )
    for name, setting in (tools or {}).items():
        given = dict(setting) if isinstance(setting, Mapping) else {}
        repeats, identity = given.pop("repeats", IDENTICAL_CALLS), given.pop("identity", None)
        names = tuple(identity) if isinstance(identity, list | tuple) else ()
        if setting == "ignore" and isinstance(name, str):
            rules[name] = None
        elif (
            not isinstance(name, str) or not setting or given
            or not isinstance(repeats, int) or repeats < 2
            or not (identity is None or (names and all(isinstance(each, str) for each in names)))
            or not isinstance(setting, Mapping)
        ):  # fmt: skip
            raise InputError(
                f"tools[{name!r}] is {setting!r}; expected 'ignore' or {{'repeats': N}} with"
                " N >= 2, and 'identity': [names of arguments]"
            )
        else:
            rules[name] = repeats
            identities |= {name: names} if names else {}
    return rules, identities


def parse_tools(
    ignore: Iterable[str], repeats: Iterable[str], identity: Iterable[str] = ()
) -> dict[str, Any]:
    """Build rules per tool from options: names to ignore, TOOL=N and TOOL=ARGUMENT,….

    >>> parse_tools(["wait"], ["ls=5"], ["sh=command,cwd"])
    {'wait': 'ignore', 'ls': {'repeats': 5}, 'sh': {'identity': ['command', 'cwd']}}
    """
    tools: dict[str, Any] = dict.fromkeys(ignore, "ignore")
    for option, rules, example in (("repeats", repeats, "N"), ("identity", identity, "ARGUMENT,…")):
        for each in rules:
            name, _, text = each.rpartition("=")
            value: Any = int(text) if option == "repeats" and text.isdecimal() else None
            if option == "identity":
                value = [part.strip() for part in text.split(",") if part.strip()]
            if not name or not value:
                raise InputError(f"--{option} takes TOOL={example}, not {each!r}")
            if tools.get(name) == "ignore":
                raise InputError(f"--{option} {each} and --ignore {name} can't be combined")
            tools[name] = {**tools.get(name, {}), option: value}
    return tools


def choose_tools(given: Tools | None) -> Tools:
    """Rules per tool: those that are given, and those of the project for all other tools."""
    read_rules(given)
    return list_tools(find_config(), given)


def choose_loops(given: Loops | None = None) -> Loops:
    """The loop detector that is given, or else that of the project."""
    if given is not None:
        return check_loops(given)
    config = find_config()
    table = config.values.get("thresholds", {}).get("loops")
    return LOOPS if table is None else _read(Loops, table, f"{config.place}: thresholds.loops")


def choose_rule() -> LockedRule:
    """The locked rule with the thresholds of the project."""
    config = find_config()
    table = {k: v for k, v in config.values.get("thresholds", {}).items() if k != "loops"}
    return _read(LockedRule, table, f"{config.place}: thresholds") if table else LOCKED


def _read(cls: Any, table: Any, place: str) -> Any:
    from chimeralab.core.parts import read_record  # noqa: PLC0415 - slow to import

    return read_record(cls, table, place)
