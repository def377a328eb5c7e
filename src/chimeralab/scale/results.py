"""The folder of results, on this machine or in an object store, and what an address leads to."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from chimeralab.core.errors import InputError
from chimeralab.core.extras import need
from chimeralab.core.tables import Columns, write_parquet

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class Located(NamedTuple):
    """A path in the file system it belongs to."""

    files: "FileSystem"
    path: str


def located(path: str) -> Located:
    """Where a path or an address such as s3://bucket/logs leads."""
    need("parquet")
    from pyarrow.fs import FileSystem, LocalFileSystem  # noqa: PLC0415

    if "://" not in path:
        return Located(LocalFileSystem(), str(Path(path).absolute()))
    try:
        return Located(*FileSystem.from_uri(path))
    except Exception as error:  # each kind of store raises its own
        raise InputError(f"{path}: this address can't be used ({said(error)})") from None


def said(error: Exception) -> str:
    """What an error of others says, in one line."""
    return getattr(error, "strerror", None) or str(error).partition("\n")[0] or repr(error)


class ResultFolder:
    """The folder of results, on this machine or not: `verdicts` and, beside them, `errors`."""

    def __init__(self, out: str) -> None:
        self.out = out
        place = located(out)
        self._files, self._root = place.files, place.path.rstrip("/")

    def path(self, table: str, name: str = "") -> str:
        return f"{self._root}/{table}/{name}".rstrip("/")

    def make(self) -> None:
        try:
            for table in ("verdicts", "errors"):
                self._files.create_dir(self.path(table), recursive=True)
                self.names(table)  # some stores take any folder, and say later that there is none
        except Exception as error:  # each kind of store raises its own
            raise InputError(f"{self.out}: the folder can't be made ({said(error)})") from None

    def has(self, table: str, name: str) -> bool:
        return bool(self._files.get_file_info(self.path(table, name)).is_file)

    def names(self, table: str) -> set[str]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415

        chosen = FileSelector(self.path(table), allow_not_found=True)
        return {each.base_name for each in self._files.get_file_info(chosen)}

    def write(
        self, table: str, name: str, columns: Columns, rows: Iterable[Mapping[str, Any]]
    ) -> int:
        """Write a part whole or not at all; how many rows it has."""
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
        """Some columns of some parts, a few thousand rows at a time."""
        import pyarrow.dataset as ds  # noqa: PLC0415

        if names:
            paths = [self.path(table, name) for name in names]
            parts = ds.dataset(paths, filesystem=self._files, format="parquet")
            yield from parts.to_batches(columns=columns)
