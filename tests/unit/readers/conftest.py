"""Fixtures that write logs for the tests of readers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _pyarrow_for_parquet(request: pytest.FixtureRequest) -> None:
    """Skip Parquet logs without the extra."""
    if ".parquet" in request.node.name:
        pytest.importorskip("pyarrow", reason="Parquet files come with [parquet]")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes JSON Lines from values, or bytes and text as they are."""

    def write(*lines: Any, name: str = "log.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if len(lines) == 1 and isinstance(lines[0], bytes):
            path.write_bytes(lines[0])
        else:
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


@pytest.fixture
def talk(write: Write) -> Callable[..., Trajectory]:
    """Read the only conversation of the given lines."""

    def talk(*lines: Any, form: str | None = None) -> Trajectory:
        (trajectory,) = readers.read(write(*lines), format=form)
        return trajectory

    return talk


@pytest.fixture
def reason(write: Write) -> Callable[..., str]:
    """Return the reason why the given lines can't be read."""

    def reason(*lines: Any, form: str | None = None) -> str:
        with pytest.raises(LogError) as caught:
            list(readers.read(write(*lines), format=form))
        return caught.value.reason

    return reason
