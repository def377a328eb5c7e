"""`chimera analyse` on a trial: checks first, then what each arm does, in tables and words."""

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from chimeralab import pipeline
from chimeralab.analysis.trial.analysis import (
    ArmResult,
    Draws,
    SubjectResult,
    TrialAnalysis,
    without_subject,
)
from chimeralab.analysis.trial.effects import Effect, is_aimed
from chimeralab.analysis.trial.sessions import Estimated
from chimeralab.cli.terminal import out, plain, say
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.stats.intervals import Interval
from chimeralab.study import Study

# What measures are called on a narrow terminal, and those that a table of arms has room for.
SHOWN = {
    "accuracy": "accuracy",
    "mci": "MCI",
    "gfq": "GFQ",
    "dfs": "DFS",
    "recall": "recall",
    "misled": "misled",
    "belief_update": "updated",
    "conformity_rate": "conformed",
    "narrative_coherence": "coherence",
    "relational_consistency": "relations",
}
IN_ARMS = tuple(SHOWN)[:8]
FAMILIES = {
    "contrasts": "against {reference}, within scenarios (p corrected after Holm)",
    "factorial": "main effects and interactions",
    "doses": "slope over the dose",
    "countermeasures": "with a countermeasure minus without",
}


def analyse_trial_study(path: Path, options: dict[str, Any]) -> None:
    """Analyse a trial and print it."""
    study, how = Study(path), _resampling(options)
    if study.checked_lock() is None:
        say("this study was not locked: nothing in it was declared before the runs")
    result = pipeline.analyse_trial(study, how)
    if options["json"]:
        lock = study.lock
        click.echo(json_text({**result.as_dict(), "lock": lock.sha256 if lock else None}))
        return
    print_trial(result)


def _resampling(options: dict[str, Any]) -> Draws:
    """Seed and resamples; the other options are about self-play."""
    own = ("seed", "resamples", "json")
    foreign = [name for name, value in options.items() if name not in own and value]
    if foreign:
        raise InputError(f"--{foreign[0]} is about self-play, not about a trial; leave it out")
    given = {name: options[name] for name in Draws._fields if options[name] is not None}
    return Draws(**given)


def print_trial(result: TrialAnalysis) -> None:
    for subject in result.subjects:
        out.print(f"\n[bold]{plain(subject.subject)}[/bold]", highlight=False)
        _print_checks(subject)
        if not subject.informative:
            continue  # numbers of the little that could be judged would only impress
        _print_arms(subject)
        for family, title in FAMILIES.items():
            heading = title.format(reference=_short(subject.reference, subject))
            _print_effects(heading, getattr(subject, family), subject)
    _print_size(result)


def _print_size(result: TrialAnalysis) -> None:
    out.print(f"{result.sessions} whole sessions of {result.scenarios} scenarios", style="dim")
    for each in result.left_out:
        say(f"left out, since cut short: {each.arm}, {each.sessions:,} ({each.reason})")
    begun = result.sessions + sum(each.sessions for each in result.left_out)
    if begun < result.planned:
        say(f"{result.planned - begun:,} of {result.planned:,} planned sessions are not begun yet")


def _short(name: str, subject: SubjectResult) -> str:
    """An arm under the heading of its subject; blanks around a plus let it wrap."""
    return plain(without_subject(name, subject.subject).replace("+", " + "))


def _print_checks(subject: SubjectResult) -> None:
    if subject.informative:
        floor = subject.checks[0]
        out.print(f"informative: {plain(floor.message)}")
    if subject.reasons:
        what = "these arms say nothing" if subject.informative else "no effect is printed"
        out.print(f"not informative, so {what}:", style="bold")
    for reason in subject.reasons:
        out.print(f"  {_short(reason, subject)}", soft_wrap=True)


def _print_arms(subject: SubjectResult) -> None:
    """One row an arm; `--json` holds every measure with its interval."""
    shown = [name for name in IN_ARMS if any(_known(arm, name) for arm in subject.arms)]
    table = _table("arm", *(SHOWN[name] for name in shown))
    for arm in subject.arms:
        cells = (_cell(arm.measures[name]) for name in shown)
        table.add_row(_short(arm.arm, subject), *cells)
    out.print(table)


def _known(arm: ArmResult, name: str) -> bool:
    return arm.measures[name].value is not None


def _print_effects(title: str, effects: tuple[Effect, ...], subject: SubjectResult) -> None:
    """The effects on what their arms are aimed at; `--json` holds them all, and all reasons."""
    known = [effect for effect in effects if effect.estimate is not None and is_aimed(effect)]
    if not known:
        return
    out.print(f"\n{title}")
    table = _table("effect", "measure", "estimate", "95 % interval", "p", "p Holm")
    for effect in known:
        ps = (_p(effect.p), _p(effect.p_holm))
        bounds = _between(effect.interval)
        name = _short(effect.name, subject)
        measure = SHOWN.get(effect.measure, effect.measure)
        table.add_row(name, measure, f"{effect.estimate:+.3f}", bounds, *ps)
    out.print(table)
    for reason in dict.fromkeys(each.reason for each in known if each.p is None and each.reason):
        out.print(f"–: {plain(reason)}", style="dim", soft_wrap=True)


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold", min_width=13)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _cell(found: Estimated) -> str:
    return "–" if found.value is None else f"{found.value:.2f}"


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:+.3f} to {interval.high:+.3f}"


def _p(value: float | None) -> str:
    return "–" if value is None else ("<0.001" if value < 0.001 else f"{value:.3f}")
