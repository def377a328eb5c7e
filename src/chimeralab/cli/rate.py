"""`chimera rate`: label conversations by the rules of the rubric."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import LOG_OPTIONS, Logs, is_study, with_options
from chimeralab.cli.rate_study import STUDY_OPTIONS, rate_study, refuse_study_options
from chimeralab.cli.terminal import out, plain, say, shortened, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.tables import Columns, check_table_name, open_table
from chimeralab.rating.ratings import Rating, item_of
from chimeralab.rating.rubric import BUILT_IN, load_rubric
from chimeralab.rating.rules import rate_by_rules

COLUMNS: Columns = {
    "item": str, "rater": str, "label": int, "reason": str, "turns": str, "step": str,
    "kinds": str, "rubric": str,
}  # fmt: skip
# Rating needs no vectors, so there is no cache of them to name.
READING_OPTIONS = LOG_OPTIONS[:-1]


@click.command()
@with_options(*READING_OPTIONS)
@click.option(
    "--rubric",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A rubric of your own. Default: the one that comes with the lab, or that of the study.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write them to a .jsonl, .csv or .parquet file; `chimera audit` reads the first two.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per conversation and line.")
@with_options(*STUDY_OPTIONS)
def rate(**options: Any) -> None:
    """Label conversations: 1 for a loop, 0 for none.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Every label comes
    with one sentence that names the turns which decided it.

    Logs are rated by the rules. In a study the rules, models of the plan and people rate; labels
    are stored there, and what a rater has rated is not rated again.
    """
    if is_study(options["paths"]):
        rate_study(options)
        return
    refuse_study_options(options)
    rubric = load_rubric(options["rubric"] or BUILT_IN)
    logs = Logs(options["paths"], options["format"], skip_bad=options["skip_bad"])
    table = _table()
    labels: list[int | None] = []
    with _written(options["out"]) as write:
        for trajectory in with_progress(logs.read(), "conversations"):
            rating = rate_by_rules(item_of(trajectory, options["speaker"]), rubric)
            labels.append(rating.label)
            write(rating)
            if options["as_json"]:
                click.echo(json_text(rating.as_dict()))
            else:
                table.add_row(*_row(rating))
    if not labels:
        raise InputError(f"no conversation could be read from {', '.join(options['paths'])}")
    if not options["as_json"]:
        out.print(table)
    say(
        f"{len(labels)} conversations: {labels.count(1)} labelled 1, {labels.count(0)} labelled 0"
        f" by {rubric.name} {rubric.version} ({rubric.state}, sha256 {rubric.sha256[:12]})"
    )


def _table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("conversation", "label", "step", "reason"):
        table.add_column(heading)
    return table


def _row(rating: Rating) -> list[Text]:
    label = "–" if rating.label is None else str(rating.label)
    cells = (shortened(rating.item, 40), label, rating.step or "–", rating.reason)
    return [Text(plain(cell), style="bold" if rating.label else "") for cell in cells]


@contextmanager
def _written(path: Path | None) -> Iterator[Callable[[Rating], None]]:
    if path is None:
        yield lambda rating: None
        return
    check_table_name(path)
    with open_table(path, COLUMNS) as write:
        yield lambda rating: write(rating.as_dict())
