"""`chimera claims`: does a text say what the counts say?"""

import sys
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from chimeralab.cli.terminal import out, plain, say
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.rating.claims import Claim, ClaimsReport, Counts, check_claims
from chimeralab.rating.label_files import read_labels
from chimeralab.rating.label_table import LabelTable
from chimeralab.stats.agreement import Table2x2, tabulate


@click.command()
@click.argument("text", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option(
    "--table",
    nargs=4,
    type=click.IntRange(min=0),
    metavar="BOTH FIRST SECOND NEITHER",
    help="Both raters said 1, only the first, only the second, neither.",
)
@click.option(
    "--ratings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of ratings instead, as for `chimera audit`; claims about strata are checked too.",
)
@click.option(
    "--study",
    type=click.Path(file_okay=False, path_type=Path),
    help="A study instead: the labels that its audit compared.",
)
@click.option("--all", "show_all", is_flag=True, help="List what fits and what was not understood.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def claims(**options: Any) -> None:
    """Recompute what TEXT states about agreement, prevalence, counts and intervals.

    TEXT is Markdown or plain text, - for standard input. What does not fit the counts is listed
    with its line and the right number; exit code 1 when there is any. A number that no phrase
    explains is left alone, so a text without findings is not proven right.
    """
    report = check_claims(_read(options["text"]), _counts(options))
    if options["as_json"]:
        click.echo(json_text(_as_json(report)))
    else:
        _print(report, everything=options["show_all"])
    if report.findings:
        raise click.exceptions.Exit(1)


def _read(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None


def _counts(options: dict[str, Any]) -> Counts:
    given = [name for name in ("table", "ratings", "study") if options[name]]
    if len(given) != 1:
        raise InputError("give --table with four counts, --ratings FILE or --study FOLDER, one")
    if options["table"]:
        return Counts(Table2x2(*options["table"]), {})
    source = options[given[0]]
    labels = read_labels(source) if given == ["ratings"] else _labels_of_study(source)
    if len(labels.raters) != 2:
        raise InputError(f"claims compare two raters; {source} has {len(labels.raters)}")
    strata = {name: _table(labels.keep(name)) for name in sorted(set(labels.strata or ()))}
    return Counts(_table(labels), strata, labels.raters)


def _labels_of_study(path: Path) -> LabelTable:
    # Imported here: a table or a file, the common cases, need no study and should start at once.
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.auditing import label_table  # noqa: PLC0415

    return label_table(Study(path))


def _table(labels: LabelTable) -> Table2x2:
    return tabulate(*labels.labels.values())


def _as_json(report: ClaimsReport) -> dict[str, Any]:
    return {
        "findings": [claim.as_dict() for claim in report.findings],
        "claims": [claim.as_dict() for claim in report.claims],
        "not_understood": list(report.not_understood),
    }


def _print(report: ClaimsReport, *, everything: bool) -> None:
    for claim in report.claims if everything else report.findings:
        out.print(_line(claim), soft_wrap=True)
    if everything:
        for number in report.not_understood:
            out.print(Text(plain(f"{number} (not understood)")), soft_wrap=True)
    checked, wrong = len(report.claims), len(report.findings)
    left = len(report.not_understood)
    say(f"{checked} figures checked, {wrong} do not fit, {left} not understood")


def _line(claim: Claim) -> Text:
    about = f"{claim.quantity} ({claim.stratum})" if claim.stratum else claim.quantity
    if claim.fits:
        return Text(plain(f"line {claim.line}: {claim.stated} fits ({about})"))
    note = f"; {claim.note}" if claim.note else ""
    line = Text(plain(f"line {claim.line}: {claim.stated}"), style="bold")
    return line.append(plain(f" → {about}: {claim.right}{note}"), style="not bold")
