"""`chimera detect`: which conversations loop or collapsed, in logs or in a study's store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chimeralab.cli.options import (
    CODE_OPTION,
    DETECTOR_OPTIONS,
    LOG_OPTIONS,
    MAX_NAMED,
    NO_FIELD,
    WHICH_OPTIONS,
    ask_consent,
    choose_judges,
    group_name,
    is_study,
    pop_detector,
    read_logs,
    with_options,
)
from chimeralab.cli.terminal import err, out, say, with_progress
from chimeralab.cli.verdict_table import (
    COLLAPSE,
    LOOP,
    MIN_WIDTH,
    NOTHING_JUDGED,
    JUnit,
    VerdictTable,
    nearest_of,
    parse_checks,
)
from chimeralab.core.errors import InputError
from chimeralab.core.extras import need
from chimeralab.core.files import json_text
from chimeralab.core.numbers import counted
from chimeralab.core.records import Detection
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.tables import check_table_name, open_table
from chimeralab.core.verdict_rows import CONVERSATION_COLUMNS, TURN_COLUMNS, verdict_rows
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import Locked
from chimeralab.detection.loops import loops_beside
from chimeralab.detection.seam import Detector, in_brief
from chimeralab.detection.verdict import as_json, from_json

if TYPE_CHECKING:
    from chimeralab.embedding.encoder import Encoder


RAY = "ray"
# What is for one process alone: its answers are printed, and a job's are in its folder.
NOT_ON_RAY = (
    "json", "trace", "group_by", "fail_on", "max_share", "junit", "fail_on_collapse", "cache",
)  # fmt: skip


@click.command()
@with_options(*LOG_OPTIONS)
@click.option("--json", "json", is_flag=True, help="One JSON object per line and conversation.")
@click.option("--trace", is_flag=True, help="Add what the detector saw at every turn.")
@click.option("--group-by", metavar="FIELD", help="Summarise by a field such as model, condition.")
@click.option(
    "--out",
    type=click.Path(),
    help="Also write the results to a .jsonl, .csv or .parquet file; with --engine ray, the folder "
    "or address of the results.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", RAY]),
    default="local",
    show_default=True,
    help="Judge in this process, or on a cluster of Ray, which needs --out.",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="With --engine ray: the cluster to use (auto, host:6379). Without it, one is "
    "started on this machine.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --engine ray: how many workers, of one core each. Default: one for each core.",
)
@with_options(*WHICH_OPTIONS)
@click.option(
    "--fail-on",
    type=click.Choice([LOOP, COLLAPSE, NOTHING_JUDGED]),
    multiple=True,
    help="Exit with 1 if any conversation loops, if any collapsed, or if none could be judged "
    "(every check includes the last).",
)
@click.option(
    "--max-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Tolerate this share (0.05 is 5 %) of loops, or of what --fail-on names.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.xml",
    help="Also write the results as JUnit test cases, for CI servers.",
)
@click.option("--fail-on-collapse", is_flag=True, hidden=True)
@CODE_OPTION
@with_options(*DETECTOR_OPTIONS)
def detect(**options: Any) -> None:
    """Say which conversations loop or collapsed, where, and why.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Formats are
    recognised by their content, also in gzip or zstd files; `chimera formats` lists them.

    The loop detector finds what people would call stuck: the same words, one template, cycles of
    any length, endless goodbyes, repeated tool calls. The locked detector answers a preregistered
    question: a turn is collapsed when it repeats the last turn (similarity at least 0.92) or the
    one before (0.90), and so did the two turns before it. Changing any of these settings leaves
    the locked operating point, and the output says so.
    """
    detector = pop_detector(options)
    if options["engine"] == RAY:
        detect_on_ray(detector, options)
        return
    refuse_ray_options(options)
    failing, max_share = parse_checks(options, choose_judges(detector, options))
    junit = JUnit(options["junit"], failing)
    source = judge_study if is_study(options["paths"]) else judge_logs
    with _written(options["out"], trace=options["trace"]) as write:
        judged, words, how = source(detector, options)
        table = VerdictTable(options["group_by"], words)
        for detection, group, prompt in judged:
            unasked = detection.trace is not None and not options["trace"]
            shown = replace(detection, trace=None) if unasked else detection
            table.add(shown, nearest_of(detection), group, prompt)
            write(shown)
            junit.add(shown)
            if options["json"]:
                click.echo(json_text(as_json(shown)))
        if not table.conversations:
            raise InputError(f"no conversation could be read from {', '.join(options['paths'])}")
        table.check_group_field()
    if not options["json"]:
        table.print_conversations(out)
        table.print_summary(out)
    elif options["group_by"]:
        # Standard output holds the JSON lines alone.
        table.print_summary(err)
    say(how())
    complaints = list(table.all.complaints(failing, max_share))
    for complaint in complaints:
        say(f"failed: {complaint}")
    junit.write("\n".join([table.all.sentence(words), *complaints]))
    if complaints:
        raise click.exceptions.Exit(1)


@contextmanager
def _written(asked: str | None, *, trace: bool) -> Iterator[Callable[[Detection], None]]:
    """A function that writes a verdict to the file the user asked for, if any."""
    if asked is None:
        yield lambda detection: None
        return
    path = Path(asked)
    check_table_name(path)
    nested = path.suffix == ".jsonl"
    with open_table(path, TURN_COLUMNS if trace else CONVERSATION_COLUMNS) as write:

        def write_detection(detection: Detection) -> None:
            for row in [as_json(detection)] if nested else verdict_rows(detection):
                write(row)

        yield write_detection


# Verdicts with their groups and prompts, the words that they are told in, and a line on how they
# were reached, to be asked for afterwards.
Judging = tuple[Iterator[tuple[Detection, str | None, str | None]], ResultWords, Callable[[], str]]


def judge_logs(detector: Locked, options: dict[str, Any]) -> Judging:
    """Read logs and judge every conversation."""

    def open_encoder() -> "Encoder":
        from chimeralab.embedding import encoder  # noqa: PLC0415 - words alone need none

        return encoder.open_encoder(options["cache"])

    judge = Judge(
        *choose_judges(detector, options),
        open_encoder,
        speaker=options["speaker"],
        # Similarities are drawn in the table where it is wide enough.
        trace=options["trace"] or (not options["json"] and out.width > MIN_WIDTH),
    )

    def each() -> Iterator[tuple[Detection, str | None, str | None]]:
        field, judged = options["group_by"], judge.judge(read_logs(options))
        for trajectory, detection in with_progress(judged, "conversations"):
            group = group_name(trajectory, detection.positions, field) if field else None
            yield detection, group, None

    return each(), FACT, lambda: _how(judge)


def judge_study(detector: Locked, options: dict[str, Any]) -> Judging:
    """Judge what a study has not judged yet, and take all of its verdicts.

    They are told in the words that its gate allows.
    """
    # Imported here: judging a log, the common case, needs no study and should start at once.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.rating.study_audit import reliability, scope_of  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.detecting import stored_detections  # noqa: PLC0415

    asked = [name for name in ("format", "speaker", "no_vectors") if options[name]]
    asked += ["detector"] if options["which"] != "both" else []
    changed = [name.replace("_", "-") for name in (*detector.changed, *asked)]
    if changed:
        raise InputError(
            f"a study is judged as its plan says: leave out --{changed[0]}, or try other settings"
            " with `chimera sweep` on what `chimera export` writes"
        )
    study = Study(options["paths"][0], ask_consent(options["allow_code"]))
    judged = pipeline.detect(study)

    def verdicts() -> Iterator[tuple[Detection, str | None, str | None]]:
        field = options["group_by"]
        for detection in map(from_json, stored_detections(study)):
            group = str(detection.metadata.get(field, NO_FIELD.format(field))) if field else None
            yield detection, group, str(detection.metadata["prompt"])

    settings: Detector = study.plan.detector.settings
    used = "; ".join(map(in_brief, dict.fromkeys((loops_beside(settings), settings))))
    words = scope_of(reliability(study)).words
    return verdicts(), words, lambda: f"{used}; {judged} newly judged, the rest stored"


def _how(judge: Judge) -> str:
    """How the verdicts were reached, in a line."""
    detector, encoder, band = judge.detector, judge.encoder, judge.band
    parts = [in_brief(judge.loops)] if judge.loops else []
    if detector is None:
        return "; ".join([*parts, "no vectors, so no collapse verdict was computed"])
    parts += [
        in_brief(detector),
        f"vectors in {encoder.precision} ({encoder.served_by})" if encoder else "no vectors",
    ]
    if band and band.recomputed:
        parts.append(
            f"{band.recomputed} similarities near a threshold recomputed exactly"
            f" (largest correction {band.largest_error:.1g})"
        )
    return "; ".join([*parts, detector.remark] if detector.remark else parts)


def refuse_ray_options(options: dict[str, Any]) -> None:
    """Refuse options that would have no effect without Ray."""
    for name in ("address", "workers"):
        if options[name] is not None:
            raise InputError(f"--{name} is for jobs on Ray; add --engine ray, or leave it out")


def detect_on_ray(detector: Locked, options: dict[str, Any]) -> None:
    """Judge the logs into the folder of results, and say what became of them."""
    for name in NOT_ON_RAY:
        if options[name]:
            option = name.replace("_", "-")
            raise InputError(f"--engine ray writes its verdicts to --out; leave out --{option}")
    if not options["out"]:
        raise InputError("--engine ray needs --out, a folder or address for its results")
    need("ray")
    from chimeralab import scale  # noqa: PLC0415 - one process needs none of it

    judging = scale.WorkerSettings(
        *choose_judges(detector, options), options["speaker"], options["format"]
    )
    totals = scale.detect_files(
        options["paths"],
        options["out"],
        judging,
        address=options["address"],
        workers=options["workers"],
    )
    before = f" ({totals.judged_before:,} judged before)" if totals.judged_before else ""
    found = [f"{totals.looping:,} looping"] if judging.loops else []
    found += [f"{totals.collapsed:,} collapsed"] if judging.detector else []
    out.print(
        f"{counted(totals.conversations, 'conversation')} of {counted(totals.files, 'file')}"
        f"{before}: {', '.join(found)}.",
        soft_wrap=True,
    )
    out.print(f"Verdicts: {options['out'].rstrip('/')}/verdicts", markup=False, soft_wrap=True)
    for error in totals.first_errors[:MAX_NAMED]:
        say(f"skipped {error}")
    if totals.errors:
        reason = (
            f"{counted(totals.errors, 'bad entry', 'bad entries')} skipped, all of them in "
            f"{options['out'].rstrip('/')}/errors"
        )
        if not options["skip_bad"]:
            raise InputError(f"{reason}; --skip-bad allows that")
        say(reason)
