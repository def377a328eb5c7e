"""`chimera branch`: continue a recorded loop under several treatments."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from chimeralab.cli.explain import choose_conversation
from chimeralab.cli.options import JSON_OPTION, LOG_OPTIONS, read_logs, with_options
from chimeralab.cli.terminal import err, sanitize, say
from chimeralab.core.errors import InputError
from chimeralab.core.files import write_text
from chimeralab.core.parts import choose
from chimeralab.core.records import Trajectory
from chimeralab.core.schema import json_text


@click.command()
@with_options(*LOG_OPTIONS[:3], *LOG_OPTIONS[4:-1])
@click.option("--id", "wanted", metavar="ID", help="The conversation, if there are several.")
@click.option(
    "--model",
    default="embedded",
    show_default=True,
    metavar="embedded|NAME@URL",
    help="Who goes on, on all sides: the embedded model, or one of a compatible server.",
)
@click.option(
    "--treatments",
    default="nudge,sham,none",
    show_default=True,
    help="Countermeasures by name; sham and none belong to the first.",
)
@click.option("--n", "n", type=click.IntRange(2), default=20, show_default=True, help="Branches.")
@click.option(
    "--after", type=click.IntRange(0), default=0, show_default=True, help="Turns from the onset on."
)
@click.option(
    "--turns",
    type=click.IntRange(6),
    default=24,
    show_default=True,
    help="Turns of each branch; half of them count for an escape.",
)
@click.option(
    "--detector",
    type=click.Choice(["loops", "locked"]),
    default="loops",
    show_default=True,
    help="What finds the onset, escapes and relapses.",
)
@click.option(
    "--study", "folder", type=click.Path(path_type=Path), help="Folder. Default: branch-ID."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@JSON_OPTION
def branch(**options: Any) -> None:
    """Ask whether a nudge would have broken a loop: go on from its onset with a real model.

    The conversation is repeated up to its onset and continued N times under each treatment, as a
    study of its own with a lock and a page. The same command resumes one that was interrupted. Only
    conversations of speakers in turn can be branched, without tool calls.

    \b
    Examples:
      chimera branch talk.jsonl --model embedded --n 10
      chimera branch study/exports/trajectories.jsonl --id HOMO_A/p1/1 --treatments nudge,drop,none
    """
    from chimeralab import pipeline  # noqa: PLC0415 - slow to import
    from chimeralab.cli.estimate_tables import print_escape  # noqa: PLC0415
    from chimeralab.report.files import write_report  # noqa: PLC0415
    from chimeralab.selfplay.escape import load_escape  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.verdicts import load_detections  # noqa: PLC0415

    options["speaker"] = None
    talk = choose_conversation(list(read_logs(options)), options["wanted"])
    plan = _plan(talk, options)
    name = "".join(char if char.isalnum() else "-" for char in talk.id).strip("-")
    folder = options["folder"] or Path(f"branch-{name[:40]}")
    path = folder / "plan.toml"
    if path.exists() and path.read_text(encoding="utf-8") != plan:
        raise InputError(f"{path} is another plan; choose another folder with --study")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, plan)
    study = Study(folder)
    pipeline.lock(study)
    say(f"{folder}: {len(study.talks)} branches of {study.plan.conversation.turns} turns")
    summary = pipeline.run(study)
    pipeline.detect(study)
    found = load_escape(study, load_detections(study))
    with err.status("reading") as status:
        written = write_report(study, lambda text: status.update(sanitize(text)))
    if options["as_json"]:
        row = {**found.as_dict(), "study": str(folder), "page": str(written.page)}
        click.echo(json_text(row))
    else:
        print_escape(found)
        say(f"page: {written.page}")
    if not summary.complete:
        say(f"stopped: {summary.stopped}; the same command goes on")
        raise click.exceptions.Exit(1)


def _plan(talk: Trajectory, options: dict[str, Any]) -> str:
    """Find the onset of a conversation, and write the plan that goes on from it."""
    from chimeralab.detection.judging import DETECTORS, Judge  # noqa: PLC0415
    from chimeralab.detection.loops import resolve_loops  # noqa: PLC0415
    from chimeralab.embedding.encoder import study_encoder  # noqa: PLC0415
    from chimeralab.selfplay.branch import (  # noqa: PLC0415
        TREATMENTS,
        BranchOptions,
        find_onset,
        read_model,
        split_talk,
        write_plan,
    )

    treatments = [each.strip() for each in options["treatments"].split(",") if each.strip()]
    for each in treatments:
        choose(each, TREATMENTS, f"treatment {each!r}")
    _, _, turns = split_talk(talk)
    detector = DETECTORS[options["detector"]]()
    judge = Judge(detector, resolve_loops(detector), study_encoder, speaker="all")
    ((_, found),) = judge.judge([replace(talk, turns=tuple(turns))])
    chosen = {name: options[name] for name in ("n", "after", "turns", "detector", "seed")}
    asked = BranchOptions(read_model(options["model"]), treatments, **chosen)
    return write_plan(talk, find_onset(found), asked)
