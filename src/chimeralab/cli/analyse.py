"""`chimera analyse` and `chimera compare`: estimates with honest intervals.

They come from a table of runs, a study or a trial; two tables or studies are put side by side.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chimeralab.cli.estimate_tables import (
    print_analysis,
    print_replication,
    print_robustness,
    print_trial,
)
from chimeralab.cli.options import Decorator, with_options
from chimeralab.cli.terminal import say, warn_unverified, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.schema import json_text
from chimeralab.detection.seam import Detector
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.gate import NO_AUDIT
from chimeralab.selfplay.analysis import Analysis, analyse, as_json
from chimeralab.selfplay.outcomes import EXPLORATORY, Outcomes, parse_contrast
from chimeralab.selfplay.replication import compare
from chimeralab.selfplay.robustness import DetectorRobustness, robustness
from chimeralab.selfplay.runs import Runs, load_runs, read_runs

if TYPE_CHECKING:
    from chimeralab.study import Study

LEVEL = click.FloatRange(0, 1, min_open=True, max_open=True)
NUMBER_OPTIONS: tuple[Decorator, ...] = (
    click.option("--tau", type=click.IntRange(1), help="Horizon of the restricted mean, in turns."),
    click.option("--level", type=LEVEL, help="Level of all intervals. Default: 0.95."),
    click.option("--resamples", type=click.IntRange(100), help="Bootstrap draws. Default: 10,000."),
    click.option(
        "--permutations", type=click.IntRange(100), help="Draws per test. Default: 5,000."
    ),
    click.option("--seed", type=click.IntRange(0), help="Seed of all draws. Default: 1."),
    click.option("--json", "json", is_flag=True, help="One JSON object; nulls have their reasons."),
)


@click.command("analyse")
@click.argument("path", metavar="RUNS|STUDY", type=click.Path(path_type=Path))
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

    RUNS is a .csv, .tsv, .jsonl or .parquet file with the columns condition, seed_id, repeat_index,
    total_turns, collapsed_turns and first_collapse_turn (blank: never), and optionally seed_bucket;
    others are ignored. STUDY is a study or a bundle. Repeats of a seed prompt are one cluster.
    """
    study = open_study(path)
    if study is not None and not study.plan.kind.judged:
        _analyse_trial(study, {**options, "robustness": robust})
        return
    runs, declared = take_runs(path, study)
    outcomes = asked_for(declared, options)
    if study is None or outcomes != declared:
        result = analyse(runs, outcomes)
    else:  # what a study declares is stored with it, what is asked now is not
        from chimeralab.selfplay.kind import analyse_runs  # noqa: PLC0415
        from chimeralab.study.estimates import Estimates  # noqa: PLC0415

        result = analyse_runs(study, runs, Estimates(study, renew=True, tell=say))
    checked = _robustness(study, outcomes, result) if robust else None
    if options["json"]:
        lock = study.lock if study else None
        more = {"lock": lock.sha256 if lock else None} if study else {}
        texts = {"robustness": checked.as_dict()} if checked else {}
        click.echo(json_text(as_json(result) | more | texts))
        return
    scope = NO_AUDIT  # of a table of runs, nobody knows who judged them
    if study is not None:
        from chimeralab.rating.study_audit import reliability, scope_of  # noqa: PLC0415

        scope = scope_of(reliability(study))
    print_analysis(result, scope.words)
    if checked:
        print_robustness(checked)


@click.command("compare")
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--match",
    multiple=True,
    metavar="X=Y",
    help="Compare condition Y of B with X of A. Default: equal names.",
)
@click.option(
    "--paired/--separate",
    default=None,
    help="Pair the tables by seed prompt, or not. Default: paired when all seed ids are the same.",
)
@with_options(*NUMBER_OPTIONS)
def compare_command(a: Path, b: Path, **options: Any) -> None:
    """Compare two tables of runs or studies: A minus B, condition by condition and pair by pair."""
    ours, theirs = (take_runs(path, open_study(path))[0] for path in (a, b))
    result = compare(
        ours,
        theirs,
        asked_for(EXPLORATORY, options),
        match=dict(map(matched, options["match"])),
        paired=options["paired"],
    )
    if options["json"]:
        click.echo(json_text(result.as_dict()))
    else:
        print_replication(result)


def matched(text: str) -> tuple[str, str]:
    """A condition of A and the one of B that stands for it."""
    ours, equals, theirs = text.partition("=")
    if not (equals and ours.strip() and theirs.strip()):
        raise InputError(f"--match {text!r}: write X=Y, a condition of A and its namesake in B")
    return ours.strip(), theirs.strip()


def open_study(path: Path) -> "Study | None":
    """The study in a folder; a file is a table of runs."""
    if not path.is_dir():
        return None
    # Imported here: a table, the common case, needs no study and should start at once.
    from chimeralab.study import Study  # noqa: PLC0415

    return Study(path)


def take_runs(path: Path, study: "Study | None") -> tuple[Runs, Outcomes]:
    """Runs of a table or a study, and what was declared about them.

    What a study has not judged yet is judged first.
    """
    if study is None:
        return read_runs(path), EXPLORATORY
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.detection.verdict import from_json  # noqa: PLC0415
    from chimeralab.study.verdicts import load_detections  # noqa: PLC0415

    pipeline.detect(study)
    if study.lock is None:
        say("this study was not locked: nothing in it was declared before the runs")
    warn_unverified(study)
    detections = [from_json(row) for row in load_detections(study)]
    runs = load_runs(study, detections, str(study.path))
    return runs, study.plan.extras.get("outcomes", Outcomes())


def asked_for(declared: Outcomes, options: dict[str, Any]) -> Outcomes:
    """The declared outcomes with what the command line changes, which it then says."""
    numbers = ("tau", "level", "resamples", "permutations", "seed")
    changes = {name: options[name] for name in numbers if options[name] is not None}
    more = tuple(parse_contrast(text) for text in options.get("contrast", ()))
    if declared.estimands and (changes or more):
        named = (*changes, *(["contrast"] if more else []))
        say(f"not as declared in the plan: {', '.join(named)}")
    return replace(declared, **changes, contrasts=declared.contrasts + more)


def _robustness(study: "Study | None", outcomes: Outcomes, result: Analysis) -> DetectorRobustness:
    if study is None:
        raise InputError("--robustness needs the texts: give a study, not a table of runs")
    declared: Detector = study.plan.detector.settings
    if declared.thresholds is None:
        raise InputError(
            f"--robustness varies thresholds, and the detector {declared.name} has none to vary"
        )
    ended = (talk for talk in study.trajectories() if talk.metadata["outcome"] is not None)
    talks = with_progress(ended, "conversations")
    return robustness(talks, result, outcomes, declared.thresholds, default_encoder())


def _analyse_trial(study: "Study", options: dict[str, Any]) -> None:
    """Analyse a trial and print it."""
    # Imported here: a table of runs, the common case, needs no sandbox.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.study.estimates import Estimates  # noqa: PLC0415

    own = ("seed", "resamples", "json")
    foreign = [name for name, value in options.items() if name not in own and value]
    if foreign:
        raise InputError(f"--{foreign[0]} is about self-play, not about a trial; leave it out")
    given = {n: options[n] for n in ("seed", "resamples") if options[n] is not None}
    if study.check_lock() is None:
        say("this study was not locked: nothing in it was declared before the runs")
    result = pipeline.analyse_trial(study, Estimates(study, renew=True, tell=say), **given)
    if options["json"]:
        lock = study.lock
        click.echo(json_text({**result.as_dict(), "lock": lock.sha256 if lock else None}))
        return
    print_trial(result)
