"""`chimera analyse`: estimates with honest intervals from a table of runs, or from a study."""

from pathlib import Path
from typing import Any

import click

from chimeralab.analysis.selfplay.analysis import Analysis, analyse, as_json
from chimeralab.analysis.selfplay.outcomes import Outcomes
from chimeralab.analysis.selfplay.robustness import (
    DetectorRobustness,
    primary_questions,
    robustness,
)
from chimeralab.cli.analyse_print import print_analysis, print_robustness
from chimeralab.cli.options import Decorator, with_options
from chimeralab.cli.run_sources import Source, asked_for, finished, is_trial, take_runs
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.detection.detectors import Detector
from chimeralab.embedding.encoder import default_encoder

LEVEL = click.FloatRange(0, 1, min_open=True, max_open=True)
NUMBER_OPTIONS: tuple[Decorator, ...] = (
    click.option("--tau", type=click.IntRange(1), help="Horizon of the restricted mean, in turns."),
    click.option("--level", type=LEVEL, help="Level of all intervals. Default: 0.95."),
    click.option("--resamples", type=click.IntRange(100), help="Bootstrap draws. Default: 10,000."),
    click.option("--permutations", type=click.IntRange(100), help="Default: 5,000."),
    click.option("--seed", type=click.IntRange(0), help="Seed of all draws. Default: 1."),
    click.option("--json", "json", is_flag=True, help="One JSON object; nulls have their reasons."),
)


@click.command("analyse")
@click.argument("path", metavar="RUNS|STUDY", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--contrast",
    multiple=True,
    metavar="TEXT",
    help="'ROT = A, B' (a whole against the mean of its parts) or 'A: 1, B: -1/2, C: -1/2'.",
)
@click.option(
    "--robustness",
    "robust",
    is_flag=True,
    help="Also judge a study with every detector one could have declared, and by words alone.",
)
@with_options(*NUMBER_OPTIONS)
def analyse_command(path: Path, robust: bool, **options: Any) -> None:
    """Estimate how much, how often and how soon each condition collapses, and compare them.

    RUNS is a .csv, .jsonl or .parquet file with the columns condition, seed_id, repeat_index,
    total_turns, collapsed_turns and first_collapse_turn (blank: never), and perhaps seed_bucket;
    others are ignored. STUDY is a study folder. Repeats of a seed prompt are one cluster.
    """
    if is_trial(path):
        # Imported here: a table of runs, the common case, needs no sandbox.
        from chimeralab.cli.analyse_trial import analyse_trial_study  # noqa: PLC0415

        analyse_trial_study(path, {**options, "robustness": robust})
        return
    source = take_runs(path)
    outcomes = asked_for(source.outcomes, options)
    result = analyse(source.runs, outcomes)
    checked = _robustness(source, outcomes, result) if robust else None
    if options["json"]:
        click.echo(json_text(as_json(result) | _more(source, checked)))
        return
    print_analysis(result)
    if checked:
        print_robustness(checked)


def _more(source: Source, checked: DetectorRobustness | None) -> dict[str, Any]:
    """What only a study has: the lock under which its outcomes were declared, and its texts."""
    more: dict[str, Any] = {} if checked is None else {"robustness": checked.as_dict()}
    if source.study is None:
        return more
    lock = source.study.lock
    return {"lock": lock.sha256 if lock else None, **more}


def _robustness(source: Source, outcomes: Outcomes, result: Analysis) -> DetectorRobustness:
    study = source.study
    if study is None:
        raise InputError("--robustness needs the texts: give a study, not a table of runs")
    declared: Detector = study.plan.detector.settings
    order, detector = result.rank_stability.order, declared.thresholds
    if detector is None:
        raise InputError(
            f"--robustness varies thresholds, and the detector {declared.name} has none to vary"
        )
    questions = primary_questions(outcomes, order, result.settings.tau, detector)
    if not questions:
        raise InputError("--robustness needs two conditions to compare")
    return robustness(finished(study), questions, default_encoder(), speaker="all")
