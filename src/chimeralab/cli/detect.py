"""`chimera detect`: which conversations collapsed, where, and why."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from chimeralab.cli.detect_sources import judge_logs, judge_study
from chimeralab.cli.detect_table import ResultTable
from chimeralab.cli.options import (
    DETECTOR_OPTIONS,
    LOG_OPTIONS,
    is_study,
    take_detector,
    with_options,
)
from chimeralab.cli.terminal import err, out, say
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.records import Detection
from chimeralab.core.tables import check_table_name, open_table
from chimeralab.detection.verdict import CONVERSATION_COLUMNS, TURN_COLUMNS, as_json, flat_rows


@click.command()
@with_options(*LOG_OPTIONS)
@click.option("--json", "json", is_flag=True, help="One JSON object per conversation and line.")
@click.option("--trace", is_flag=True, help="Add what the detector saw at every turn.")
@click.option("--group-by", metavar="FIELD", help="Summarise by a field such as model, condition.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the results to a .jsonl, .csv or .parquet file.",
)
@click.option("--fail-on-collapse", is_flag=True, help="Exit with 1 if any conversation collapsed.")
@with_options(*DETECTOR_OPTIONS)
def detect(**options: Any) -> None:
    """Say which conversations collapsed, where, and why.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Formats: plain
    JSON lines, OpenAI chat, ShareGPT, Inspect .eval, Claude Code, each also as gzip or zstd.

    A turn is collapsed when it repeats the last turn (similarity at least 0.92) or the one before
    (0.90), and so did the two turns before it. Changing any of these settings leaves the locked
    operating point, and the output says so.
    """
    detector = take_detector(options)
    source = judge_study if is_study(options["paths"]) else judge_logs
    with _written(options["out"], trace=options["trace"]) as write:
        judging = source(detector, options)
        table = ResultTable(options["group_by"])
        for judged in judging.verdicts:
            table.add(*judged)
            write(judged.detection)
            if options["json"]:
                click.echo(json_text(as_json(judged.detection)))
    if not table.conversations:
        raise InputError(f"no conversation could be read from {', '.join(options['paths'])}")
    _print(table, as_json=options["json"], grouped=bool(options["group_by"]))
    say(judging.how())
    if table.collapsed and options["fail_on_collapse"]:
        raise click.exceptions.Exit(1)


@contextmanager
def _written(path: Path | None, *, trace: bool) -> Iterator[Callable[[Detection], None]]:
    """A function that writes a verdict to the file the user asked for, if any."""
    if path is None:
        yield lambda detection: None
        return
    check_table_name(path)
    nested = path.suffix == ".jsonl"
    with open_table(path, TURN_COLUMNS if trace else CONVERSATION_COLUMNS) as write:

        def write_detection(detection: Detection) -> None:
            for row in [as_json(detection)] if nested else flat_rows(detection):
                write(row)

        yield write_detection


def _print(table: ResultTable, *, as_json: bool, grouped: bool) -> None:
    if not as_json:
        table.print_conversations(out)
        table.print_summary(out)
    elif grouped:
        # Standard output holds the JSON lines alone.
        table.print_summary(err)
