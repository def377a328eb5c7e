"""`chimera sweep`: judge the same similarities with a grid of thresholds."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import (
    LOG_OPTIONS,
    READING_OPTIONS,
    check_group_field,
    group_name,
    is_study,
    read_logs,
    with_options,
)
from chimeralab.cli.terminal import out, percent, sanitize, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.result_words import MARK
from chimeralab.core.schema import json_text
from chimeralab.detection.locked import LOCKED, READINGS, LockedRule
from chimeralab.detection.measure import measure
from chimeralab.detection.sweep import STUDY_GRID, Sweep, Sweeper, all_cutoffs, grid_of
from chimeralab.embedding.encoder import open_encoder

CONDITION = "condition"


def _values(_context: click.Context, _option: click.Parameter, text: str) -> tuple[float, ...]:
    try:
        return tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 0.90,0.92") from error


GRID_OPTIONS = tuple(
    click.option(
        f"--{name}",
        default=",".join(f"{value:.2f}" for value in values),
        callback=_values,
        metavar="X,Y,…",
        show_default=True,
        help=f"Values of {name} to try.",
    )
    for name, values in STUDY_GRID.items()
)


@click.command()
@with_options(*LOG_OPTIONS, *GRID_OPTIONS, *READING_OPTIONS)
@click.option(
    "--group-by",
    metavar="FIELD",
    help=f"Compare groups by this field. [default: {CONDITION}, if any]",
)
@click.option(
    "--within",
    multiple=True,
    metavar="FIELD",
    help="Also count the units (such as seeds) in which the groups keep their order; repeatable.",
)
@click.option("--json", is_flag=True, help="Print one JSON object with every point of the grid.")
def sweep(**options: Any) -> None:
    """Test how results depend on the thresholds of the collapse detector.

    Similarities are computed once, then judged at every point of a grid of thresholds. Points that
    always agree count as one detector. The default grid is that of the preregistered study.

    \b
    Example:
      chimera sweep logs/ --group-by model --s1 0.90,0.92,0.94
    """
    if is_study(options["paths"]):
        path = options["paths"][0]
        raise InputError(
            f"{path} is a study; to vary its thresholds, use `chimera analyse {path} --robustness`"
        )
    base = LockedRule(**{name: options[name] for name in ("window", *READINGS)})
    grid = grid_of(base, {name: options[name] for name in STUDY_GRID})
    coming = measure(
        read_logs(options),
        open_encoder(options["cache"]),
        all_cutoffs(grid),
        speaker=options["speaker"],
        skip_blank=base.empty == "skip",
    )
    sweeper = Sweeper(grid, options["within"])
    judged: Counter[str] = Counter()
    groups, fields = set[str](), set[str]()
    for measured in with_progress(coming, "conversations"):
        field = options["group_by"] or CONDITION
        group = group_name(measured.trajectory, measured.positions, field)
        sweeper.add(measured, group)
        judged[measured.judged] += 1
        groups.add(group)
        fields |= measured.trajectory.metadata.keys()
    if options["group_by"]:
        check_group_field(options["group_by"], groups, fields)
    result = sweeper.result(reference=LOCKED)
    if options["json"]:
        click.echo(json_text(result.as_dict()))
    else:
        _print(result, judged)


def _print(result: Sweep, whose: Mapping[str, int]) -> None:
    judged = result.conversations - result.without_verdict
    out.print(
        f"{result.cells} cells, {result.distinct_detectors} distinct detectors,"
        f" {result.distinct_outcomes} different outcomes on {judged:,} conversations"
        f" ({result.without_verdict:,} too short for a verdict)."
    )
    turns = (f"{who} in {plural(talks, 'conversation')}" for who, talks in whose.items())
    out.print(Text(sanitize(f"Judged: {'; '.join(turns)}.")))
    if not judged:
        return
    low, high = percent(result.lowest_rate), percent(result.highest_rate)
    out.print(f"Mean share of {MARK.turns}: from {low} to {high}.\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (*STUDY_GRID, "cells", "all"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in result.reference_order:
        table.add_column(Text(sanitize(name)), justify="right")
    for point in result.points:
        settings = [f"{getattr(point.settings, field):.2f}" for field in STUDY_GRID]
        shares = [percent(point.rates[name]) for name in result.reference_order]
        style = "bold" if not point.settings.changed else ""
        table.add_row(*settings, str(point.cells), percent(point.rate), *shares, style=style)
    out.print(table)
    if len(result.reference_order) < 2:
        return
    order = " > ".join(sanitize(name) for name in result.reference_order)
    out.print(Text(f"\nOrder at the locked point: {order}"))
    out.print(
        f"{result.same_order_points} of {result.distinct_detectors} detectors give this order"
        f" ({plural(result.orders, 'distinct order')})."
    )
    for each in result.stability:
        fewest, most = each["fewest"], each["most"]
        span = str(most) if fewest == most else f"{fewest} to {most}"
        field, units = sanitize(each["field"]), each["units"]
        out.print(Text(f"By {field}: the order of the means holds in {span} of {units}."))
