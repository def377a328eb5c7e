"""`chimera audit` and `chimera plan-ratings`: agreement of raters, and the sample size for it."""

from pathlib import Path
from typing import Any, get_args

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import FULL_OPTION, is_study, suggest_table
from chimeralab.cli.terminal import out, sanitize, say
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import between, percent
from chimeralab.core.schema import json_text
from chimeralab.rating.audit import FIGURES, Audit, audit_json, explain, panel_json, write_record
from chimeralab.rating.audit import audit as compare
from chimeralab.rating.gate import Gate, RuleName, StatisticName
from chimeralab.rating.labels import from_counts, read_labels
from chimeralab.rating.rubric import find_rubric, load_rubric
from chimeralab.rating.validity import validity_in_words, validity_json
from chimeralab.stats.agreement import Table2x2
from chimeralab.stats.planning import items_for_kappa, items_for_kappa_score

DECLARED_BY_PLAN = ("statistic", "threshold", "rule", "record", "rubric", "table")
HEADINGS = {
    "agreement": "raw agreement",
    "kappa": "Cohen's kappa",
    "kappa_ci": "  95 % Wald",
    "kappa_ci_score": "  95 % score",
    "kappa_ci_bootstrap": "  95 % bootstrap",
    "kappa_max": "  maximum for these margins",
    "pabak": "PABAK",
    "pabak_ci": "  95 % Wilson",
    "ac1": "Gwet's AC1",
    "ac1_ci": "  95 % jackknife",
    "alpha": "Krippendorff's alpha",
    "alpha_ci": "  95 % bootstrap",
    "fleiss": "Fleiss' kappa",
}


@click.command()
@click.argument("ratings", required=False, type=click.Path(path_type=Path))
@click.option(
    "--table",
    nargs=4,
    type=click.IntRange(min=0),
    metavar="BOTH FIRST SECOND NEITHER",
    help="Counts instead of a file: both raters said 1, only the first, only the second, neither.",
)
@click.option(
    "--statistic",
    type=click.Choice(get_args(StatisticName)),
    help="The statistic of the gate. [default: kappa]",
)
@click.option("--threshold", type=float, help="What it must reach. [default: 0.80]")
@click.option(
    "--rule",
    type=click.Choice(get_args(RuleName)),
    help="Compare its value, or the lower bound of its 95 % interval. [default: lower_ci]",
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the gate record to this folder, as Markdown and JSON.",
)
@click.option("--rubric", metavar="FILE|VERSION", help="The rubric to name in the record.")
@click.option("--only", metavar="SAMPLE", help="In a study: compare this calibration sample.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@FULL_OPTION
def audit(**options: Any) -> None:
    """Measure how well raters agree on 0/1 labels, and decide a gate.

    RATINGS is a CSV, JSON Lines or Parquet file with one row per rater and item: item, rater,
    label (0, 1 or blank), and optionally reason, stratum, cluster and weight. Clusters widen
    every interval; weights make the figures those of the population.

    --statistic, --threshold, --rule and --record declare a gate; the exit code is 1 if it is not
    met. RATINGS may also be a study, whose stored ratings are compared by the gate of its plan.
    Labels are reliable if raters agree; the detector is validated only if it also agrees with them
    as the plan declares (`validity` in [gate]).

    \b
    Examples:
      chimera audit ratings.csv --threshold 0.7
      chimera audit mine
    """
    if options["ratings"] and is_study([str(options["ratings"])]):
        _audit_study(options)
        return
    if options["only"]:
        raise InputError("--only needs a study; name its folder")
    asked = {name: options[name] for name in ("statistic", "threshold", "rule")}
    asked = {name: value for name, value in asked.items() if value is not None}
    gate = Gate(**asked) if asked or options["record"] else None
    rubric = None
    if options["rubric"] is not None:
        rubric = load_rubric(find_rubric(options["rubric"]))
        if rubric.warning:
            say(rubric.warning)
    if bool(options["ratings"]) == bool(options["table"]):
        raise InputError("give either a file of ratings or --table with four counts")
    if options["ratings"] and options["ratings"].is_dir():
        raise InputError(f"{options['ratings']} is not a study: it has no plan.toml")
    counts = options["table"]
    with suggest_table(options["ratings"] or Path(), "ratings"):
        labels = from_counts(Table2x2(*counts)) if counts else read_labels(options["ratings"])
    result = compare(labels, gate, seed=options["seed"])
    if options["record"]:
        write_record(options["record"], result, rubric)
        say(f"record written to {options['record']}")
    if options["as_json"]:
        click.echo(json_text(audit_json(result)))
    else:
        _print(result, full=options["full"])
    if gate is not None and not result.gate.passed:
        raise click.exceptions.Exit(1)


def _audit_study(options: dict[str, Any]) -> None:
    # Imported here: auditing a file needs no study and should start quickly.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.rating.plan import describe_draft  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.subjects import load_revisions  # noqa: PLC0415

    given = next((name for name in DECLARED_BY_PLAN if options[name] is not None), None)
    if given:
        raise InputError(f"the gate of a study is declared in its plan: leave out --{given}")
    study = Study(options["ratings"])
    found = pipeline.audit(study, options["only"])
    if draft := describe_draft(study):
        say(draft)
    with study.archive() as archive:
        revisions = load_revisions(study.plan, archive)
    for revision in filter(None, (each.sentence for each in revisions.values())):
        say(sanitize(revision))
    if found.record:
        say(f"gate decided on {found.sample}; its record is in {found.record}")
    if options["as_json"]:
        rows = {**audit_json(found), "sample": found.sample}
        rows |= {"validity": validity_json(found.against)}
        rows |= {"revisions": {name: each._asdict() for name, each in revisions.items()}}
        rows |= {"outcome": found.gate.name, "validated": found.gate.validity_json()}
        click.echo(json_text(rows))
    else:
        _print(found, full=options["full"])
        for rater, against in found.against.items():
            print_sentence(validity_in_words(rater, against))
        if found.sample:
            print_sentence(found.gate.scope.sentence)
    if found.sample and not found.gate.passed:
        raise click.exceptions.Exit(1)


def print_sentence(text: str) -> None:
    """Print a sentence on one line, however narrow the terminal is."""
    out.print(Text(sanitize(text)), soft_wrap=True)


def _print(result: Audit, *, full: bool) -> None:
    """Print the verdict and how to read it; with `full`, the figures by stratum and by pair."""
    outcome = result.gate
    verdict, _, rest = sanitize(f"{outcome.headline}.").partition(": ")
    lead = Text(f"{verdict}: ", style="bold" if outcome.declared else "")
    out.print(lead + Text(rest), soft_wrap=True)
    for limit in outcome.limits if outcome.declared else ():
        print_sentence(f"note: {limit}")
    out.print()
    if full:
        _print_figures(result)
    for line in explain(result.overall):
        print_sentence(line)
    for name, why in result.unrated_strata.items():
        print_sentence(f"{name} has no column: {why}")


def _print_figures(result: Audit) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("all", justify="right")
    for name in result.by_stratum:
        table.add_column(Text(sanitize(name)), justify="right")
    columns = [panel_json(panel) for panel in (result.overall, *result.by_stratum.values())]
    table.add_row("items (valid of all)", *(f"{c['n_valid']} of {c['n_total']}" for c in columns))
    complete = [str(column["fleiss_n"]) for column in columns]
    for name in FIGURES:
        if name == "fleiss" and any(c["fleiss_n"] < c["n_valid"] for c in columns):
            table.add_row("items that every rater labelled", *complete)
        if name == "kappa" or any(column[name] is not None for column in columns):
            heading = HEADINGS.get(name, name.replace("_", " "))
            table.add_row(heading, *(_format(name, column[name]) for column in columns))
    out.print(table)
    pairs = result.overall.pairs
    for pair, panel in pairs.items() if len(pairs) > 1 else ():
        kappa = panel.reasons.get("kappa") if panel.kappa is None else f"kappa {panel.kappa:.4f}"
        if panel.kappa_ci_score:
            kappa = f"{kappa} (95 % score interval {between(panel.kappa_ci_score, 3)})"
        agreement = f"agreement {percent(panel.agreement)}, n {panel.n_valid}"
        print_sentence(f"{' and '.join(pair)}: {kappa}, {agreement}")
    out.print()


def _format(name: str, value: Any) -> str:
    if value is None:
        return "undefined" if not name.endswith("_ci") else "–"
    if isinstance(value, tuple):
        return f"{value[0]:.3f} – {value[1]:.3f}"
    return f"{value:.4f}"


@click.command("plan-ratings")
@click.option("--kappa", type=float, required=True, help="The kappa that you expect.")
@click.option(
    "--threshold", type=float, default=0.80, show_default=True, help="What it must exceed."
)
@click.option(
    "--prevalence",
    type=float,
    required=True,
    help="The share of items labelled 1 that you expect, between 0 and 1.",
)
@click.option(
    "--power",
    type=click.FloatRange(0.01, 0.999),
    default=0.80,
    show_default=True,
    help="The probability of showing it if it is true.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0.001, 0.5),
    default=0.05,
    show_default=True,
    help="The probability of showing it if it is false.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plan_ratings(as_json: bool, power: float, alpha: float, **expected: float) -> None:
    """Compute how many items two raters must label to show that kappa is above a threshold.

    The more common one label is, the more items it takes: few items of an unbalanced sample
    distinguish good raters from bad ones.

    \b
    Example:
      chimera plan-ratings --kappa 0.9 --prevalence 0.3
    """
    chances = {"power": power, "alpha": alpha}
    wald = items_for_kappa(**expected, **chances)
    score = items_for_kappa_score(**expected, **chances)
    balanced = items_for_kappa(**{**expected, "prevalence": 0.5}, **chances)
    if as_json:
        found = {"items": wald, "items_score": score, "items_if_balanced": balanced}
        click.echo(json_text({**expected, **chances, **found}))
        return
    out.print(
        f"{wald:,} items show a kappa of {expected['kappa']:g} to be above"
        f" {expected['threshold']:g} with {100 * power:g} % power, when"
        f" {100 * expected['prevalence']:g} % are labelled 1 (Wald test)."
    )
    out.print(f"{score:,} items for a gate on the lower bound (score interval), the safer choice.")
    out.print(f"If both labels were equally common, {balanced:,} items would do (Wald test).")
