"""`chimera new`, `chimera check` and `chimera lock`: create, validate and freeze a plan."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click
from rich.table import Table

from chimeralab.cli.options import (
    CODE_OPTION,
    FULL_OPTION,
    JSON_OPTION,
    STUDY_ARGUMENT,
    ask_consent,
)
from chimeralab.cli.terminal import out, sanitize, say
from chimeralab.core.schema import json_text
from chimeralab.rating.plan import describe_draft
from chimeralab.study import Study
from chimeralab.study.folder import new_study, templates
from chimeralab.study.forecast import Forecast, forecast, gate_in_words
from chimeralab.study.subjects import (
    FirstAnswer,
    Revision,
    ask_once,
    judge_revision,
    keep_needed,
    open_models,
)

# A faster answer does not come from a model, so its rate means nothing.
MIN_SECONDS = 0.001
PUBLISH = (
    "Publish the hash and time now, where you can't change them later: push a commit with "
    "plan.lock, mail both to yourself, timestamp the file (`ots stamp plan.lock`), or register "
    "them (OSF). `chimera verify STUDY --expect HASH` then proves that nothing was swapped."
)


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--template",
    type=click.Choice(list(templates())),
    default="selfplay",
    show_default=True,
    help="selfplay: the embedded model, takes minutes; escape: what ends a loop; escape-velocity: "
    "three models, takes a night; trial-…: a subject under stress.",
)
def new(path: Path, template: str) -> None:
    """Create a study: write a commented plan and its prompts into the folder STUDY.

    \b
    Examples:
      chimera new my-study
      chimera new my-trial --template trial-factorial
    """
    for written in new_study(path, template):
        click.echo(f"wrote {written}")
    say(f"next: edit {path / 'plan.toml'}, then run `chimera check {path}`")


@click.command()
@STUDY_ARGUMENT
@click.option("--offline", is_flag=True, help="Don't contact the models.")
@CODE_OPTION
@FULL_OPTION
@JSON_OPTION
def check(path: Path, offline: bool, allow_code: bool | None, full: bool, as_json: bool) -> None:
    """Validate a plan, count its calls and tokens, and estimate time and cost.

    Unless --offline is given, every model that is used must also answer one short question, and its
    revision is verified if its server tells it. The exit code is 1 if that is not the declared one.
    """
    study = Study(path, ask_consent(allow_code))
    study.check_lock()
    used = keep_needed(study.plan, study.talks, study.plan.extras["gate"].raters)

    async def ask_models() -> tuple[FirstAnswer, ...]:
        async with open_models(used, study.path) as models:
            return await ask_once(models, study.plan.kind.agents(study.plan), time_it=True)

    answers = () if offline else asyncio.run(ask_models())
    told = {answer.model: [answer.told] for answer in answers}
    revisions = {
        name: judge_revision(name, subject, told.get(name))
        for name, subject in study.plan.models.items()
    }
    expected = forecast(study.plan, answers)
    if draft := describe_draft(study):
        expected = replace(expected, advice=(*expected.advice, draft))
    if as_json:
        models = [answer.as_dict() for answer in answers]
        row = {**expected.as_dict(), "models": models, "locked": study.lock is not None}
        row |= {"revisions": {name: each._asdict() for name, each in revisions.items()}}
        click.echo(json_text(row, indent=2))
    else:
        _print_forecast(study, expected, answers, revisions, full=full)
    if any(each.state == "contradicted" for each in revisions.values()):
        raise click.exceptions.Exit(1)


def _print_forecast(
    study: Study,
    expected: Forecast,
    answers: tuple[FirstAnswer, ...],
    revisions: Mapping[str, Revision],
    *,
    full: bool,
) -> None:
    """Print whether the plan is valid and what it takes; with `full`, each model's share of it."""
    state = "locked" if study.lock else "not locked: a run would be exploratory"
    click.echo(f"{sanitize(study.plan.study.name)}: the plan is valid ({state})")
    hours = "unknown" if expected.hours is None else f"at most about {expected.hours:.1f} h"
    click.echo(
        f"{expected.conversations:,} conversations, {expected.calls:,} calls "
        f"(without retries), cost at most {_amount(expected.cost)}, time {hours}"
    )
    table = Table("model", "calls", "prompt tokens ≤", "reply tokens ≤", "cost ≤")
    for load in expected.loads:
        counts = (load.calls, load.prompt_tokens, load.completion_tokens)
        table.add_row(load.model, *(f"{n:,}" for n in counts), _amount(load.cost))
    if full:
        out.print(table)
    for answer in answers:
        click.echo(sanitize(describe_answer(answer)))
    for name, memory in study.plan.kind.describe_agents(study.plan).items():
        click.echo(f"{name} {memory}")
    for revision in filter(None, (each.sentence for each in revisions.values())):
        click.echo(sanitize(revision))
    for power in expected.gate:
        click.echo(gate_in_words(power))
    for found in expected.detectable:
        click.echo(sanitize(f"{getattr(found, 'role', 'primary')} outcome {found}"))
    for advice in expected.advice:
        click.echo(f"note: {advice}")


def describe_answer(answer: FirstAnswer) -> str:
    """Say under which name a model answers, and how fast."""
    name = answer.reported_model or "(no name reported)"
    text = f"{answer.model} answered as {name} in {answer.seconds:.1f} s"
    if answer.again and answer.again > MIN_SECONDS:
        text += f", then {1 / answer.again:.1f} calls per second, one at a time"
    return text


def _amount(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:,.2f}"


@click.command()
@STUDY_ARGUMENT
@CODE_OPTION
@JSON_OPTION
def lock(path: Path, allow_code: bool | None, as_json: bool) -> None:
    """Freeze the plan, including every default, under a hash. Do this before the first run."""
    from chimeralab import pipeline  # noqa: PLC0415 - slow to import

    study = Study(path, ask_consent(allow_code))
    locked = pipeline.lock(study)
    if as_json:
        row = {
            "sha256": locked.sha256,
            "root": study.root,
            "locked_at": locked.locked_at,
            "path": str(study.lock_path),
        }
        click.echo(json_text(row, indent=2))
    else:
        click.echo(f"{study.lock_path}  sha256 {locked.sha256}")
        click.echo(f"locked at {locked.locked_at}, root hash {study.root}")
        click.echo(PUBLISH)
