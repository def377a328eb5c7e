"""`chimera analyse` and `chimera compare`: estimates with clustered intervals."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chimeralab.cli.estimate_tables import (
    print_analysis,
    print_covariates,
    print_escape,
    print_replication,
    print_robustness,
    print_trial,
    print_trial_comparison,
)
from chimeralab.cli.options import FULL_OPTION, Decorator, suggest_table, with_options
from chimeralab.cli.terminal import say, warn_unverified, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection, plain_value
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
    from chimeralab.selfplay.covariates import CovariateResult
    from chimeralab.selfplay.escape import EscapeAnalysis
    from chimeralab.study import Study

NOT_LOCKED = "exploratory: the plan was not locked before the runs"
LEVEL = click.FloatRange(0, 1, min_open=True, max_open=True)
NUMBER_OPTIONS: tuple[Decorator, ...] = (
    click.option("--tau", type=click.IntRange(1), help="Horizon of the restricted mean, in turns."),
    click.option("--level", type=LEVEL, help="Confidence level. Default: 0.95."),
    click.option(
        "--resamples", type=click.IntRange(100), help="Bootstrap resamples. Default: 10,000."
    ),
    click.option(
        "--permutations", type=click.IntRange(100), help="Permutations per test. Default: 5,000."
    ),
    click.option("--seed", type=click.IntRange(0), help="Random seed. Default: 1."),
    click.option(
        "--json", "json", is_flag=True, help="Print one JSON object, with a reason for each null."
    ),
)

COVARIATE_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        "--covariates",
        type=click.Path(path_type=Path),
        metavar="TABLE",
        help="Associate the numbers of this table, by run or turn, with collapse.",
    ),
    click.option(
        "--covariate",
        multiple=True,
        metavar="COLUMN",
        help="Only this column of TABLE; repeatable.",
    ),
    click.option(
        "--lag",
        multiple=True,
        type=click.IntRange(0),
        help="Turns between covariate and collapse; repeatable. Default: 0 and 1.",
    ),
    click.option(
        "--cluster",
        multiple=True,
        metavar="COLUMN",
        help="Rows of TABLE that share these columns are a cluster. Default: seed_id.",
    ),
)


@click.command("analyse")
@click.argument("path", metavar="RUNS|STUDY", type=click.Path(path_type=Path))
@click.option(
    "--contrast",
    multiple=True,
    metavar="TEXT",
    help="'W = A, B' (W against the mean of A and B), or weights: 'A: 1, B: -1/2, C: -1/2'.",
)
@click.option(
    "--robustness",
    "robust",
    is_flag=True,
    help="Also judge a study with a grid of other thresholds, and by words alone.",
)
@with_options(*COVARIATE_OPTIONS, *NUMBER_OPTIONS, FULL_OPTION)
def analyse_command(path: Path, robust: bool, full: bool, **options: Any) -> None:
    """Estimate how much, how often and how soon conversations collapse, and compare conditions.

    RUNS is a .csv, .tsv, .jsonl or .parquet file with the columns condition, seed_id, repeat_index,
    total_turns, collapsed_turns and first_collapse_turn (blank: never), and optionally seed_bucket;
    others are ignored. STUDY is a study, a trial or a bundle. The exported table `trials` of a
    trial is analysed like the trial. Repeats of a seed prompt form a cluster.

    \b
    Examples:
      chimera analyse my-study
      chimera analyse runs.csv --contrast "A: 1, B: -1"
      chimera analyse my-study --covariates turns.csv --lag 0 --lag 2
    """
    study = open_study(path)
    if has_trials(path, study):
        _analyse_trial(path, study, {**options, "robustness": robust}, full=full)
        return
    runs, declared = open_runs(path, study)
    outcomes = apply_options(declared, options)
    if study is None or outcomes != declared:
        result = analyse(runs, outcomes)
    else:  # only the declared analysis is stored with the study
        from chimeralab.selfplay.kind import analyse_runs  # noqa: PLC0415
        from chimeralab.study.estimates import Estimates  # noqa: PLC0415

        result = analyse_runs(study, runs, Estimates(study, renew=True, warn=say))
    checked = _robustness(study, outcomes, result) if robust else None
    joined = _associate(runs, result.settings.level, options)
    escape = _analyse_escape(study)
    if options["json"]:
        lock = study.lock if study else None
        more = {"lock": lock.sha256 if lock else None} if study else {}
        texts = {"robustness": checked.as_dict()} if checked else {}
        texts |= {"covariates": joined.as_dict()} if joined else {}
        texts |= {"escape": escape.as_dict()} if escape else {}
        click.echo(json_text(as_json(result) | more | texts))
        return
    scope = NO_AUDIT  # nothing is known about the audit of a table
    if study is not None:
        from chimeralab.rating.study_audit import load_reliability, scope_of  # noqa: PLC0415

        scope = scope_of(load_reliability(study))
    print_analysis(result, scope.words, full=full)
    if escape:
        print_escape(escape)
    if checked:
        print_robustness(checked)
    if joined:
        print_covariates(joined)


@click.command("compare")
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@click.option(
    "--match",
    multiple=True,
    metavar="X=Y",
    help="Compare condition X of A with Y of B. Default: conditions of the same name.",
)
@click.option(
    "--paired/--separate",
    default=None,
    help="Pair the tables by seed prompt. Default: if all seed ids are the same.",
)
@with_options(*NUMBER_OPTIONS)
def compare_command(a: Path, b: Path, **options: Any) -> None:
    """Compare two tables of runs or studies: A minus B, by condition and by pair of conditions.

    Two trials, or tables of trials, are compared on every measure, arm by arm.

    \b
    Example:
      chimera compare original.csv my-replication --match control=baseline
    """
    studies = {path: open_study(path) for path in (a, b)}
    trials = [path for path, study in studies.items() if has_trials(path, study)]
    if len(trials) == len(studies):
        _compare_trials(a, b, options)
        return
    if trials:
        raise InputError(f"{trials[0]} is a trial and the other is not; compare two of a kind")
    ours, theirs = (open_runs(path, studies[path], keep=False)[0] for path in (a, b))
    result = compare(
        ours,
        theirs,
        apply_options(EXPLORATORY, options),
        match=dict(map(parse_match, options["match"])),
        paired=options["paired"],
    )
    if options["json"]:
        click.echo(json_text(result.as_dict()))
    else:
        print_replication(result)


def _analyse_escape(study: "Study | None") -> "EscapeAnalysis | None":
    """What became of the loops that a study perturbed."""
    if study is None or "escape" not in study.plan.extras:
        return None
    from chimeralab.selfplay.escape import load_escape  # noqa: PLC0415 - seldom needed
    from chimeralab.study.verdicts import load_detections  # noqa: PLC0415

    return load_escape(study, load_detections(study))


def parse_match(text: str) -> tuple[str, str]:
    """Parse X=Y: a condition of A and its counterpart in B."""
    ours, equals, theirs = text.partition("=")
    if not (equals and ours.strip() and theirs.strip()):
        raise InputError(f"--match {text!r} is not X=Y, a condition of A and its counterpart in B")
    return ours.strip(), theirs.strip()


def open_study(path: Path) -> "Study | None":
    """Open the study in a folder; a file is a table of runs."""
    if not path.is_dir():
        return None
    # Imported here to keep start-up fast for tables, the common case.
    from chimeralab.study import Study  # noqa: PLC0415

    return Study(path)


def has_trials(path: Path, study: "Study | None") -> bool:
    """Whether a study is a trial, or a file a table of trials."""
    if study is not None:
        return not study.plan.kind.judged
    from chimeralab.trial.trials import TrialLog  # noqa: PLC0415

    names = TrialLog(path).names
    return "trial" in names and not names.isdisjoint({"session", "trajectory"})


def open_runs(path: Path, study: "Study | None", *, keep: bool = True) -> tuple[Runs, Outcomes]:
    """Load the runs of a table or study with the declared outcomes.

    Conversations without a verdict are judged now, and their verdicts stored with `keep`.
    """
    if study is None:
        with suggest_table(path, "trials", "outcomes"):
            return read_runs(path), EXPLORATORY
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.study.verdicts import load_detections  # noqa: PLC0415

    new: list[Detection] = []
    pipeline.detect(study, new.append, keep=keep)
    if study.lock is None:
        say(NOT_LOCKED)
    warn_unverified(study)
    judged = {each.id: each for each in (*new, *load_detections(study))}
    with study.archive() as archive:
        detections = [judged[talk["id"]] for talk in archive.talks() if talk["id"] in judged]
    runs = load_runs(study, detections, str(study.path))
    return runs, study.plan.extras.get("outcomes", Outcomes())


def apply_options(declared: Outcomes, options: dict[str, Any]) -> Outcomes:
    """Apply the command line to the declared outcomes, and report deviations."""
    numbers = ("tau", "level", "resamples", "permutations", "seed")
    changes = {name: options[name] for name in numbers if options[name] is not None}
    more = tuple(parse_contrast(text) for text in options.get("contrast", ()))
    if declared.estimands and (changes or more):
        named = (*changes, *(["contrast"] if more else []))
        say(f"deviates from the plan: {', '.join(named)}")
    return replace(declared, **changes, contrasts=declared.contrasts + more)


def _robustness(study: "Study | None", outcomes: Outcomes, result: Analysis) -> DetectorRobustness:
    if study is None:
        raise InputError("--robustness needs the texts of a study, not a table of runs")
    declared: Detector = study.plan.detector.settings
    if declared.thresholds is None:
        raise InputError(
            f"--robustness varies thresholds, but the detector {declared.name} has none"
        )
    ended = (talk for talk in study.trajectories() if talk.metadata["outcome"] is not None)
    talks = with_progress(ended, "conversations")
    return robustness(talks, result, outcomes, declared.thresholds, default_encoder())


def _associate(runs: Runs, level: float, options: dict[str, Any]) -> "CovariateResult | None":
    if options["covariates"] is None:
        for name in ("covariate", "lag", "cluster"):
            if options[name]:
                raise InputError(
                    f"--{name} is about a table of covariates; give --covariates TABLE"
                )
        return None
    from chimeralab.selfplay.covariates import CovariateQuestion, associate  # noqa: PLC0415

    names = {"covariate": "covariates", "lag": "lags", "cluster": "cluster"}
    given = {own: options[name] for name, own in names.items() if options[name]}
    return associate(runs, options["covariates"], CovariateQuestion(**given, level=level))


def _trial_options(options: dict[str, Any]) -> dict[str, Any]:
    """The seed and resamples that are given; options that only self-play has are refused."""
    shared = ("seed", "resamples", "json", "match", "paired")
    for option, value in options.items():
        if option not in shared and value:
            raise InputError(f"--{option} is for self-play; leave it out for a trial")
    return {n: options[n] for n in ("seed", "resamples") if options[n] is not None}


def _analyse_trial(
    path: Path, study: "Study | None", options: dict[str, Any], *, full: bool
) -> None:
    # Imported here to keep start-up fast for tables, the common case.
    from chimeralab.study.estimates import Estimates  # noqa: PLC0415
    from chimeralab.trial.kind import analyse_table, analyse_trial, find_plan  # noqa: PLC0415

    given, plan = _trial_options(options), study or find_plan(path)
    lock = plan.check_lock() if plan else None
    if lock is None:
        say(NOT_LOCKED)
    if study is None:
        result = analyse_table(path, **given)
    else:
        result = analyse_trial(study, Estimates(study, renew=True, warn=say), **given)
    if options["json"]:
        click.echo(json_text({**result.as_dict(), "lock": lock.sha256 if lock else None}))
        return
    print_trial(result, full=full)


def _compare_trials(a: Path, b: Path, options: dict[str, Any]) -> None:
    from chimeralab.trial.analysis import compare_trials  # noqa: PLC0415
    from chimeralab.trial.kind import load_complete  # noqa: PLC0415

    if options["paired"] is False:
        raise InputError("--separate is for self-play; trials are compared within scenarios")
    given, match = _trial_options(options), dict(map(parse_match, options["match"]))
    found = compare_trials(load_complete(a), load_complete(b), match, **given)
    if options["json"]:
        click.echo(json_text({"a": str(a), "b": str(b), **plain_value(found)}))
        return
    print_trial_comparison(found)
