"""`chimera new, check, lock, run, verify, export`: a study from its plan to its records."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from chimeralab import pipeline
from chimeralab.cli.progress import showing_progress
from chimeralab.cli.terminal import out, plain, say, where_it_stands
from chimeralab.study import ConditionFlow, RunOptions, RunSummary, Study
from chimeralab.study.folder import new_study, templates
from chimeralab.study.forecast import Forecast, forecast
from chimeralab.study.subjects import Greeting, greet, open_models

study_argument = click.argument("path", metavar="STUDY", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command()
@study_argument
@click.option(
    "--template",
    type=click.Choice(list(templates())),
    default="selfplay",
    show_default=True,
    help="selfplay: the embedded model, minutes; escape-velocity: three models, a night; "
    "trial-…: a subject under stress.",
)
def new(path: Path, template: str) -> None:
    """Start a study: write a commented plan and its prompts into the folder STUDY."""
    for written in new_study(path, template):
        click.echo(f"wrote {written}")
    say(f"next: edit {path / 'plan.toml'}, then `chimera check {path}`")


@click.command()
@study_argument
@click.option("--offline", is_flag=True, help="Do not contact the models.")
@json_option
def check(path: Path, offline: bool, as_json: bool) -> None:
    """Validate a plan, count its calls and tokens, estimate time and cost, greet every model."""
    study = Study(path)
    study.checked_lock()
    for use in study.plan.outside_code:
        say(f"this plan loads code from outside chimera-lab: {use}")
    greetings = () if offline else _greetings(study)
    expected = forecast(study.plan, greetings)
    if as_json:
        answers = [greeting.as_dict() for greeting in greetings]
        _print_json({**expected.as_dict(), "models": answers, "locked": study.lock is not None})
    else:
        _print_forecast(study, expected, greetings)


@click.command()
@study_argument
@json_option
def lock(path: Path, as_json: bool) -> None:
    """Freeze the plan: every default written out, under one hash. Do it before the first run."""
    study = Study(path)
    locked = pipeline.lock(study)
    if as_json:
        _print_json({"sha256": locked.sha256, "path": str(study.lock_path)})
    else:
        click.echo(f"{study.lock_path}  sha256 {locked.sha256}")


@click.command()
@study_argument
@click.option("--concurrency", type=click.IntRange(1), help="Conversations side by side.")
@click.option("--max-cost", type=click.FloatRange(0), help="Stop the study at this cost.")
@click.option("--max-hours", type=click.FloatRange(0, min_open=True), help="Stop this run then.")
@click.option("--watch/--no-watch", default=True, help="Count collapsed conversations live.")
@json_option
def run(path: Path, as_json: bool, **options: Any) -> None:
    """Hold the planned conversations, or go on where an earlier run stopped.

    Ctrl-C stops when the requests in flight are answered; a second one cancels them. The exit code
    is 1 when conversations are left to hold. The options are for this run and leave the plan alone.
    """
    study = Study(path)
    trial = study.plan.trial
    with showing_progress(trial.weights if trial else None) as publish:
        done = pipeline.run(study, RunOptions(**options), publish)
    if as_json:
        _print_json({**done.as_dict(), "complete": done.complete})
    else:
        _print_summary(done, list(study.plan.conditions))
    raise click.exceptions.Exit(0 if done.complete else 1)


@click.command()
@study_argument
@json_option
def verify(path: Path, as_json: bool) -> None:
    """Compute every hash of a study anew; exit code 1 when anything is not as it was."""
    found = pipeline.verify(Study(path))
    if as_json:
        _print_json({"ok": not found.findings, **found.as_dict()})
    else:
        for line in (*found.notes, *map(str, found.findings)):
            click.echo(plain(line))
        result = f"{len(found.findings)} differences" if found.findings else "all as it was"
        click.echo(f"{found.conversations:,} conversations, {found.turns:,} turns: {result}")
    raise click.exceptions.Exit(1 if found.findings else 0)


@click.command()
@study_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "jsonl"]),
    default="jsonl",
    show_default=True,
    help="jsonl holds whole conversations, as `chimera detect` reads them.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write into.",
)
def export(path: Path, kind: Any, folder: Path) -> None:
    """Write the records of a study as Parquet, CSV or JSON lines, and its numbers for a text."""
    # Imported here: the analysis is slow to import, and only this command needs it.
    from chimeralab.report.named_numbers import study_numbers, write_numbers  # noqa: PLC0415

    study = Study(path)
    records = pipeline.export(study, kind, folder)
    for written in (*records, *write_numbers(folder, study_numbers(study))):
        click.echo(f"wrote {written}")


def _greetings(study: Study) -> tuple[Greeting, ...]:
    async def ask() -> tuple[Greeting, ...]:
        async with open_models(study.plan, study.path) as models:
            return await greet(models)

    return asyncio.run(ask())


def _print_forecast(study: Study, expected: Forecast, greetings: tuple[Greeting, ...]) -> None:
    state = "locked" if study.lock else "not locked: a run would be exploratory"
    click.echo(f"{plain(study.plan.study.name)}: the plan is valid ({state})")
    table = Table("model", "calls", "prompt tokens ≤", "reply tokens ≤", "cost ≤")
    for load in expected.loads:
        counts = (load.calls, load.prompt_tokens, load.completion_tokens)
        table.add_row(load.model, *(f"{n:,}" for n in counts), _amount(load.cost))
    out.print(table)
    for greeting in greetings:
        name = greeting.reported_model or "(gives no name)"
        click.echo(plain(f"{greeting.model} answers as {name}, after {greeting.seconds:.1f} s"))
    for name, subject in study.plan.models.items():
        if subject.revision:
            click.echo(f"{name} is declared as revision {plain(subject.revision)}: not verified")
    hours = "unknown" if expected.hours is None else f"about {expected.hours:.1f} h at the longest"
    click.echo(
        f"{expected.conversations:,} conversations, {expected.calls:,} calls (retries aside), "
        f"cost at most {_amount(expected.cost)}, time {hours}"
    )
    for advice in expected.advice:
        click.echo(f"note: {advice}")


def _print_summary(done: RunSummary, order: list[str]) -> None:
    out.print(where_it_stands(done.arms, order))
    if not done.locked:
        click.echo("exploratory: this study was not locked before it was run")
    if done.stopped:
        click.echo(f"stopped: {plain(done.stopped)}")
    if not done.complete:
        click.echo(f"{_open(done.arms)} conversations are left; the same command goes on with them")


def _open(arms: tuple[ConditionFlow, ...]) -> int:
    return sum(arm.open for arm in arms)


def _amount(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:,.2f}"


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))
