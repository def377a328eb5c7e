"""`chimera measure`: score trials for memory, generalisation and decision stability."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text

from chimeralab.cli.options import Decorator, suggest_table, with_options
from chimeralab.cli.terminal import (
    err,
    groups_table,
    new_table,
    out,
    sanitize,
    say,
    with_progress,
)
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import between, number, p_value, percent, plural
from chimeralab.core.schema import json_text
from chimeralab.stats.intervals import MIN_CLUSTERS, Interval
from chimeralab.trial.columns import (
    GROUPINGS,
    AnswerScale,
    TrialColumns,
    build_table,
    split_groups,
)
from chimeralab.trial.measures import COMPANION_TEXTS, METRIC_TEXTS, PARTS
from chimeralab.trial.metrics import Metrics, MetricWeights, measure
from chimeralab.trial.scoring import Scorer, score_log
from chimeralab.trial.trials import TrialLog, TrialRow

PUBLISHED = MetricWeights()
FORMATS: dict[str, Callable[[float | None], str]] = {
    "index": partial(number, digits=3),
    "count": partial(number, digits=0),
    "p-value": p_value,
}
A_CLUSTER = "Clusters are scenarios or, without them, sessions."


def _weights_option(metric: str, parts: str) -> Decorator:
    default = getattr(PUBLISHED, metric)
    return click.option(
        f"--{metric}-weights",
        nargs=len(default),
        type=float,
        show_default=" ".join(f"{weight:g}" for weight in default),
        metavar=parts,
        help=f"Weights of the components of {metric.upper()}; they must sum to 1.",
    )


@click.command("measure")
@click.argument("trials", type=click.Path(path_type=Path), metavar="TRIALS|STUDY")
@click.option("--json", "json", is_flag=True, help="Print one JSON object with every number.")
@click.option("--by", type=click.Choice(GROUPINGS), help="Also score each group separately.")
@click.option(
    "--range",
    "limits",
    nargs=2,
    type=float,
    metavar="LOW HIGH",
    help="Range of numeric answers, if it is not 0 to 1.",
)
@with_options(
    _weights_option("mci", "RF CI CB"),
    _weights_option("gfq", "TA CTA"),
    _weights_option("dfs", "FI BR"),
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    default=2_000,
    show_default=True,
    help="Number of bootstrap resamples for the intervals.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
def measure_command(**options: Any) -> None:
    """Score trials: the metrics MCI, GFQ and DFS with their components and intervals.

    TRIALS is a .jsonl, .csv or .parquet file with one row per trial. Columns: session, trial,
    correct, confidence, weight, novel, bias, response, truth, pair, frame, and optionally scenario,
    arm, signal, dose, repeat. Only session and trial are required; a metric without its columns
    is null, with a reason. Without `correct`, the response is compared with the truth, which may
    be a list of accepted forms, a number with a tolerance, or a pattern. STUDY is the folder of a
    trial; its plan sets the weights, also for the table `trials` that was exported with it.

    \b
    Example:
      chimera measure trials.csv --by arm
    """
    log, by = TrialLog(options["trials"]), options["by"]
    trials, declared = load_log(log)
    given = (options[f"{name}_weights"] or getattr(declared, name) for name in PARTS)
    weights = MetricWeights(*given)
    scale = AnswerScale(options["limits"])
    with suggest_table(log.path, "trials"):
        rows = list(with_progress(trials, "trials"))
    if not rows:
        raise InputError(f"{log.path} contains no trials")
    rows, note = score_log(rows, Scorer())
    table, labels = build_table(rows, scale, str(log.path), log.lines)

    def score(columns: TrialColumns) -> Metrics:
        rng = np.random.default_rng(options["seed"])
        found = measure(columns, weights, rng=rng, resamples=options["resamples"])
        return replace(found, notes=(*([note] if note else []), *found.notes))

    with err.status("scoring"):
        metrics = score(table)
        found = split_groups(table, labels, by) if by else {}
        groups = {name: score(group) for name, group in found.items()}
    if options["json"]:
        apart = {"by": by, "groups": {name: each.as_dict() for name, each in groups.items()}}
        values = {"source": str(log.path), **metrics.as_dict()}
        values |= {"unused_columns": sorted(log.unused)} | (apart if by else {})
        click.echo(json_text(values))
        return
    print_metrics(out, metrics)
    if by:
        out.print()
        out.print(groups_table(by, groups, out.width))
    if log.unused:
        say(f"columns not used by any metric: {sanitize(', '.join(sorted(log.unused)))}")


def load_log(log: TrialLog) -> tuple[Iterator[TrialRow], MetricWeights]:
    """Load the trials of a log, or of a study with the weights of its plan."""
    if not (log.path.is_dir() or log.exported):
        return log.read(), PUBLISHED
    # Imported here to keep start-up fast for logs, the common case.
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.trial.kind import find_plan  # noqa: PLC0415
    from chimeralab.trial.store import load_trials, trial_plan  # noqa: PLC0415

    if not log.path.is_dir():
        plan = find_plan(log.path)
        return log.read(), trial_plan(plan).weights if plan else PUBLISHED
    study = Study(log.path)
    study.check_lock()
    return load_trials(study), trial_plan(study).weights


def print_metrics(console: Console, metrics: Metrics) -> None:
    """Print every metric with its interval and meaning, then notes."""
    sessions, trials = plural(metrics.sessions, "session"), plural(metrics.trials, "trial")
    console.print(f"{sessions}, {trials}\n")
    table = new_table("", "value", "95 % interval", no_wrap=True)
    table.add_column("meaning")

    def add(
        label: str, value: float | None, drawn: Interval | None, texts: Mapping[str, str], name: str
    ) -> None:
        if value is None:
            text = Text(f"undefined: {metrics.undefined[name]}", style="dim")
        else:
            text = Text(texts["says"].format(share=percent(value), rest=1 - value, all=metrics))
        shown = FORMATS[texts.get("format", "index")](value)
        table.add_row(label, shown, between(drawn, 3) if drawn else "", text)

    for metric, parts in PARTS.items():
        found, described = getattr(metrics, metric), METRIC_TEXTS[metric]
        add(metric.upper(), found.value, found.interval, described["value"], metric)
        for part in parts:
            drawn = found.part_intervals[part]
            name = f"{metric}.{part}"
            add(f"  {part.upper()}", getattr(found, part), drawn, described[part], name)
    for name, texts in COMPANION_TEXTS.items():
        value = getattr(metrics.companions, name)
        if value is not None:
            add(name, value, metrics.companions.interval.get(name), texts, name)
    console.print(table)
    console.print()
    for note in _notes(metrics):
        console.print(note, style="dim", soft_wrap=True)


def _notes(metrics: Metrics) -> Iterator[str]:
    """Explain what was left out and how the intervals were computed."""
    for name in ("correct", "confidence"):
        stated = metrics.coverage[name]
        if 0 < stated < metrics.trials:
            yield f"{name}: stated in {stated:,} of {metrics.trials:,} trials; others left out."
    if metrics.dfs.unpaired:
        yield f"Trials without the other half of their pair: {metrics.dfs.unpaired}."
    if metrics.dfs.unanswered:
        yield f"Pairs with a missing answer: {metrics.dfs.unanswered}."
    yield from (f"{note}." for note in metrics.notes)
    sessions, trials = metrics.clusters["sessions"], metrics.clusters["trials"]
    fewest = min(sessions, trials)
    if not metrics.resamples:
        yield "No intervals, because --resamples is 0."
    elif max(sessions, trials) <= 1:
        yield f"No intervals, because there is only one cluster. {A_CLUSTER}"
    else:
        alone = " With one cluster there is no interval." if fewest == 1 else ""
        few = " With so few clusters they are too narrow." if fewest < MIN_CLUSTERS else ""
        yield (
            f"Intervals of MCI and GFQ: {metrics.resamples:,} resamples of"
            f" {plural(sessions, 'cluster')}; of the others: {plural(trials, 'cluster')}."
            f" {A_CLUSTER}{alone}{few}"
        )
