"""`chimera compare`: two tables of runs, or two studies, side by side."""

from pathlib import Path
from typing import Any

import click

from chimeralab.analysis.selfplay.outcomes import EXPLORATORY
from chimeralab.analysis.selfplay.replication import compare
from chimeralab.cli.analyse import NUMBER_OPTIONS
from chimeralab.cli.analyse_print import print_replication
from chimeralab.cli.options import with_options
from chimeralab.cli.run_sources import asked_for, take_runs
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text

runs_path = click.Path(exists=True, path_type=Path)


@click.command("compare")
@click.argument("a", metavar="A", type=runs_path)
@click.argument("b", metavar="B", type=runs_path)
@click.option(
    "--match",
    multiple=True,
    metavar="X=Y",
    help="The condition Y of B stands for X of A. Default: equal names.",
)
@click.option(
    "--paired/--separate",
    default=None,
    help="Pair the tables by seed prompt, or not. Default: paired when all seed ids are the same.",
)
@with_options(*NUMBER_OPTIONS)
def compare_command(a: Path, b: Path, **options: Any) -> None:
    """Compare two tables of runs or studies: A minus B, condition by condition and pair by pair."""
    result = compare(
        take_runs(a).runs,
        take_runs(b).runs,
        asked_for(EXPLORATORY, options),
        match=dict(_matched(text) for text in options["match"]),
        paired=options["paired"],
    )
    if options["json"]:
        click.echo(json_text(result.as_dict()))
    else:
        print_replication(result)


def _matched(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (equals and ours.strip() and theirs.strip()):
        raise InputError(f"--match {text!r}: write X=Y, a condition of A and its namesake in B")
    return ours.strip(), theirs.strip()
