"""Read and write tables as JSON Lines, CSV or Parquet."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import atomic_file
from chimeralab.core.schema import check_schema, json_text

Write = Callable[[Mapping[str, Any]], None]
Columns = Mapping[str, type]

# Spreadsheets run a cell that starts like this as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
ROWS_AT_ONCE = 4_096


# The line of a row in its file (in Parquet its number), and its cells by column.
TableRow = tuple[int, Mapping[str, Any]]


def read_rows(
    path: Path, needed: Sequence[str] = (), *, kind: str | None = None
) -> Iterator[TableRow]:
    """Yield the rows of a table, which must have the ``needed`` columns.

    The kind of table is the file's suffix (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``) unless
    ``kind`` is given. CSV may be separated by commas, semicolons or tabs.
    """
    kind = kind or path.suffix.lower()
    try:
        path.stat()
        if kind not in _READERS:
            known = ", ".join(_READERS)
            raise InputError(f"{path}: unknown kind of table {kind!r}; known: {known}")
        yield from _READERS[kind](path, needed)
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror or error})") from None


def _read_csv(path: Path, needed: Sequence[str]) -> Iterator[TableRow]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            # Spreadsheets write semicolons in many locales.
            separator = max(",;\t", key=file.readline().count)
            file.seek(0)
            reader = csv.reader(file, strict=True, delimiter=separator)
            header = [name.strip() for name in next(reader, [])]
            _check_columns(header, needed, path)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) > len(header):
                    reason = f"{len(cells)} cells under {len(header)} column names"
                    raise LogError(str(path), reason, reader.line_num)
                padded = cells + [""] * (len(header) - len(cells))
                yield reader.line_num, dict(zip(header, padded, strict=True))
        except csv.Error as error:
            raise LogError(str(path), f"not valid CSV ({error})", reader.line_num) from None
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text; save it as UTF-8") from None


def _read_json_lines(path: Path, needed: Sequence[str]) -> Iterator[TableRow]:
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if not raw.strip():
                continue
            try:
                cells = json.loads(raw.decode("utf-8-sig").rstrip())
            except UnicodeDecodeError:
                raise LogError(str(path), "not UTF-8 text", line) from None
            except json.JSONDecodeError as error:
                reason = f"not valid JSON at column {error.colno} ({error.msg})"
                raise LogError(str(path), reason, line) from None
            except (ValueError, RecursionError) as error:
                raise LogError(str(path), f"not valid JSON ({error})", line) from None
            if not isinstance(cells, dict):
                raise LogError(str(path), "not a JSON object, such as {...}", line)
            if type(cells.get("schema")) is int:
                check_schema(cells.pop("schema"), f"{path}:{line}")
            _check_columns(list(cells), needed, path, line)
            yield line, cells


def _read_parquet(path: Path, needed: Sequence[str]) -> Iterator[TableRow]:
    import pyarrow as pa  # noqa: PLC0415 - large, and only Parquet needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    number = 0
    try:
        with path.open("rb") as file, pq.ParquetFile(file) as table:
            _check_columns(table.schema_arrow.names, needed, path)
            for batch in table.iter_batches(ROWS_AT_ONCE):
                for cells in batch.to_pylist():
                    number += 1
                    yield number, cells
    except pa.ArrowException as error:
        raise LogError(str(path), f"can't be read as Parquet ({error})") from None


_READERS: dict[str, Callable[[Path, Sequence[str]], Iterator[TableRow]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_json_lines,
    ".parquet": _read_parquet,
}


def _check_columns(
    names: Sequence[str], needed: Iterable[str], path: Path, line: int | None = None
) -> None:
    """Reject duplicate column names and missing columns."""
    duplicate = next((name for name in names if name and names.count(name) > 1), None)
    if duplicate is not None:
        raise LogError(
            str(path), f"two columns are called {duplicate!r}; rename or drop one of them", line
        )
    missing = next((name for name in needed if name not in names), None)
    if missing is not None:
        near = get_close_matches(missing, [name for name in names if name not in needed], n=1)
        hint = f" (is it {near[0]!r}?)" if near else ""
        raise LogError(
            str(path), f"there is no column {missing!r}{hint}; needed: {', '.join(needed)}", line
        )


def check_table_name(path: Path) -> None:
    """Reject a suffix that can't be written, before any work is done."""
    if path.suffix not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise InputError(f"{path}: unknown kind of table {path.suffix!r}; known: {known}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; create it first")


@contextmanager
def open_table(path: Path, columns: Columns) -> Iterator[Write]:
    """Yield a function that writes one row; the suffix of `path` chooses the format.

    CSV and Parquet have the named columns; JSON Lines have each row as it is.
    """
    check_table_name(path)
    with atomic_file(path) as part, _WRITERS[path.suffix](part, columns) as write:
        yield write


@contextmanager
def _write_json_lines(path: Path, _columns: Columns) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:
        yield lambda row: print(json_text(row), file=file)


def _is_formula(value: Any) -> bool:
    """Whether a spreadsheet would run a cell, or would if it lost its leading apostrophes."""
    return isinstance(value, str) and value.lstrip("'").startswith(FORMULA_STARTS)


def remove_guards(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a row as they were before an export put apostrophes before formulas.

    >>> remove_guards({"response": "'-2", "truth": "'tis"})
    {'response': '-2', 'truth': "'tis"}
    """
    return {
        name: cell[1:] if _is_formula(cell) and cell.startswith("'") else cell
        for name, cell in cells.items()
    }


@contextmanager
def _write_csv(path: Path, columns: Columns) -> Iterator[Write]:
    def cell(value: Any) -> Any:
        value = _flat(value)
        return "'" + value if _is_formula(value) else value

    with path.open("w", encoding="utf-8", newline="", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        yield lambda row: writer.writerow([cell(row.get(name)) for name in columns])


@contextmanager
def write_parquet(path: Path | BinaryIO, columns: Columns) -> Iterator[Write]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - large, and only Parquet needs it

    waiting: list[Mapping[str, Any]] = []
    with pq.ParquetWriter(path, arrow_table([], columns).schema) as writer:

        def flush() -> None:
            writer.write_table(arrow_table(waiting, columns))
            waiting.clear()

        def write(row: Mapping[str, Any]) -> None:
            waiting.append(row)
            if len(waiting) >= ROWS_AT_ONCE:
                flush()

        yield write
        flush()


def arrow_table(rows: Iterable[Mapping[str, Any]], columns: Columns) -> Any:
    """Convert rows to an Arrow table with the named columns."""
    import pyarrow as pa  # noqa: PLC0415

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    flat = [{name: _flat(row.get(name)) for name in columns} for row in rows]
    return pa.Table.from_pylist(flat, schema)


_WRITERS: dict[str, Callable[[Path, Columns], AbstractContextManager[Write]]] = {
    ".jsonl": _write_json_lines,
    ".csv": _write_csv,
    ".parquet": write_parquet,
}


def _flat(value: Any) -> Any:
    """Convert a value to a cell: lists and objects to JSON, lone surrogates to U+FFFD."""
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value
