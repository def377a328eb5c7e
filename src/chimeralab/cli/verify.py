"""`chimera verify`: is a study still what it was?"""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from chimeralab import pipeline
from chimeralab.cli.options import CODE_OPTION, JSON_OPTION, STUDY_ARGUMENT, asking
from chimeralab.cli.terminal import plain
from chimeralab.study import Study


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
    study = Study(path, asking(allow_code) if allow_code else False)
    if (path / "manifest-sha256.txt").is_file():
        # Imported here: a study of one's own, the common case, needs none of it.
        from chimeralab.bundle import verify_bundle  # noqa: PLC0415

        found = verify_bundle(study, quick=quick, expect=expect)
    else:
        found = pipeline.verify(study, quick=quick, expect=expect)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        for title, lines in (
            ("Findings", found.findings),
            ("Deviations", found.deviations),
            ("Notes", found.notes),
            ("Checked", found.checked),
            ("Not checked", found.unchecked),
        ):
            _print(title, [str(line) for line in lines])
        click.echo(f"root hash {found.root or 'none: neither locked nor run'}")
        result = "all as it was"
        if found.findings:
            result = f"{len(found.findings)} findings"
        elif found.unchecked:
            result += ", as far as it was checked"
        click.echo(f"{found.conversations:,} conversations, {found.turns:,} turns: {result}")
    raise click.exceptions.Exit(1 if found.findings else 0)


def _print(title: str, lines: Sequence[str]) -> None:
    if len(lines) < 2:
        click.echo(plain(f"{title}: {lines[0] if lines else 'none'}"))
        return
    click.echo(f"{title}:")
    for line in lines:
        click.echo(plain(f"  {line}"))
