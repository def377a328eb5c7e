"""`chimera measure`: what a log of trials says about memory, generalisation and independence."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import Decorator, with_options
from chimeralab.cli.terminal import err, out, sanitize, say, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.numbers import between, number, p_value, percent, plural
from chimeralab.stats.intervals import MIN_CLUSTERS, Interval
from chimeralab.trial.columns import (
    GROUPINGS,
    AnswerScale,
    TrialColumns,
    build_table,
    split_groups,
)
from chimeralab.trial.measures import COMPANION_TEXTS, METRIC_TEXTS, PARTS
from chimeralab.trial.metrics import Dfs, Gfq, Mci, Metrics, MetricWeights, measure
from chimeralab.trial.scoring import Scorer, score_log
from chimeralab.trial.trials import TrialLog, TrialRow

PUBLISHED = MetricWeights()
FORMATS: dict[str, Callable[[float | None], str]] = {
    "index": partial(number, digits=3),
    "count": partial(number, digits=0),
    "p-value": p_value,
}
A_CLUSTER = "A cluster is a scenario, else a session."


def _weights_option(metric: str, parts: str) -> Decorator:
    default = getattr(PUBLISHED, metric)
    return click.option(
        f"--{metric}-weights",
        nargs=len(default),
        type=float,
        show_default=" ".join(f"{weight:g}" for weight in default),
        metavar=parts,
        help=f"Weights of the parts of {metric.upper()}; they must sum to 1.",
    )


@click.command("measure")
@click.argument("trials", type=click.Path(path_type=Path), metavar="TRIALS|STUDY")
@click.option("--json", "json", is_flag=True, help="One JSON object with every number.")
@click.option("--by", type=click.Choice(GROUPINGS), help="Also measure each group separately.")
@click.option(
    "--range",
    "limits",
    nargs=2,
    type=float,
    metavar="LOW HIGH",
    help="Limits of numeric answers, if they are not 0 and 1.",
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
    help="Resamples for the intervals.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the resamples."
)
def measure_command(**options: Any) -> None:
    """Measure trials: MCI, GFQ and DFS with their parts, companions and intervals.

    TRIALS is a .jsonl, .csv or .parquet file with one row per trial. Columns: session, trial,
    correct, confidence, weight, novel, bias, response, truth, pair, frame, and optionally scenario,
    arm, signal, dose, repeat. Only session and trial are required; a metric without its columns
    is null, with the reason. Without `correct`, the response is compared with the truth, which may
    be a list of accepted forms, a number with a tolerance, or a pattern. STUDY is the folder of a
    trial, whose plan has the weights.
    """
    log, by = TrialLog(options["trials"]), options["by"]
    trials, declared = _study(log.path) if log.path.is_dir() else (log.read(), PUBLISHED)
    given = (options[f"{name}_weights"] or getattr(declared, name) for name in PARTS)
    weights = MetricWeights(*given)
    scale = AnswerScale(options["limits"])
    rows = list(with_progress(trials, "trials"))
    if not rows:
        raise InputError(f"{log.path}: there is no trial in it")
    rows, note = score_log(rows, Scorer())
    table, labels = build_table(rows, scale, str(log.path), log.lines)

    def measured(columns: TrialColumns) -> Metrics:
        rng = np.random.default_rng(options["seed"])
        found = measure(columns, weights, rng=rng, resamples=options["resamples"])
        return replace(found, notes=(*([note] if note else []), *found.notes))

    with err.status("measuring"):
        metrics = measured(table)
        found = split_groups(table, labels, by) if by else {}
        groups = {name: measured(group) for name, group in found.items()}
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
        say(f"columns that no metric uses: {sanitize(', '.join(sorted(log.unused)))}")


def _study(path: Path) -> tuple[Iterator[TrialRow], MetricWeights]:
    """The trials of a study, and the weights that its plan declares."""
    # Imported here: a log, the common case, needs no study and should start at once.
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.trial.store import load_trials, trial_plan  # noqa: PLC0415

    study = Study(path)
    study.check_lock()
    return load_trials(study), trial_plan(study).weights


def print_metrics(console: Console, metrics: Metrics) -> None:
    """All numbers of one set of trials, then what to know about them."""
    sessions, trials = plural(metrics.sessions, "session"), plural(metrics.trials, "trial")
    console.print(f"{sessions}, {trials}\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("value", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it says")

    def add(
        label: str, value: float | None, drawn: Interval | None, texts: Mapping[str, str], name: str
    ) -> None:
        if value is None:
            said = Text(f"undefined: {metrics.undefined[name]}", style="dim")
        else:
            said = Text(texts["says"].format(share=percent(value), rest=1 - value, all=metrics))
        table.add_row(
            label,
            FORMATS[texts.get("format", "index")](value),
            between(drawn, 3) if drawn else "",
            said,
        )

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
    """What was left out, and what the intervals rest on."""
    for name in ("correct", "confidence"):
        stated = metrics.coverage[name]
        if 0 < stated < metrics.trials:
            yield f"{name}: stated in {stated:,} of {metrics.trials:,} trials, the rest left out."
    if metrics.dfs.unpaired:
        yield f"Halves without the other half of their pair: {metrics.dfs.unpaired}."
    if metrics.dfs.unanswered:
        yield f"Pairs without both answers: {metrics.dfs.unanswered}."
    yield from (f"{note}." for note in metrics.notes)
    sessions, trials = metrics.clusters["sessions"], metrics.clusters["trials"]
    fewest = min(sessions, trials)
    if not metrics.resamples:
        yield "No intervals: no resamples were asked for."
    elif max(sessions, trials) <= 1:
        yield f"No intervals: one cluster has none. {A_CLUSTER}"
    else:
        alone = " One cluster has no interval." if fewest == 1 else ""
        few = " With so few they come out too narrow." if fewest < MIN_CLUSTERS else ""
        yield (
            f"Intervals of MCI and GFQ: {metrics.resamples:,} resamples of"
            f" {plural(sessions, 'cluster')}; of the others: {plural(trials, 'cluster')}."
            f" {A_CLUSTER}{alone}{few}"
        )


# Everything but the names, with each interval beside its value, and what a name needs at least.
WIDTH_OF_NUMBERS = 72
WIDTH_OF_NAMES = 24


def groups_table(by: str, groups: Mapping[str, Metrics], width: int) -> Table:
    """The table for a terminal of some width; a narrow one has intervals under their values."""
    gap = " " if width >= WIDTH_OF_NUMBERS + WIDTH_OF_NAMES else "\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(by, overflow="fold")
    for heading in ("sessions", "trials", *(name.upper() for name in PARTS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, metrics in groups.items():
        counts = (f"{metrics.sessions:,}", f"{metrics.trials:,}")
        cells = (_cell(getattr(metrics, metric), gap) for metric in PARTS)
        # Blanks around a plus let the name of an arm wrap between its stressors.
        table.add_row(Text(sanitize(name).replace("+", " + ")), *counts, *cells)
    return table


def _cell(metric: Mci | Gfq | Dfs, gap: str) -> str:
    shown = number(metric.value, 2)
    if metric.value is None or metric.interval is None:
        return shown
    low, high = (number(bound, 2) for bound in metric.interval)
    return f"{shown}{gap}({low}–{high})"
