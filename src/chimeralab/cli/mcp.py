"""`chimera mcp`: a server for agents that speak MCP."""

from collections.abc import Sequence
from typing import Any

import click

from chimeralab.cli.logs import TOOLS, find_sessions, parse_when, this_machine
from chimeralab.cli.options import (
    CODE_OPTION,
    IDENTITY_OPTION,
    TOOL_OPTIONS,
    read_project,
    with_options,
)
from chimeralab.core.parts import choose


@click.command()
@with_options(*TOOL_OPTIONS, IDENTITY_OPTION, CODE_OPTION)
def mcp(**options: Any) -> None:
    """Serve `detect`, `explain` and the recent sessions to agents, by MCP.

    The agent's program starts this command and talks to it on standard input and output. It reads
    the logs that the agent names, by words and tool calls, and writes nothing.

    \b
    Example:
      claude mcp add chimera -- uvx --from "chimera-lab[mcp]" chimera mcp
    """
    from chimeralab.integrations.mcp_server import build_server, serve  # noqa: PLC0415 - an extra

    options |= {"paths": (), "engine": "local", "which": "loops", "no_vectors": True}
    tools, loops = read_project(options)
    serve(build_server(list_recent, loops=loops, tools=tools))


def list_recent(since: str, tool: str | None) -> Sequence[dict[str, Any]]:
    """List the sessions on this machine that changed since then."""
    if tool is not None:
        choose(tool, TOOLS, f"tool {tool!r}")
    machine = this_machine()
    start = parse_when(since, machine.now, "since")
    return [
        session.as_dict()
        for session in find_sessions(machine)
        if session.changed >= start and tool in (None, session.tool)
    ]
