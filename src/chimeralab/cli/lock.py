"""`chimera lock`: the plan frozen under a hash."""

import json
from pathlib import Path

import click

from chimeralab import pipeline
from chimeralab.cli.options import CODE_OPTION, JSON_OPTION, STUDY_ARGUMENT, asking
from chimeralab.study import Study

PUBLISH = (
    "Publish hash and time now, where you can't change them later: push a commit with plan.lock, "
    "mail both to yourself, stamp the file (`ots stamp plan.lock`, OpenTimestamps), or register "
    "them (OSF). `chimera verify STUDY --expect HASH` then shows that nothing was swapped since."
)


@click.command()
@STUDY_ARGUMENT
@CODE_OPTION
@JSON_OPTION
def lock(path: Path, allow_code: bool | None, as_json: bool) -> None:
    """Freeze the plan, with every default, under one hash. Do this before the first run."""
    study = Study(path, asking(allow_code))
    locked = pipeline.lock(study)
    if as_json:
        row = {
            "sha256": locked.sha256,
            "root": study.root,
            "locked_at": locked.locked_at,
            "path": str(study.lock_path),
        }
        click.echo(json.dumps(row, indent=2))
    else:
        click.echo(f"{study.lock_path}  sha256 {locked.sha256}")
        click.echo(f"locked at {locked.locked_at or 'an unknown time'}, root hash {study.root}")
        click.echo(PUBLISH)
