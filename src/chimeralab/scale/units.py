"""What a job is made of: files, or shares of large ones, and the name of the part of each."""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Sequence
from glob import glob, has_magic
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self

from chimeralab.core.errors import InputError
from chimeralab.readers.seam import Reader
from chimeralab.readers.shares import Share, shares_of
from chimeralab.scale.results import located, said

ENDINGS = tuple(
    kind + packed
    for kind in (".jsonl", ".ndjson", ".json", ".parquet")
    for packed in ("", ".gz", ".zst")
)


# What a worker makes of one share: a minute or a few with vectors, seconds with words alone.
SHARE_BYTES = 16 << 20


class Unit(NamedTuple):
    """A file to judge, or a share of one, and the name of its part in the folder of results.

    The name tells the file, its state and how it is judged, and which share it is, so that a part
    of a file that has changed since is recognised as such.
    """

    source: str
    part: str
    share: Share | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """A unit that was sent as JSON."""
        source, part, share = json.loads(text)
        return cls(source, part, share and Share(*share))

    @property
    def needs_counting(self) -> bool:
        """Whether it is a stretch of lines whose first line is not known."""
        return self.share is not None and self.share.start > 0 and self.share.first == 1


class Split(NamedTuple):
    """A file as one unit, and as shares if it can be read in shares."""

    whole: Unit
    shares: tuple[Unit, ...] = ()

    def units(self, there: Container[str]) -> tuple[Unit, ...]:
        """The units to make, given the parts that are there."""
        return self.shares if self.shares and self.whole.part not in there else (self.whole,)


def split(source: str, judged: str, asked: type[Reader] | None) -> Split:
    """The units of a file; `judged` says how it is judged."""
    files, path = located(source)
    state = files.get_file_info(path)
    keys = source, repr((state.size, state.mtime_ns, judged))
    name = "part-" + "-".join(map(_short_hash, keys))
    whole = Unit(source, f"{name}.parquet")
    if state.size is None or state.size <= SHARE_BYTES:
        return Split(whole)
    shares = enumerate(shares_of(source, SHARE_BYTES, asked), 1)
    return Split(
        whole,
        tuple(Unit(source, f"{name}-{SHARE_BYTES}-{n:06}.parquet", share) for n, share in shares),
    )


def counted(units: Sequence[Unit], lines: Sequence[int]) -> list[Unit]:
    """The shares of one file with their first lines, given how many lines each has."""
    firsts = accumulate(lines, initial=1)
    return [
        unit._replace(share=unit.share and unit.share._replace(first=first))
        for unit, first in zip(units, firsts, strict=False)
    ]


def file_key(name: str) -> str:
    """What the name of a part, finished or not, tells of the file it is of."""
    return name.removeprefix(".").split("-")[1]


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def find_files(sources: Iterable[str]) -> list[str]:
    """The JSONL and Parquet files at the sources, each once; in a folder, at any depth.

    Unlike `readers.find_logs` this opens none of them: a broken one is to be named by the job.
    """
    found: dict[str, None] = {}
    for source in sources:
        files = list(_files_at(source))
        if not files:
            endings = ", ".join(ENDINGS[::3])
            raise InputError(f"{source}: there is no file that ends in {endings} (or .gz, .zst)")
        found |= dict.fromkeys(files)
    return list(found)


def _files_at(source: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

    if "://" not in source and has_magic(source) and not Path(source).exists():
        for each in sorted(glob(source, recursive=True)):  # noqa: PTH207 - may be absolute
            yield from _files_at(each)
        return
    files, path = located(source)
    try:
        kind = files.get_file_info(path).type
        if kind == FileType.NotFound:
            raise InputError(f"{source}: no such file or folder")
        if kind == FileType.File:
            yield source if "://" in source else path
            return
        inside = files.get_file_info(FileSelector(path, recursive=True))
    except InputError:
        raise
    except Exception as error:  # each kind of store raises its own
        raise InputError(f"{source}: can't be read ({said(error)})") from None
    start = source.rstrip("/") if "://" in source else path
    for each in sorted(inside, key=lambda info: info.path):
        below = each.path[len(path.rstrip("/")) :]
        hidden = any(name.startswith((".", "_")) for name in below.split("/"))
        if each.type == FileType.File and not hidden and below.lower().endswith(ENDINGS):
            yield start + below
