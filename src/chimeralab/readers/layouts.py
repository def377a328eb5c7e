"""How a log is laid out: JSON, one value per line or over several, a table, or a talk as text."""

from collections.abc import Iterator

from chimeralab.readers.fields import Unreadable
from chimeralab.readers.json_values import JsonValue, items_of
from chimeralab.readers.opening import Opened, read_whole, with_head
from chimeralab.readers.seam import Place, Report
from chimeralab.readers.tables import csv_rows, parquet_rows, separator_of
from chimeralab.readers.transcripts import LABEL, talk_in

JSON_STARTS = ("{", "[")


def values_in(
    file: Opened, place: Place, bad: Report, *, named_columns: bool = False
) -> Iterator[JsonValue]:
    """Every value of a log: JSON, the rows of a table, or the one talk of a text."""
    if file.is_parquet:
        yield from parquet_rows(file.stream, place, bad)
        return
    head, stream = with_head(file.stream)
    lines = head.decode("utf-8-sig", "replace").lstrip().splitlines() or [""]
    if not lines[0].startswith(JSON_STARTS):
        first = next((line for line in lines if line.strip() and line[0] != "#"), "")
        if LABEL.match(first):
            raw = read_whole(stream)
            talk = talk_in(raw.decode("utf-8-sig", "replace"))
            if talk is not None:
                yield JsonValue(talk, 1)
                return
            raise Unreadable(
                "looks like a text of 'Name: text' lines, but no two names come back in it"
            )
        separator = separator_of(lines[0])
        if separator is not None:
            yield from csv_rows(stream, separator, place, bad, sure=named_columns)
            return
    yield from items_of(stream, place, bad)
