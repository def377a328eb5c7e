"""`chimera audit`: how far raters agree, in figures and in words, and whether that is enough."""

from pathlib import Path
from typing import Any, get_args

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import is_study, with_options
from chimeralab.cli.terminal import out, percent, plain, say
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.rating.audit import Audit, audit_json, panel_json
from chimeralab.rating.audit import audit as compare
from chimeralab.rating.explain import explain
from chimeralab.rating.gate import Gate, RuleName, StatisticName
from chimeralab.rating.gate_record import FIGURES, write_record
from chimeralab.rating.label_files import read_labels
from chimeralab.rating.label_table import LabelTable, from_counts
from chimeralab.rating.rubric import BUILT_IN, Rubric, load_rubric
from chimeralab.stats.agreement import Table2x2

GATE_OPTIONS = (
    click.option(
        "--statistic",
        type=click.Choice(get_args(StatisticName)),
        help="What the gate looks at. [default: kappa]",
    ),
    click.option("--threshold", type=float, help="The least it must reach. [default: 0.80]"),
    click.option(
        "--rule",
        type=click.Choice(get_args(RuleName)),
        help="Compare its value, or the lower bound of its 95 % interval. [default: point]",
    ),
)


@click.command()
@click.argument("ratings", required=False, type=click.Path(path_type=Path))
@click.option(
    "--table",
    nargs=4,
    type=click.IntRange(min=0),
    metavar="BOTH FIRST SECOND NEITHER",
    help="Counts instead of a file: both raters said 1, only the first, only the second, neither.",
)
@with_options(*GATE_OPTIONS)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the record of the gate into this folder, as Markdown and JSON.",
)
@click.option("--rubric", metavar="FILE|built-in", help="The rubric to name in the record.")
@click.option("--only", metavar="SAMPLE", help="Of a study: compare this calibration sample.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def audit(**options: Any) -> None:
    """Say how far raters agree on 0/1 labels, and whether that meets a gate.

    RATINGS is a CSV or JSON lines file with a row for each rater and item: item, rater, label (0,
    1 or blank), and where you have them reason, stratum, cluster and weight. Clusters widen every
    interval, weights make the figures those of the population.

    A gate is named with --statistic, --threshold, --rule or --record; exit code 1 when it is not
    met. RATINGS may also be a study: its stored ratings are compared, its gate is that of its plan.
    """
    if options["ratings"] and is_study([str(options["ratings"])]):
        _audit_study(options)
        return
    if options["only"]:
        raise InputError("--only is for the samples of a study; name the folder of one")
    gate = _gate(options)
    rubric = _rubric(options["rubric"])
    result = compare(_labels(options), gate, seed=options["seed"])
    if options["record"]:
        write_record(options["record"], result, rubric)
        say(f"record written to {options['record']}")
    if options["as_json"]:
        click.echo(json_text(audit_json(result)))
    else:
        _print(result)
    if gate is not None and not result.gate.passed:
        raise click.exceptions.Exit(1)


def _audit_study(options: dict[str, Any]) -> None:
    # Imported here: a file of ratings, the common case, needs no study and should start at once.
    from chimeralab.cli.audit_study import held_audit, print_validity, study_json  # noqa: PLC0415

    found = held_audit(options["ratings"], options)
    if options["as_json"]:
        click.echo(json_text(study_json(found)))
    else:
        _print(found.audit)
        print_validity(found)
    if found.sample and not found.audit.gate.passed:
        raise click.exceptions.Exit(1)


def _labels(options: dict[str, Any]) -> LabelTable:
    if bool(options["ratings"]) == bool(options["table"]):
        raise InputError("give a file of ratings, or --table with four counts (one of the two)")
    if options["table"]:
        return from_counts(Table2x2(*options["table"]))
    return read_labels(options["ratings"])


def _gate(options: dict[str, Any]) -> Gate | None:
    asked = {name: options[name] for name in ("statistic", "threshold", "rule")}
    asked = {name: value for name, value in asked.items() if value is not None}
    return Gate(**asked) if asked or options["record"] else None


def _rubric(name: str | None) -> Rubric | None:
    if name is None:
        return None
    return load_rubric(BUILT_IN if name == "built-in" else Path(name))


def _print(result: Audit) -> None:
    overall = panel_json(result.overall)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("all", justify="right")
    for name in result.by_stratum:
        table.add_column(Text(plain(name)), justify="right")
    columns = [overall, *(panel_json(panel) for panel in result.by_stratum.values())]
    table.add_row("items (valid of all)", *(f"{c['n_valid']} of {c['n_total']}" for c in columns))
    for name in FIGURES:
        if name == "kappa" or any(column[name] is not None for column in columns):
            table.add_row(_heading(name), *(_shown(name, column[name]) for column in columns))
    out.print(table)
    _print_pairs(result)
    out.print()
    for line in explain(result.overall):
        out.print(Text(plain(line)))
    for name, why in result.unrated_strata.items():
        out.print(Text(plain(f"{name} is left out of the columns: {why}")))
    _print_gate(result)


def _print_pairs(result: Audit) -> None:
    for pair in result.overall.pairs if len(result.overall.pairs) > 1 else ():
        panel = pair.panel
        kappa = panel.reasons.get("kappa") if panel.kappa is None else f"kappa {panel.kappa:.4f}"
        names = f"{pair.first} and {pair.second}"
        agreement = percent(panel.agreement)
        out.print(Text(plain(f"{names}: {kappa}, agreement {agreement}, n {panel.n_valid}")))


def _print_gate(result: Audit) -> None:
    outcome = result.gate
    if outcome.declared:
        verdict = Text("Gate met: " if outcome.passed else "Gate NOT met: ", style="bold")
    else:
        verdict = Text("No gate was named. The customary one would ")
        verdict.append("be met: " if outcome.passed else "not be met: ")
    out.print(verdict + Text(plain(f"{outcome.gate}. {outcome.reason}.")))


def _heading(name: str) -> str:
    return {
        "agreement": "raw agreement",
        "expected_agreement": "expected agreement",
        "kappa": "Cohen's kappa",
        "kappa_ci": "  95 % Wald",
        "kappa_ci_score": "  95 % score",
        "kappa_ci_bootstrap": "  95 % bootstrap",
        "kappa_max": "  largest with these margins",
        "pabak": "PABAK",
        "pabak_ci": "  95 % Wilson",
        "ac1": "Gwet's AC1",
        "alpha": "Krippendorff's alpha",
        "alpha_ci": "  95 % bootstrap",
        "fleiss": "Fleiss' kappa",
    }.get(name, name.replace("_", " "))


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "undefined" if not name.endswith("_ci") else "–"
    if isinstance(value, tuple):
        return f"{value[0]:.3f} – {value[1]:.3f}"
    return f"{value:.4f}"
