"""`chimera export` and `chimera verify`: share a study, and check that it is unchanged."""

from pathlib import Path
from typing import Any

import click

from chimeralab import pipeline
from chimeralab.cli.options import CODE_OPTION, JSON_OPTION, STUDY_ARGUMENT, ask_consent
from chimeralab.cli.terminal import err, sanitize, say, warn_unverified
from chimeralab.core.files import make_folder, write_text
from chimeralab.core.numbers import plural
from chimeralab.core.schema import json_text
from chimeralab.study import Study

SEALED = "labels that the gate may still use are left out until it is decided"


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "jsonl", "bundle", "preregistration"]),
    default="jsonl",
    show_default=True,
    help="jsonl: whole conversations, readable by `chimera detect`; bundle: everything, to cite.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write to; a bundle needs a folder of its own.",
)
def export(path: Path, kind: Any, folder: Path) -> None:
    """Export the records of a study as Parquet, CSV or JSON Lines, with its numbers for a paper.

    A bundle is a folder to cite and deposit: plan, records, tables, report, citation, datasheet,
    preregistration and RO-Crate, with a manifest. `verify` and `analyse` read it like a study.
    You can export the preregistration before the first run.

    \b
    Example:
      chimera export my-study --format csv --out tables
    """
    study = Study(path)
    if kind == "bundle":
        _export_bundle(study, folder)
        return
    if kind == "preregistration":
        from chimeralab.bundle.documents import preregistration  # noqa: PLC0415 - slow to import

        make_folder(folder)
        written = folder / "preregistration.md"
        write_text(written, preregistration(study))
        click.echo(f"wrote {written}")
        click.echo(f"root hash {study.root or 'none: not locked'}")
        return
    from chimeralab.rating.raters import list_raters  # noqa: PLC0415
    from chimeralab.report.named_numbers import load_numbers, write_numbers  # noqa: PLC0415
    from chimeralab.study.export import copy_plan, find_sealed_items  # noqa: PLC0415

    records = (*pipeline.export(study, kind, folder), *copy_plan(study, folder))
    for written in (*records, *write_numbers(folder, load_numbers(study, say))):
        click.echo(f"wrote {written}")
    if kind != "jsonl" and list_raters(study) and find_sealed_items(study):
        say(SEALED)
    warn_unverified(study)
    click.echo(f"root hash {study.root}")


def _export_bundle(study: Study, folder: Path) -> None:
    from chimeralab.bundle import write_bundle  # noqa: PLC0415 - slow to import

    with err.status("reading") as status:
        bundle = write_bundle(study, folder, lambda text: status.update(sanitize(text)))
    if bundle.withheld:
        say(SEALED)
    for name in bundle.kept:
        say(f"{name}: kept your changes")
    for name in bundle.stale:
        say(f"{name}: not updated, because you edited lines that changed with the records")
    for name, blanks in bundle.blanks.items():
        say(f"{name}: {blanks} blanks for you to fill in")
    click.echo(f"wrote {bundle.path}, {bundle.files:,} files")
    click.echo(f"bundle hash {bundle.sha256}")
    click.echo(f"root hash {bundle.root}")


@click.command()
@STUDY_ARGUMENT
@click.option("--quick", is_flag=True, help="Skip the verdicts that need vectors.")
@click.option("--expect", metavar="HASH", help="An earlier root hash of this study.")
@CODE_OPTION
@JSON_OPTION
def verify(
    path: Path, quick: bool, expect: str | None, allow_code: bool | None, as_json: bool
) -> None:
    """Recompute the verdicts, gate and hashes of a study; exit code 1 if anything doesn't match.

    STUDY may also be a bundle: then every file in it is checked, and --expect accepts its hash too.

    Findings are mismatches. Deviations match, but readers must know about them. Notes describe how
    the study was run. Without --allow-code, results of third-party code are listed, not recomputed.
    """
    study = Study(path, ask_consent(allow_code) if allow_code else False)
    if (path / "manifest-sha256.txt").is_file():
        from chimeralab.bundle import verify_bundle  # noqa: PLC0415 - slow to import

        found = verify_bundle(study, quick=quick, expect=expect)
    else:
        found = pipeline.verify(study, quick=quick, expect=expect)
    if as_json:
        click.echo(json_text(found.as_json(), indent=2))
    else:
        for title, entries in (
            ("Findings", found.findings),
            ("Deviations", found.deviations),
            ("Notes", found.notes),
            ("Checked", found.checked),
            ("Not checked", found.unchecked),
        ):
            lines = [sanitize(str(line)) for line in entries]
            if len(lines) < 2:
                click.echo(f"{title}: {lines[0] if lines else 'none'}")
            else:
                click.echo("\n  ".join([f"{title}:", *lines]))
        click.echo(f"root hash {found.root or 'none: neither locked nor run'}")
        result = "no mismatch"
        if found.findings:
            result = plural(len(found.findings), "finding")
        elif found.unchecked:
            result += " in what was checked"
        click.echo(f"{found.conversations:,} conversations, {found.turns:,} turns: {result}")
    raise click.exceptions.Exit(1 if found.findings else 0)
