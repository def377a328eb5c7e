"""The units of work of a job, and the folder of results."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import uuid4

from chimeralab.core.errors import InputError
from chimeralab.core.extras import require_extra
from chimeralab.core.tables import Columns, write_parquet
from chimeralab.readers.seam import Reader
from chimeralab.readers.shares import Share, split_log

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

ENDINGS = tuple(
    kind + packed
    for kind in (".jsonl", ".ndjson", ".json", ".parquet")
    for packed in ("", ".gz", ".zst")
)
# A worker takes a few minutes per share with vectors, and seconds without.
SHARE_BYTES = 16 << 20


class WorkUnit(NamedTuple):
    """A file to judge, or a share of one, and the name of its part in the results.

    The name encodes the file, its size and time, the settings and the share, so that parts of a
    changed file are recognised.
    """

    source: str
    part: str
    share: Share | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a unit from JSON."""
        source, part, share = json.loads(text)
        return cls(source, part, share and Share(*share))


def plan_units(
    source: str, judged: str, chosen: type[Reader] | None
) -> tuple[WorkUnit, list[WorkUnit]]:
    """Return a file as one unit, and as shares if it can be split; `judged` is the settings key."""
    files, path = open_filesystem(source)
    state = files.get_file_info(path)
    keys = source, repr((state.size, state.mtime_ns, judged))
    digests = (hashlib.sha256(key.encode(errors="surrogateescape")) for key in keys)
    name = "-".join(["part", *(digest.hexdigest()[:16] for digest in digests)])
    whole = WorkUnit(source, f"{name}.parquet")
    if state.size is None or state.size <= SHARE_BYTES:
        return whole, []
    shares = enumerate(split_log(source, SHARE_BYTES, chosen), 1)
    return whole, [
        WorkUnit(source, f"{name}-{SHARE_BYTES}-{n:06}.parquet", share) for n, share in shares
    ]


def file_key(name: str) -> str:
    """Return the file hash in the name of a part, finished or not."""
    return name.removeprefix(".").split("-")[1]


def find_files(sources: Iterable[str]) -> list[str]:
    """List the JSONL and Parquet files at the sources, each once; folders are searched.

    Unlike `readers.find_logs` this opens none of them: the job reports a broken one.
    """
    found: dict[str, None] = {}
    for source in sources:
        files = list(_files_at(source))
        if not files:
            endings = ", ".join(ENDINGS[::3])
            raise InputError(f"{source}: no file ends in {endings} (or .gz, .zst)")
        found |= dict.fromkeys(files)
    return list(found)


def _files_at(source: str) -> Iterator[str]:
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

    if "://" not in source and has_magic(source) and not Path(source).exists():
        for each in sorted(glob(source, recursive=True)):  # noqa: PTH207 - may be absolute
            yield from _files_at(each)
        return
    files, path = open_filesystem(source)
    try:
        kind = files.get_file_info(path).type
        chosen = FileSelector(path, recursive=True)
        inside = [] if kind in (FileType.NotFound, FileType.File) else files.get_file_info(chosen)
    except Exception as error:  # each kind of store raises its own
        raise InputError(f"{source}: can't be read ({_reason(error)})") from None
    if kind == FileType.NotFound:
        raise InputError(f"{source}: no such file or folder")
    if kind == FileType.File:
        yield source if "://" in source else path
    start = source.rstrip("/") if "://" in source else path
    for each in sorted(inside, key=lambda info: info.path):
        below = each.path[len(path.rstrip("/")) :]
        hidden = any(name.startswith((".", "_")) for name in below.split("/"))
        if each.type == FileType.File and not hidden and below.lower().endswith(ENDINGS):
            yield start + below


def open_filesystem(path: str) -> "tuple[FileSystem, str]":
    """Return the file system of a path or URL such as s3://bucket/logs, and the path on it."""
    require_extra("parquet")
    from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

    if "://" not in path:
        return LocalFileSystem(), str(Path(path).absolute())
    try:
        files, inside = FileSystem.from_uri(path)
    except Exception as error:  # each kind of store raises its own
        raise InputError(f"{path}: this URL can't be used ({_reason(error)})") from None
    return files, inside


def _reason(error: Exception) -> str:
    """Return the first line of an exception's message."""
    return getattr(error, "strerror", None) or str(error).partition("\n")[0] or repr(error)


class ResultFolder:
    """The folder of results, local or remote, with `verdicts` and `errors`."""

    def __init__(self, out: str) -> None:
        self.out = out
        self._files, path = open_filesystem(out)
        self._root = path.rstrip("/")

    def path(self, table: str, name: str = "") -> str:
        return f"{self._root}/{table}/{name}".rstrip("/")

    def make(self) -> None:
        try:
            for table in ("verdicts", "errors"):
                self._files.create_dir(self.path(table), recursive=True)
                self.names(table)  # some stores create any folder, and fail only later
        except Exception as error:  # each kind of store raises its own
            raise InputError(f"{self.out}: can't be created ({_reason(error)})") from None

    def has(self, table: str, name: str) -> bool:
        return bool(self._files.get_file_info(self.path(table, name)).is_file)

    def names(self, table: str) -> set[str]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        chosen = FileSelector(self.path(table), allow_not_found=True)
        return {each.base_name for each in self._files.get_file_info(chosen)}

    def write(
        self, table: str, name: str, columns: Columns, rows: Iterable[Mapping[str, Any]]
    ) -> int:
        """Write a part atomically; returns its number of rows."""
        number = 0
        unfinished = self.path(table, f".{name}.{os.getpid()}.{uuid4().hex}")
        try:
            with (
                self._files.open_output_stream(unfinished) as stream,
                write_parquet(stream, columns) as write,
            ):
                for row in rows:
                    write(row)
                    number += 1
            if number:
                self._files.move(unfinished, self.path(table, name))
        finally:
            with suppress(OSError):
                self._files.delete_file(unfinished)
        return number

    def remove(self, table: str, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._files.delete_file(self.path(table, name))

    def batches(self, table: str, names: Sequence[str], columns: list[str]) -> Iterator[Any]:
        """Yield batches of some columns of some parts."""
        import pyarrow.dataset as ds  # noqa: PLC0415

        if names:
            paths = [self.path(table, name) for name in names]
            parts = ds.dataset(paths, filesystem=self._files, format="parquet")
            yield from parts.to_batches(columns=columns)
