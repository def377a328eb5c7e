"""`chimera logs`: the sessions of coding agents on this machine, and which of them are new."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import click
from rich.text import Text

from chimeralab.cli.terminal import keep_end, new_table, out, sanitize
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import parse_json, write_text
from chimeralab.core.schema import check_schema, json_text
from chimeralab.readers.logs import find_logs, find_refusal
from chimeralab.readers.seam import STANDARD_INPUT, Unreadable
from chimeralab.readers.streams import open_log

# By tool: the variable that moves its folder and where it is below that, where it is below the
# home folder otherwise, and its sessions.
FOLDERS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "claude-code": (
        "CLAUDE_CONFIG_DIR", "", ".claude",
        ("projects/*/*.jsonl", "projects/*/*/subagents/agent-*.jsonl"),
    ),
    "codex": (
        "CODEX_HOME", "", ".codex",
        ("sessions/*/*/*/rollout-*.jsonl*", "archived_sessions/rollout-*.jsonl*"),
    ),
    "gemini-cli": ("GEMINI_CLI_HOME", ".gemini", ".gemini", ("tmp/*/chats/session-*.json*",)),
    "opencode": ("XDG_DATA_HOME", "opencode", ".local/share/opencode", ("opencode.db",)),
    "copilot": (
        "COPILOT_HOME", "", ".copilot", ("session-state/*/events.jsonl", "session-state/*.jsonl"),
    ),
    "cline": (
        "CLINE_DIR", "", ".cline", ("data/tasks/*/api_conversation_history.json",),
    ),
}  # fmt: skip
# Sessions of extensions, below the user's folder of an editor.
EXTENSIONS = {
    "globalStorage/saoudrizwan.claude-dev/tasks/*/api_conversation_history.json": "cline",
    "globalStorage/rooveterinaryinc.roo-cline/tasks/*/api_conversation_history.json": "roo",
    "workspaceStorage/*/chatSessions/*.json*": "copilot",
    "globalStorage/emptyWindowChatSessions/*.json*": "copilot",
}
EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
SERVERS = (".vscode-server/data/User", ".vscode-server-insiders/data/User")
AIDER, HISTORY = "aider", ".aider.chat.history.md"
TOOLS = sorted({*FOLDERS, *EXTENSIONS.values(), AIDER})
PROJECT_BYTES = 1 << 16
# The folder of a project, as sessions name it.
PROJECT = re.compile(
    rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")|Current Work(?:ing|space) Directory \(([^)\n]+)\)'
)
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MAX_ROWS = 40


class Machine(NamedTuple):
    """The machine whose sessions are listed, and its time."""

    home: Path
    folder: Path
    environ: Mapping[str, str]
    system: str
    now: datetime


class SessionFile(NamedTuple):
    """A file in which a tool keeps a session."""

    tool: str
    path: Path
    changed: datetime
    size: int

    @property
    def project(self) -> str:
        """The folder that the session is about, or its name as Claude Code writes it."""
        named = self.path.parent.name if self.tool == "claude-code" else ""
        return read_project(self.path) or named

    def as_dict(self) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "project": self.project,
            "changed": self.changed.isoformat(timespec="seconds"),
            "bytes": self.size,
            "file": str(self.path),
        }


def this_machine() -> Machine:
    now = datetime.now().astimezone()
    return Machine(Path.home(), Path.cwd(), os.environ, sys.platform, now)


@click.command()
@click.option("--tool", type=click.Choice(TOOLS), help="List only the sessions of this tool.")
@click.option(
    "--since",
    metavar="WHEN",
    help="List only what changed since a date (2026-01-31) or within a time (7d, 12h).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def logs(tool: str | None, since: str | None, as_json: bool) -> None:
    """List the sessions that coding agents keep on this machine, newest first.

    Claude Code, Codex, Gemini CLI, opencode, Cline, Roo and Copilot are searched in their default
    folders, and aider's history in the current folder, its repository and the home folder.
    `chimera detect --recent 7d` judges them.

    \b
    Examples:
      chimera logs
      chimera logs --tool codex --since 2026-01-31
      chimera detect --recent 7d --state seen.json
    """
    machine = this_machine()
    start = parse_when(since, machine.now, "--since") if since is not None else None
    found = [
        session
        for session in find_sessions(machine)
        if (not tool or session.tool == tool) and (not start or session.changed >= start)
    ]
    if as_json:
        click.echo(json_text({"sessions": [session.as_dict() for session in found]}))
        return
    if not found:
        period = f" since {start:%Y-%m-%d %H:%M}" if start else ""
        click.echo(f"no sessions of {tool or ', '.join(TOOLS)}{period}")
        return
    limit = max(10, out.height - 5) if out.is_terminal else MAX_ROWS
    width = (out.width - 42) // 2
    table = new_table("changed", min_width=16, no_wrap=True)
    for heading in ("tool", "size", "project", "file"):
        table.add_column(heading, no_wrap=True, justify="right" if heading == "size" else "left")
    for session in found[:limit]:
        places = (keep_end(sanitize(each), width) for each in (session.project, str(session.path)))
        when = f"{session.changed:%Y-%m-%d %H:%M}"
        table.add_row(when, session.tool, f"{-(-session.size // 1000):,} kB", *map(Text, places))
    out.print(table)
    older = f"… and {len(found) - limit:,} older. " if len(found) > limit else ""
    out.print(f"{older}Use --json to get whole names and all sessions.", style="dim")


def parse_when(text: str, now: datetime, option: str) -> datetime:
    """Parse a date, or how long ago something was.

    >>> parse_when("7d", datetime(2026, 1, 31), "--since")
    datetime.datetime(2026, 1, 24, 0, 0)
    """
    duration = re.fullmatch(r"(\d{1,5})([mhdw])", text)
    try:
        if duration:
            return now - timedelta(**{UNITS[duration[2]]: int(duration[1])})
        when = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise InputError(
            f"{option} {text!r} is neither a date (2026-01-31) nor a time back (30m, 12h, 7d, 2w)"
        ) from None
    when = when if when.tzinfo else when.replace(tzinfo=now.tzinfo)
    if when > now:
        raise InputError(f"{option} {text} is in the future")
    return when


def find_sessions(machine: Machine) -> list[SessionFile]:
    """List the sessions of all tools, the last changed first."""
    found: dict[Path, SessionFile] = {}
    for tool, path in _session_paths(machine):
        with suppress(OSError):
            size, changed = stamp(path)
            when = datetime.fromtimestamp(changed / 1e9, machine.now.tzinfo)
            found.setdefault(path, SessionFile(tool, path, when, size))
    return sorted(found.values(), key=lambda session: (session.changed, session.path), reverse=True)


def _session_paths(machine: Machine) -> Iterator[tuple[str, Path]]:
    home, environ = machine.home, machine.environ
    for tool, (variable, below, default, patterns) in FOLDERS.items():
        moved = environ.get(variable)
        root = Path(moved) / below if moved else home / default
        yield from ((tool, path) for pattern in patterns for path in root.glob(pattern))
    settings = {
        "win32": Path(environ.get("APPDATA") or home / "AppData" / "Roaming"),
        "darwin": home / "Library" / "Application Support",
    }.get(machine.system, Path(environ.get("XDG_CONFIG_HOME") or home / ".config"))
    users = [settings / editor / "User" for editor in EDITORS] + [home / each for each in SERVERS]
    for user in users:
        for pattern, tool in EXTENSIONS.items():
            yield from ((tool, path) for path in user.glob(pattern))
    above = [machine.folder, *machine.folder.parents]
    top = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), 0)
    histories = [folder / HISTORY for folder in (*above[: top + 1], home)]
    histories.append(machine.folder / environ.get("AIDER_CHAT_HISTORY_FILE", HISTORY))
    yield from ((AIDER, path) for path in histories if path.is_file())


def read_project(path: Path) -> str | None:
    """Find the folder that a session is about, next to its file or at the start of it."""
    with suppress(OSError, ValueError, LogError, Unreadable, AttributeError):
        if path.name == HISTORY:
            return str(path.parent)
        if (root := path.parent.parent / ".project_root").is_file():
            return root.read_text(encoding="utf-8").strip()
        if (editor := path.parent.parent / "workspace.json").is_file():
            held = json.loads(editor.read_text(encoding="utf-8"))
            return unquote(urlsplit(held.get("folder") or held["workspace"]).path)
        if (settings := path.parent / "workspace.yaml").is_file():
            named = re.search(r"^cwd: *(.+)$", settings.read_text(encoding="utf-8"), re.MULTILINE)
            return named[1] if named else None
        with open_log(str(path)) as file:
            match = PROJECT.search(file.stream.read(PROJECT_BYTES))
        if match:
            return str(json.loads(match[1])) if match[1] else match[2].decode("utf-8", "replace")
    return None


def stamp(path: Path) -> tuple[int, int]:
    """Get the size of a log in bytes, and its last change in nanoseconds."""
    files = list(path.iterdir()) if path.is_dir() else [path]
    # A database writes to a file next to it first.
    journal = path.with_name(f"{path.name}-wal")
    found = [file.stat() for file in (*files, *([journal] if journal.exists() else []))]
    return sum(each.st_size for each in found), max(each.st_mtime_ns for each in found)


Stamps = dict[str, tuple[int, int]]
"""Logs with their sizes and last changes, as in a state file."""


def select_logs(
    options: Mapping[str, Any], unread: list[LogError]
) -> tuple[list[str], int, Stamps]:
    """Choose the logs that --recent, --since and --state leave, and count the others.

    Also returns what to save in the state file once the logs are judged.
    """
    name = "since" if options["recent"] is None else "recent"
    when: str | None = options[name]
    machine, seen = this_machine(), load_state(options["state"])
    earliest = 0.0
    if when is not None:
        earliest = parse_when(when, machine.now, f"--{name}").timestamp() * 1e9
    refused: list[LogError] = []
    if options["recent"]:
        found = [str(session.path) for session in find_sessions(machine)]
    else:
        found = find_logs(options["paths"], format=options["format"], on_skip=refused.append)
    if STANDARD_INPUT in found:
        raise InputError("--since and --state are for files: standard input has no time of change")
    stamps: Stamps = {}
    for path in (*found, *(error.source for error in refused)):
        with suppress(OSError):
            stamps[path] = stamp(Path(path))
    new = {
        path
        for path, stamped in stamps.items()
        if stamped[1] >= earliest and seen.get(str(Path(path).absolute())) != stamped
    }
    chosen = []
    for path in (path for path in found if path in new):
        error = find_refusal(path, options["format"]) if options["recent"] else None
        if error:
            refused.append(error)
        else:
            chosen.append(path)
    unread += (error for error in refused if error.source in new)
    done = {str(Path(path).absolute()): stamps[path] for path in new}
    return chosen, sum(path not in new for path in found), {**seen, **done}


def load_state(path: Path | None) -> Stamps:
    """Load a state file; one that does not exist yet is empty."""
    if path is not None and not os.access(path.parent, os.W_OK):
        raise InputError(f"--state {path}: folder {path.parent} does not exist or is read-only")
    if path is None or not path.exists():
        return {}
    wrong = f"{path} is not a state file of `chimera detect --state`; name another, or delete it"
    try:
        state = parse_json(path.read_bytes())
        check_schema(state["schema"], str(path), "delete it")
        return {name: (int(size), int(when)) for name, (size, when) in state["logs"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(wrong) from None


def save_state(path: Path, stamps: Stamps) -> None:
    """Write the state of the logs that still exist."""
    kept = {name: stamped for name, stamped in stamps.items() if Path(name).exists()}
    write_text(path, json_text({"logs": kept}))
