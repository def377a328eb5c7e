"""Tables of runs, small enough to work out by hand."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from chimeralab.selfplay.runs import COLUMNS, Run, Runs, table_of

Rows = Iterable[tuple[object, ...]]


@pytest.fixture
def make_runs() -> Callable[..., Runs]:
    """A table from (condition, seed, repeat, turns, collapsed, first, bucket) tuples."""

    def make(rows: Rows) -> Runs:
        return table_of((Run(*row) for row in rows), "test")  # type: ignore[arg-type]

    return make


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    """A CSV file of runs; `header` and `rows` are written as they are."""

    def write(*rows: str, header: str = ",".join(COLUMNS), name: str = "runs.csv") -> Path:
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return path

    return write
