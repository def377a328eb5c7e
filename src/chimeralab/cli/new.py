"""`chimera new`: a plan and its prompts from a template."""

from pathlib import Path

import click

from chimeralab.cli.options import STUDY_ARGUMENT
from chimeralab.cli.terminal import say
from chimeralab.study.folder import new_study, templates


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--template",
    type=click.Choice(list(templates())),
    default="selfplay",
    show_default=True,
    help="selfplay: the embedded model, minutes; escape-velocity: three models, a night; "
    "trial-…: a subject under stress.",
)
def new(path: Path, template: str) -> None:
    """Start a study: write a commented plan and its prompts into the folder STUDY."""
    for written in new_study(path, template):
        click.echo(f"wrote {written}")
    say(f"next: edit {path / 'plan.toml'}, then `chimera check {path}`")
