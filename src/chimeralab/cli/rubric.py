"""`chimera rubric`: show the rubric that raters work by, and lock one of your own."""

from pathlib import Path

import click

from chimeralab.cli.suggesting import SuggestingGroup
from chimeralab.cli.terminal import say
from chimeralab.core.files import json_text
from chimeralab.rating.rubric import (
    BUILT_IN,
    history_lines,
    load_rubric,
    lock_rubric,
    rubric_text,
)

FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=SuggestingGroup)
def rubric() -> None:
    """Show the rubric that raters follow, or lock one of your own."""


@rubric.command()
@click.argument("file", type=FILE, default=BUILT_IN, required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(file: Path, as_json: bool) -> None:
    """Print a rubric: ours, or the one in FILE. A locked one that was changed is refused."""
    loaded = load_rubric(file)
    if as_json:
        click.echo(json_text(loaded.as_dict()))
        return
    heading = f"# {loaded.name}, version {loaded.version} ({loaded.state})"
    lines = [heading, f"sha256 {loaded.sha256}", "", rubric_text(loaded), "", "## Versions", ""]
    click.echo("\n".join([*lines, *history_lines(loaded)]))


@rubric.command()
@click.argument("file", type=FILE)
def lock(file: Path) -> None:
    """Lock a calibrated rubric: its hash goes into a .lock file beside it."""
    locked = lock_rubric(file)
    say(f"{locked.name} {locked.version} is locked, sha256 {locked.sha256}")
