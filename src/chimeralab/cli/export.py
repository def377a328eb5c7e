"""`chimera export`: the records and the numbers of a study for other tools."""

from pathlib import Path
from typing import Any

import click

from chimeralab import pipeline
from chimeralab.cli.options import STUDY_ARGUMENT
from chimeralab.cli.terminal import say
from chimeralab.study import Study


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "jsonl"]),
    default="jsonl",
    show_default=True,
    help="jsonl holds whole conversations, as `chimera detect` reads them.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write into.",
)
def export(path: Path, kind: Any, folder: Path) -> None:
    """Write the records of a study as Parquet, CSV or JSON lines, and its numbers for a text."""
    # Imported here: the analysis is slow to import, and only this command needs it.
    from chimeralab.report.named_numbers import study_numbers, write_numbers  # noqa: PLC0415
    from chimeralab.study.raters import stored_raters  # noqa: PLC0415
    from chimeralab.study.samples import sealed_items  # noqa: PLC0415

    study = Study(path)
    records = pipeline.export(study, kind, folder)
    for written in (*records, *write_numbers(folder, study_numbers(study))):
        click.echo(f"wrote {written}")
    if kind != "jsonl" and stored_raters(study) and sealed_items(study):
        say("labels on which the gate of the plan may still be decided are left out until it is")
    click.echo(f"root hash {study.root}")
