"""`chimera hook`: live guards that other programs start; here, to set them up.

What Claude Code waits for at every step is answered in `chimeralab.__main__`, without click.
"""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from chimeralab.core.errors import InputError
from chimeralab.core.files import read_text, write_text
from chimeralab.integrations.claude_code import main, tool_settings

OURS = "hook claude-code"
EVENTS = ("PreToolUse", "PostToolUse", "Stop")
SECONDS = 10


@click.group()
def hook() -> None:
    """Guard an agent against loops from inside the program that runs it."""


@hook.command("claude-code")
@click.option("--install", is_flag=True, help="Add the hook to the settings of Claude Code.")
@click.option("--uninstall", is_flag=True, help="Remove it from them again.")
@click.option(
    "--settings",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(".claude/settings.json"),
    show_default=True,
    help="Which settings; ~/.claude/settings.json are those for all projects.",
)
@click.option("--ignore", metavar="TOOL", multiple=True, help="A tool whose calls never count.")
@click.option(
    "--repeats",
    metavar="TOOL=N",
    multiple=True,
    help="How many identical calls of a tool make a loop (three by default).",
)
def claude_code(
    install: bool,
    uninstall: bool,
    settings: Path,
    ignore: tuple[str, ...],
    repeats: tuple[str, ...],
) -> None:
    """Answer an event of Claude Code's hooks on standard input, or set the hook up.

    Claude is told when it is looping, and stopped if it goes on. The environment variable
    CHIMERA_GUARD=off turns the hook off.
    """
    if install and uninstall:
        raise click.UsageError("--install and --uninstall exclude each other")
    options = [each for name in ignore for each in ("--ignore", name)]
    options += [each for rule in repeats for each in ("--repeats", rule)]
    if not install and not uninstall:
        if sys.stdin.isatty():
            raise InputError(
                "this is what Claude Code runs, with an event on standard input; set it up with:"
                " chimera hook claude-code --install"
            )
        sys.exit(main(options))
    tool_settings(ignore, repeats)
    # Started by its name where the shell finds it, as this works from anywhere.
    program = ["chimera"] if shutil.which("chimera") else [sys.executable, "-m", "chimeralab"]
    command = shlex.join([*program, *OURS.split(), *options]) if install else None
    before = _read(settings)
    after = with_hook(before, command)
    if after == before:
        print(f"{settings}: nothing to change")
        return
    settings = settings.resolve()  # a link stays one
    settings.parent.mkdir(parents=True, exist_ok=True)
    write_text(settings, json.dumps(after, indent=2, ensure_ascii=False) + "\n")
    done = "the hook is in; it takes effect in the next session" if install else "the hook is out"
    print(f"{settings}: {done}")


def with_hook(settings: dict[str, Any], command: str | None) -> dict[str, Any]:
    """The settings with our command at every event, once, or without it; all else as it was."""
    hooks = {name: list(entries) for name, entries in settings.get("hooks", {}).items()}
    for event in dict.fromkeys((*hooks, *EVENTS)):
        left = [entry for each in hooks.get(event, []) if (entry := _without_ours(each))]
        if command and event in EVENTS:
            run = {"type": "command", "command": command, "timeout": SECONDS}
            left.append({"hooks": [run]})
        hooks[event] = left
    hooks = {name: entries for name, entries in hooks.items() if entries}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


def _without_ours(entry: dict[str, Any]) -> dict[str, Any] | None:
    runs = entry["hooks"]
    left = [run for run in runs if OURS not in str(run.get("command"))]
    if len(left) == len(runs):
        return entry
    return {**entry, "hooks": left} if left else None


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        settings: dict[str, Any] = json.loads(read_text(path) or "{}")
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
        raise InputError(f"{path} holds no settings of Claude Code; mend it first, or name another")
    return settings
