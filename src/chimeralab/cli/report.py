"""`chimera report`: a study as one page, with its figures and tables beside it."""

import webbrowser
from pathlib import Path

import click

from chimeralab.cli.terminal import err, plain, say
from chimeralab.core.files import json_text


@click.command()
@click.argument("path", metavar="STUDY", type=click.Path(path_type=Path))
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def report(path: Path, open_it: bool, as_json: bool) -> None:
    """Write the report of a study: STUDY/report/index.html, one file that needs no network.

    Works for self-play and for trials. Figures are written beside the page as SVG and PNG, tables
    as CSV. Self-play without a verdict is judged first; nothing else in the study changes, and the
    report can be rewritten at any time.
    """
    # Drawing is slow to import, and a wrong name should be reported at once.
    from chimeralab.report.files import write_report  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    study = Study(path)
    with err.status("reading") as status:
        written = write_report(study, lambda doing: status.update(plain(doing)))
    if as_json:
        files = [str(file) for file in written.files]
        row = {
            "page": str(written.page),
            "glance": list(written.glance),
            "files": files,
            "root": study.root,
        }
        click.echo(json_text(row))
    else:
        for sentence in written.glance:
            say(sentence)
        say(f"root hash {study.root}")
        click.echo(str(written.page))
    if open_it and not webbrowser.open(written.page.resolve().as_uri()):
        say(f"no browser could be started; open {written.page} yourself")
