"""Zip archives whose members may be packed with zstd, which older Pythons don't unpack."""

import io
import struct
import zipfile
import zlib
from typing import BinaryIO

from chimeralab.readers.expect import Unreadable
from chimeralab.readers.streams import from_zstd, stream_of

ZSTD = 93
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD)
MAX_MEMBER = 512 << 20

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


def open_archive(stream: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(stream)
    except _DAMAGE as error:
        raise Unreadable(f"the zip archive is damaged or not complete ({error})") from None


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type not in METHODS:
        raise Unreadable(f"is packed with zip method {member.compress_type}, which is not read")
    if max(member.file_size, member.compress_size) > MAX_MEMBER:
        raise Unreadable(f"is larger than {MAX_MEMBER >> 20} MB")
    try:
        return _unpacked(archive, member)
    except Unreadable:
        raise
    except _DAMAGE as error:
        raise Unreadable(f"is damaged ({error})") from None


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type != ZSTD:
        return archive.read(member)
    packed = io.BytesIO(_packed(archive, member))
    data = stream_of(from_zstd(packed)).read(member.file_size + 1)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise Unreadable("is damaged (its checksum does not match)")
    return data


def _packed(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The bytes of a member as they stand: after its local header, whose last two sizes vary."""
    file = archive.fp
    assert file is not None
    file.seek(member.header_offset)
    header = file.read(30)
    name_size, extra_size = struct.unpack("<HH", header[26:30])
    file.seek(name_size + extra_size, io.SEEK_CUR)
    return file.read(member.compress_size)
