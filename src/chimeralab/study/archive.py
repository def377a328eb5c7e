"""What a study has stored, for reading: conversations, tables and counts. Safe during a run."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from chimeralab.core.records import Trajectory, Turn
from chimeralab.study.database import open_to_read, plainly
from chimeralab.study.store import RunEntry

Row = dict[str, Any]


class Archive:
    """A reader's connection to the database of a study."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_to_read(path)
        self._db.row_factory = sqlite3.Row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def rows(self, query: str, *values: Any) -> Iterator[Row]:
        """The rows of a query, one at a time."""
        with plainly(self.path):
            for row in self._db.execute(query, values):
                yield dict(row)

    def value(self, query: str, *values: Any) -> Any:
        """The only value of a query; None when there is no row."""
        row = next(self.rows(query, *values), {})
        return next(iter(row.values()), None)

    def last_run(self) -> RunEntry | None:
        query = "SELECT id, pid, host, started, ended FROM runs ORDER BY id DESC LIMIT 1"
        return next((RunEntry(**row) for row in self.rows(query)), None)

    def talks(self) -> Iterator[Row]:
        """Every planned conversation that the store knows, in the order of the plan."""
        return self.rows("SELECT * FROM trajectories ORDER BY position")

    def turns(self, talk: str) -> Iterator[Row]:
        return self.rows("SELECT * FROM turns WHERE trajectory = ? ORDER BY turn", talk)

    def trajectories(self) -> Iterator[Trajectory]:
        """Every conversation that has a turn, finished or not."""
        for talk in self.talks():
            turns = tuple(
                Turn(turn["text"], turn["speaker"], model=turn["model"])
                for turn in self.turns(talk["id"])
            )
            if turns:
                yield Trajectory(talk["id"], turns, _metadata(talk), str(self.path))


def _metadata(talk: Row) -> Row:
    kept = ("condition", "prompt", "bucket", "prompt_text", "repeat", "outcome", "reason")
    return {key: talk[key] for key in kept}
