"""Byte streams that unpack or recode what they read, piece by piece."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from chimeralab.readers.expect import Unreadable

CHUNK = 1 << 16
# One byte of zstd can stand for 32 kB, and a decompressor hands out all it has: feed it little.
ZSTD_CHUNK = 1 << 10


class _Pieces(io.RawIOBase):
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
    return io.BufferedReader(_Pieces(pieces), CHUNK)


def rejoined(head: bytes, rest: BinaryIO) -> Iterator[bytes]:
    yield head
    yield from _chunks(rest, CHUNK)


def from_gzip(packed: BinaryIO) -> Iterator[bytes]:
    try:
        yield from _chunks(gzip.GzipFile(fileobj=packed), CHUNK)
    except EOFError:
        raise Unreadable("the gzip data breaks off; the file is not complete") from None
    except (OSError, zlib.error) as error:
        raise Unreadable(f"the gzip data is damaged ({error})") from None


def from_zstd(packed: BinaryIO) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        for chunk in _chunks(packed, ZSTD_CHUNK):
            data = chunk
            while data:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
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


def _chunks(stream: "BinaryIO | gzip.GzipFile", size: int) -> Iterator[bytes]:
    while chunk := stream.read(size):
        yield chunk
