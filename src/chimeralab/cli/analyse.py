"""`chimera analyse`: estimates with honest intervals from a table of runs, a study or a trial."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import Decorator, with_options
from chimeralab.cli.run_sources import Source, asked_for, finished, open_study, take_runs
from chimeralab.cli.terminal import out, plain, say
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.numbers import NONE, between, number, p_value
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.seam import Detector
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.gate import NO_AUDIT, ClaimScope
from chimeralab.selfplay.analysis import Analysis, analyse, as_json, sentences
from chimeralab.selfplay.outcomes import Measure, Outcomes, measure_name
from chimeralab.selfplay.robustness import (
    DetectorRobustness,
    primary_questions,
    robustness,
)
from chimeralab.stats.effects import Effect, short

if TYPE_CHECKING:
    from chimeralab.study import Study
    from chimeralab.trial.analysis import SubjectResult, TrialAnalysis

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
# The measures that are compared on the terminal, and with how many digits.
COMPARED: dict[Measure, int] = {"share": 3, "restricted_mean": 1, "incidence": 3}
LEGEND = (
    "ratio: the standard error of an analysis that treats runs as independent, over the clustered "
    "one. naive p: what that analysis would say. perm. p: sides exchanged within prompts. RMST: "
    "mean turns to the first {event}, up to the horizon."
)
FAMILIES = {
    "contrasts": "against {reference}, within scenarios",
    "factorial": "main effects and interactions",
    "doses": "slope over the dose",
    "countermeasures": "with a countermeasure minus without",
}


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
    source = take_runs(path, study)
    outcomes = asked_for(source.outcomes, options)
    result = _analyse(source, outcomes)
    checked = _robustness(source, outcomes, result) if robust else None
    if options["json"]:
        lock = source.study.lock if source.study else None
        more = {"lock": lock.sha256 if lock else None} if source.study else {}
        texts = {"robustness": checked.as_dict()} if checked else {}
        click.echo(json_text(as_json(result) | more | texts))
        return
    print_analysis(result, _scope(source.study).words)
    if checked:
        print_robustness(checked)


def _analyse(source: Source, outcomes: Outcomes) -> Analysis:
    """Analyse the runs; what a study declares is stored with it, what is asked now is not."""
    if source.study is None or outcomes != source.outcomes:
        return analyse(source.runs, outcomes)
    from chimeralab.selfplay.kind import analyse_runs  # noqa: PLC0415
    from chimeralab.study.estimates import Estimates  # noqa: PLC0415

    return analyse_runs(source.study, source.runs, Estimates(source.study, renew=True))


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


def _scope(study: "Study | None") -> ClaimScope:
    """What may be claimed of a study; of a table of runs, nobody knows who judged them."""
    if study is None:
        return NO_AUDIT
    # Imported here: a table of runs, the common case, has no gate.
    from chimeralab.rating.auditing import reliability, scope_of  # noqa: PLC0415

    return scope_of(reliability(study))


def print_analysis(analysis: Analysis, words: ResultWords) -> None:
    """The tables, then what they say, then what to know before quoting them."""
    tables = [_shares(analysis, words), _first_collapses(analysis, words)]
    for measure, digits in COMPARED.items() if analysis.contrasts else ():
        title = f"Difference in the {measure_name(measure, words)}"
        tables.append(comparisons(title, analysis.rows(measure), digits))
    print_tables(*tables, _recoveries(analysis, words))
    print_lines([*sentences(analysis, words), ""])
    left = [
        f"left out of {part.condition}: {part.runs}, {part.reason}" for part in analysis.left_out
    ]
    reasons = [(name, part.reasons) for name, part in analysis.conditions.items()]
    reasons += [
        (each.name, each.reasons)
        for found in analysis.measures.values()
        for each in (*found.pairs, *found.weighted)
    ]
    dashes = dict.fromkeys(f"– {name}: {why}" for name, all_ in reasons for why in all_.values())
    legend = LEGEND.format(event=words.event)
    print_lines((*left, *analysis.notes, *dashes, legend), style="dim")


def _shares(analysis: Analysis, words: ResultWords) -> Table:
    """How much collapses, by condition, with three intervals."""
    level = f"{100 * analysis.settings.level:g} %"
    headings = ("runs", "mean", "median", "SD", level, "bootstrap", "bootstrap-t")
    table = new_table(f"Share of {words.turns}, %", "condition", headings)
    for name in analysis.rank_stability.order:
        part = analysis.conditions[name]
        intervals = (part.share_ci, part.bootstrap_ci, part.bootstrap_t_ci)
        numbers = (number(each, 1, 100) for each in (part.mean, part.median, part.sd))
        shown = (between(interval, 1, 100) for interval in intervals)
        table.add_row(Text(plain(name)), str(part.n), *numbers, *shown)
    return table


def _first_collapses(analysis: Analysis, words: ResultWords) -> Table:
    """How often and how soon, by condition, and how similar repeats are."""
    tau = f"RMST({analysis.settings.tau:g})"
    headings = ("ever, %", "interval", "median", tau, "interval", "ICC", "ratio")
    table = new_table(f"First {words.event}, in turns", "condition", headings)
    for name in analysis.rank_stability.order:
        part = analysis.conditions[name]
        table.add_row(
            Text(plain(name)),
            number(part.incidence, 1, 100),
            between(part.incidence_ci, 1, 100),
            number(part.km_median, 0),
            number(part.rmst, 1),
            between(part.rmst_ci, 1),
            number(part.icc, 2),
            number(part.se_ratio, 2),
        )
    return table


def comparisons(title: str, found: Sequence[Effect], digits: int = 3) -> Table:
    """Differences over prompts, every p beside the naive one and the ratio of errors."""
    headings = ("diff.", "interval", "Holm p", "perm. p", "naive p", "ratio")
    table = new_table(title, "a − b", headings)
    for each in found:
        table.add_row(
            Text(plain(each.marked_name)),
            number(each.estimate, digits),
            between(each.interval, digits),
            *map(p_value, (each.p_holm, each.permutation_p, each.naive_p)),
            number(each.se_ratio, 2),
        )
    return table


def _recoveries(analysis: Analysis, words: ResultWords) -> Table:
    """What becomes of runs after their first collapse."""
    headings = ("runs", "recovered", "%", "interval", "later turns, %", "dwell")
    table = new_table(f"After the first {words.event}", "condition", headings)
    for name in analysis.rank_stability.order:
        part = analysis.after_onset[name]
        table.add_row(
            Text(plain(name)),
            str(part.collapsed_runs),
            str(part.recovered_runs),
            number(part.recovered_share, 1, 100),
            between(part.recovered_ci, 1, 100),
            number(part.dwell_share, 1, 100),
            number(part.dwell_median, 0),
        )
    return table


def print_robustness(found: DetectorRobustness) -> None:
    """The specification curves in a line each, and the words alone beside the embedding."""
    lines = [""]
    for curve in found.curves:
        if curve.declared is None or curve.lowest is None or curve.highest is None:
            lines.append(f"{curve.a} − {curve.b}: no estimate with the declared detector.")
            continue
        declared, low, high = (
            number(each, 3, sign=True) for each in (curve.declared, curve.lowest, curve.highest)
        )
        lines.append(
            f"{curve.a} − {curve.b}: {declared} as declared; {low} to {high} over "
            f"{curve.distinct_detectors} detectors with {curve.distinct_outcomes} outcomes; "
            f"{curve.same_sign} agree on the direction, {curve.significant} of them with an "
            "interval that leaves out 0."
        )
    print_lines([*lines, ""])
    headings = ("talks", "correlation", "both", "words only", "embedding only", "neither")
    table = new_table("Collapse by words alone, beside the embedding", "measure", headings)
    for each in found.co_detectors:
        counts = (each.both, each.only_lexical, each.only_embedding, each.neither)
        shown = (NONE if count is None else str(count) for count in counts)
        name = " ".join(each.name.split("_"))
        table.add_row(name, str(each.conversations), number(each.correlation, 2), *shown)
    print_tables(table)


def new_table(title: str, first: str, headings: Sequence[str]) -> Table:
    """A table whose first column may fold and whose others are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_tables(*parts: Table) -> None:
    for part in parts:
        out.print(part)
        out.print()


def print_lines(lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        out.print(Text(plain(line)), style=style, soft_wrap=True)


def _analyse_trial(study: "Study", options: dict[str, Any]) -> None:
    """Analyse a trial and print it."""
    # Imported here: a table of runs, the common case, needs no sandbox.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.study.estimates import Estimates  # noqa: PLC0415
    from chimeralab.trial.analysis import Draws  # noqa: PLC0415

    own = ("seed", "resamples", "json")
    foreign = [name for name, value in options.items() if name not in own and value]
    if foreign:
        raise InputError(f"--{foreign[0]} is about self-play, not about a trial; leave it out")
    given = {name: options[name] for name in Draws._fields if options[name] is not None}
    if study.checked_lock() is None:
        say("this study was not locked: nothing in it was declared before the runs")
    result = pipeline.analyse_trial(study, Draws(**given), Estimates(study, renew=True))
    if options["json"]:
        lock = study.lock
        click.echo(json_text({**result.as_dict(), "lock": lock.sha256 if lock else None}))
        return
    print_trial(result)


def print_trial(result: "TrialAnalysis") -> None:
    """Subject by subject: checks first, then what each arm does."""
    for subject in result.subjects:
        out.print(f"\n[bold]{plain(subject.subject)}[/bold]", highlight=False)
        if subject.informative:
            out.print(f"informative: {plain(subject.checks[0].message)}")
        if subject.reasons:
            what = "these arms say nothing" if subject.informative else "no effect is printed"
            out.print(f"not informative, so {what}:", style="bold")
        for reason in subject.short_reasons:
            out.print(f"  {plain(reason)}", soft_wrap=True)
        if not subject.informative:
            continue  # numbers of the little that could be judged would only impress
        _print_arms(subject)
        for family, title in FAMILIES.items():
            heading = title.format(reference=plain(short(subject.reference)))
            _print_effects(heading, getattr(subject, family))
    if any(subject.effects for subject in result.subjects):
        out.print(
            "primary effects are those that \\[outcomes] declares, or else those on what stressors "
            "are aimed at; all others are exploratory. Holm p is corrected over all effects of one "
            "role. --json has every measure",
            style="dim",
        )
    out.print(f"{result.sessions} whole sessions of {result.scenarios} scenarios", style="dim")
    for each in result.left_out:
        say(f"left out, since cut short: {each.arm}, {each.sessions:,} ({each.reason})")
    begun = result.sessions + sum(each.sessions for each in result.left_out)
    if begun < result.planned:
        say(f"{result.planned - begun:,} of {result.planned:,} planned sessions are not begun yet")


def _folding(name: str) -> str:
    """A name of arms; blanks around a plus let it wrap."""
    return " + ".join(plain(name).split("+"))


def _print_arms(subject: "SubjectResult") -> None:
    """One row per arm; `--json` holds every measure with its interval."""
    from chimeralab.trial.measures import words_of  # noqa: PLC0415

    measures = [arm.measures for arm in subject.arms]
    brief = [name for name in measures[0] if words_of(name).brief]
    shown = [name for name in brief if any(each[name].value is not None for each in measures)]
    table = _trial_table("arm", *(words_of(name).short for name in shown))
    for arm in subject.arms:
        cells = (number(arm.measures[name].value, 2) for name in shown)
        table.add_row(_folding(short(arm.arm)), *cells)
    out.print(table)
    _print_doses(subject)


def _print_doses(subject: "SubjectResult") -> None:
    """What arrived of each stressor, arm by arm: together they may deliver less than alone."""
    stressors = dict.fromkeys(name for arm in subject.arms for name in arm.delivered)
    if not stressors:
        return
    out.print("\ndose delivered: share of trials at which each stressor did its work")
    table = _trial_table("arm", *map(plain, stressors))
    for arm in subject.arms:
        if arm.delivered:
            cells = (_dose(arm.delivered, name) for name in stressors)
            table.add_row(_folding(short(arm.arm)), *cells)
    out.print(table)


def _dose(delivered: Mapping[str, float | None], name: str) -> str:
    if name not in delivered:
        return ""
    share = delivered[name]
    return "unknown" if share is None else f"{share:.0%}"


def _print_effects(title: str, effects: tuple[Effect, ...]) -> None:
    """The effects on what their arms are aimed at; `--json` holds them all, and all reasons."""
    from chimeralab.trial.effects import is_listed  # noqa: PLC0415
    from chimeralab.trial.measures import words_of  # noqa: PLC0415

    known = [effect for effect in effects if effect.estimate is not None and is_listed(effect)]
    if not known:
        return
    out.print(f"\n{title}")
    table = _trial_table("effect", "measure", "estimate", "95 % interval", "p", "Holm p")
    for effect in known:
        estimate = number(effect.estimate, 3, sign=True)
        bounds = between(effect.interval, 3, sign=True) if effect.interval else ""
        ps = (p_value(effect.p), p_value(effect.p_holm))
        mark = " (primary)" if effect.role == "primary" else ""
        name = _folding(effect.short_name) + mark
        table.add_row(name, words_of(effect.measure).short, estimate, bounds, *ps)
    out.print(table)
    for reason in dict.fromkeys(each.reason for each in known if each.p is None and each.reason):
        out.print(f"–: {plain(reason)}", style="dim", soft_wrap=True)


def _trial_table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold", min_width=13)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table
