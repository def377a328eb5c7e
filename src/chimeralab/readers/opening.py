"""Opens a log, packed or not, as a stream of its text; `-` is standard input.

Zip archives may have members packed with zstd, which older Pythons don't unpack.
"""

import codecs
import gzip
import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from chimeralab.core.extras import need
from chimeralab.readers.seam import STANDARD_INPUT, Unreadable, place_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HEAD = 4096
MAX_WHOLE = 1 << 30
CHUNK = 1 << 16
# A log of loops may well shrink to a thousandth, so a small one is read however it is packed.
FREE_EXPANSION = 64 << 20
MOST_EXPANSION = 100
# One byte of zstd can stand for 32 kB, and a decompressor hands out all it has: feed it little.
ZSTD_CHUNK = 1 << 10


class ByteStream(io.RawIOBase):
    """A readable stream over pieces of bytes made on demand."""

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


def stream_of(pieces: Iterator[bytes]) -> BinaryIO:
    return io.BufferedReader(ByteStream(pieces), CHUNK)


def from_gzip(packed: BinaryIO) -> Iterator[bytes]:
    try:
        yield from _chunks(gzip.GzipFile(fileobj=packed), CHUNK)
    except EOFError:
        raise Unreadable("the gzip data breaks off; the file is not complete") from None
    except (OSError, zlib.error) as error:
        raise Unreadable(f"the gzip data is damaged ({error})") from None


def from_zstd(packed: BinaryIO) -> Iterator[bytes]:
    frame = zstd.ZstdDecompressor()
    try:
        for chunk in _chunks(packed, ZSTD_CHUNK):
            data = chunk
            while data:
                if frame.eof:
                    frame = zstd.ZstdDecompressor()
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
    except zstd.ZstdError as error:
        raise Unreadable(f"the zstd data is damaged ({error})") from None
    if not frame.eof:
        raise Unreadable("the zstd data breaks off; the file is not complete")


def from_utf16(wide: BinaryIO) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")()
    try:
        for chunk in _chunks(wide, CHUNK):
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise Unreadable(f"not UTF-16 text ({error})") from None


class Packed:
    """A packed stream, unpacked until it is more than what was read of it can honestly hold."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._read += len(data)
        return data

    def unpack(self, by: Callable[[BinaryIO], Iterator[bytes]]) -> Iterator[bytes]:
        total = 0
        for piece in by(cast("BinaryIO", self)):
            total += len(piece)
            refuse_bomb(self._read, total)
            yield piece


def refuse_bomb(packed: int, unpacked: int) -> None:
    """Raise when so few packed bytes give so many that reading on could fill the memory."""
    if unpacked > FREE_EXPANSION and unpacked > packed * MOST_EXPANSION:
        raise Unreadable(
            f"unpacks to more than {FREE_EXPANSION >> 20} MB and over {MOST_EXPANSION} times its "
            "size; unpack it yourself if it is meant to be read"
        )


def _chunks(stream: "BinaryIO | gzip.GzipFile", size: int) -> Iterator[bytes]:
    while chunk := stream.read(size):
        yield chunk


PACKED: dict[bytes, Callable[[BinaryIO], Iterator[bytes]]] = {
    b"\x1f\x8b": from_gzip,
    b"\x28\xb5\x2f\xfd": from_zstd,
}
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
UTF16 = (b"\xff\xfe", b"\xfe\xff")
PARQUET = b"PAR1"
NO_LOGS = {
    b"SQLite format 3": "is an SQLite database; export the conversations as JSON Lines or CSV",
    b"ARROW1": "is an Arrow file; save it as Parquet",
    b"%PDF": "is a PDF; save its text as 'Name: text' lines",
    **{
        bytes([0x80, version]): "is a Python pickle, which is never loaded as it may run code; "
        "dump the messages as JSON"
        for version in range(2, 6)
    },
}
"""What is often handed in for a log, by its first bytes, and the way out."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open log: UTF-8 text, or a zip archive or Parquet file that can be searched."""

    stream: BinaryIO
    head: bytes
    """The first bytes of the stream, which stands at its beginning."""
    is_zip: bool = False
    is_parquet: bool = False
    is_unpacked: bool = False
    """Whether the stream is not the file as it lies there, so that no place in it can be sought."""


@contextmanager
def opened(path: str) -> Iterator[Opened]:
    with ExitStack() as closing:
        try:
            if path == STANDARD_INPUT:
                file: BinaryIO = sys.stdin.buffer
            elif "://" in path:
                need("parquet")
                from pyarrow.fs import FileSystem  # noqa: PLC0415 - large, for addresses alone

                files, inside = FileSystem.from_uri(path)
                found = io.BufferedReader(files.open_input_file(inside), CHUNK)
                file = closing.enter_context(found)
            else:
                file = closing.enter_context(Path(path).open("rb"))
            recognised = _recognised(file)
        except OSError as error:
            raise place_of(path).error(f"can't be opened: {error.strerror or error}") from None
        yield recognised


def _recognised(file: BinaryIO) -> Opened:
    head, stream = _with_head(file)
    unpack = next((PACKED[magic] for magic in PACKED if head.startswith(magic)), None)
    is_packed = unpack is not None
    if unpack is not None:
        head, stream = _with_head(stream_of(Packed(stream).unpack(unpack)))
    if not head:
        raise Unreadable("is empty")
    if head.startswith((*ZIP, PARQUET)):
        searchable = stream if stream.seekable() else io.BytesIO(read_whole(stream))
        is_parquet = head.startswith(PARQUET)
        return Opened(searchable, head, not is_parquet, is_parquet, is_packed)
    if head.startswith(UTF16):
        head, stream = _with_head(stream_of(from_utf16(stream)))
        return Opened(stream, head, is_unpacked=True)
    for magic, advice in NO_LOGS.items():
        if head.startswith(magic):
            raise Unreadable(advice)
    if b"\0" in head:
        raise Unreadable("is not a text log")
    return Opened(stream, head, is_unpacked=is_packed)


def _with_head(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """A look at the first bytes of a stream, and the stream at its beginning."""
    head = stream.read(HEAD)
    if stream.seekable():
        stream.seek(-len(head), io.SEEK_CUR)
        return head, stream
    return head, stream_of(chain([head], _chunks(stream, CHUNK)))


def read_whole(stream: BinaryIO) -> bytes:
    """All that is left of a stream that must be held at once, up to a limit."""
    try:
        data = stream.read(MAX_WHOLE + 1)
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror}") from None
    if len(data) > MAX_WHOLE:
        raise Unreadable(
            f"is larger than {MAX_WHOLE >> 20} MB but not JSON Lines; "
            "write one conversation per line"
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
        raise Unreadable(f"the zip archive is damaged or not complete ({error})") from None
    refuse_bomb(size, sum(member.file_size for member in archive.infolist()))
    return archive


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type not in METHODS:
        raise Unreadable(f"is packed with zip method {member.compress_type}, which is not read")
    if max(member.file_size, member.compress_size) > MAX_MEMBER:
        raise Unreadable(f"is larger than {MAX_MEMBER >> 20} MB")
    try:
        if member.compress_type != ZSTD:
            return archive.read(member)
        # A member stands behind its local header, whose last two sizes vary.
        file = archive.fp
        assert file is not None
        file.seek(member.header_offset)
        name_size, extra_size = struct.unpack("<HH", file.read(30)[26:30])
        file.seek(name_size + extra_size, io.SEEK_CUR)
        packed = io.BytesIO(file.read(member.compress_size))
        data = stream_of(from_zstd(packed)).read(member.file_size + 1)
    except Unreadable:
        raise
    except _DAMAGE as error:
        raise Unreadable(f"is damaged ({error})") from None
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise Unreadable("is damaged (its checksum does not match)")
    return data
