"""Open a log, compressed or not, and parse the JSON values in it; `-` is standard input."""

import codecs
import gzip
import io
import json
import math
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from chimeralab.core.extras import require_extra
from chimeralab.readers.seam import (
    STANDARD_INPUT,
    Damage,
    Place,
    Report,
    Unreadable,
    file_place,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_LINE = 64 << 20
MAX_MEMORY = 4 << 30
BYTES_PER_VALUE = 72  # a short list, object, text or number, and the reference to it
HEAD = 4096
MAX_WHOLE = 1 << 30
CHUNK = 1 << 16
# Logs of loops compress extremely well, so the ratio is only checked above this size.
FREE_EXPANSION = 64 << 20


@dataclass
class Limits:
    """What a log may have before it is refused; commands set it by --max-turns and --max-expansion.

    It is one for the process, as `csv.field_size_limit` is: logs are opened in many places.
    """

    turns: int = 100_000  # of a conversation; judging 100,000 equal ones takes 20 s
    expansion: int = 100


LIMITS = Limits()
# One byte of zstd can expand to 32 kB, and decompressors return all of it: feed little.
ZSTD_CHUNK = 1 << 10


class ByteStream(io.RawIOBase):
    """A readable stream over an iterator of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        if not self._left:
            self._left = memoryview(next((piece for piece in self._pieces if piece), b""))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def as_stream(pieces: Iterator[bytes]) -> BinaryIO:
    return io.BufferedReader(ByteStream(pieces), CHUNK)


def from_gzip(compressed: BinaryIO) -> Iterator[bytes]:
    try:
        yield from _chunks(gzip.GzipFile(fileobj=compressed), CHUNK)
    except EOFError:
        raise Damage("the gzip data is truncated") from None
    except (OSError, zlib.error) as error:
        raise Damage(f"the gzip data is damaged ({error})") from None


def from_zstd(compressed: BinaryIO) -> Iterator[bytes]:
    frame = zstd.ZstdDecompressor()
    try:
        for chunk in _chunks(compressed, ZSTD_CHUNK):
            data = chunk
            while data:
                if frame.eof:
                    frame = zstd.ZstdDecompressor()
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
    except zstd.ZstdError as error:
        raise Damage(f"the zstd data is damaged ({error})") from None
    if not frame.eof:
        raise Damage("the zstd data is truncated")


def from_utf16(wide: BinaryIO) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")()
    try:
        for chunk in _chunks(wide, CHUNK):
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise Damage(f"not UTF-16 text ({error})") from None


class CompressedStream:
    """A compressed stream that is decompressed up to the allowed ratio."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._read += len(data)
        return data

    def decompress(self, codec: Callable[[BinaryIO], Iterator[bytes]]) -> Iterator[bytes]:
        total = 0
        for piece in codec(cast("BinaryIO", self)):
            total += len(piece)
            check_expansion(self._read, total)
            yield piece


def check_expansion(compressed: int, size: int) -> None:
    """Reject a decompression bomb before it fills the memory."""
    if size > FREE_EXPANSION and size > compressed * LIMITS.expansion:
        raise Unreadable(
            f"decompresses to more than {FREE_EXPANSION >> 20} MB and over {LIMITS.expansion:,} "
            "times its size; if that is expected, allow more with --max-expansion"
        )


def _chunks(stream: "BinaryIO | gzip.GzipFile", size: int) -> Iterator[bytes]:
    while chunk := stream.read(size):
        yield chunk


CODECS: dict[bytes, Callable[[BinaryIO], Iterator[bytes]]] = {
    b"\x1f\x8b": from_gzip,
    b"\x28\xb5\x2f\xfd": from_zstd,
}
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
UTF16 = (b"\xff\xfe", b"\xfe\xff")
PARQUET = b"PAR1"
SQLITE = b"SQLite format 3\0"
NOT_LOGS = {
    b"ARROW1": "an Arrow file; save it as Parquet",
    b"%PDF": "a PDF; save its text as 'Name: text' lines",
    **dict.fromkeys(
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "a Python pickle, which is never loaded as it could run code; dump the messages as JSON",
    ),
}
"""Files often mistaken for logs, by their magic bytes, and what to do instead."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """An open log: UTF-8 text, an SQLite database, or a seekable zip archive or Parquet file."""

    stream: BinaryIO
    head: bytes
    """The first bytes of the stream, which is at its start."""
    is_zip: bool = False
    is_parquet: bool = False
    is_sqlite: bool = False
    is_decoded: bool = False
    """Whether the stream was decompressed or transcoded, so its offsets are not the file's."""


@contextmanager
def open_log(path: str) -> Iterator[LogFile]:
    with ExitStack() as closing:
        try:
            if path == STANDARD_INPUT:
                file: BinaryIO = sys.stdin.buffer
            elif "://" in path:
                require_extra("parquet")
                from pyarrow.fs import FileSystem  # noqa: PLC0415 - large, only for URLs

                files, inside = FileSystem.from_uri(path)
                found = io.BufferedReader(files.open_input_file(inside), CHUNK)
                file = closing.enter_context(found)
            else:
                file = closing.enter_context(Path(path).open("rb"))
            log = _detect(file)
        except OSError as error:
            raise file_place(path).error(f"can't be opened: {error.strerror or error}") from None
        yield log


def _detect(file: BinaryIO) -> LogFile:
    head, stream = _peek(file)
    codec = next((CODECS[magic] for magic in CODECS if head.startswith(magic)), None)
    if codec is not None:
        head, stream = _peek(as_stream(CompressedStream(stream).decompress(codec)))
    if not head:
        raise Unreadable("empty")
    if head.startswith((*ZIP, PARQUET)):
        seekable = stream if stream.seekable() else io.BytesIO(read_whole(stream))
        is_parquet = head.startswith(PARQUET)
        return LogFile(seekable, head, not is_parquet, is_parquet, is_decoded=codec is not None)
    if head.startswith(SQLITE):
        return LogFile(stream, head, is_sqlite=True, is_decoded=codec is not None)
    if head.startswith(UTF16):
        head, stream = _peek(as_stream(from_utf16(stream)))
        return LogFile(stream, head, is_decoded=True)
    for magic, advice in NOT_LOGS.items():
        if head.startswith(magic):
            raise Unreadable(advice)
    if b"\0" in head:
        raise Unreadable("not a text log")
    return LogFile(stream, head, is_decoded=codec is not None)


def _peek(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """Peek at the first bytes of a stream; returns them and the stream at its start."""
    head = stream.read(HEAD)
    if stream.seekable():
        stream.seek(-len(head), io.SEEK_CUR)
        return head, stream
    return head, as_stream(chain([head], _chunks(stream, CHUNK)))


def read_whole(stream: BinaryIO) -> bytes:
    """Read the rest of a stream into memory, up to a limit."""
    try:
        data = stream.read(MAX_WHOLE + 1)
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror}") from None
    if len(data) > MAX_WHOLE:
        raise Unreadable(
            f"larger than {MAX_WHOLE >> 20} MB but not JSON Lines; write one conversation per line"
        )
    return data


ZSTD = 93
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD)
MAX_MEMBER = 512 << 20

_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError,
    ValueError,
)  # fmt: skip


def open_archive(stream: BinaryIO) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(stream)
        size = stream.seek(0, io.SEEK_END)
    except _DAMAGE as error:
        raise Damage(f"the zip archive is damaged or truncated ({error})") from None
    check_expansion(size, sum(member.file_size for member in archive.infolist()))
    return archive


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type not in METHODS:
        raise Unreadable(f"compressed with unsupported zip method {member.compress_type}")
    if max(member.file_size, member.compress_size) > MAX_MEMBER:
        raise Unreadable(f"larger than {MAX_MEMBER >> 20} MB")
    try:
        if member.compress_type != ZSTD:
            return archive.read(member)
        # zipfile reads zstd from Python 3.14 on. The data follows a local header of variable size.
        file = archive.fp
        assert file is not None
        file.seek(member.header_offset)
        name_size, extra_size = struct.unpack("<HH", file.read(30)[26:30])
        file.seek(name_size + extra_size, io.SEEK_CUR)
        compressed = io.BytesIO(file.read(member.compress_size))
        data = as_stream(from_zstd(compressed)).read(member.file_size + 1)
    except Unreadable:
        raise
    except _DAMAGE as error:
        raise Unreadable(f"damaged ({error})") from None
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise Unreadable("damaged (its checksum does not match)")
    return data


# NaN and infinities are not JSON; they become None.
_DECODER = json.JSONDecoder(
    parse_constant=lambda name: None,
    parse_float=lambda digits: number if math.isfinite(number := float(digits)) else None,
)
_BLANKS = re.compile(r"[ \t\r\n]*")


def parse_value(raw: bytes) -> Any:
    """Parse one JSON value.

    >>> parse_value(b'{"turns": ["Hi"], "score": NaN}')
    {'turns': ['Hi'], 'score': None}
    """
    _check_memory(raw)
    try:
        return _DECODER.decode(raw.decode())
    except (ValueError, RecursionError) as error:
        raise _explain(error) from None


def parse_values(raw: bytes) -> Iterator[tuple[Any, int]]:
    """Parse consecutive JSON values over any number of lines, each with its first line.

    >>> list(parse_values(b'{"id":\\n 1}\\n[2]'))
    [({'id': 1}, 1), ([2], 3)]
    """
    _check_memory(raw)
    try:
        text = raw.decode()
        line, end = 1, 0
        while (blanks := _BLANKS.match(text, end)) and (start := blanks.end()) < len(text):
            line += text.count("\n", end, start)
            value, after = _DECODER.raw_decode(text, start)
            yield value, line
            line += text.count("\n", start, after)
            end = after
    except (ValueError, RecursionError) as error:
        raise _explain(error) from None


def _check_memory(raw: bytes) -> None:
    """Reject JSON, such as nested empty lists, that takes many times its size as values."""
    values = sum(raw.count(mark) for mark in (b"[", b"{", b",", b":"))
    if 3 * len(raw) + BYTES_PER_VALUE * values > MAX_MEMORY:
        raise Unreadable(
            f"needs more than {MAX_MEMORY >> 30} GB of memory; write one conversation per line"
        )


def _explain(error: ValueError | RecursionError) -> Unreadable:
    match error:
        case RecursionError():
            return Unreadable("the JSON is nested too deeply")
        case UnicodeDecodeError():
            byte = error.object[error.start]
            return Unreadable(f"not UTF-8 text (byte 0x{byte:02x} at offset {error.start})")
        case json.JSONDecodeError():
            end = len(error.doc.rstrip())
            if error.pos >= end:  # name the last line with text, not the blank ones after it
                error = json.JSONDecodeError(error.msg, error.doc, end)
            ends = error.pos >= end or error.msg.startswith("Unterminated")
            what = "the JSON is truncated" if ends else "not valid JSON"
            return Unreadable(f"{what} at column {error.colno} ({error.msg})", error.lineno)
        case _:
            return Unreadable("an integer has too many digits")


def read_json(stream: BinaryIO, place: Place, report: Report) -> Iterator[tuple[Any, Place]]:
    """Yield every JSON value of a log. JSON Lines are streamed; other JSON is loaded whole."""
    lines = read_lines(stream, place, report)
    start = list(islice(lines, 2))
    if not spans_lines(start):
        yield from parse_lines(chain(start, lines), place, report)
        return
    (first, number), (second, second_number) = start
    blank_lines = b"\n" * (second_number - number - 1)
    try:
        for value, line in parse_values(first + blank_lines + second + read_whole(stream)):
            yield value, place.at(line + number - 1)
    except Unreadable as problem:
        report(str(problem), place.at(problem.line + number - 1))


def spans_lines(lines: Sequence[tuple[bytes, int]]) -> bool:
    """Whether a JSON value continues from the first line to the second."""
    if len(lines) < 2:
        return False
    (first, _), (second, _) = lines
    ends_open = first.rstrip().endswith((b"[", b"{", b",", b":"))
    return ends_open or second.lstrip().startswith((b",", b"]", b"}"))


def parse_lines(
    lines: Iterable[tuple[bytes, int]], place: Place, report: Report
) -> Iterator[tuple[Any, Place]]:
    """Parse lines with one JSON value each."""
    for raw, number in lines:
        try:
            value = parse_value(raw)
        except Unreadable as problem:
            report(str(problem), place.at(number))
        else:
            yield value, place.at(number)


def read_lines(
    stream: BinaryIO, place: Place, report: Report, number: int = 1
) -> Iterator[tuple[bytes, int]]:
    """Yield the non-blank lines with their line numbers, counted from `number`."""
    try:
        while raw := stream.readline(MAX_LINE + 1):
            if len(raw) > MAX_LINE:
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(MAX_LINE + 1)
                reason = f"the line is longer than {MAX_LINE >> 20} MB; put less on one line"
                report(reason, place.at(number))
            elif not raw.isspace():
                yield raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, number
            else:
                number += _skip_blank_lines(stream)
            number += 1
    except (OSError, Unreadable) as problem:
        report(str(problem), place.at(number))


def _skip_blank_lines(stream: BinaryIO) -> int:
    """Skip blank lines a buffer at a time, since there may be millions; returns their count."""
    skipped = 0
    while isinstance(stream, io.BufferedReader) and (ahead := stream.peek()):
        blanks = len(ahead) - len(ahead.lstrip())
        end = ahead.rfind(b"\n", 0, blanks) + 1
        skipped += stream.read(end).count(b"\n")
        if end < len(ahead):
            break
    return skipped
