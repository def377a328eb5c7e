"""The project's configuration on the command line, and `chimera config`."""

import os
from collections.abc import Iterator
from typing import Any

import click

from chimeralab.cli.options import JSON_OPTION, check_config
from chimeralab.cli.terminal import out, sanitize
from chimeralab.core.config import SETTINGS, VARIABLE, Config, find_config
from chimeralab.core.schema import json_text
from chimeralab.detection.loops import LOOPS
from chimeralab.detection.tools import choose_rule
from chimeralab.integrations.watch import KEY, SWITCH

# Environment variables that change what a command or a guard does; values of some are secret.
VARIABLES = {
    VARIABLE: "the configuration file, or off",
    SWITCH: "off turns every guard off",
    KEY: "signs the messages of guards",
    "CHIMERA_NOTIFY": "the address that --notify uses",
    "CHIMERA_THREADS": "threads of the sentence encoder",
    "CHIMERA_SESSIONS": "where hooks keep sessions",
}
SECRET = {KEY, "CHIMERA_NOTIFY"}


@click.command()
@JSON_OPTION
def config(as_json: bool) -> None:
    """Show which settings are in force in this folder, and where each comes from.

    The nearest chimera.toml, or pyproject.toml with a table [tool.chimera], holds for `detect`,
    guards, hooks and tests. Options and arguments win over it.

    \b
    Example of a pyproject.toml:
      [tool.chimera]
      ignore = ["status"]
      fail_on = ["loop"]
    """
    found = find_config()
    check_config(found)
    rows = [*describe_settings(found)]
    rows += [describe_variable(name) for name in VARIABLES]
    if as_json:
        click.echo(json_text({"file": found.path or None, "settings": rows}))
        return
    out.print(f"{found.place or 'no chimera.toml and no [tool.chimera] here'}\n", markup=False)
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        value = "–" if row["value"] is None else sanitize(show(row["value"]))
        line = f"{row['name']:{width}}  {value}  ({row['from']})"
        line += f"  {row['about']}" if row["value"] is None else ""
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def describe_settings(config: Config) -> Iterator[dict[str, Any]]:
    """Each setting with its value and origin; thresholds one by one."""
    for key, (_, _, about) in SETTINGS.items():
        row = {"name": key, "value": config.values.get(key), "from": "default", "about": about}
        if key == "thresholds":
            yield from describe_thresholds(config)
            continue
        if key in config.values:
            row["from"] = config.place
        elif key == "on_stop":
            row["value"] = "end"
        yield row


def describe_thresholds(config: Config) -> Iterator[dict[str, Any]]:
    """The thresholds of the locked rule, and those of the loop detector that are changed."""
    given = config.values.get("thresholds", {})
    own = given.get("loops", {})
    rows = {f"thresholds.{key}": (key in given, v) for key, v in choose_rule().as_dict().items()}
    rows["thresholds.loops"] = (False, LOOPS.standard)
    rows |= {f"thresholds.loops.{key}": (True, value) for key, value in own.items()}
    for name, (is_own, value) in rows.items():
        origin = config.place if is_own else "default"
        yield {"name": name, "value": value, "from": origin, "about": SETTINGS["thresholds"][2]}


def describe_variable(name: str) -> dict[str, Any]:
    """An environment variable, without its value if that is secret."""
    value = os.environ.get(name) or None
    shown = "(set)" if value and name in SECRET else value
    origin = "environment" if value else "not set"
    return {"name": name, "value": shown, "from": origin, "about": VARIABLES[name]}


def show(value: Any) -> str:
    """A value on one line.

    >>> show({"s1": 0.9, "loops": {"on": 2.0}}), show(["a", "b"])
    ('s1 = 0.9, loops = { on = 2.0 }', 'a, b')
    """
    if isinstance(value, dict):
        inner = (
            (key, f"{{ {show(each)} }}" if isinstance(each, dict) else show(each))
            for key, each in value.items()
        )
        return ", ".join(f"{key} = {text}" for key, text in inner)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
