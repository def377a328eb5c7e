"""Split large logs for parallel reading: byte ranges of JSON Lines, row groups of Parquet.

A log is split only if each line or row is a conversation. A share gives the same ids, line numbers
and errors as the log read as a whole.
"""

import io
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from chimeralab.core.records import Trajectory
from chimeralab.readers.formats import Formats
from chimeralab.readers.logs import OnBad, ignore, is_json, read_conversations
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
    """A range of bytes or row groups, and the number of its first line or row.

    A line belongs to the share in which it starts. For byte ranges, ``first`` is set once the lines
    before it are counted.
    """

    start: int
    end: int
    first: int = 1


class NeedsWholeLog(Exception):
    """A share has a format whose conversations span several values."""


class _Standalone(Formats):
    """The formats in which each value can be read on its own."""

    def of(self, value: Any) -> Reader:
        reader = super().of(value)
        if type(reader).finish is not Reader.finish:
            raise NeedsWholeLog(f"the format {reader.name}")
        return reader


def split_log(path: str, size: int, chosen: type[Reader] | None = None) -> list[Share]:
    """Split a log into shares of about `size` bytes; empty if it can't be split."""
    try:
        with open_log(path) as file:
            if file.is_decoded or file.is_zip or file.is_sqlite:
                return []
            if file.is_parquet:
                return _row_groups(file.stream, size, chosen)
            if not is_json(file.head.decode("utf-8-sig", "replace").lstrip()):
                return []
            return _byte_ranges(file.stream, path, size, chosen)
    except (NeedsWholeLog, Unreadable, OSError, ValueError):
        return []  # reading it reports the error


def _byte_ranges(
    stream: BinaryIO, path: str, size: int, chosen: type[Reader] | None
) -> list[Share]:
    lines = list(islice(read_lines(stream, file_place(path), ignore), 2))
    if not (lines and lines[0][0].lstrip().startswith(b"{")) or spans_lines(lines):
        return []
    for value, _ in parse_lines(lines, file_place(path), ignore):
        _Standalone(chosen).of(value)
    end = stream.seek(0, io.SEEK_END)
    return [Share(start, min(start + size, end)) for start in range(0, end, size)]


def _row_groups(stream: BinaryIO, size: int, chosen: type[Reader] | None) -> list[Share]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and only Parquet needs it

    stream.seek(0)
    with pq.ParquetFile(stream) as table:
        groups = [table.metadata.row_group(n) for n in range(table.num_row_groups)]
        for batch in islice(table.iter_batches(1), 1):
            _Standalone(chosen).of(batch.to_pylist()[0])
    shares, start, row, rows, size_so_far = [], 0, 1, 0, 0
    for number, group in enumerate(groups, 1):
        size_so_far, rows = size_so_far + group.total_byte_size, rows + group.num_rows
        if size_so_far >= size or number == len(groups):
            shares.append(Share(start, number, row))
            start, row, rows, size_so_far = number, row + rows, 0, 0
    return shares


def count_lines(path: str, share: Share) -> int:
    """Count the lines that start in a share of JSON Lines."""
    with open_log(path) as file:
        return sum(chunk.count(b"\n") for chunk in _chunks(file.stream, share))


def read_share(
    path: str, share: Share, chosen: type[Reader] | None, on_bad: OnBad
) -> Iterator[Trajectory]:
    """Yield the conversations of a share; raises `NeedsWholeLog` if some may extend beyond it."""
    place = file_place(path)

    def report(reason: str, place: Place) -> None:
        on_bad(place.error(reason))

    with open_log(path) as file:
        if file.is_parquet:
            groups = range(share.start, share.end)
            values = parquet_rows(file.stream, place, report, groups, share.first)
        else:
            stream = as_stream(_chunks(file.stream, share))
            values = parse_lines(read_lines(stream, place, report, share.first), place, report)
        try:
            yield from read_conversations(values, _Standalone(chosen), place, report)
        except Unreadable as problem:
            report(str(problem), place)


def _chunks(stream: BinaryIO, share: Share) -> Iterator[bytes]:
    """Yield the bytes of the lines that start in a share."""
    start, end = _line_start(stream, share.start), _line_start(stream, share.end)
    stream.seek(start)
    while chunk := stream.read(min(CHUNK, end - stream.tell())):
        yield chunk


def _line_start(stream: BinaryIO, position: int) -> int:
    """Find the first line that starts at or after a position."""
    if position == 0:
        return 0
    stream.seek(position - 1)
    while (read := stream.readline(MAX_LINE)) and not read.endswith(b"\n"):
        pass
    return stream.tell()
