"""`chimera detect`: find loops and collapse in logs, or in a study."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chimeralab.cli.checks import (
    COLLAPSE,
    LOOP,
    NOTHING_JUDGED,
    VerdictReport,
    open_reports,
    parse_checks,
)
from chimeralab.cli.logs import save_state, select_logs
from chimeralab.cli.options import (
    CODE_OPTION,
    DEMO_OPTION,
    DETECTOR_OPTIONS,
    IDENTITY_OPTION,
    LOG_OPTIONS,
    MAX_NAMED,
    NO_FIELD,
    PRICE_OPTION,
    TOOL_OPTIONS,
    WHICH_OPTIONS,
    ask_consent,
    choose_judges,
    group_name,
    is_study,
    pop_detector,
    read_logs,
    read_project,
    use_demo,
    with_options,
)
from chimeralab.cli.terminal import err, out, sanitize, say, with_progress
from chimeralab.cli.verdict_table import MIN_WIDTH, SORTS, VerdictTable, nearest_similarities
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.extras import require_extra
from chimeralab.core.numbers import plural
from chimeralab.core.records import Detection
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.schema import json_text
from chimeralab.core.tables import check_table_name, open_table
from chimeralab.core.verdict_rows import CONVERSATION_COLUMNS, TURN_COLUMNS, verdict_rows
from chimeralab.detection.cost import BY_MESSAGE, split_costs
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LockedRule
from chimeralab.detection.loops import DetectorPair, resolve_loops
from chimeralab.detection.seam import Detector, summarise_detector
from chimeralab.detection.verdict import as_json
from chimeralab.readers.logs import PARTLY

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder


RAY = "ray"
# Options for printed results; a Ray job writes its results into a folder.
NOT_ON_RAY = (
    "json", "trace", "group_by", "fail_on", "max_share", "junit", "fail_on_collapse", "cache",
    "recent", "since", "state", "max_turns", "max_expansion", "price", "every", "full", "sort",
    "github", "notify",
)  # fmt: skip


NEXT = "these were built-in examples; for your own: chimera detect PATH, or --recent 7d"


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(readable=False))
@with_options(*LOG_OPTIONS[1:])
@DEMO_OPTION
@click.option(
    "--recent",
    metavar="WHEN",
    help="Instead of PATH, judge the sessions of coding agents on this machine (`chimera logs`) "
    "that changed since a date (2026-01-31) or within a time (7d, 12h).",
)
@click.option("--since", metavar="WHEN", help="Judge only logs that changed since then.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Judge only logs that are new or have changed since the last run with this file.",
)
@click.option(
    "--json", "json", is_flag=True, help="Print one JSON object per conversation, each on a line."
)
@click.option("--trace", is_flag=True, help="Include the detector's values for every turn.")
@click.option("--all", "every", is_flag=True, help="List every conversation, not only loops.")
@click.option("--full", is_flag=True, help="Show the turns that the locked rule judged, and notes.")
@click.option(
    "--sort",
    type=click.Choice([*SORTS]),
    help="Put the loops first that cost most (default), with the largest share of messages, in the "
    "longest conversations or with the earliest onset; log keeps the order of the logs.",
)
@PRICE_OPTION
@click.option(
    "--group-by",
    metavar="FIELD",
    help="Summarise by a field, such as model or condition, or by tool or day.",
)
@click.option(
    "--out",
    type=click.Path(),
    help="Also write the results to a .jsonl, .csv or .parquet file; with --engine ray, to this "
    "folder or URL.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", RAY]),
    default="local",
    show_default=True,
    help="Run in this process, or on a Ray cluster (needs --out).",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="With --engine ray: the cluster (auto, host:6379). Default: start one on this machine.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --engine ray: number of one-core workers. Default: one per core.",
)
@with_options(*WHICH_OPTIONS)
@click.option(
    "--fail-on",
    type=click.Choice([LOOP, COLLAPSE, NOTHING_JUDGED]),
    multiple=True,
    help="Exit with code 1 if any conversation loops, if any collapses, or if none could be judged "
    "(implied by the other two).",
)
@click.option(
    "--max-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Allow this share (0.05 is 5 %) of loops, or of what --fail-on names.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.xml",
    help="Also write the results as JUnit test cases for CI servers.",
)
@click.option(
    "--github",
    is_flag=True,
    help="Also write annotations and a job summary for GitHub Actions.",
)
@click.option(
    "--notify",
    metavar="URL",
    envvar="CHIMERA_NOTIFY",
    help="If anything loops, post a message to this webhook, as Slack reads it; or set "
    "CHIMERA_NOTIFY.",
)
@click.option("--fail-on-collapse", is_flag=True, hidden=True)
@CODE_OPTION
@with_options(*TOOL_OPTIONS, IDENTITY_OPTION)
@with_options(*DETECTOR_OPTIONS)
def detect(**options: Any) -> None:
    """Find conversations that loop or collapse, and show where.

    PATH is a log, a folder of logs, a glob pattern, - for standard input, or a study. Formats are
    detected by content, including in gzip and zstd files (see `chimera formats`).

    Two detectors look at each conversation. The loop detector finds what people would call stuck:
    the same words, one template, cycles of any length, endless goodbyes, repeated tool calls. The
    locked detector is for preregistered studies: a turn is collapsed if it repeats the last turn
    (similarity at least 0.92) or the one before (0.90), and so do the two turns before it. If you
    change any of its settings, the output says that this is not the locked operating point.

    \b
    Examples:
      chimera detect --demo
      chimera detect logs/
      chimera detect logs/ --no-vectors --fail-on loop --junit loops.xml
      chimera detect --recent 7d --state seen.json
    """
    check_paths(options)
    options["tools"], loop_detector = read_project(options)
    judges = choose_judges(detector := pop_detector(options), options, loop_detector)
    if options["engine"] == RAY:
        detect_on_ray(judges, options)
        return
    check_local_options(options)
    failing, max_share = parse_checks(options, judges)
    reports = open_reports(options, failing)
    unread: list[LogError] = []
    chosen = select_logs(options, unread) if narrowing_options(options) else (None, 0, {})
    options["logs"], unchanged, stamps = chosen
    table, words, how = judge_all(judges, detector, options, reports, unread)
    if not table.all.conversations:
        summary = "nothing new to judge: " + describe_none(unread, unchanged)
        say(summary)
        failures = [summary] if NOTHING_JUDGED in options["fail_on"] else []
    else:
        print_verdicts(table, options, [e.source for e in unread if e.group == PARTLY])
        for line in (how(), NEXT)[: 1 + options["demo"]]:
            say(line)
        summary = table.all.sentence(words)
        failures = list(table.all.failures(failing, max_share))
        if failing and options["json"] and (rest := table.describe_rest()):
            say(rest.removesuffix(": see --all."))  # a check has to say what it did not judge
    if options["json"] and (unread or unchanged):
        click.echo(json_text(describe_unread(unread, unchanged)))
    if options["state"]:
        save_state(options["state"], stamps)
    for failure in failures:
        say(f"failed: {failure}")
    for report in reports:
        report.write("\n".join([summary, *failures]))
    if failures:
        raise click.exceptions.Exit(1)


def check_paths(options: dict[str, Any]) -> None:
    """Reject a call without logs, or with options that choose them in two ways."""
    given = narrowing_options(options)
    if options["demo"]:
        use_demo(options)
    if not options["paths"] and "--recent" not in given:
        raise click.UsageError("Missing argument 'PATH...', or --recent 7d or --demo.")
    if "--recent" in given and (options["paths"] or "--since" in given):
        raise InputError("--recent can't be combined with PATH or --since; --since limits PATH")
    if given and is_study(options["paths"]):
        raise InputError(f"{given[0]} is for logs: a study judges what is new by itself")


def narrowing_options(options: dict[str, Any]) -> list[str]:
    """List the given options that leave only some logs."""
    return [f"--{name}" for name in ("recent", "since", "state") if options[name] is not None]


def print_verdicts(table: VerdictTable, options: dict[str, Any], partly: Sequence[str]) -> None:
    if not options["json"]:
        table.print_headline(out)
        table.print_conversations(out, partly, with_files=bool(options["recent"]))
        table.print_summary(out)
    elif options["group_by"]:
        table.print_summary(err)  # stdout has the JSON lines only


def describe_none(unread: Sequence[LogError], unchanged: int) -> str:
    """Say why no log is left to judge.

    >>> describe_none([], 2)
    '2 logs unchanged or too old'
    """
    if not unread and not unchanged:
        return "no sessions found (`chimera logs --help` says where they are searched)"
    missing = f", {plural(len(unread), 'file')} not read" if unread else ""
    return f"{plural(unchanged, 'log')} unchanged or too old{missing}"


def judge_all(
    judges: DetectorPair,
    detector: LockedRule,
    options: dict[str, Any],
    reports: Sequence[VerdictReport],
    unread: list[LogError],
) -> tuple[VerdictTable, ResultWords, Callable[[], str]]:
    """Judge every conversation, and write and print each verdict that is asked for."""
    with open_results(options["out"], trace=options["trace"]) as write:
        if is_study(options["paths"]):
            judged, words, how = judge_study(detector, options)
        else:
            judged, words, how = judge_logs(judges, options, unread)
        layout = {"every": options["every"], "sort": options["sort"]}
        table = VerdictTable(options["group_by"], words, locked=shows_locked(options), **layout)
        for detection, group, prompt in judged:
            hide = detection.trace is not None and not options["trace"]
            shown = replace(detection, trace=None) if hide else detection
            parts = group if isinstance(group, list) else []
            whole = None if isinstance(group, list) else group
            table.add(shown, nearest_similarities(detection), whole, prompt)
            for name, part in parts:
                table.add_to_group(name, part)
            write(shown)
            for report in reports:
                report.add(shown)
            if options["json"]:
                click.echo(json_text(as_json(shown)))
        if table.all.conversations:
            table.check_group_field()
        elif options["logs"] is None:
            raise InputError(f"no finished conversation in {options['paths'][0]}")
    return table, words, how


def shows_locked(options: dict[str, Any]) -> bool:
    """Whether the table shows the turns of the locked rule: if asked, and for a study."""
    return options["full"] or options["which"] == "locked" or is_study(options["paths"])


@contextmanager
def open_results(out: str | None, *, trace: bool) -> Iterator[Callable[[Detection], None]]:
    """Open the --out file, if any, and yield a function that writes a verdict to it."""
    if out is None:
        yield lambda detection: None
        return
    path = Path(out)
    check_table_name(path)
    nested = path.suffix == ".jsonl"
    with open_table(path, TURN_COLUMNS if trace else CONVERSATION_COLUMNS) as write:

        def write_detection(detection: Detection) -> None:
            for row in [as_json(detection)] if nested else verdict_rows(detection):
                write(row)

        yield write_detection


# Verdicts with their group, or with their parts by tool or day, and prompts; the wording for them,
# and a function that describes, once all are read, how they were computed.
Group = str | list[tuple[str, Detection]] | None
Judging = tuple[Iterator[tuple[Detection, Group, str | None]], ResultWords, Callable[[], str]]


def judge_logs(judges: DetectorPair, options: dict[str, Any], unread: list[LogError]) -> Judging:
    """Read logs and judge each conversation; files that could not be read go to `unread`."""

    def open_encoder() -> "Encoder":
        from chimeralab.embedding import encoder  # noqa: PLC0415 - not needed for words alone

        return encoder.open_encoder(options["cache"])

    judge = Judge(
        *judges,
        open_encoder,
        speaker=options["speaker"],
        # A wide table shows similarities.
        trace=options["trace"]
        or (shows_locked(options) and not options["json"] and out.width > MIN_WIDTH),
        prices=options["price"],
        tools=options["tools"],
    )

    def each() -> Iterator[tuple[Detection, Group, str | None]]:
        field, judged = options["group_by"], judge.judge(read_logs(options, unread))
        for trajectory, detection in with_progress(judged, "conversations"):
            group: Group = None
            if field in BY_MESSAGE and field not in trajectory.metadata:
                group = list(split_costs(trajectory, detection, field, judge.prices))
            elif field:
                group = group_name(trajectory, detection.positions, field)
            yield detection, group, None

    return each(), FACT, lambda: describe_judge(judge)


def judge_study(detector: LockedRule, options: dict[str, Any]) -> Judging:
    """Judge the conversations of a study that have no verdict yet, and load all verdicts."""
    # Imported here to keep start-up fast for logs, the common case.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.rating.study_audit import load_reliability, scope_of  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.verdicts import load_detections  # noqa: PLC0415

    own = ("format", "speaker", "no_vectors", "ignore", "repeats", "identity")
    given = [name for name in own if options[name]]
    given += ["detector"] if options["which"] != "both" else []
    given += ["price"] if options["price"] else []
    changed = [name.replace("_", "-") for name in (*detector.changed, *given)]
    if changed:
        raise InputError(
            f"the plan of a study sets its detector: leave out --{changed[0]}, or try other"
            " settings with `chimera export` and `chimera sweep`"
        )
    study = Study(options["paths"][0], ask_consent(options["allow_code"]))
    judged = pipeline.detect(study)

    def verdicts() -> Iterator[tuple[Detection, Group, str | None]]:
        field = options["group_by"]
        for detection in load_detections(study):
            group = str(detection.metadata.get(field, NO_FIELD.format(field))) if field else None
            yield detection, group, str(detection.metadata["prompt"])

    settings: Detector = study.plan.detector.settings
    used = describe_detectors(resolve_loops(settings), settings)
    words = scope_of(load_reliability(study)).words
    return verdicts(), words, lambda: f"{used}; {judged} new verdicts, the others stored earlier"


def describe_unread(unread: list[LogError], unchanged: int) -> dict[str, Any]:
    """List the files that were not read, or only partly, as a JSON object."""
    rows: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for each in unread:
        row = {"file": each.source, "line": each.line, "group": each.group, "reason": each.reason}
        rows[each.group == PARTLY].append(row)
    return {"not_read": rows[False], "partly_read": rows[True], "unchanged": unchanged}


def describe_judge(judge: Judge) -> str:
    """Describe the detectors and the encoder in one line."""
    detector, encoder, band = judge.detector, judge.encoder, judge.band
    parts = [describe_detectors(*(each for each in (judge.loops, detector) if each))]
    if judge.loops and judge.tools:
        parts.append(f"rules of your own for {', '.join(map(sanitize, judge.tools))}")
    if detector is None:
        return "; ".join([*parts, "no vectors, so no collapse verdict"])
    vectors = f"vectors in {encoder.precision} ({encoder.served_by})" if encoder else "no vectors"
    parts.append(vectors)
    if band and band.recomputed:
        parts.append(
            f"{band.recomputed} similarities near a threshold recomputed exactly"
            f" (largest correction {band.largest_error:.1g})"
        )
    return "; ".join([*parts, detector.remark] if detector.remark else parts)


def describe_detectors(*detectors: Detector) -> str:
    """Name the detectors, or their operating points if any setting is changed."""
    used = list(dict.fromkeys(detectors))
    if any(each.changed for each in used):
        return "; ".join(map(summarise_detector, used))
    names = (each.name if each.standard == "default" else each.standard for each in used)
    return f"detectors: {', '.join(names)} (default settings)"


def check_local_options(options: dict[str, Any]) -> None:
    for name in ("address", "workers"):
        if options[name] is not None:
            raise InputError(f"--{name} needs --engine ray")


def detect_on_ray(judges: DetectorPair, options: dict[str, Any]) -> None:
    """Judge logs on Ray and write the verdicts to --out."""
    for name in NOT_ON_RAY:
        if options[name]:
            option = name.replace("_", "-")
            raise InputError(
                f"--{option} can't be combined with --engine ray, which writes to --out"
            )
    if not options["out"]:
        raise InputError("--engine ray needs --out, a folder or URL for its results")
    require_extra("ray")
    from chimeralab import scale  # noqa: PLC0415 - needs Ray

    judging = scale.WorkerSettings(*judges, options["speaker"], options["format"], options["tools"])
    totals = scale.detect_files(
        options["paths"],
        options["out"],
        judging,
        address=options["address"],
        workers=options["workers"],
    )
    before = f" ({totals.judged_before:,} from an earlier run)" if totals.judged_before else ""
    found = [f"{totals.looping:,} looping"] if judging.loops else []
    found += [f"{totals.collapsed:,} collapsed"] if judging.detector else []
    out.print(
        f"{plural(totals.conversations, 'conversation')} of {plural(totals.files, 'file')}"
        f"{before}: {', '.join(found)}.",
        soft_wrap=True,
    )
    out.print(f"Verdicts: {options['out'].rstrip('/')}/verdicts", markup=False, soft_wrap=True)
    for error in totals.first_errors[:MAX_NAMED]:
        say(f"skipped {error}")
    if totals.errors:
        entries = plural(totals.errors, "bad entry", "bad entries")
        reason = f"{entries} skipped, listed in {options['out'].rstrip('/')}/errors"
        if not options["skip_bad"]:
            raise InputError(f"{reason}; use --skip-bad to allow that")
        say(reason)
