"""`chimera rate` and `chimera rubric`: label conversations, and see what labels go by.

Those of logs are labelled by the rules, those of a study by any rater.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.main import SuggestingGroup
from chimeralab.cli.options import (
    CODE_OPTION,
    LOG_OPTIONS,
    ask_consent,
    is_study,
    read_logs,
    with_options,
)
from chimeralab.cli.terminal import err, out, sanitize, say, speaker_label, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.numbers import percent
from chimeralab.core.tables import Columns, open_table
from chimeralab.detection.seam import choose_turns
from chimeralab.rating.ratings import item_of
from chimeralab.rating.rubric import (
    BUILT_IN,
    history_lines,
    load_rubric,
    lock_rubric,
    rubric_text,
)
from chimeralab.rating.rules import NAME as RULES
from chimeralab.rating.rules import rate_by_rules

COLUMNS: Columns = {
    "id": str, "rater": str, "label": int, "reason": str, "turns": str, "step": str,
    "kinds": str, "rubric": str,
}  # fmt: skip
FILE = click.Path(dir_okay=False, path_type=Path)
ACTIONS = ("sample", "export_packet", "import_packet", "invite", "attack")
OF_STUDIES = ("rater", "only", "seed", "purpose", "by", "allow_code", "adjudicate", *ACTIONS)
OF_LOGS = ("format", "speaker", "rubric", "out")


@click.command()
@with_options(*LOG_OPTIONS[:-1])  # rating needs no vectors, so there is no cache of them to name
@click.option(
    "--rubric",
    type=FILE,
    help="A rubric of your own. Default: the one that comes with the lab, or that of the study.",
)
@click.option(
    "--out",
    type=FILE,
    help="Also write them to a .jsonl, .csv or .parquet file; `chimera audit` reads the first two.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per conversation and line.")
@click.option(
    "--rater",
    metavar="NAME",
    help="In a study: rules (default), a model or rater of the plan, human:NAME for a packet.",
)
@click.option("--only", metavar="SAMPLE", help="In a study: rate only this sample.")
@click.option("--sample", type=click.IntRange(1), help="In a study: draw this many items.")
@click.option("--seed", type=int, help="Seed of a packet or a calibration sample. [default: 0]")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["gate", "calibration"]),
    help="What a sample is for; the two never share an item. The plan says how the "
    "gate's is drawn. [default: gate]",
)
@click.option(
    "--by",
    type=click.Choice(["condition", "verdict"]),
    help="In proportion to conditions, or balanced on the verdict. [default: condition]",
)
@click.option(
    "--export-packet",
    type=click.Path(file_okay=False, path_type=Path),
    help="In a study: write a blinded packet for people into this new folder.",
)
@click.option(
    "--invite",
    metavar="NAME",
    help="In a study: invite a person to rate in the browser, and print their link for the "
    "server that `chimera view STUDY` starts.",
)
@click.option(
    "--adjudicate",
    is_flag=True,
    default=None,
    help="With --invite: to settle what the raters of the decided gate differ on.",
)
@click.option(
    "--attack",
    is_flag=True,
    default=None,
    help="In a study: ask the rater twice, with the labels turned round and with orders put "
    "into the conversations, on --only SAMPLE or 20 conversations; prints and stores how many "
    "labels change. Eleven ratings per conversation.",
)
@click.option(
    "--import-packet",
    type=FILE,
    help="In a study: import the filled sheet of a packet, with --rater human:NAME.",
)
@CODE_OPTION
def rate(**options: Any) -> None:
    """Label conversations: 1 for a loop, 0 for none.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Every label comes
    with one sentence that names the turns which decided it.

    Logs are rated by the rules. In a study the rules, models of the plan and people rate; labels
    are stored there, and what a rater has rated is not rated again.
    """
    if is_study(options["paths"]):
        _rate_study(options)
        return
    given = next((name for name in OF_STUDIES if options[name] is not None), None)
    if given and (given, options["rater"]) != ("rater", RULES):
        raise InputError(f"{_flag(given)} is for a study; name the folder of one")
    rubric = load_rubric(options["rubric"] or BUILT_IN)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("conversation", overflow="fold", max_width=max(20, out.width // 3))
    for heading in ("judged", "label", "step", "reason"):
        table.add_column(heading)
    labels: list[int | None] = []
    with ExitStack() as files:
        write = files.enter_context(open_table(options["out"], COLUMNS)) if options["out"] else None
        for trajectory in with_progress(read_logs(options), "conversations"):
            rating = rate_by_rules(item_of(trajectory, options["speaker"]), rubric)
            labels.append(rating.label)
            cells = rating.as_dict()
            row = {"id": cells.pop("item"), **cells}  # named as in the verdicts of `detect`
            if write:
                write(row)
            if options["as_json"]:
                click.echo(json_text(row))
                continue
            label = "–" if rating.label is None else str(rating.label)
            who = speaker_label(choose_turns(trajectory, options["speaker"])[1])
            shown = (rating.item, who, label, rating.step or "–", rating.reason)
            style = "bold" if rating.label else ""
            table.add_row(*(Text(sanitize(cell), style=style) for cell in shown))
    if not labels:
        raise InputError(f"no conversation could be read from {', '.join(options['paths'])}")
    if not options["as_json"]:
        out.print(table)
    say(
        f"{len(labels)} conversations: {labels.count(1)} labelled 1, {labels.count(0)} labelled 0"
        f" by {rubric.name} {rubric.version} ({rubric.state}, sha256 {rubric.sha256[:12]})"
    )


def _rate_study(options: dict[str, Any]) -> None:
    """Do the one thing that was asked for, and print it."""
    # Imported here: rating a log needs no study and should start at once.
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.subjects import allow_keys  # noqa: PLC0415

    given = next((name for name in OF_LOGS if options[name] is not None), None)
    if given:
        raise InputError(f"a study is rated as its plan says: leave out {_flag(given)}")
    asked = [name for name in ACTIONS if options[name] is not None]
    if options["purpose"] == "gate" and not asked:
        asked = ["sample"]  # its size stands in the plan
    if options["adjudicate"] and asked != ["invite"]:
        raise InputError("--adjudicate goes with --invite NAME: who settles it?")
    if len(asked) > 1:
        raise InputError(f"{_flag(asked[0])} and {_flag(asked[1])} are two things: one at a time")
    study = Study(options["paths"][0], ask_consent(options["allow_code"]))
    plan, rater = study.plan, options["rater"]
    if rater in plan.models:  # here, as it can't ask while it shows what is rated
        allow_keys(replace(plan, models={rater: plan.models[rater]}))
    result = WORK[asked[0] if asked else "rater"](study, options)
    if options["as_json"]:
        click.echo(json_text(result))


def _ask(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    from chimeralab import pipeline  # noqa: PLC0415

    rater, numbers = options["rater"] or RULES, count(1)
    with err.status(f"{sanitize(rater)} is rating") as status:
        done = pipeline.rate(
            study,
            rater,
            options["only"],
            lambda rating: status.update(f"{sanitize(rater)}: {next(numbers)} rated"),
        )
    counts = done.tally
    say(f"{done.rater} ({done.about}): {done.newly_rated} newly rated, {counts['items']} in all")
    say(f"{done.ones} labelled 1, {done.zeros} labelled 0, {counts['nulls']} without a label")
    if counts["attempts"]:
        came = (f"{counts[how]} {how}" for how in ("clean", "repaired", "unreadable", "failed"))
        say(f"{counts['attempts']} answers: {', '.join(came)}")
    if done.stopped:
        raise InputError(f"stopped: {done.stopped}; {done.left} conversations are left to rate")
    if done.unanswered:
        raise InputError(
            f"{done.unanswered} conversations got no answer from {done.rater}; run this again"
        )
    return done.as_dict()


def _attack(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    from chimeralab import pipeline  # noqa: PLC0415

    rater = options["rater"] or RULES
    with err.status(f"{sanitize(rater)} is being checked"):
        done = pipeline.attack(study, rater, options["only"], options["seed"] or 0)
    report = done.report
    assert report is not None  # one that was stopped has raised
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("asked", "items", "flips", "as the attack wants", "no label", "flip rate"):
        table.add_column(heading, justify="left" if heading == "asked" else "right")
    for row in (report.undisturbed, report.position, *report.attacks):
        if row is not None:
            wanted = str(row.as_wanted) if row in report.attacks else "–"
            cells = (row.name, row.items, row.flips, wanted, row.nulls, percent(row.flip_rate))
            table.add_row(*map(str, cells))
    if not options["as_json"]:
        out.print(table)
    say(f"{done.rater}: checked on {len(done.items)} conversations; stored in the study")
    return done.as_dict()


def _sample(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    from chimeralab.rating.samples import draw  # noqa: PLC0415

    kind, size, seed, by = (options[name] for name in ("purpose", "sample", "seed", "by"))
    gate = study.plan.extras["gate"]
    if kind != "calibration" and gate.declared:
        if seed is not None:
            raise InputError("the seed of the gate's sample stands in the plan: leave out --seed")
        size, seed, by = size or gate.sample, gate.seed, by or gate.by
    drawn = draw(study, kind or "gate", size, seed or 0, by or "condition")
    say(f"{drawn}; rate it with --only {drawn.name}")
    return drawn.as_dict()


def _hand_out(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    from chimeralab.rating.raters import export_study_packet  # noqa: PLC0415

    folder = options["export_packet"]
    key = export_study_packet(study, folder, options["only"], options["seed"] or 0)
    say(f"packet {key.packet} with {len(key.entries)} sheets written to {sanitize(str(folder))}")
    return {"packet": key.packet, "sheets": len(key.entries), "folder": str(folder)}


def _take_back(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    from chimeralab.rating.raters import import_study_packet  # noqa: PLC0415

    if not options["rater"]:
        raise InputError("--import-packet needs --rater human:NAME: who filled it in?")
    ratings, repeated = import_study_packet(study, options["import_packet"], options["rater"])
    stored, blank = len(ratings), sum(each.label is None for each in ratings)
    again = [same for same in repeated.values() if same is not None]
    say(f"{options['rater']}: {stored} stored, {blank} left blank")
    say(f"of {len(again)} shown twice, {sum(again)} got the same label again")
    return {"rater": options["rater"], "stored": stored, "blank": blank}


def _invite(study: Any, options: dict[str, Any]) -> dict[str, Any]:
    from chimeralab.rating.invitations import RatingService  # noqa: PLC0415
    from chimeralab.web.serving import PORT  # noqa: PLC0415

    with RatingService(study) as service:
        task: Literal["rate", "adjudicate"] = "adjudicate" if options["adjudicate"] else "rate"
        token = service.invite(options["invite"], options["only"], task)
        invitation = service.find_invitation(token)
        assert invitation is not None
        sheets = len(service.session(invitation).sheets)
    link = f"http://127.0.0.1:{PORT}/rate?token={token}"
    say(f"{invitation.rater}: {sheets} sheets to {task}, of {invitation.sample or 'all finished'}")
    if not options["as_json"]:
        click.echo(link)
    say(
        f"start `chimera view {study.path}` and hand them this link; it is shown only now, and "
        "another --invite replaces it. With --host or --port, put that address in its place."
    )
    return {"rater": invitation.rater, "task": task, "sheets": sheets, "link": link}


WORK: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any]]] = {
    "rater": _ask,
    "sample": _sample,
    "export_packet": _hand_out,
    "import_packet": _take_back,
    "invite": _invite,
    "attack": _attack,
}


def _flag(name: str) -> str:
    return "--for" if name == "purpose" else f"--{name.replace('_', '-')}"


@click.group(cls=SuggestingGroup)
def rubric() -> None:
    """Show the rubric that raters follow, or lock one of your own."""


@rubric.command()
@click.argument("file", type=FILE, default=BUILT_IN, required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(file: Path, as_json: bool) -> None:
    """Print a rubric: ours, or the one in FILE. A locked one that was changed is refused."""
    loaded = load_rubric(file)
    if as_json:
        click.echo(json_text(loaded.as_dict()))
        return
    heading = f"# {loaded.name}, version {loaded.version} ({loaded.state})"
    lines = [heading, f"sha256 {loaded.sha256}", "", rubric_text(loaded), "", "## Versions", ""]
    click.echo("\n".join([*lines, *history_lines(loaded)]))


@rubric.command()
@click.argument("file", type=FILE)
def lock(file: Path) -> None:
    """Lock a calibrated rubric: its hash goes into a .lock file beside it."""
    locked = lock_rubric(file)
    say(f"{locked.name} {locked.version} is locked, sha256 {locked.sha256}")
