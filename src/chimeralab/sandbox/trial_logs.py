"""Trial logs as JSON lines, CSV or Parquet: trials one by one, each with the line it stands on."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError, LogError
from chimeralab.sandbox.trials import (
    COLUMNS,
    REQUIRED,
    WORDS_FOR_FLAGS,
    Answer,
    Trial,
    number_in,
    trial_of,
)

ANSWERS = ("response", "truth", "signal")
PARQUET_ROWS_AT_ONCE = 4_096


class Row(NamedTuple):
    """The cells of one row and its line, counted from 1; of Parquet, its row."""

    line: int
    cells: Mapping[str, Any]


class Numbered(NamedTuple):
    """A trial, and where it stands."""

    line: int
    trial: Trial


Reader = Callable[[Path], Iterator[Row]]


class TrialLog:
    """A file of trials. Once read, `unused` names its columns that no metric knows."""

    def __init__(self, path: Path) -> None:
        if path.suffix not in _READERS:
            known = ", ".join(_READERS)
            raise InputError(f"{path}: unknown kind of table {path.suffix!r}; known: {known}")
        if not path.is_file():
            raise InputError(f"{path}: there is no such file")
        self.path = path
        self.unused: set[str] = set()

    def read(self) -> Iterator[Numbered]:
        """Every trial, in the order of the file."""
        for line, cells in _READERS[self.path.suffix](self.path):
            self.unused.update(cells.keys() - COLUMNS)
            try:
                yield Numbered(line, trial_of(cells))
            except InputError as error:
                raise LogError(str(self.path), str(error), line) from None


def _json_lines(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if raw.strip():
                yield Row(line, _json_object(path, line, raw))


def _json_object(path: Path, line: int, raw: bytes) -> Mapping[str, Any]:
    try:
        cells = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise LogError(str(path), "not UTF-8 text", line) from None
    except (ValueError, RecursionError) as error:
        raise LogError(str(path), f"not valid JSON ({error})", line) from None
    if not isinstance(cells, dict):
        raise LogError(str(path), "a trial is one JSON object, such as {...}", line)
    return cells


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        line = 0
        try:
            _check_header(path, rows.fieldnames or COLUMNS)
            line = 1
            for cells in rows:
                if None in cells:
                    reason = "the row has more cells than the header has names"
                    raise LogError(str(path), reason, rows.line_num)
                line = rows.line_num
                yield Row(line, _typed(cells))
        except UnicodeDecodeError:
            raise LogError(str(path), "not UTF-8 text", line + 1) from None
        except csv.Error as error:
            raise LogError(str(path), f"not valid CSV ({error})", rows.line_num) from None


def _check_header(path: Path, names: Sequence[str]) -> None:
    """Refuse a table whose columns can't be told apart, or that lacks one which every row needs."""
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise LogError(str(path), f"two columns are called {twice!r}; rename or drop one of them")
    lacking = next((name for name in REQUIRED if name not in names), None)
    if lacking is not None:
        raise LogError(
            str(path),
            f"there is no column {lacking!r} among {', '.join(map(repr, names))}; every row needs "
            "a session and a trial, so rename or add a column",
        )


def _typed(cells: dict[str, Any]) -> dict[str, Any]:
    """CSV knows text alone: an answer that reads like a number or a flag is taken for one."""
    return cells | {name: _answer_in(cells[name]) for name in ANSWERS if cells.get(name)}


def _answer_in(text: str) -> Answer:
    number = number_in(text)
    return WORDS_FOR_FLAGS.get(text.strip().lower(), text) if number is None else number


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa  # noqa: PLC0415 - large, and only Parquet needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        with pq.ParquetFile(path) as file:
            _check_header(path, file.schema_arrow.names)
            line = 0
            for batch in file.iter_batches(PARQUET_ROWS_AT_ONCE):
                for cells in batch.to_pylist():
                    line += 1
                    yield Row(line, cells)
    except (pa.ArrowException, OSError) as error:
        raise LogError(str(path), f"can't be read as Parquet ({error})") from None


_READERS: dict[str, Reader] = {".jsonl": _json_lines, ".csv": _csv, ".parquet": _parquet}
