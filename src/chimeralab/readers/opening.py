"""Opens a log, packed or not, as a stream of its text; `-` is standard input."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from chimeralab.readers.expect import Unreadable
from chimeralab.readers.places import STANDARD_INPUT, place_of
from chimeralab.readers.streams import from_gzip, from_utf16, from_zstd, rejoined, stream_of

HEAD = 4096
MAX_WHOLE = 1 << 30

PACKED: dict[bytes, Callable[[BinaryIO], Iterator[bytes]]] = {
    b"\x1f\x8b": from_gzip,
    b"\x28\xb5\x2f\xfd": from_zstd,
}
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open log: UTF-8 text, or a zip archive that can be searched."""

    stream: BinaryIO
    is_zip: bool


@contextmanager
def opened(path: str) -> Iterator[Opened]:
    with ExitStack() as closing:
        try:
            file = closing.enter_context(_source(path))
            recognised = _recognised(_unpacked(_with_head(file)))
        except OSError as error:
            raise place_of(path).error(f"can't be opened: {error.strerror}") from None
        yield recognised


def _source(path: str) -> AbstractContextManager[BinaryIO]:
    if path == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)
    return Path(path).open("rb")


@dataclass(frozen=True, slots=True)
class _Headed:
    """A stream at its beginning, with a look at its first bytes."""

    head: bytes
    stream: BinaryIO


def _with_head(stream: BinaryIO) -> _Headed:
    head = stream.read(HEAD)
    if stream.seekable():
        stream.seek(-len(head), io.SEEK_CUR)
        return _Headed(head, stream)
    return _Headed(head, stream_of(rejoined(head, stream)))


def _unpacked(file: _Headed) -> _Headed:
    for magic, unpack in PACKED.items():
        if file.head.startswith(magic):
            return _with_head(stream_of(unpack(file.stream)))
    return file


def _recognised(file: _Headed) -> Opened:
    if not file.head:
        raise Unreadable("is empty")
    if file.head.startswith(ZIP):
        return Opened(_searchable(file.stream), is_zip=True)
    if file.head.startswith(UTF16):
        return Opened(stream_of(from_utf16(file.stream)), is_zip=False)
    if b"\0" in file.head:
        raise Unreadable("is not a text log")
    return Opened(file.stream, is_zip=False)


def _searchable(stream: BinaryIO) -> BinaryIO:
    if stream.seekable():
        return stream
    return io.BytesIO(read_whole(stream))


def read_whole(stream: BinaryIO) -> bytes:
    """All that is left of a stream that must be held at once, up to a limit."""
    try:
        data = stream.read(MAX_WHOLE + 1)
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror}") from None
    if len(data) > MAX_WHOLE:
        raise Unreadable(
            f"is larger than {MAX_WHOLE >> 20} MB but no JSON Lines; write one conversation a line"
        )
    return data
