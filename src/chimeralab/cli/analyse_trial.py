"""`chimera analyse` on a trial: checks first, then what each arm does, in tables and words."""

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from chimeralab import pipeline
from chimeralab.analysis.trial import ArmResult, Resampling, SubjectResult, TrialAnalysis
from chimeralab.analysis.trial_effects import Effect, is_aimed
from chimeralab.analysis.trial_sessions import Estimated
from chimeralab.cli.terminal import out, plain, say
from chimeralab.files import json_text
from chimeralab.stats.intervals import Interval
from chimeralab.study import Study

SHOWN = ("accuracy", "mci", "gfq", "dfs", "recall", "conformity_rate", "misled", "belief_update")
FAMILIES = {
    "contrasts": "against {reference}, within scenarios (p corrected after Holm)",
    "factorial": "main effects and interactions",
    "doses": "slope over the dose",
    "countermeasures": "with a countermeasure minus without",
}


def analyse_trial_study(path: Path, options: dict[str, Any]) -> None:
    """Analyse a trial and print it."""
    study = Study(path)
    if study.lock is None:
        say("this study was not locked: nothing in it was declared before the runs")
    default = Resampling()
    how = Resampling(options["seed"] or default.seed, options["resamples"] or default.resamples)
    result = pipeline.analyse_trial(study, how)
    if options["json"]:
        lock = study.lock
        click.echo(json_text({**result.as_dict(), "lock": lock.sha256 if lock else None}))
        return
    print_trial(result)


def print_trial(result: TrialAnalysis) -> None:
    for subject in result.subjects:
        out.print(f"\n[bold]{plain(subject.subject)}[/bold]", highlight=False)
        _print_checks(subject)
        _print_arms(subject)
        for family, title in FAMILIES.items():
            _print_effects(title.format(reference=subject.reference), getattr(subject, family))
    out.print(f"{result.sessions} sessions of {result.scenarios} scenarios", style="dim")


def _print_checks(subject: SubjectResult) -> None:
    if subject.informative:
        floor = subject.checks[0]
        out.print(f"informative: {plain(floor.message)}")
    if subject.reasons:
        what = "these arms say nothing" if subject.informative else "no effect is printed"
        out.print(f"not informative, so {what}:", style="bold")
    for reason in subject.reasons:
        out.print(f"  {plain(reason)}", soft_wrap=True)


def _print_arms(subject: SubjectResult) -> None:
    """One row an arm; `--json` holds every measure with its interval."""
    shown = [name for name in SHOWN if any(_known(arm, name) for arm in subject.arms)]
    table = _table("arm", "trials", *shown)
    for arm in subject.arms:
        cells = (_cell(arm.measures[name]) for name in shown)
        table.add_row(plain(arm.arm), str(arm.trials), *cells)
    out.print(table)


def _known(arm: ArmResult, name: str) -> bool:
    return arm.measures[name].value is not None


def _print_effects(title: str, effects: tuple[Effect, ...]) -> None:
    """The effects on what their arms are aimed at; `--json` holds them all."""
    known = [effect for effect in effects if effect.estimate is not None and is_aimed(effect)]
    if not known:
        return
    out.print(f"\n{title}")
    table = _table("effect", "measure", "estimate", "95 % interval", "p", "p Holm")
    for effect in known:
        ps = (_p(effect.p), _p(effect.p_holm))
        bounds = _between(effect.interval)
        table.add_row(plain(effect.name), effect.measure, f"{effect.estimate:+.3f}", bounds, *ps)
    out.print(table)


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading not in SHOWN)
    return table


def _cell(found: Estimated) -> str:
    return "–" if found.value is None else f"{found.value:.2f}"


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:+.3f} to {interval.high:+.3f}"


def _p(value: float | None) -> str:
    return "–" if value is None else ("<0.001" if value < 0.001 else f"{value:.3f}")
