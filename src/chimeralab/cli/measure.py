"""`chimera measure`: what a log of trials says about memory, generalisation and independence."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from chimeralab.cli.measure_table import print_groups, print_metrics
from chimeralab.cli.options import Decorator, with_options
from chimeralab.cli.terminal import err, out, plain, say, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.sandbox.columns import (
    GROUPINGS,
    AnswerScale,
    LabelledTrials,
    TrialColumns,
    answer_range,
    table_of,
)
from chimeralab.sandbox.metrics import Metrics, MetricWeights, measure
from chimeralab.sandbox.trials import TrialLog

if TYPE_CHECKING:
    from chimeralab.study.trial_rows import StudyTrials

PUBLISHED = MetricWeights()


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
@click.option("--by", type=click.Choice(GROUPINGS), help="Also measure each group by itself.")
@click.option(
    "--range",
    "limits",
    nargs=2,
    type=float,
    metavar="LOW HIGH",
    help="Limits of numeric answers, where they are not 0 and 1.",
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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def measure_command(**options: Any) -> None:
    """Measure trials: MCI, GFQ and DFS with their parts, companions and intervals.

    TRIALS is a .jsonl, .csv or .parquet file with a row a trial. Columns: session, trial, correct,
    confidence, weight, novel, bias, response, truth, pair, frame, and optionally scenario, arm,
    signal, dose, repeat. Only session and trial are required; a metric that lacks its columns is
    null, with the reason. STUDY is the folder of a trial, whose weights stand in its plan.
    """
    limits = options["limits"]
    log = _log(options["trials"])
    weights = _weights(getattr(log, "weights", PUBLISHED), options)
    table = _read(log, AnswerScale(answer_range(*limits) if limits else None))
    by = options["by"]

    def measured(columns: TrialColumns) -> Metrics:
        rng = np.random.default_rng(options["seed"])
        return measure(columns, weights, rng=rng, resamples=options["resamples"])

    with err.status("measuring"):
        metrics = measured(table.columns)
        groups = {name: measured(group) for name, group in table.groups(by).items()} if by else {}
    if options["json"]:
        click.echo(json_text(_as_json(log, metrics, by, groups)))
        return
    print_metrics(out, metrics)
    if by:
        print_groups(out, by, groups)
    _tell(log)


def _log(path: Path) -> "TrialLog | StudyTrials":
    if not path.is_dir():
        return TrialLog(path)
    # Imported here: a log, the common case, needs no study and should start at once.
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.trial_rows import StudyTrials  # noqa: PLC0415

    study = Study(path)
    study.checked_lock()
    return StudyTrials(study)


def _weights(declared: MetricWeights, options: dict[str, Any]) -> MetricWeights:
    """The declared weights, unless the command line says otherwise."""
    names = ("mci", "gfq", "dfs")
    return MetricWeights(*(options[f"{name}_weights"] or getattr(declared, name) for name in names))


def _read(log: "TrialLog | StudyTrials", scale: AnswerScale) -> LabelledTrials:
    rows = list(with_progress(log.read(), "trials"))
    if not rows:
        raise InputError(f"{log.path}: holds no trial")
    return table_of(rows, scale, source=str(log.path))


def _as_json(
    log: "TrialLog | StudyTrials", metrics: Metrics, by: str | None, groups: dict[str, Metrics]
) -> dict[str, Any]:
    values = {"source": str(log.path), **metrics.as_dict(), "unused_columns": sorted(log.unused)}
    if by is None:
        return values
    return values | {"by": by, "groups": {name: group.as_dict() for name, group in groups.items()}}


def _tell(log: "TrialLog | StudyTrials") -> None:
    if log.unused:
        say(f"columns that no metric uses: {plain(', '.join(sorted(log.unused)))}")
