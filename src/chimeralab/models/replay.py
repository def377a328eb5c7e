"""A stored study as a model: it says again, word by word, what was said there."""

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, get_args

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import FailureKind, Finish, ModelFailure, Reply, Request

# The last thing that happened at a turn: the reply that became it, else how it failed.
_LAST = """
    SELECT a.outcome, a.reason, coalesce(t.text, p.text, a.rejected_text) AS text, t.finish,
        a.prompt_tokens, a.completion_tokens, a.reported_model
    FROM attempts a LEFT JOIN turns t ON t.attempt = a.id LEFT JOIN probes p ON p.attempt = a.id
    WHERE a.trajectory = ? AND a.turn = ? AND a.probe = ?
        AND a.outcome NOT IN ('interrupted', 'cancelled')
    ORDER BY t.attempt IS NULL AND p.attempt IS NULL, a.id DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class ReplaySettings(Record):
    """`use = "replay"`. `study` is a folder, seen from the one of the study that replays it.

    Both need the same conditions, prompts and turns.
    """

    study: str

    def within(self, folder: Path) -> "ReplaySettings":
        return replace(self, study=str(folder / self.study))

    def open(self) -> "ReplayModel":
        return ReplayModel(Path(self.study) / "study.db")


class ReplayModel:
    """Answers from the database of a study, by conversation and turn."""

    backstage: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path} does not exist, so nothing can be replayed from it")
        self._path = path
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        self._db.row_factory = sqlite3.Row

    async def reply(self, request: Request) -> Reply:
        if not request.conversation:
            return Reply("Hello.", cost=0.0)  # asked only whether it is there
        try:
            place = (request.conversation, request.turn, request.probe)
            row = self._db.execute(_LAST, place).fetchone()
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self._path} can't be replayed: {error}") from error
        if row is None:
            raise InputError(
                f"{self._path} has no turn {request.turn} of {request.conversation}; a replay "
                "needs the conditions, prompts and turns of the study that it repeats"
            )
        if row["outcome"] in get_args(FailureKind):
            raise ModelFailure(row["outcome"], row["reason"])
        finish: Finish = row["finish"] or ("refusal" if row["outcome"] == "refusal" else "stop")
        if finish == "refusal" and row["reason"] and not row["text"]:
            raise ModelFailure("refused", row["reason"])
        return Reply(
            text=row["text"] or "",
            finish=finish,
            prompt_tokens=row["prompt_tokens"],
            completion_tokens=row["completion_tokens"],
            reported_model=row["reported_model"],
            cost=0.0,
        )
