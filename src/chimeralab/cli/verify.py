"""`chimera verify`: is a study still what it was?"""

import json
from pathlib import Path

import click

from chimeralab import pipeline
from chimeralab.cli.options import JSON_OPTION, STUDY_ARGUMENT
from chimeralab.cli.terminal import plain
from chimeralab.study import Study


@click.command()
@STUDY_ARGUMENT
@JSON_OPTION
def verify(path: Path, as_json: bool) -> None:
    """Recompute every hash of a study; exit code 1 when anything has changed."""
    found = pipeline.verify(Study(path))
    if as_json:
        click.echo(json.dumps({"ok": not found.findings, **found.as_dict()}, indent=2))
    else:
        for line in (*found.notes, *map(str, found.findings)):
            click.echo(plain(line))
        result = f"{len(found.findings)} differences" if found.findings else "all as it was"
        click.echo(f"{found.conversations:,} conversations, {found.turns:,} turns: {result}")
    raise click.exceptions.Exit(1 if found.findings else 0)
