"""Large logs in shares that are read apart: stretches of JSON Lines, or row groups of Parquet.

A log is shared out only where each line or row is a conversation of its own. What a share gives is
what the log as a whole gives there: the same ids, lines and errors.
"""

import io
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.formats import Formats
from chimeralab.readers.logs import OnBad, ignore, read_conversations
from chimeralab.readers.seam import Place, Reader, Unreadable, file_place
from chimeralab.readers.streams import (
    CHUNK,
    MAX_LINE,
    as_stream,
    open_log,
    parse_lines,
    read_lines,
    spans_lines,
)
from chimeralab.readers.tables import parquet_rows


class Share(NamedTuple):
    """From one byte to another, or from one row group, and the number of its first line or row.

    A line belongs to the share in which it starts. The first line of bytes that are not the first
    is not known until the lines before them are counted.
    """

    start: int
    end: int
    first: int = 1


class NeedsWholeLog(Exception):
    """A value in a share is of a format whose conversations lie across values."""


class _Standalone(Formats):
    """The formats in which a value can be read without those before and behind it."""

    def of(self, value: Any) -> Reader:
        reader = super().of(value)
        if type(reader).finish is not Reader.finish:
            raise NeedsWholeLog(f"the format {reader.name}")
        return reader


def split_log(path: str, size: int, asked: type[Reader] | None = None) -> list[Share]:
    """The shares of a log, of about so many bytes each; none where it has to stay whole."""
    try:
        with open_log(path) as file:
            if file.is_unpacked or file.is_zip:
                return []
            if file.is_parquet:
                return _row_groups(file.stream, size, asked)
            return _stretches(file.stream, path, size, asked)
    except (NeedsWholeLog, Unreadable, OSError, ValueError):
        return []  # whoever reads it will say what is wrong


def _stretches(stream: BinaryIO, path: str, size: int, asked: type[Reader] | None) -> list[Share]:
    lines = list(islice(read_lines(stream, file_place(path), ignore), 2))
    if not (lines and lines[0][0].lstrip().startswith(b"{")) or spans_lines(lines):
        return []
    for value, _ in parse_lines(lines, file_place(path), ignore):
        _Standalone(asked).of(value)
    end = stream.seek(0, io.SEEK_END)
    return [Share(start, min(start + size, end)) for start in range(0, end, size)]


def _row_groups(stream: BinaryIO, size: int, asked: type[Reader] | None) -> list[Share]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and only Parquet needs it

    stream.seek(0)
    with pq.ParquetFile(stream) as table:
        groups = [table.metadata.row_group(n) for n in range(table.num_row_groups)]
        for batch in islice(table.iter_batches(1), 1):
            _Standalone(asked).of(batch.to_pylist()[0])
    shares, start, row, rows, held = [], 0, 1, 0, 0
    for number, group in enumerate(groups, 1):
        held, rows = held + group.total_byte_size, rows + group.num_rows
        if held >= size or number == len(groups):
            shares.append(Share(start, number, row))
            start, row, rows, held = number, row + rows, 0, 0
    return shares


def count_lines(path: str, share: Share) -> int:
    """How many lines start in a share of JSON Lines."""
    with open_log(path) as file:
        return sum(chunk.count(b"\n") for chunk in _chunks(file.stream, share))


def read_share(
    path: str, share: Share, asked: type[Reader] | None, on_bad: OnBad
) -> Iterator[Trajectory]:
    """The conversations of a share; raises `NeedsTheWholeLog` where some may reach beyond it."""
    place = file_place(path)

    def bad(reason: str, place: Place) -> None:
        on_bad(place.error(reason))

    with open_log(path) as file:
        if file.is_parquet:
            groups = range(share.start, share.end)
            values = parquet_rows(file.stream, place, bad, groups, share.first)
        else:
            stream = as_stream(_chunks(file.stream, share))
            values = parse_lines(read_lines(stream, place, bad, share.first), place, bad)
        try:
            yield from read_conversations(values, _Standalone(asked), place, bad)
        except Unreadable as problem:
            bad(str(problem), place)


def _chunks(stream: BinaryIO, share: Share) -> Iterator[bytes]:
    """The bytes of the lines that start in a share."""
    start, end = _line_start(stream, share.start), _line_start(stream, share.end)
    stream.seek(start)
    while chunk := stream.read(min(CHUNK, end - stream.tell())):
        yield chunk


def _line_start(stream: BinaryIO, position: int) -> int:
    """The first start of a line from here on."""
    if position == 0:
        return 0
    stream.seek(position - 1)
    while (read := stream.readline(MAX_LINE)) and not read.endswith(b"\n"):
        pass
    return stream.tell()
