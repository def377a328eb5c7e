"""`chimera export`: the records and numbers of a study for other tools, or all of it to cite."""

from pathlib import Path
from typing import Any

import click

from chimeralab import pipeline
from chimeralab.cli.options import STUDY_ARGUMENT
from chimeralab.cli.terminal import err, plain, say, say_unchecked
from chimeralab.core.files import make_folder, write_text
from chimeralab.study import Study

SEALED = "labels on which the gate of the plan may still be decided are left out until it is"


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "jsonl", "bundle", "preregistration"]),
    default="jsonl",
    show_default=True,
    help="jsonl: whole conversations, as `chimera detect` reads them; bundle: everything, to cite.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write into; a bundle takes the whole folder.",
)
def export(path: Path, kind: Any, folder: Path) -> None:
    """Write the records of a study as Parquet, CSV or JSON Lines, and its numbers for a text.

    A bundle is a folder to cite and deposit: plan, records, tables, report, citation, datasheet,
    preregistration and RO-Crate, with a manifest. `verify` and `analyse` read it like a study.
    The preregistration can be written before the first run.
    """
    study = Study(path)
    if kind in BY_ITSELF:
        BY_ITSELF[kind](study, folder)
        return
    # Imported here: the analysis is slow to import, and only this command needs it.
    from chimeralab.rating.raters import stored_raters  # noqa: PLC0415
    from chimeralab.report.named_numbers import study_numbers, write_numbers  # noqa: PLC0415
    from chimeralab.study.export import sealed_items  # noqa: PLC0415

    records = pipeline.export(study, kind, folder)
    for written in (*records, *write_numbers(folder, study_numbers(study, say))):
        click.echo(f"wrote {written}")
    if kind != "jsonl" and stored_raters(study) and sealed_items(study):
        say(SEALED)
    say_unchecked(study)
    click.echo(f"root hash {study.root}")


def _export_bundle(study: Study, folder: Path) -> None:
    from chimeralab.bundle import write_bundle  # noqa: PLC0415 - as above

    with err.status("reading") as status:
        bundle = write_bundle(study, folder, lambda doing: status.update(plain(doing)))
    if bundle.withheld:
        say(SEALED)
    for name in bundle.kept:
        say(f"kept what you wrote in {name}")
    for name in bundle.stale:
        say(f"{name} is as you left it, since you changed lines that changed with the records too")
    for name, blanks in bundle.blanks.items():
        say(f"{name} has {blanks} blanks that only you can fill in")
    click.echo(f"wrote {bundle.path}, {bundle.files:,} files")
    click.echo(f"bundle hash {bundle.sha256}")
    click.echo(f"root hash {bundle.root}")


def _export_preregistration(study: Study, folder: Path) -> None:
    from chimeralab.bundle.documents import preregistration  # noqa: PLC0415

    make_folder(folder)
    path = folder / "preregistration.md"
    write_text(path, preregistration(study))
    click.echo(f"wrote {path}")
    click.echo(f"root hash {study.root or 'none: not locked'}")


BY_ITSELF = {"bundle": _export_bundle, "preregistration": _export_preregistration}
