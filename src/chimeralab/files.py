"""Writing files whole or not at all, and tables as JSON lines, CSV or Parquet."""

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from chimeralab.errors import InputError

Row = Mapping[str, Any]
Write = Callable[[Row], None]
Columns = Mapping[str, type]

# A spreadsheet takes a cell that starts like this for a formula and runs it.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
ROWS_AT_ONCE = 4_096


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name only when the block succeeds."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb"):
            pass
        yield part
        with part.open("rb") as done:
            os.fsync(done.fileno())
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise InputError(
            f"{path} can't be written ({why}); what stood there is unchanged"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def check_table_name(path: Path) -> None:
    """Refuse a file ending we can't write, before any work is done."""
    if path.suffix not in _WRITERS:
        raise InputError(f"{path}: unknown kind of table {path.suffix!r}; known: {_known()}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")


@contextmanager
def open_table(path: Path, columns: Columns) -> Iterator[Write]:
    """A function that writes one row; the ending of `path` chooses the format.

    CSV and Parquet hold the named columns; JSON lines hold each row as it is.
    """
    check_table_name(path)
    with replacing(path) as part, _WRITERS[path.suffix](part, columns) as write:
        yield write


@contextmanager
def _json_lines(path: Path, _columns: Columns) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:
        yield lambda row: print(json_text(row), file=file)


@contextmanager
def _csv(path: Path, columns: Columns) -> Iterator[Write]:
    with path.open("w", encoding="utf-8", newline="", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        yield lambda row: writer.writerow([_cell(row.get(name)) for name in columns])


@contextmanager
def _parquet(path: Path, columns: Columns) -> Iterator[Write]:
    import pyarrow as pa  # noqa: PLC0415 - large, and only Parquet needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    waiting: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, schema) as writer:

        def flush() -> None:
            writer.write_table(pa.Table.from_pylist(waiting, schema))
            waiting.clear()

        def write(row: Row) -> None:
            waiting.append({name: _value(row.get(name)) for name in columns})
            if len(waiting) >= ROWS_AT_ONCE:
                flush()

        yield write
        flush()


_WRITERS: dict[str, Callable[[Path, Columns], AbstractContextManager[Write]]] = {
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".parquet": _parquet,
}


def json_text(value: Any) -> str:
    """One line of JSON, in ASCII so that even broken characters of a log pass through."""
    return json.dumps(value, allow_nan=False)


def _value(value: Any) -> Any:
    if isinstance(value, list | tuple | dict):
        return json_text(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def _cell(value: Any) -> Any:
    value = _value(value)
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value


def _known() -> str:
    return ", ".join(_WRITERS)
