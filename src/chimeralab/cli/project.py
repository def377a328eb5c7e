"""The project's configuration on the command line, and `chimera config`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chimeralab.cli.options import JSON_OPTION, ask_consent
from chimeralab.cli.terminal import out, sanitize
from chimeralab.core.config import SETTINGS, VARIABLE, Config, find_config, list_tools
from chimeralab.core.errors import InputError
from chimeralab.core.parts import find_code
from chimeralab.core.schema import json_text
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import LOOPS, Loops
from chimeralab.detection.tools import choose_loops, choose_rule, parse_tools, read_rules
from chimeralab.integrations.budget import Budget
from chimeralab.integrations.watch import KEY, SWITCH
from chimeralab.readers.formats import READERS, reader_named

# What a study's plan sets itself; a job on Ray takes none of the second.
OF_PLAN = {"format", "columns", "price", *LOCKED.as_dict()}
NOT_ON_RAY = {"fail_on", "price"}
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


def list_defaults() -> dict[str, Any]:
    """The defaults that the configuration gives to the options of commands on logs."""
    config = find_config()
    check_config(config)
    values, defaults = config.values, dict[str, Any]()
    defaults |= {k: v for k, v in values.get("thresholds", {}).items() if k != "loops"}
    for name in ("price", "columns"):
        if name in values:
            defaults[name] = ",".join(f"{key}={value}" for key, value in values[name].items())
    if "fail_on" in values:
        defaults["fail_on"] = values["fail_on"]
    return defaults


def check_config(config: Config) -> None:
    """Refuse a configuration that some command or guard could not use."""
    choose_rule(), choose_loops()
    read_rules(list_tools(config))
    try:
        Budget(config.values.get("budget"))
    except InputError as error:
        raise InputError(f"{config.place}: {error}") from None


def read_project(options: dict[str, Any]) -> tuple[dict[str, Any], Loops]:
    """Take over what the configuration says: return rules per tool and the loop detector.

    What a study's plan sets, or a job on Ray can't do, is left out of the options, unless the
    command line says it.
    """
    context, config = click.get_current_context(), find_config()
    given = parse_tools(options["ignore"], options["repeats"], options["identity"])
    of_study = len(options["paths"]) == 1 and (Path(options["paths"][0]) / "plan.toml").is_file()
    left_out = OF_PLAN if of_study else NOT_ON_RAY if options["engine"] == "ray" else set()
    if options["no_vectors"] or options["which"] == "loops":
        left_out = left_out | set(LOCKED.as_dict())
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in left_out and source is ParameterSource.DEFAULT_MAP:
            options[name] = () if parameter.multiple else getattr(LOCKED, name, None)
    if of_study:
        return given, LOOPS
    consent = ask_consent(options["allow_code"], "the configuration")
    for name in config.values.get("formats", ()):
        consent(find_code(name.partition(":")[0], Path.cwd()))
        reader = reader_named(name)
        READERS.setdefault(reader.name, reader)
    return list_tools(config, given), choose_loops()


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
