"""`chimera hook`: install live guards in other programs.

For speed, `chimeralab.__main__` answers the events of Claude Code without importing click.
"""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from chimeralab.cli.options import TOOL_OPTIONS, with_options
from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json, read_text, write_text
from chimeralab.detection.tools import parse_tools
from chimeralab.integrations import command_hooks
from chimeralab.integrations.claude_code import main

SUBCOMMAND = "hook claude-code"
EVENTS = ("PreToolUse", "PostToolUse", "Stop")
SECONDS = 10


@click.group()
def hook() -> None:
    """Keep an agent from looping, from inside the program that runs it."""


@hook.command("claude-code")
@click.option("--install", is_flag=True, help="Add the hook to Claude Code's settings.")
@click.option("--uninstall", is_flag=True, help="Remove the hook from the settings.")
@click.option(
    "--settings",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(".claude/settings.json"),
    show_default=True,
    help="The settings file; ~/.claude/settings.json applies to all projects.",
)
@with_options(*TOOL_OPTIONS)
@click.option(
    "--on-stop",
    type=click.Choice(["end", "refuse"]),
    help="End the turn (default), or refuse only the repeated call.",
)
def claude_code(install: bool, uninstall: bool, settings: Path, **rules: Any) -> None:
    """Install the hook in Claude Code, or answer a hook event on standard input.

    The hook tells Claude when it is looping, and stops it if it continues. Set the environment
    variable CHIMERA_GUARD=off to turn it off.

    \b
    Example:
      chimera hook claude-code --install --ignore wait
    """
    if install and uninstall:
        raise click.UsageError("--install and --uninstall can't be combined")
    options = [each for name in rules["ignore"] for each in ("--ignore", name)]
    options += [each for rule in rules["repeats"] for each in ("--repeats", rule)]
    options += ["--on-stop", rules["on_stop"]] if rules["on_stop"] else []
    if not install and not uninstall:
        if sys.stdin.isatty():
            raise InputError(
                "Claude Code runs this command, with an event on standard input; to set it up, run"
                " `chimera hook claude-code --install`"
            )
        sys.exit(main(options))
    parse_tools(rules["ignore"], rules["repeats"])
    # By name if the shell finds it: that works in every environment.
    program = ["chimera"] if shutil.which("chimera") else [sys.executable, "-m", "chimeralab"]
    command = shlex.join([*program, *SUBCOMMAND.split(), *options]) if install else None
    before = read_settings(settings)
    after = with_hook(before, command)
    if after == before:
        print(f"{settings}: nothing to change")
        return
    settings = settings.resolve()  # a link stays one
    settings.parent.mkdir(parents=True, exist_ok=True)
    write_text(settings, json.dumps(after, indent=2, ensure_ascii=False) + "\n")
    done = "hook installed; restart Claude Code to use it" if install else "hook removed"
    print(f"{settings}: {done}")


def _print_settings(host: str, options: list[str]) -> None:
    """Print what to put into the settings of a program."""
    if host == "opencode":
        print(read_text(Path(command_hooks.__file__).with_name("opencode_plugin.js")), end="")
        return
    program = ["chimera"] if shutil.which("chimera") else [sys.executable, "-m", "chimeralab"]
    dialect = command_hooks.DIALECTS[host]
    command = shlex.join([*program, "hook", host, *options])
    run = {"type": "command", "command": command, "timeout": dialect.timeout}
    print(json.dumps({"hooks": {name: [{"hooks": [run]}] for name in dialect.events}}, indent=2))


def _add_command(host: str, program: str, place: str) -> None:
    @hook.command(host, help=f"Answer a hook event of {program}; --print shows what sets it up.")
    @click.option("--print", "shows", is_flag=True, help=f"Print what belongs into {place}.")
    @with_options(*TOOL_OPTIONS)
    @click.option("--on-stop", type=click.Choice(["end", "refuse"]))
    def answer(
        shows: bool, ignore: tuple[str, ...], repeats: tuple[str, ...], on_stop: str | None
    ) -> None:
        parse_tools(ignore, repeats)
        options = [each for name in ignore for each in ("--ignore", name)]
        options += [each for rule in repeats for each in ("--repeats", rule)]
        options += ["--on-stop", on_stop] if on_stop else []
        if shows:
            _print_settings(host, options)
        elif sys.stdin.isatty():
            raise InputError(
                f"{program} runs this command, with an event on standard input; to set it up, put"
                f" what `chimera hook {host} --print` prints into {place}"
            )
        else:
            sys.exit(command_hooks.main(host, options))


_add_command("codex", "Codex", ".codex/hooks.json")
_add_command("gemini-cli", "Gemini CLI", ".gemini/settings.json")
_add_command("opencode", "opencode", ".opencode/plugins/chimera.js")


@hook.command("mcp", context_settings={"allow_interspersed_args": False})
@with_options(*TOOL_OPTIONS)
@click.argument("server", nargs=-1, required=True)
def mcp(ignore: tuple[str, ...], repeats: tuple[str, ...], server: tuple[str, ...]) -> None:
    """Guard the tools of an MCP server: run it, and pass on what is said.

    Put it before the command of the server, where your agent is told which servers to start.

    \b
    Example:
      chimera hook mcp --ignore wait npx -y @modelcontextprotocol/server-filesystem .
    """
    from chimeralab.integrations import mcp_proxy  # noqa: PLC0415 - start-up time

    sys.exit(mcp_proxy.main(server, tools=parse_tools(ignore, repeats)))


def with_hook(settings: dict[str, Any], command: str | None) -> dict[str, Any]:
    """Add our command to every event once, or remove it; leave everything else as it is."""
    hooks = {name: list(entries) for name, entries in settings.get("hooks", {}).items()}
    for event in dict.fromkeys((*hooks, *EVENTS)):
        left = [entry for each in hooks.get(event, []) if (entry := remove_ours(each))]
        if command and event in EVENTS:
            run = {"type": "command", "command": command, "timeout": SECONDS}
            left.append({"hooks": [run]})
        hooks[event] = left
    hooks = {name: entries for name, entries in hooks.items() if entries}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


def remove_ours(entry: dict[str, Any]) -> dict[str, Any] | None:
    runs = entry["hooks"]
    left = [run for run in runs if SUBCOMMAND not in str(run.get("command"))]
    if len(left) == len(runs):
        return entry
    return {**entry, "hooks": left} if left else None


def read_settings(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        settings: dict[str, Any] = parse_json(read_text(path) or "{}")
        hooks = settings.get("hooks", {})
        well_formed = all(
            isinstance(run, dict)
            for each in hooks.values()
            for entry in each
            for run in entry["hooks"]
        )
    except (ValueError, AttributeError, KeyError, TypeError):
        well_formed = False
    if not well_formed:
        raise InputError(
            f"{path} is not a valid settings file of Claude Code; fix it, or name another"
        )
    return settings
