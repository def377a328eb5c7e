"""`chimera export` and `chimera verify`: hand a study on, and check that it is what it was."""

import json
from pathlib import Path
from typing import Any

import click

from chimeralab import pipeline
from chimeralab.cli.options import CODE_OPTION, JSON_OPTION, STUDY_ARGUMENT, ask_consent
from chimeralab.cli.terminal import err, sanitize, say, warn_unverified
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
    if kind == "bundle":
        _export_bundle(study, folder)
        return
    if kind == "preregistration":
        from chimeralab.bundle.documents import preregistration  # noqa: PLC0415 - as below

        make_folder(folder)
        written = folder / "preregistration.md"
        write_text(written, preregistration(study))
        click.echo(f"wrote {written}")
        click.echo(f"root hash {study.root or 'none: not locked'}")
        return
    # Imported here: the analysis is slow to import, and only this command needs it.
    from chimeralab.rating.raters import list_raters  # noqa: PLC0415
    from chimeralab.report.named_numbers import load_numbers, write_numbers  # noqa: PLC0415
    from chimeralab.study.export import find_sealed_items  # noqa: PLC0415

    records = pipeline.export(study, kind, folder)
    for written in (*records, *write_numbers(folder, load_numbers(study, say))):
        click.echo(f"wrote {written}")
    if kind != "jsonl" and list_raters(study) and find_sealed_items(study):
        say(SEALED)
    warn_unverified(study)
    click.echo(f"root hash {study.root}")


def _export_bundle(study: Study, folder: Path) -> None:
    from chimeralab.bundle import write_bundle  # noqa: PLC0415 - as above

    with err.status("reading") as status:
        bundle = write_bundle(study, folder, lambda doing: status.update(sanitize(doing)))
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


@click.command()
@STUDY_ARGUMENT
@click.option("--quick", is_flag=True, help="Leave out the verdicts that need vectors.")
@click.option(
    "--expect", metavar="HASH", help="An earlier root hash, which the study must have had."
)
@CODE_OPTION
@JSON_OPTION
def verify(
    path: Path, quick: bool, expect: str | None, allow_code: bool | None, as_json: bool
) -> None:
    """Recompute verdicts, gate and hashes of a study; exit code 1 if anything does not match.

    STUDY may also be a bundle: then every file in it is checked, and --expect takes its hash too.

    Findings do not match. Deviations match, but a reader has to know about them. Notes say how the
    study was run. Without --allow-code, results of your own code are listed, not recomputed.
    """
    study = Study(path, ask_consent(allow_code) if allow_code else False)
    if (path / "manifest-sha256.txt").is_file():
        # Imported here: a study of one's own, the common case, needs none of it.
        from chimeralab.bundle import verify_bundle  # noqa: PLC0415

        found = verify_bundle(study, quick=quick, expect=expect)
    else:
        found = pipeline.verify(study, quick=quick, expect=expect)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        for title, found_lines in (
            ("Findings", found.findings),
            ("Deviations", found.deviations),
            ("Notes", found.notes),
            ("Checked", found.checked),
            ("Not checked", found.unchecked),
        ):
            lines = [sanitize(str(line)) for line in found_lines]
            if len(lines) < 2:
                click.echo(f"{title}: {lines[0] if lines else 'none'}")
            else:
                click.echo("\n  ".join([f"{title}:", *lines]))
        click.echo(f"root hash {found.root or 'none: neither locked nor run'}")
        result = "all as it was"
        if found.findings:
            result = f"{len(found.findings)} findings"
        elif found.unchecked:
            result += ", as far as it was checked"
        click.echo(f"{found.conversations:,} conversations, {found.turns:,} turns: {result}")
    raise click.exceptions.Exit(1 if found.findings else 0)
