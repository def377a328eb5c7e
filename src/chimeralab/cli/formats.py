"""`chimera formats`: which logs are read, how each is recognised, and what becomes of it."""

import click
from rich.table import Table

from chimeralab import readers
from chimeralab.cli.options import JSON_OPTION
from chimeralab.cli.terminal import out
from chimeralab.core.files import json_text

COLUMNS = ("name", "recognised", "turns", "left_out")


@click.command()
@JSON_OPTION
def formats(as_json: bool) -> None:
    """List the log formats, how each is recognised, and what becomes a turn."""
    rows = [[getattr(reader, column) for column in COLUMNS] for reader in readers.READERS.values()]
    if as_json:
        click.echo(json_text({"formats": [dict(zip(COLUMNS, row, strict=True)) for row in rows]}))
        return
    table = Table("format", "recognised by", "a turn is", "left out", show_lines=True)
    for row in rows:
        table.add_row(*row)
    out.print(table)
