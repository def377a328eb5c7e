"""`chimera compare`: two tables of runs, or two studies, side by side."""

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from chimeralab.cli.analyse import NUMBER_OPTIONS, asked_for, open_study, take_runs
from chimeralab.cli.estimate_tables import (
    LEGEND,
    comparisons,
    new_table,
    print_lines,
    print_tables,
)
from chimeralab.cli.options import with_options
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.numbers import NONE, between, number, p_value
from chimeralab.core.result_words import MARK
from chimeralab.selfplay.outcomes import EXPLORATORY
from chimeralab.selfplay.replication import Replication, compare

runs_path = click.Path(path_type=Path)


@click.command("compare")
@click.argument("a", metavar="A", type=runs_path)
@click.argument("b", metavar="B", type=runs_path)
@click.option(
    "--match",
    multiple=True,
    metavar="X=Y",
    help="Compare condition Y of B with X of A. Default: equal names.",
)
@click.option(
    "--paired/--separate",
    default=None,
    help="Pair the tables by seed prompt, or not. Default: paired when all seed ids are the same.",
)
@with_options(*NUMBER_OPTIONS)
def compare_command(a: Path, b: Path, **options: Any) -> None:
    """Compare two tables of runs or studies: A minus B, condition by condition and pair by pair."""
    ours, theirs = (take_runs(path, open_study(path))[0] for path in (a, b))
    result = compare(
        ours,
        theirs,
        asked_for(EXPLORATORY, options),
        match=dict(matched(text) for text in options["match"]),
        paired=options["paired"],
    )
    if options["json"]:
        click.echo(json_text(result.as_dict()))
    else:
        print_replication(result)


def matched(text: str) -> tuple[str, str]:
    """A condition of A and the one of B that stands for it."""
    ours, equals, theirs = text.partition("=")
    if not (equals and ours.strip() and theirs.strip()):
        raise InputError(f"--match {text!r}: write X=Y, a condition of A and its namesake in B")
    return ours.strip(), theirs.strip()


def print_replication(found: Replication) -> None:
    """Two tables of runs side by side."""
    shares, times = (
        [measures[name] for measures in found.conditions.values()]
        for name in ("share", "restricted_mean")
    )
    print_tables(
        comparisons(f"Share of {MARK.turns}", shares),
        comparisons(f"Mean turns to the first {MARK.event} (RMST)", times, 1),
    )
    if found.pairs:
        print_tables(changes(found))
    same = "the same" if found.order_a == found.order_b else "not the same"
    orders = (" > ".join(order) for order in (found.order_a, found.order_b))
    alone = ((found.a, found.only_in_a), (found.b, found.only_in_b))
    missing = (f"only in {table}: {', '.join(names)}" for table, names in alone if names)
    print_lines([f"The order of the conditions is {same}: {' | '.join(orders)}.", ""])
    print_lines((*found.notes, *missing, LEGEND.format(event=MARK.event)), style="dim")


def changes(found: Replication) -> Table:
    """Each difference between two conditions in both tables, and how far it moved."""
    headings = ("in A", "in B", "moved", "interval", "Holm p", "naive p", "ratio", "sign")
    title = f"Difference in the share of {MARK.turns}, in A and in B"
    rows = [
        (
            f"{each.first} − {each.second}",
            *(number(part.estimate, 3) for part in (each.in_a, each.in_b, each.moved)),
            between(each.moved.interval, 3),
            p_value(each.moved.p_holm),
            p_value(each.moved.naive_p),
            number(each.moved.se_ratio, 2),
            {True: "same", False: "OTHER", None: NONE}[each.same_direction],
        )
        for each in found.pairs
    ]
    return new_table(title, ("pair", *headings), rows)
