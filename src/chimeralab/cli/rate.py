"""`chimera rate` and `chimera rubric`: label conversations by a rubric."""

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.main import SuggestingGroup
from chimeralab.cli.options import (
    CODE_OPTION,
    JSON_OPTION,
    LOG_OPTIONS,
    STUDY_ARGUMENT,
    Decorator,
    ask_consent,
    is_study,
    read_logs,
    with_options,
)
from chimeralab.cli.terminal import err, out, sanitize, say, speaker_label, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.extras import require_extra
from chimeralab.core.numbers import percent
from chimeralab.core.schema import json_text
from chimeralab.core.tables import Columns, open_table
from chimeralab.detection.seam import choose_turns
from chimeralab.rating.ratings import make_item
from chimeralab.rating.rubric import (
    find_rubric,
    history_lines,
    load_rubric,
    lock_rubric,
    rubric_text,
)
from chimeralab.rating.rules import NAME as RULES
from chimeralab.rating.rules import rate_by_rules

if TYPE_CHECKING:
    from chimeralab.study import Study

COLUMNS: Columns = {
    "id": str, "rater": str, "label": int, "reason": str, "turns": str, "step": str,
    "kinds": str, "rubric": str, "first_turn": str,
}  # fmt: skip
FILE = click.Path(dir_okay=False, path_type=Path)
STUDY_ONLY, LOGS_ONLY = ("rater", "only", "allow_code"), ("format", "speaker", "rubric", "out")

# Former options of `rate` and the subcommands that replace them; they work for one more version.
MOVED = {
    "--sample": "sample --size VALUE",
    "--for": "sample --for VALUE",
    "--by": "sample --by VALUE",
    "--export-packet": "packet VALUE",
    "--import-packet": "import VALUE",
    "--invite": "invite VALUE",
    "--adjudicate": "invite --adjudicate",
    "--attack": "attack",
}

RATER_OPTION = click.option(
    "--rater",
    metavar="NAME",
    help="The rater of a study: rules (default), or a model or rater of its plan.",
)
ONLY_OPTION = click.option("--only", metavar="SAMPLE", help="Only this sample of a study.")
SEED_OPTION = click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")


class RateGroup(SuggestingGroup):
    """Runs `rate run PATH...` for `rate PATH...`, and accepts the options in MOVED."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = add_subcommand(args)
        return super().parse_args(ctx, args)


def add_subcommand(args: list[str]) -> list[str]:
    """Put the subcommand in front: that of an option in MOVED, otherwise `run`.

    >>> add_subcommand(["logs", "--json"])
    ['run', 'logs', '--json']
    """
    command, moved, kept, added = "run", "", list[str](), list[str]()
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in MOVED:
            kept.append(word)
            continue
        target, *spelling = MOVED[name].split()
        if moved and target != command:
            raise InputError(f"{moved} and {name} can't be combined")
        command, moved = target, moved or name
        if "VALUE" in spelling:
            if not equals and (value := next(words, "")) == "":
                raise InputError(f"{name} needs a value; see `chimera rate {target} --help`")
            spelling[-1:] = [value]
        added += spelling
    result = [command, *kept, *added]
    if moved:
        say(f"{moved} is deprecated; use `chimera rate {shlex.join(result)}`")
    return result


@click.group(cls=RateGroup)
def rate() -> None:
    """Label conversations: 1 for a loop, 0 for none.

    `chimera rate PATH...` is short for `chimera rate run PATH...`; write a path that is named like
    a subcommand as ./sample. Logs are rated by the rules. A study is rated by the rules, by models
    and raters of its plan, and by people, who rate a packet of files or in the browser.

    \b
    Examples:
      chimera rate talks.jsonl                      label a log by the rules
      chimera rate mine --rater judge               have a model of the plan rate a study
      chimera rate sample mine --for gate           draw the sample of the gate
      chimera rate invite mine ann                  invite a person to rate in the browser
    """


@rate.command()
@with_options(*LOG_OPTIONS[:-1])  # without --cache: rating needs no vectors
@click.option(
    "--rubric",
    metavar="FILE|VERSION",
    help="A rubric of your own, or 4.0. Default: 3.0, or that of the study.",
)
@click.option(
    "--out",
    type=FILE,
    help="Also write the labels to a .jsonl, .csv or .parquet file; `chimera audit` reads the "
    "first two.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object per conversation, each on a line.",
)
@with_options(RATER_OPTION, ONLY_OPTION, CODE_OPTION)
def run(**options: Any) -> None:
    """Label logs by the rules, or have a rater label a study.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Every label comes
    with one sentence that names the turns that decided it. In a study, labels are stored, and a
    rater labels each conversation once.

    \b
    Examples:
      chimera rate run talks.jsonl --out ratings.csv
      chimera rate run mine --rater judge --only gate-1
    """
    in_study = is_study(options["paths"])
    wrong = LOGS_ONLY if in_study else STUDY_ONLY
    given = next((name for name in wrong if options[name] is not None), None)
    if in_study:
        if given:
            raise InputError(f"a study is rated as its plan says: leave out {_flag(given)}")
        _rate_study(options)
        return
    if given and (given, options["rater"]) != ("rater", RULES):
        raise InputError(f"{_flag(given)} needs a study; name its folder")
    _rate_logs(options)


def _rate_logs(options: dict[str, Any]) -> None:
    rubric = load_rubric(find_rubric(options["rubric"]))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("conversation", overflow="fold", max_width=max(20, out.width // 3))
    for heading in ("judged", "label", "step", "reason"):
        table.add_column(heading)
    labels: list[int | None] = []
    with ExitStack() as files:
        write = files.enter_context(open_table(options["out"], COLUMNS)) if options["out"] else None
        for trajectory in with_progress(read_logs(options), "conversations"):
            rating = rate_by_rules(make_item(trajectory, options["speaker"]), rubric)
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
    if rubric.first_turn != "1":
        say(
            f"reasons label turns as that rubric does, the first one {rubric.first_turn}; the "
            "field `turns` counts from 1"
        )
    if rubric.warning:
        say(rubric.warning)


def _open_study(path: str | Path, options: dict[str, Any]) -> "Study":
    """Open a study; ask now for consent to its code and to the keys of a model that rates.

    Before anybody is paid or invited, say if no label can decide the gate yet. The labels of a
    practice set need not.
    """
    # Imported here: rating a log needs no study and should start quickly.
    require_extra("lab")
    from chimeralab.rating.plan import describe_draft  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.subjects import allow_keys  # noqa: PLC0415

    study, rater = Study(path, ask_consent(options["allow_code"])), options.get("rater") or ""
    if rater in study.plan.models:
        allow_keys(replace(study.plan, models={rater: study.plan.models[rater]}))
    purpose = options.get("purpose") or str(options.get("only") or "")
    if not purpose.startswith("calibration") and (draft := describe_draft(study)):
        say(draft)
    return study


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _rate_study(options: dict[str, Any]) -> None:
    study = _open_study(options["paths"][0], options)
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
    say(f"{done.rater} ({done.about}): {done.newly_rated} newly rated, {counts['items']} in total")
    say(f"{done.ones} labelled 1, {done.zeros} labelled 0, {counts['nulls']} without a label")
    if counts["attempts"]:
        outcomes = (f"{counts[how]} {how}" for how in ("clean", "repaired", "unreadable", "failed"))
        say(f"{counts['attempts']} answers: {', '.join(outcomes)}")
    if done.stopped:
        raise InputError(f"stopped: {done.stopped}; {done.left} conversations are left to rate")
    if done.unanswered:
        raise InputError(
            f"{done.unanswered} conversations got no answer from {done.rater}; run this again"
        )
    if options["as_json"]:
        click.echo(json_text(done.as_dict()))


def study_command(name: str, *parameters: Decorator) -> Decorator:
    """Make a function of a study and its options a subcommand; --json prints what it returns."""

    def decorate(work: Callable[..., dict[str, Any]]) -> click.Command:
        @wraps(work)
        def command(path: Path, **options: Any) -> None:
            result = work(_open_study(path, options), options)
            if options["as_json"]:
                click.echo(json_text(result))

        shared = (STUDY_ARGUMENT, *parameters, JSON_OPTION, CODE_OPTION)
        return rate.command(name)(with_options(*shared)(command))

    return decorate


@study_command(
    "sample",
    click.option("--size", type=click.IntRange(1), help="How many. Default: as the gate says."),
    click.option(
        "--for",
        "purpose",
        type=click.Choice(["gate", "calibration"]),
        default="gate",
        show_default=True,
        help="What the sample is for. The plan declares the size and the seed of the gate's.",
    ),
    click.option(
        "--by",
        type=click.Choice(["condition", "verdict"]),
        help="In proportion to conditions, or balanced on the verdict. [default: condition]",
    ),
    click.option("--seed", type=int, help="Seed of a calibration sample. [default: 0]"),
)
def sample(study: "Study", options: dict[str, Any]) -> dict[str, Any]:
    """Draw conversations to rate; samples never overlap.

    \b
    Examples:
      chimera rate sample mine --size 40 --for calibration
      chimera rate sample mine --for gate
    """
    from chimeralab.rating.samples import draw  # noqa: PLC0415

    kind, size, seed, by = (options[name] for name in ("purpose", "size", "seed", "by"))
    gate = study.plan.extras["gate"]
    if kind == "calibration" and size is None:
        raise InputError("a calibration sample needs --size N")
    if kind == "gate" and gate.declared:
        if seed is not None:
            raise InputError("the plan declares the seed of the gate's sample: leave out --seed")
        size, seed, by = size or gate.sample, gate.seed, by or gate.by
    drawn = draw(study, kind, size, seed or 0, by or "condition")
    say(f"{drawn}; rate it with --only {drawn.name}")
    return drawn.as_dict()


@study_command(
    "packet",
    click.argument("folder", type=click.Path(file_okay=False, path_type=Path)),
    ONLY_OPTION,
    SEED_OPTION,
)
def packet(study: "Study", options: dict[str, Any]) -> dict[str, Any]:
    """Write a blinded packet for a person to rate offline.

    A new FOLDER gets a page to rate on and a sheet to fill in, which `chimera rate import` reads.

    \b
    Example:
      chimera rate packet mine packet --only gate-1
    """
    from chimeralab.rating.raters import export_study_packet  # noqa: PLC0415

    folder = options["folder"]
    key = export_study_packet(study, folder, options["only"], options["seed"])
    say(f"wrote packet {key.packet} with {len(key.entries)} items to {folder}")
    return {"packet": key.packet, "sheets": len(key.entries), "folder": str(folder)}


@study_command(
    "import",
    click.argument("sheet", type=FILE),
    click.option("--rater", metavar="human:NAME", required=True, help="Who filled in the sheet."),
)
def import_sheet(study: "Study", options: dict[str, Any]) -> dict[str, Any]:
    """Store the labels of a packet's filled-in sheet.

    SHEET is the packet's ratings.csv. All of its labels are stored, or none.

    \b
    Example:
      chimera rate import mine packet/ratings.csv --rater human:ann
    """
    from chimeralab.rating.raters import import_study_packet  # noqa: PLC0415

    rater = options["rater"]
    ratings, repeated = import_study_packet(study, options["sheet"], rater)
    stored, blank = len(ratings), sum(each.label is None for each in ratings)
    again = [same for same in repeated.values() if same is not None]
    say(f"{rater}: {stored} stored, {blank} left blank")
    say(f"of {len(again)} shown twice, {sum(again)} got the same label both times")
    return {"rater": rater, "stored": stored, "blank": blank}


@study_command(
    "invite",
    click.argument("name"),
    click.option(
        "--adjudicate",
        is_flag=True,
        help="Have them decide what the raters of the decided gate disagree on.",
    ),
    ONLY_OPTION,
)
def invite(study: "Study", options: dict[str, Any]) -> dict[str, Any]:
    """Invite a person to rate in the browser.

    Prints a link for the server that `chimera view STUDY` starts. Inviting someone again replaces
    their link and keeps their work.

    \b
    Examples:
      chimera rate invite mine ann
      chimera rate invite mine cid --adjudicate
    """
    from chimeralab.rating.invitations import RatingService  # noqa: PLC0415
    from chimeralab.web.serving import PORT  # noqa: PLC0415

    task: Literal["rate", "adjudicate"] = "adjudicate" if options["adjudicate"] else "rate"
    with RatingService(study) as service:
        token = service.invite(options["name"], options["only"], task)
        invitation = service.find_invitation(token)
        assert invitation is not None
        sheets = len(service.session(invitation).sheets)
    link = f"http://127.0.0.1:{PORT}/rate?token={token}"
    say(f"{invitation.rater}: {sheets} items to {task} ({invitation.sample or 'all finished'})")
    if not options["as_json"]:
        click.echo(link)
    say(
        f"start `chimera view {study.path}` and send them this link, which is shown once. Other "
        "machines can't open it: for people elsewhere, start it with --host (and --tls-cert) and "
        "adjust the address, or use an SSH tunnel."
    )
    return {"rater": invitation.rater, "task": task, "sheets": sheets, "link": link}


@study_command("attack", RATER_OPTION, ONLY_OPTION, SEED_OPTION)
def attack(study: "Study", options: dict[str, Any]) -> dict[str, Any]:
    """Measure how often a rater's labels flip under attack.

    Each conversation of --only SAMPLE, or of 20 random ones, is rated eleven times: twice
    unchanged, once with the labels in the other order, and once with each of eight attacks
    inserted. The flip rates are printed and stored.

    \b
    Example:
      chimera rate attack mine --rater judge
    """
    from chimeralab import pipeline  # noqa: PLC0415

    rater = options["rater"] or RULES
    with err.status(f"{sanitize(rater)} is being checked"):
        done = pipeline.attack(study, rater, options["only"], options["seed"])
    report = done.report
    assert report is not None  # a check that was stopped raises
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("check", "items", "flips", "as intended", "no label", "flip rate"):
        table.add_column(heading, justify="left" if heading == "check" else "right")
    for row in (report.undisturbed, report.position, *report.attacks):
        if row is not None:
            wanted = str(row.as_wanted) if row in report.attacks else "–"
            cells = (row.name, row.items, row.flips, wanted, row.nulls, percent(row.flip_rate))
            table.add_row(*map(str, cells))
    if not options["as_json"]:
        out.print(table)
    say(f"{done.rater}: checked on {len(done.items)} conversations; stored in the study")
    return done.as_dict()


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--rater",
    "raters",
    multiple=True,
    metavar="NAME",
    help="Who rates the practice set: rules, a model or rater of the plan, human:NAME. Twice or "
    "more; only to draw the set.",
)
@click.option("--size", type=click.IntRange(2), help="Conversations in the set. [default: 20]")
@click.option(
    "--threshold",
    type=click.FloatRange(-1, 1),
    help="The kappa that they have to reach. [default: 0.8]",
)
@click.option(
    "--by",
    type=click.Choice(["condition", "verdict"]),
    help="In proportion to conditions, or balanced on the verdict. [default: condition]",
)
@click.option("--seed", type=int, help="Seed of the set. [default: 0]")
@CODE_OPTION
@JSON_OPTION
def calibrate(path: Path, raters: tuple[str, ...], **options: Any) -> None:
    """Compare raters on a practice set, and lock the rubric if they agree.

    The first call draws the set, which no gate will use, and stores who has to agree how well. The
    next one, when all of them have rated it, compares their labels. If they agree, the rubric of
    the study is locked in it; if not, the exit code is 1, and another set can be drawn once the
    raters have talked about where they differ. Every result stays in the study.

    \b
    Examples:
      chimera calibrate mine --rater rules --rater human:ann
      chimera rate invite mine ann --only calibration-1
      chimera calibrate mine
    """
    # Imported here: rating a log needs no study and should start quickly.
    from chimeralab.rating.calibration import SIZE, calibrate, next_steps  # noqa: PLC0415
    from chimeralab.rating.gate import Gate  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    names = ("threshold", "by", "seed")
    asked = {name: options[name] for name in names if options[name] is not None}
    if (asked or options["size"]) and not raters:
        raise InputError("a practice set is drawn for its raters: name them with --rater")
    size = options["size"] or SIZE
    bar = Gate(raters, sample=size, rule="point", **asked) if raters else None
    study = Study(path, ask_consent(options["allow_code"]))
    found = calibrate(study, bar)
    if options["as_json"]:
        click.echo(json_text(found))
    elif found["passed"] is None:
        left = (f"{count} left for {rater}" for rater, count in found["missing"].items())
        say(f"{found['sample']}: {', '.join(left)}")
        for step in next_steps(study, found):
            say(f"  {step}")
    else:
        low, high = found["kappa_ci"] or (None, None)
        interval = f" (95 % interval {low:.2f} – {high:.2f})" if low is not None else ""
        say(f"{found['sample']}, {found['items']} items, {' and '.join(found['raters'])}")
        say(f"{found['reason']}{interval}")
        for item in found["disagreements"]:
            say(f"  they differ on {item}")
        rules = f"{found['rubric']['name']} {found['rubric']['version']}"
        say(f"{rules} is {'calibrated and locked' if found['passed'] else 'NOT calibrated'}")
    if found["passed"] is False:
        raise click.exceptions.Exit(1)


@click.group(cls=SuggestingGroup)
def rubric() -> None:
    """Show the rubric that raters follow, or lock one of your own."""


@rubric.command()
@click.argument("name", metavar="[FILE|VERSION]", required=False)
@click.option("--toml", "as_toml", is_flag=True, help="Print the file, to start one of your own.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(name: str | None, as_toml: bool, as_json: bool) -> None:
    """Print a rubric: 3.0, the default, or 4.0, or that in FILE. A locked one must be unchanged."""
    path = find_rubric(name)
    loaded = load_rubric(path)
    if as_json or as_toml:
        click.echo(json_text(loaded.as_dict()) if as_json else path.read_text("utf-8"), nl=as_json)
        return
    state = "draft, not calibrated" if loaded.warning else loaded.state
    heading = f"# {loaded.name}, version {loaded.version} ({state})"
    lines = [heading, f"sha256 {loaded.sha256}", "", rubric_text(loaded), "", "## Versions", ""]
    click.echo("\n".join([*lines, *history_lines(loaded)]))


@rubric.command()
@click.argument("file", type=FILE)
@click.option(
    "--study",
    "pilot",
    type=click.Path(file_okay=False, path_type=Path),
    help="The study in which it was calibrated.",
)
def lock(file: Path, pilot: Path | None) -> None:
    """Lock a calibrated rubric: its hash goes into a .lock file next to it.

    A draft needs a calibration on record in --study; a rubric that was calibrated elsewhere says
    state = "calibrated" and gives the kappa in its history.
    """
    found = None
    if pilot is not None:
        require_extra("lab")
        from chimeralab.rating.plan import load_calibrations  # noqa: PLC0415
        from chimeralab.study import Study  # noqa: PLC0415

        study, draft = Study(pilot), load_rubric(file)
        met = [each for each in load_calibrations(study, draft) if each["passed"]]
        if not met:
            raise InputError(
                f"{pilot} has no calibration of {file} that was met; see `chimera calibrate`"
            )
        names = ("kappa", "kappa_ci", "items", "raters", "sample", "at")
        found = {**{name: met[0][name] for name in names}, "study": study.root}
    locked = lock_rubric(file, found)
    say(f"{locked.name} {locked.version} is locked, sha256 {locked.sha256}")
